-- What nodes need of each other: see src/port/store.h. Here there is one, and those that died before it; the tables are those of a cluster.

CREATE TABLE nodes (
    tenant_id INTEGER NOT NULL DEFAULT 0,
    id BLOB NOT NULL PRIMARY KEY,
    name TEXT,
    version TEXT,
    beats INTEGER NOT NULL,
    joined_ms INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    dead_ms INTEGER NOT NULL, -- since when it is
    doc TEXT
) WITHOUT ROWID;

-- Limits that hold for all nodes together: one bucket a key (src/core/sharing/bucket.h), and who holds how many places.
CREATE TABLE shares (
    tenant_id INTEGER NOT NULL DEFAULT 0,
    key TEXT NOT NULL PRIMARY KEY,
    rate REAL NOT NULL, -- 0: there was none yet
    burst INTEGER NOT NULL,
    level REAL NOT NULL,
    since_ms INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE places (
    tenant_id INTEGER NOT NULL DEFAULT 0,
    key TEXT NOT NULL,
    node BLOB NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (key, node)
) WITHOUT ROWID;

-- What is wished back of whoever holds it. A row whose task is not RUNNING under that fence is over.
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
