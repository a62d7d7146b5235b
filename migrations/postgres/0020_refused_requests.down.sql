DROP INDEX wishes_node;
CREATE INDEX wishes_node ON wishes (node);
ALTER TABLE wishes DROP COLUMN refused_fence;
