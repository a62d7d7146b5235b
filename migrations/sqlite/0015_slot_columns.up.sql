-- The columns of the key come first, as they are stored. SQLite 3.40 takes a table of three columns in another order for damaged: its integrity_check
-- finds a NULL behind the last column, and a backup was refused while a task held a slot.
CREATE TABLE slots_before AS SELECT key, task_id, tenant_id FROM slots;
DROP TABLE slots;
CREATE TABLE slots (
    key TEXT NOT NULL,
    task_id BLOB NOT NULL,
    tenant_id INTEGER NOT NULL,
    PRIMARY KEY (key, task_id)
) WITHOUT ROWID;
CREATE INDEX slots_task ON slots (task_id);
INSERT INTO slots (key, task_id, tenant_id) SELECT key, task_id, tenant_id FROM slots_before;
DROP TABLE slots_before;
