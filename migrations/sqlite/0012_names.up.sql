-- Names are looked up for the command line. Occurrences have the name of their recurring task, of which there may be a million: they are found by
-- their parent.
DROP INDEX tasks_name;
CREATE INDEX tasks_name ON tasks (tenant_id, name, id) WHERE name IS NOT NULL AND kind <> 2;
