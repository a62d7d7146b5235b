-- A node has fired no task that is due later than this (struct node_row in src/port/store/nodes.h). 0: not known.
ALTER TABLE nodes ADD COLUMN fires_until_ms INTEGER NOT NULL DEFAULT 0;
-- A WORKER task used to get the default of timeout_ms, which had no effect. Now it has one, and the default is no limit (0).
UPDATE tasks SET timeout_ms = 0 WHERE target = 3 AND timeout_ms = 30000;
