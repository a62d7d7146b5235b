-- readers from 4
-- Runs of workflows: src/port/store/runs.h.
ALTER TABLE tasks ADD COLUMN run_id uuid; -- of a step: its run
ALTER TABLE tasks ADD COLUMN place bigint NOT NULL DEFAULT 0; -- of a step: src/core/flow/place.h
ALTER TABLE tasks ADD COLUMN queue text COLLATE "C"; -- of control work, whose lane has no queue: src/port/store/runs.h
CREATE UNIQUE INDEX tasks_run ON tasks (run_id, place) WHERE run_id IS NOT NULL;
CREATE INDEX tasks_runs ON tasks (tenant_id, id) WHERE target = 4 AND run_id IS NULL;
CREATE INDEX tasks_unopened ON tasks (tenant_id) WHERE target = 4 AND links & 32 = 0; -- no row in runs names their definitions yet
-- Tasks that expire unless they start: task_may_expire. 288: TASK_OPENED, TASK_AWAITS.
CREATE INDEX tasks_expiring ON tasks ((scheduled_ms + expires_after_ms), id) WHERE expires_after_ms > 0 AND (state = 0 OR waits_for IS NOT NULL) AND kind <> 1 AND NOT deleted AND links & 288 = 0;
CREATE INDEX tasks_with_expiry ON tasks (id) WHERE expires_after_ms > 0 AND state < 4; -- whether there are any that are not final
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

-- Control work is shown with its own queue and as users see it (task_shown_state in src/core/task/task.c).
CREATE OR REPLACE VIEW belfry_tasks AS
    SELECT t.id, n.name AS tenant,
        CASE t.kind WHEN 0 THEN 'ONE_TIME' WHEN 1 THEN 'RECURRING' WHEN 2 THEN 'OCCURRENCE' END AS type,
        t.parent_id, t.name, t.task_type,
        CASE CASE WHEN t.links & 256 <> 0 AND t.state IN (0, 3) THEN 1 WHEN t.links & 32 <> 0 AND t.state = 0 THEN 3 WHEN t.state = 3 AND t.due_ms > extract(epoch FROM now()) * 1000 THEN 0 ELSE t.state END
            WHEN 0 THEN 'SCHEDULED' WHEN 1 THEN 'BLOCKED' WHEN 2 THEN 'PAUSED' WHEN 3 THEN 'RUNNING'
            WHEN 4 THEN 'COMPLETED' WHEN 5 THEN 'FAILED' WHEN 6 THEN 'CANCELLED' WHEN 7 THEN 'SKIPPED'
            WHEN 8 THEN 'EXPIRED' END AS status,
        coalesce(t.queue, l.queue) AS queue, t.priority,
        CASE WHEN t.kind <> 1 THEN belfry_time(t.scheduled_ms) END AS run_at,
        CASE WHEN t.kind <> 1 AND t.state IN (0, 1, 3) THEN belfry_time(t.due_ms) END AS due_at,
        CASE WHEN t.kind = 1 AND t.state = 0 THEN belfry_time(t.cursor_ms) END AS next_occurrence_at,
        t.attempts, coalesce((t.retry::json->>'max_attempts')::integer, 5) AS max_attempts,
        CASE t.delivery WHEN 0 THEN 'AT_LEAST_ONCE' WHEN 1 THEN 'AT_MOST_ONCE' END AS delivery,
        CASE t.target WHEN 0 THEN 'HTTP_CALLBACK' WHEN 1 THEN 'QUEUE_MESSAGE' WHEN 2 THEN 'COMMAND'
            WHEN 3 THEN 'WORKER' WHEN 4 THEN 'WORKFLOW' WHEN 5 THEN 'NOOP' END AS target_type,
        nullif(t.timeout_ms, 0) AS timeout_ms,
        CASE WHEN t.kind <> 1 AND t.expires_after_ms > 0 THEN belfry_time(t.scheduled_ms + t.expires_after_ms) END AS expires_at,
        t.gates::json->>'concurrency_key' AS concurrency_key, (t.gates::json->>'concurrency_limit')::integer AS concurrency_limit,
        t.gates::json->>'dedupe_key' AS dedupe_key,
        t.schedule::json->>'cron' AS cron_expression, (t.schedule::json->>'interval_ms')::bigint / 1000::double precision AS interval_seconds,
        t.schedule::json->>'time_zone' AS time_zone, t.calendar,
        belfry_time((t.schedule::json->>'start_ms')::bigint) AS start_time, belfry_time((t.schedule::json->>'end_ms')::bigint) AS end_date,
        (t.schedule::json->>'max_runs')::bigint AS max_runs,
        CASE WHEN t.kind = 1 THEN CASE coalesce((t.schedule::json->>'catch_up')::integer, 0) WHEN 0 THEN 'RUN_ONE_NOW'
            WHEN 1 THEN 'RUN_ALL_MISSED' WHEN 2 THEN 'SKIP_MISSED' END END AS catch_up_mode,
        CASE WHEN t.kind = 1 THEN CASE coalesce((t.schedule::json->>'overlap')::integer, 0) WHEN 0 THEN 'SKIP' WHEN 1 THEN 'ALLOW'
            WHEN 2 THEN 'QUEUE_ONE' WHEN 3 THEN 'QUEUE_ALL' WHEN 4 THEN 'CANCEL_PREVIOUS' END END AS overlap_policy,
        CASE WHEN t.kind = 1 THEN t.runs_count - (SELECT count(*) FROM tasks AS o WHERE o.parent_id = t.id AND o.state < 3 AND o.kind = 2 AND o.runs_count = 1 AND o.attempts = 0
            AND o.losses = 0 AND o.started_ms = 0) END AS runs_count, CASE WHEN t.kind = 1 THEN t.skipped_count END AS skipped_count,
        belfry_time(t.last_run_ms) AS last_run_at,
        t.last_error, t.cause, belfry_time(t.resolved_ms) AS resolved_at,
        t.version,
        belfry_time(t.created_ms) AS created_at, belfry_time(t.updated_ms) AS updated_at,
        belfry_time(t.started_ms) AS started_at, belfry_time(t.completed_ms) AS completed_at,
        -- of a row of the ledger (docs/CONFLICTS.md): core/task/spawn.h has the texts
        CASE WHEN t.kind = 2 AND t.state IN (7, 8) AND t.started_ms = 0 THEN CASE WHEN t.state = 8 THEN 'EXPIRED'
            WHEN t.last_error LIKE '%missed for longer than catch_up_window_seconds' THEN 'WINDOW'
            WHEN t.last_error LIKE '%missed; a later one was run for all (catch_up_mode RUN_ONE_NOW)' THEN 'ONE_FOR_ALL'
            WHEN t.last_error LIKE '%missed (catch_up_mode SKIP_MISSED)' THEN 'MISSED'
            WHEN t.last_error LIKE '%its day is excluded by the calendar' THEN 'CALENDAR'
            WHEN t.last_error LIKE '%moved by the calendar to a time at which another one runs' THEN 'CALENDAR_MERGED'
            WHEN t.last_error LIKE '%its local time does not exist that day' THEN 'DST_GAP'
            WHEN t.last_error LIKE '%its local time does not exist that day; one runs for all at the clock change' THEN 'DST_GAP_MERGED'
            WHEN t.last_error LIKE '%its local time comes twice that day; the other one runs' THEN 'DST_COPY'
            WHEN t.last_error LIKE '%is not over' THEN 'OVERLAP' END END AS skipped_reason,
        CASE WHEN t.kind = 2 AND t.state IN (7, 8) AND t.started_ms = 0 THEN belfry_time(t.scheduled_ms) END AS skipped_from,
        CASE WHEN t.kind = 2 AND t.state IN (7, 8) AND t.started_ms = 0 THEN belfry_time(greatest(t.cursor_ms, t.scheduled_ms)) END AS skipped_to,
        CASE WHEN t.kind = 2 AND t.state IN (7, 8) AND t.started_ms = 0 THEN greatest(t.skipped_count, 1) END AS skipped_times,
        t.run_id
    FROM tasks AS t JOIN lanes AS l ON l.lane = t.lane LEFT JOIN belfry_tenants AS n ON n.number = t.tenant_id
    WHERE NOT t.deleted;

CREATE OR REPLACE VIEW belfry_executions AS
    SELECT x.id, n.name AS tenant, x.task_id, x.occurrence_id, t.name AS task_name, coalesce(t.queue, l.queue) AS queue,
        belfry_time(x.scheduled_ms) AS scheduled_for,
        x.attempt AS attempt_number,
        CASE x.status WHEN 0 THEN 'COMPLETED' WHEN 1 THEN 'FAILED' WHEN 2 THEN 'LOST' WHEN 3 THEN 'CANCELLED' END AS status,
        belfry_time(x.started_us / 1000) AS started_at, belfry_time(x.completed_us / 1000) AS completed_at,
        (nullif(x.started_us, 0) - 1000 * x.due_ms) / 1000::double precision AS delay_ms,
        CASE x.late_by WHEN 1 THEN 'DOWN' WHEN 2 THEN 'PAUSED' WHEN 3 THEN 'CREATED' WHEN 4 THEN 'SPREAD' WHEN 5 THEN 'SLOT' WHEN 6 THEN 'LIMIT'
            WHEN 7 THEN 'BREAKER' WHEN 8 THEN 'RETRY_AFTER' WHEN 9 THEN 'HOST' WHEN 10 THEN 'ROOM' WHEN 11 THEN 'BACKLOG' END AS delay_cause,
        (nullif(x.completed_us, 0) - nullif(x.started_us, 0)) / 1000::double precision AS duration_ms,
        x.worker, nullif(x.http_status, 0) AS http_status, x.error AS error_message, x.trace_id, x.fence
    FROM executions AS x LEFT JOIN belfry_tenants AS n ON n.number = x.tenant_id LEFT JOIN tasks AS t ON t.id = x.task_id
        LEFT JOIN lanes AS l ON l.lane = t.lane;

CREATE OR REPLACE VIEW belfry_queues AS
    SELECT n.name AS tenant, q.queue AS name,
        nullif((c.doc::json->>'max_dispatches_per_second')::double precision, 0) AS max_dispatches_per_second,
        nullif((c.doc::json->>'max_burst')::bigint, 0) AS max_burst, nullif((c.doc::json->>'max_concurrent')::bigint, 0) AS max_concurrent,
        coalesce((c.doc::json->>'weight')::integer, 100) AS weight,
        p.pause IS NOT NULL AS paused, p.pause->>'by' AS paused_by, p.pause->>'reason' AS paused_reason,
        (p.pause->>'since')::timestamptz AS paused_since, (p.pause->>'until')::timestamptz AS paused_until,
        (SELECT count(*) FROM lanes AS l JOIN tasks AS t ON t.lane = l.lane
            WHERE l.tenant_id = q.tenant_id AND l.queue = q.queue AND t.state = 0 AND t.kind <> 1 AND t.due_ms <= (extract(epoch FROM now()) * 1000)::bigint
                AND NOT t.deleted) AS due
    FROM (SELECT tenant_id, queue FROM lanes WHERE queue <> '' UNION SELECT tenant_id, name FROM catalog WHERE kind = 0) AS q
        LEFT JOIN catalog AS c ON c.kind = 0 AND c.tenant_id = q.tenant_id AND c.name = q.queue
        LEFT JOIN LATERAL (SELECT c.doc::json->'paused' WHERE json_typeof(c.doc::json->'paused') = 'object'
            AND coalesce((c.doc::json->'paused'->>'until')::timestamptz > now(), true)) AS p(pause) ON true
        LEFT JOIN belfry_tenants AS n ON n.number = q.tenant_id;

CREATE VIEW belfry_workflows AS
    SELECT r.run_id AS id, n.name AS tenant, r.workflow, nullif(r.version, 0) AS version, encode(r.hash, 'hex') AS definition_hash, r.root_id,
        r.depth, belfry_time(r.opened_ms) AS opened_at, belfry_time(r.deadline_ms) AS deadline_at,
        CASE WHEN r.depth = 0 THEN r.tasks END AS tasks, r.generation AS retries,
        CASE r.stop WHEN 1 THEN 'CANCELLED' WHEN 2 THEN 'CANCELLED_AND_UNDONE' WHEN 3 THEN 'DEADLINE' END AS stopped, r.stopped_by, r.paused
    FROM runs AS r LEFT JOIN belfry_tenants AS n ON n.number = r.tenant_id;
