-- Made again: SQLite drops no column of a schema with the views of 0014.
CREATE TABLE wishes_kept AS SELECT tenant_id, task_id, node, fence, abort, by_scheduled_ms, created_ms FROM wishes;
DROP TABLE wishes;
CREATE TABLE wishes (
    tenant_id INTEGER NOT NULL DEFAULT 0,
    task_id BLOB NOT NULL PRIMARY KEY,
    node BLOB NOT NULL,
    fence INTEGER NOT NULL,
    abort INTEGER NOT NULL,
    by_scheduled_ms INTEGER NOT NULL,
    created_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX wishes_node ON wishes (node);
INSERT INTO wishes SELECT * FROM wishes_kept;
DROP TABLE wishes_kept;
