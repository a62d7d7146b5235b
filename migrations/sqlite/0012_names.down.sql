DROP INDEX tasks_name;
CREATE INDEX tasks_name ON tasks (tenant_id, name, id) WHERE name IS NOT NULL;
