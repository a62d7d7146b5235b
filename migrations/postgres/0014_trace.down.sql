ALTER TABLE tasks DROP COLUMN trace;
DROP INDEX executions_completed;
