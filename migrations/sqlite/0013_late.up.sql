-- The moment that the user of a task waits for, if that is not due_ms (0: it is), and what put it off: enum late_cause in src/core/task/late.h.
ALTER TABLE tasks ADD COLUMN awaited_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN late_by INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN late_by INTEGER NOT NULL DEFAULT 0;
-- A WORKER task used to get the default of timeout_ms, which had no effect. Now it has one, and the default is no limit (0).
UPDATE tasks SET timeout_ms = 0 WHERE target = 3 AND timeout_ms = 30000;
