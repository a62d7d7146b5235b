-- The moment that the user of a task waits for, if that is not due_ms (0: it is), and what put it off: enum late_cause in src/core/task/late.h.
ALTER TABLE tasks ADD COLUMN awaited_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN late_by INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN late_by INTEGER NOT NULL DEFAULT 0;
