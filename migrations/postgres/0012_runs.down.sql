-- Runs and their steps cannot go on without these tables: what is not final becomes CANCELLED.
INSERT INTO counts (tenant_id, state, shard, n)
    SELECT t.tenant_id, s.state, 0, CASE s.state WHEN 6 THEN count(*) ELSE -count(*) FILTER (WHERE t.state = s.state) END
    FROM tasks AS t CROSS JOIN (VALUES (0), (1), (2), (3), (6)) AS s(state)
    WHERE (t.run_id IS NOT NULL OR t.target = 4) AND t.kind <> 1 AND t.state < 4 AND NOT t.deleted GROUP BY t.tenant_id, s.state
    ON CONFLICT (tenant_id, state, shard) DO UPDATE SET n = counts.n + excluded.n;
UPDATE tasks SET state = 6 WHERE (run_id IS NOT NULL OR target = 4) AND kind <> 1 AND state < 4;
UPDATE tasks SET links = links & 15 WHERE links > 15;
DROP VIEW belfry_workflows;
DROP VIEW belfry_executions;
DROP VIEW belfry_tasks;
DROP TABLE signals;
DROP TABLE outputs;
DROP TABLE workflows;
DROP TABLE definitions;
DROP TABLE runs;
ALTER TABLE edges DROP COLUMN old;
ALTER TABLE joins DROP COLUMN max_broken;
UPDATE executions SET status = 1 WHERE status = 3; -- CANCELLED, which older versions do not know
DROP INDEX tasks_expiring, tasks_with_expiry, tasks_unopened, tasks_runs;
ALTER TABLE tasks DROP COLUMN queue;
ALTER TABLE tasks DROP COLUMN place;
ALTER TABLE tasks DROP COLUMN run_id;

CREATE VIEW belfry_tasks AS
    SELECT t.id, n.name AS tenant,
        CASE t.kind WHEN 0 THEN 'ONE_TIME' WHEN 1 THEN 'RECURRING' WHEN 2 THEN 'OCCURRENCE' END AS type,
        t.parent_id, t.name, t.task_type,
        CASE CASE WHEN t.state = 3 AND t.due_ms > extract(epoch FROM now()) * 1000 THEN 0 ELSE t.state END
            WHEN 0 THEN 'SCHEDULED' WHEN 1 THEN 'BLOCKED' WHEN 2 THEN 'PAUSED' WHEN 3 THEN 'RUNNING'
            WHEN 4 THEN 'COMPLETED' WHEN 5 THEN 'FAILED' WHEN 6 THEN 'CANCELLED' WHEN 7 THEN 'SKIPPED'
            WHEN 8 THEN 'EXPIRED' END AS status,
        l.queue, t.priority,
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
        CASE WHEN t.kind = 2 AND t.state IN (7, 8) AND t.started_ms = 0 THEN greatest(t.skipped_count, 1) END AS skipped_times
    FROM tasks AS t JOIN lanes AS l ON l.lane = t.lane LEFT JOIN belfry_tenants AS n ON n.number = t.tenant_id
    WHERE NOT t.deleted;

CREATE VIEW belfry_executions AS
    SELECT x.id, n.name AS tenant, x.task_id, x.occurrence_id, t.name AS task_name, l.queue,
        belfry_time(x.scheduled_ms) AS scheduled_for,
        x.attempt AS attempt_number,
        CASE x.status WHEN 0 THEN 'COMPLETED' WHEN 1 THEN 'FAILED' WHEN 2 THEN 'LOST' END AS status,
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
    FROM (SELECT tenant_id, queue FROM lanes UNION SELECT tenant_id, name FROM catalog WHERE kind = 0) AS q
        LEFT JOIN catalog AS c ON c.kind = 0 AND c.tenant_id = q.tenant_id AND c.name = q.queue
        LEFT JOIN LATERAL (SELECT c.doc::json->'paused' WHERE json_typeof(c.doc::json->'paused') = 'object'
            AND coalesce((c.doc::json->'paused'->>'until')::timestamptz > now(), true)) AS p(pause) ON true
        LEFT JOIN belfry_tenants AS n ON n.number = q.tenant_id;
