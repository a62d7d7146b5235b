-- Tasks, their executions, and what the spine needs besides. Times are milliseconds since 1970 unless a name says otherwise;
-- ids are 16 bytes; a number that names a state, kind or target is the one of src/core/task/task.h. tenant_id 0 is Belfry's own.

-- What is claimed from: see core/task/task.h. Tasks that are never dispatched (WORKER, WORKFLOW) have lanes apart, pool 1, so that a
-- claim need not step over them. Lanes are never deleted: they are few, and a number once seen stays true.
CREATE TABLE lanes (
    lane INTEGER PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    queue TEXT NOT NULL,
    class INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    UNIQUE (tenant_id, queue, class, pool)
);

-- A row's columns are read from the left: what every claim and settle looks at comes first, what is long comes last.
CREATE TABLE tasks (
    rid INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    tenant_id INTEGER NOT NULL,
    state INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    claim_id BLOB,
    kind INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    delivery INTEGER NOT NULL,
    version INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    losses INTEGER NOT NULL,
    completed_ms INTEGER NOT NULL,
    scheduled_ms INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    parent_id BLOB,
    cursor_ms INTEGER NOT NULL,
    last_run_ms INTEGER NOT NULL,
    runs_count INTEGER NOT NULL,
    skipped_count INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    target INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL,
    expires_after_ms INTEGER NOT NULL,
    name TEXT,
    task_type TEXT,
    retry TEXT,     -- JSON; NULL: the default policy
    schedule TEXT,  -- JSON; NULL: not RECURRING
    last_error TEXT,
    target_config TEXT,
    extra TEXT,
    payload TEXT
);
CREATE UNIQUE INDEX tasks_id ON tasks (id);
CREATE INDEX tasks_due ON tasks (lane, due_ms, id) WHERE state = 0 AND kind <> 1;
CREATE INDEX tasks_cursor ON tasks (cursor_ms, id) WHERE state = 0 AND kind = 1;
CREATE INDEX tasks_failed ON tasks (tenant_id, id) WHERE state = 5;
CREATE INDEX tasks_name ON tasks (tenant_id, name, id) WHERE name IS NOT NULL;
CREATE INDEX tasks_type ON tasks (tenant_id, task_type, id) WHERE task_type IS NOT NULL;
CREATE INDEX tasks_parent ON tasks (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_spawned ON tasks (parent_id) WHERE parent_id IS NOT NULL AND state < 3; -- what an edit may withdraw

-- How many tasks there are of each state, deleted ones apart: kept by whoever writes, because counting a million takes too long.
CREATE TABLE counts (
    tenant_id INTEGER NOT NULL,
    state INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, state)
) WITHOUT ROWID;

-- One row a claim, while tasks hold it. `tasks` lists the rid of each task it took, eight bytes each, little end first; one still
-- belongs to it if its row says so. No index over tasks is needed to read a claim back.
CREATE TABLE claims (
    tenant_id INTEGER NOT NULL DEFAULT 0,
    id BLOB NOT NULL,
    node BLOB NOT NULL,
    held INTEGER NOT NULL,
    tasks BLOB NOT NULL
);
CREATE UNIQUE INDEX claims_id ON claims (id);

-- Append-only.
CREATE TABLE executions (
    id BLOB NOT NULL,
    tenant_id INTEGER NOT NULL,
    task_id BLOB NOT NULL,
    occurrence_id BLOB,
    status INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    scheduled_ms INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    started_us INTEGER NOT NULL,
    completed_us INTEGER NOT NULL,
    http_status INTEGER NOT NULL,
    worker TEXT,
    error TEXT,
    output TEXT,
    trace_id TEXT
);
CREATE UNIQUE INDEX executions_task ON executions (task_id, id);

CREATE TABLE idempotency (
    tenant_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    payload BLOB NOT NULL,
    status INTEGER NOT NULL,
    answer TEXT,
    created_ms INTEGER NOT NULL
);
CREATE UNIQUE INDEX idempotency_key ON idempotency (key, tenant_id);

CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    hash BLOB NOT NULL,
    name TEXT,
    scopes TEXT,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
);

CREATE TABLE leases (
    tenant_id INTEGER NOT NULL DEFAULT 0,
    name TEXT NOT NULL PRIMARY KEY,
    holder BLOB NOT NULL,
    until_ms INTEGER NOT NULL
);
