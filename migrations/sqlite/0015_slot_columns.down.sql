CREATE TABLE slots_before AS SELECT key, task_id, tenant_id FROM slots;
DROP TABLE slots;
CREATE TABLE slots (
    tenant_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    task_id BLOB NOT NULL,
    PRIMARY KEY (key, task_id)
) WITHOUT ROWID;
CREATE INDEX slots_task ON slots (task_id);
INSERT INTO slots (tenant_id, key, task_id) SELECT tenant_id, key, task_id FROM slots_before;
DROP TABLE slots_before;
