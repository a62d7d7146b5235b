DROP INDEX tasks_far;
DROP INDEX tasks_due;
CREATE INDEX tasks_due ON tasks (lane, due_ms, id) WHERE state = 0 AND kind <> 1;
ALTER TABLE tasks DROP COLUMN near;
