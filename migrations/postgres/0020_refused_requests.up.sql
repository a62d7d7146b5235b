-- readers from 4
-- The fence under which the task's node has refused the request, because the task runs; 0: it has not.
ALTER TABLE wishes ADD COLUMN refused_fence bigint NOT NULL DEFAULT 0;
-- A page of requests is read in the order of their tasks.
DROP INDEX wishes_node;
CREATE INDEX wishes_node ON wishes (node, task_id);
