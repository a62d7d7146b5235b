-- The fence under which the task's node has refused the request, because the task runs; 0: it has not.
ALTER TABLE wishes ADD COLUMN refused_fence INTEGER NOT NULL DEFAULT 0;
