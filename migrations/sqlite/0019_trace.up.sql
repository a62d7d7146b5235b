ALTER TABLE tasks ADD COLUMN trace TEXT; -- whose call made the task: src/core/task/trace.h
