-- readers from 4
-- Runs of workflows: src/port/store/runs.h.
ALTER TABLE tasks ADD COLUMN run_id uuid; -- of a step: its run
ALTER TABLE tasks ADD COLUMN place bigint NOT NULL DEFAULT 0; -- of a step: src/core/flow/place.h
ALTER TABLE tasks ADD COLUMN queue text COLLATE "C"; -- of control work, whose lane has no queue: src/port/store/runs.h
CREATE UNIQUE INDEX tasks_run ON tasks (run_id, place) WHERE run_id IS NOT NULL;
CREATE INDEX tasks_runs ON tasks (tenant_id, id) WHERE target = 4 AND run_id IS NULL;
CREATE INDEX tasks_unopened ON tasks (tenant_id) WHERE target = 4 AND links & 32 = 0; -- no row in runs names their definitions yet
ALTER TABLE joins ADD COLUMN max_broken integer NOT NULL DEFAULT -1; -- more broken edges decide it; -1: they do not
ALTER TABLE edges ADD COLUMN old boolean NOT NULL DEFAULT false; -- of an earlier join of its child: its arrival does not count

CREATE TABLE runs (
    run_id uuid PRIMARY KEY,
    tenant_id integer NOT NULL,
    hash bytea NOT NULL, -- of its definition
    workflow text,
    version bigint NOT NULL,
    root_id uuid NOT NULL,
    depth integer NOT NULL,
    opened_ms bigint NOT NULL,
    deadline_ms bigint NOT NULL,
    tasks bigint NOT NULL,
    generation integer NOT NULL,
    stop smallint NOT NULL, -- enum run_stop
    stopped_by text,
    paused boolean NOT NULL
);
CREATE INDEX runs_hash ON runs (tenant_id, hash); -- which definitions are used
CREATE INDEX runs_root ON runs (root_id);

CREATE TABLE definitions (
    tenant_id integer NOT NULL,
    hash bytea NOT NULL, -- SHA-256 of the text
    text text NOT NULL,
    put_ms bigint NOT NULL,
    PRIMARY KEY (tenant_id, hash)
);
CREATE INDEX definitions_put ON definitions (put_ms);

CREATE TABLE workflows (
    tenant_id integer NOT NULL,
    name text NOT NULL COLLATE "C",
    version bigint NOT NULL,
    hash bytea NOT NULL,
    created_ms bigint NOT NULL,
    removed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, name, version)
);
CREATE INDEX workflows_hash ON workflows (tenant_id, hash);

CREATE TABLE outputs (
    run_id uuid NOT NULL,
    place bigint NOT NULL, -- -1: the result of the run
    whole boolean NOT NULL,
    text text,
    PRIMARY KEY (run_id, place)
);

CREATE TABLE signals (
    run_id uuid NOT NULL,
    name text NOT NULL COLLATE "C",
    sender text NOT NULL COLLATE "C",
    payload text,
    rejects boolean NOT NULL,
    time_ms bigint NOT NULL,
    PRIMARY KEY (run_id, name, sender)
);
