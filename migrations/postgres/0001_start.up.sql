-- Everything that a cluster keeps. Times are milliseconds since 1970 unless a name says otherwise; a number that names a state, kind or
-- target is the one of src/core/task/task.h. tenant_id 0 is Belfry's own. Texts are compared byte by byte (COLLATE "C"), as everywhere in Belfry.

-- What is claimed from: see src/core/task/task.h. Pool 1 is never dispatched (WORKER, WORKFLOW), pool 2 are suspects. Lanes are never
-- deleted: they are few, and a number once seen stays true.
CREATE TABLE lanes (
    lane integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id integer NOT NULL,
    queue text COLLATE "C" NOT NULL,
    class smallint NOT NULL,
    pool smallint NOT NULL,
    UNIQUE (tenant_id, queue, class, pool)
);

-- A claim and a settle write each row anew: room is left for that in every page, and the dead ones are cleared away early.
CREATE TABLE tasks (
    part smallint NOT NULL, -- src/core/sharing/partition.h
    id uuid PRIMARY KEY,
    tenant_id integer NOT NULL,
    state smallint NOT NULL,
    fence bigint NOT NULL,
    deleted boolean NOT NULL,
    claim_id uuid,
    kind smallint NOT NULL,
    lane integer NOT NULL,
    due_ms bigint NOT NULL,
    delivery smallint NOT NULL,
    version bigint NOT NULL,
    attempts integer NOT NULL,
    losses integer NOT NULL,
    completed_ms bigint NOT NULL,
    scheduled_ms bigint NOT NULL,
    started_ms bigint NOT NULL,
    updated_ms bigint NOT NULL,
    created_ms bigint NOT NULL,
    parent_id uuid,
    cursor_ms bigint NOT NULL,
    last_run_ms bigint NOT NULL,
    runs_count bigint NOT NULL,
    skipped_count bigint NOT NULL,
    priority smallint NOT NULL,
    target smallint NOT NULL,
    timeout_ms bigint NOT NULL,
    expires_after_ms bigint NOT NULL,
    name text COLLATE "C",
    task_type text COLLATE "C",
    retry text,     -- JSON; NULL: the default policy
    schedule text,  -- JSON; NULL: not RECURRING
    last_error text,
    target_config text,
    extra text,
    payload text,
    gates text,     -- JSON: concurrency key and limit, overlap, dedupe; NULL: none of them
    waits_for text COLLATE "C", -- BLOCKED: the slot key
    cause text COLLATE "C",     -- FAILED: its fingerprint
    resolved_ms bigint NOT NULL,
    resolution text,
    failed_ms bigint, -- FAILED: since when; else NULL
    calendar text COLLATE "C" -- RECURRING: which one it goes by
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX tasks_due ON tasks (lane, due_ms, id) INCLUDE (part) WHERE state = 0 AND kind <> 1;
CREATE INDEX tasks_cursor ON tasks (cursor_ms, id) WHERE state = 0 AND kind = 1;
CREATE INDEX tasks_name ON tasks (tenant_id, name, id) WHERE name IS NOT NULL;
CREATE INDEX tasks_type ON tasks (tenant_id, task_type, id) WHERE task_type IS NOT NULL;
CREATE INDEX tasks_parent ON tasks (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_spawned ON tasks (parent_id) WHERE parent_id IS NOT NULL AND state < 3; -- what an edit may withdraw
CREATE INDEX tasks_waiting ON tasks (waits_for, due_ms, id) WHERE waits_for IS NOT NULL;  -- the line of a slot
CREATE INDEX tasks_failed ON tasks (tenant_id, id) WHERE failed_ms IS NOT NULL;
CREATE INDEX tasks_cause ON tasks (tenant_id, cause, id, failed_ms) WHERE failed_ms IS NOT NULL AND resolved_ms = 0 AND NOT deleted;
CREATE INDEX tasks_failed_at ON tasks ((resolved_ms > 0), failed_ms) WHERE failed_ms IS NOT NULL;
CREATE INDEX tasks_calendar ON tasks (tenant_id, calendar, id) WHERE kind = 1 AND NOT deleted;

-- How many tasks there are of each state, deleted ones apart. Each process has rows of its own (shard), so that no two wait for each
-- other; what there is is their sum.
CREATE TABLE counts (
    tenant_id integer NOT NULL,
    state smallint NOT NULL,
    shard smallint NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (tenant_id, state, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

-- One row a claim, while tasks hold it. `tasks` lists each task it took; one still belongs to it if its row says so.
CREATE TABLE claims (
    tenant_id integer NOT NULL DEFAULT 0,
    id uuid PRIMARY KEY,
    node uuid NOT NULL,
    held bigint NOT NULL,
    tasks uuid[] NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX claims_node ON claims (node);

-- Append-only, a partition a month by the id, which begins with the time it was made (UUIDv7). The leader makes months ahead of time;
-- what fits none of them goes to the last.
CREATE TABLE executions (
    id uuid NOT NULL,
    tenant_id integer NOT NULL,
    task_id uuid NOT NULL,
    occurrence_id uuid,
    status smallint NOT NULL,
    attempt integer NOT NULL,
    fence bigint NOT NULL,
    scheduled_ms bigint NOT NULL,
    due_ms bigint NOT NULL,
    started_us bigint NOT NULL,
    completed_us bigint NOT NULL,
    http_status integer NOT NULL,
    worker text,
    error text,
    output text,
    trace_id text,
    PRIMARY KEY (task_id, id)
) PARTITION BY RANGE (id);
CREATE TABLE executions_other PARTITION OF executions DEFAULT;

CREATE TABLE idempotency (
    tenant_id integer NOT NULL,
    key bytea NOT NULL,
    payload bytea NOT NULL,
    status integer NOT NULL,
    answer text,
    created_ms bigint NOT NULL,
    PRIMARY KEY (key, tenant_id)
);
CREATE INDEX idempotency_created ON idempotency USING brin (created_ms);

CREATE TABLE api_keys (
    id text COLLATE "C" PRIMARY KEY,
    tenant_id integer NOT NULL,
    hash bytea NOT NULL,
    name text,
    scopes text,
    created_ms bigint NOT NULL,
    expires_ms bigint NOT NULL
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id);

CREATE TABLE leases (
    tenant_id integer NOT NULL DEFAULT 0,
    name text COLLATE "C" PRIMARY KEY,
    holder uuid NOT NULL,
    until_ms bigint NOT NULL
);

-- Who holds a slot; the key says whose (src/core/sharing/slot.h).
CREATE TABLE slots (
    tenant_id integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    task_id uuid NOT NULL,
    PRIMARY KEY (key, task_id)
);
CREATE INDEX slots_task ON slots (task_id);

CREATE TABLE dedupe (
    tenant_id integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    task_id uuid NOT NULL,
    until_ms bigint NOT NULL,
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX dedupe_until ON dedupe (until_ms);

CREATE TABLE catalog (
    tenant_id integer NOT NULL,
    kind smallint NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    created_ms bigint NOT NULL,
    updated_ms bigint NOT NULL,
    doc text,
    PRIMARY KEY (kind, tenant_id, name)
);
CREATE INDEX catalog_jobs ON catalog (updated_ms) WHERE kind = 4; -- for who forgets them
CREATE INDEX catalog_unfinished ON catalog (tenant_id, name) -- for who looks for jobs that nobody works on
    WHERE kind = 4 AND doc ~ '"state"\s*:\s*"RUNNING"';

-- Tasks that became final, so that who forgets them need not step over those that wait: an index over them would cost every settle
-- more. What a task's own row says is true. FAILED ones are not here: they have tasks_failed_at.
CREATE TABLE ended (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id integer NOT NULL DEFAULT 0,
    completed_ms bigint NOT NULL,
    tasks uuid[] NOT NULL
);
CREATE INDEX ended_at ON ended (completed_ms);

-- Processes that claim; src/port/store.h says when one lives.
CREATE TABLE nodes (
    id uuid PRIMARY KEY,
    name text,
    version text,
    beats bigint NOT NULL,
    joined_ms bigint NOT NULL,
    dead boolean NOT NULL,
    dead_ms bigint NOT NULL DEFAULT 0, -- since when it is
    doc text
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);

-- Limits that hold for all nodes together: one bucket a key, and who holds how many places.
CREATE TABLE shares (
    key text COLLATE "C" PRIMARY KEY,
    rate double precision NOT NULL,
    burst bigint NOT NULL,
    level double precision NOT NULL,
    since_ms bigint NOT NULL,
    taken bigint NOT NULL,
    seen_ms bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE places (
    key text COLLATE "C" NOT NULL,
    node uuid NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (key, node)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX places_node ON places (node);

-- What is wished back of whoever holds it. A row that is behind its task's fence is over.
CREATE TABLE wishes (
    task_id uuid PRIMARY KEY,
    node uuid NOT NULL,
    fence bigint NOT NULL,
    abort boolean NOT NULL,
    by_scheduled_ms bigint NOT NULL,
    created_ms bigint NOT NULL
);
CREATE INDEX wishes_node ON wishes (node);

-- What all nodes have in common: `pepper`, with which API keys are hashed; `copying`, while `belfry copy` is not done: nobody starts then.
CREATE TABLE cluster (
    name text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);
