ALTER TABLE wishes DROP COLUMN refused_fence;
