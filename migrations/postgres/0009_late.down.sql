ALTER TABLE tasks DROP COLUMN awaited_ms;
ALTER TABLE tasks DROP COLUMN late_by;
ALTER TABLE executions DROP COLUMN late_by;
