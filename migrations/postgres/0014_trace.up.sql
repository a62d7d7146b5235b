-- readers from 4
-- What ran lately, over all tasks, is read by slices of time: rows are written when their attempt ends, so few blocks
-- hold those of one slice. A B-tree would cost every settle.
CREATE INDEX executions_completed ON executions USING brin (completed_us) WITH (pages_per_range = 32, autosummarize = on);

ALTER TABLE tasks ADD COLUMN trace text COLLATE "C"; -- whose call made the task: src/core/task/trace.h
