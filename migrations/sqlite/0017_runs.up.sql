-- Runs of workflows: src/port/store/runs.h.
ALTER TABLE tasks ADD COLUMN run_id BLOB; -- of a step: its run
ALTER TABLE tasks ADD COLUMN place INTEGER NOT NULL DEFAULT 0; -- of a step: src/core/flow/place.h
ALTER TABLE tasks ADD COLUMN queue TEXT; -- of control work, whose lane has no queue: src/port/store/runs.h
CREATE UNIQUE INDEX tasks_run ON tasks (run_id, place) WHERE run_id IS NOT NULL;
CREATE INDEX tasks_runs ON tasks (tenant_id, id) WHERE target = 4 AND run_id IS NULL;
CREATE INDEX tasks_unopened ON tasks (tenant_id) WHERE target = 4 AND NOT links & 32; -- no row in runs names their definitions yet
ALTER TABLE joins ADD COLUMN max_broken INTEGER NOT NULL DEFAULT -1; -- more broken edges decide it; -1: they do not
ALTER TABLE edges ADD COLUMN old INTEGER NOT NULL DEFAULT 0; -- of an earlier join of its child: its arrival does not count

CREATE TABLE runs (
    run_id BLOB PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    hash BLOB NOT NULL, -- of its definition
    workflow TEXT,
    version INTEGER NOT NULL,
    root_id BLOB NOT NULL,
    depth INTEGER NOT NULL,
    opened_ms INTEGER NOT NULL,
    deadline_ms INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    stop INTEGER NOT NULL, -- enum run_stop
    stopped_by TEXT,
    paused INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_hash ON runs (tenant_id, hash); -- which definitions are used

CREATE TABLE definitions (
    tenant_id INTEGER NOT NULL,
    hash BLOB NOT NULL, -- SHA-256 of the text
    text TEXT NOT NULL,
    put_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, hash)
);
CREATE INDEX definitions_put ON definitions (put_ms);

CREATE TABLE workflows (
    tenant_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    hash BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, name, version)
) WITHOUT ROWID;
CREATE INDEX workflows_hash ON workflows (tenant_id, hash);

CREATE TABLE outputs (
    run_id BLOB NOT NULL,
    place INTEGER NOT NULL, -- -1: the result of the run
    whole INTEGER NOT NULL,
    text TEXT,
    PRIMARY KEY (run_id, place)
);

CREATE TABLE signals (
    run_id BLOB NOT NULL,
    name TEXT NOT NULL,
    sender TEXT NOT NULL,
    payload TEXT,
    rejects INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    PRIMARY KEY (run_id, name, sender)
);
