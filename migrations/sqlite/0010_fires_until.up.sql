-- A node has fired no task that is due later than this (struct node_row in src/port/store/nodes.h). 0: not known.
ALTER TABLE nodes ADD COLUMN fires_until_ms INTEGER NOT NULL DEFAULT 0;
