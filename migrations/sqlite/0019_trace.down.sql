-- SQLite drops no column of a schema with these views: they are made again as they were.
DROP VIEW belfry_workflows;
DROP VIEW belfry_queues;
DROP VIEW belfry_executions;
DROP VIEW belfry_tasks;
DROP VIEW belfry_dependencies;
DROP VIEW belfry_breakers;
DROP VIEW belfry_tenants;
ALTER TABLE tasks DROP COLUMN trace;

CREATE VIEW belfry_tenants AS
    SELECT json_extract(doc, '$.number') AS number, name, json_extract(doc, '$.max_running') AS max_running,
        json_extract(doc, '$.max_pending') AS max_pending, json_extract(doc, '$.max_recurring') AS max_recurring, json_extract(doc, '$.creates_per_second') AS creates_per_second,
        json_extract(doc, '$.payload_bytes') AS payload_bytes, coalesce(json_extract(doc, '$.disabled'), 0) AS disabled
    FROM catalog WHERE kind = 2 AND tenant_id = 0
    UNION ALL
    SELECT 1, 'default', NULL, NULL, NULL, NULL, NULL, 0 -- it has an entry only after it was changed
    WHERE NOT EXISTS (SELECT 1 FROM catalog WHERE kind = 2 AND tenant_id = 0 AND name = 'default');

CREATE VIEW belfry_breakers AS
    SELECT lower(substr(hex(b.id), 1, 8) || '-' || substr(hex(b.id), 9, 4) || '-' || substr(hex(b.id), 13, 4) || '-' ||
            substr(hex(b.id), 17, 4) || '-' || substr(hex(b.id), 21)) AS id,
        n.name AS tenant, iif(b.host = '*', 'tenant', 'host') AS scope, nullif(b.host, '*') AS host,
        iif(b.until_ms > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 'OPEN', 'HALF_OPEN') AS state,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(b.opened_ms, 0) / 1000.0, 'unixepoch') AS opened_at,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(b.until_ms, 0) / 1000.0, 'unixepoch') AS retry_at,
        b.calls, b.failures, b.reopened, b.reason
    FROM breakers AS b LEFT JOIN belfry_tenants AS n ON n.number = b.tenant_id;

CREATE VIEW belfry_dependencies AS
    SELECT lower(substr(hex(e.child_id), 1, 8) || '-' || substr(hex(e.child_id), 9, 4) || '-' || substr(hex(e.child_id), 13, 4) || '-' ||
            substr(hex(e.child_id), 17, 4) || '-' || substr(hex(e.child_id), 21)) AS task_id,
        n.name AS tenant,
        lower(substr(hex(e.parent_id), 1, 8) || '-' || substr(hex(e.parent_id), 9, 4) || '-' || substr(hex(e.parent_id), 13, 4) || '-' ||
            substr(hex(e.parent_id), 17, 4) || '-' || substr(hex(e.parent_id), 21)) AS depends_on,
        CASE e.type WHEN 0 THEN 'MUST_SUCCEED' WHEN 1 THEN 'MUST_NOT_FAIL' WHEN 2 THEN 'MUST_FINISH' WHEN 3 THEN 'MUST_FAIL' END AS type,
        CASE e.state WHEN 0 THEN 'WAITING' WHEN 1 THEN 'MET' WHEN 2 THEN 'BROKEN' WHEN 3 THEN 'UNMET' END AS state,
        CASE j.kind WHEN 0 THEN 'ALL' WHEN 1 THEN 'ANY' WHEN 2 THEN 'SOME' END AS "join"
    FROM edges AS e JOIN joins AS j ON j.child_id = e.child_id LEFT JOIN belfry_tenants AS n ON n.number = e.tenant_id;

CREATE VIEW belfry_tasks AS
    SELECT lower(substr(hex(t.id), 1, 8) || '-' || substr(hex(t.id), 9, 4) || '-' || substr(hex(t.id), 13, 4) || '-' ||
            substr(hex(t.id), 17, 4) || '-' || substr(hex(t.id), 21)) AS id,
        n.name AS tenant,
        CASE t.kind WHEN 0 THEN 'ONE_TIME' WHEN 1 THEN 'RECURRING' WHEN 2 THEN 'OCCURRENCE' END AS type,
        CASE WHEN t.parent_id IS NOT NULL THEN
            lower(substr(hex(t.parent_id), 1, 8) || '-' || substr(hex(t.parent_id), 9, 4) || '-' ||
                substr(hex(t.parent_id), 13, 4) || '-' || substr(hex(t.parent_id), 17, 4) || '-' ||
                substr(hex(t.parent_id), 21)) END AS parent_id,
        t.name, t.task_type,
        CASE iif(t.links & 256 AND t.state IN (0, 3), 1, iif(t.links & 32 AND t.state = 0, 3,
            iif(t.state = 3 AND t.due_ms > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 0, t.state)))
            WHEN 0 THEN 'SCHEDULED' WHEN 1 THEN 'BLOCKED' WHEN 2 THEN 'PAUSED' WHEN 3 THEN 'RUNNING'
            WHEN 4 THEN 'COMPLETED' WHEN 5 THEN 'FAILED' WHEN 6 THEN 'CANCELLED' WHEN 7 THEN 'SKIPPED'
            WHEN 8 THEN 'EXPIRED' END AS status,
        coalesce(t.queue, l.queue) AS queue, t.priority,
        iif(t.kind <> 1, strftime('%Y-%m-%dT%H:%M:%fZ', nullif(t.scheduled_ms, 0) / 1000.0, 'unixepoch'), NULL) AS run_at,
        iif(t.kind <> 1 AND t.state IN (0, 1, 3),
            strftime('%Y-%m-%dT%H:%M:%fZ', nullif(t.due_ms, 0) / 1000.0, 'unixepoch'), NULL) AS due_at,
        iif(t.kind = 1 AND t.state = 0, strftime('%Y-%m-%dT%H:%M:%fZ', nullif(t.cursor_ms, 0) / 1000.0, 'unixepoch'), NULL) AS next_occurrence_at,
        t.attempts, coalesce(json_extract(t.retry, '$.max_attempts'), 5) AS max_attempts,
        CASE t.delivery WHEN 0 THEN 'AT_LEAST_ONCE' WHEN 1 THEN 'AT_MOST_ONCE' END AS delivery,
        CASE t.target WHEN 0 THEN 'HTTP_CALLBACK' WHEN 1 THEN 'QUEUE_MESSAGE' WHEN 2 THEN 'COMMAND'
            WHEN 3 THEN 'WORKER' WHEN 4 THEN 'WORKFLOW' WHEN 5 THEN 'NOOP' END AS target_type,
        nullif(t.timeout_ms, 0) AS timeout_ms,
        iif(t.kind <> 1 AND t.expires_after_ms > 0,
            strftime('%Y-%m-%dT%H:%M:%fZ', nullif(t.scheduled_ms + t.expires_after_ms, 0) / 1000.0, 'unixepoch'), NULL) AS expires_at,
        json_extract(t.gates, '$.concurrency_key') AS concurrency_key, json_extract(t.gates, '$.concurrency_limit') AS concurrency_limit,
        json_extract(t.gates, '$.dedupe_key') AS dedupe_key,
        json_extract(t.schedule, '$.cron') AS cron_expression, json_extract(t.schedule, '$.interval_ms') / 1000.0 AS interval_seconds,
        json_extract(t.schedule, '$.time_zone') AS time_zone, t.calendar,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(json_extract(t.schedule, '$.start_ms'), 0) / 1000.0, 'unixepoch') AS start_time,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(json_extract(t.schedule, '$.end_ms'), 0) / 1000.0, 'unixepoch') AS end_date,
        json_extract(t.schedule, '$.max_runs') AS max_runs,
        iif(t.kind = 1, CASE coalesce(json_extract(t.schedule, '$.catch_up'), 0) WHEN 0 THEN 'RUN_ONE_NOW'
            WHEN 1 THEN 'RUN_ALL_MISSED' WHEN 2 THEN 'SKIP_MISSED' END, NULL) AS catch_up_mode,
        iif(t.kind = 1, CASE coalesce(json_extract(t.schedule, '$.overlap'), 0) WHEN 0 THEN 'SKIP' WHEN 1 THEN 'ALLOW'
            WHEN 2 THEN 'QUEUE_ONE' WHEN 3 THEN 'QUEUE_ALL' WHEN 4 THEN 'CANCEL_PREVIOUS' END, NULL) AS overlap_policy,
        iif(t.kind = 1, t.runs_count - (SELECT count(*) FROM tasks AS o WHERE o.parent_id = t.id AND o.state < 3 AND o.kind = 2 AND o.runs_count = 1 AND o.attempts = 0
            AND o.losses = 0 AND o.started_ms = 0), NULL) AS runs_count, iif(t.kind = 1, t.skipped_count, NULL) AS skipped_count,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(t.last_run_ms, 0) / 1000.0, 'unixepoch') AS last_run_at,
        t.last_error, t.cause, strftime('%Y-%m-%dT%H:%M:%fZ', nullif(t.resolved_ms, 0) / 1000.0, 'unixepoch') AS resolved_at,
        t.version,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(t.created_ms, 0) / 1000.0, 'unixepoch') AS created_at,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(t.updated_ms, 0) / 1000.0, 'unixepoch') AS updated_at,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(t.started_ms, 0) / 1000.0, 'unixepoch') AS started_at,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(t.completed_ms, 0) / 1000.0, 'unixepoch') AS completed_at,
        -- of a row of the ledger (docs/CONFLICTS.md): core/task/spawn.h has the texts
        iif(t.kind = 2 AND t.state IN (7, 8) AND t.started_ms = 0, CASE WHEN t.state = 8 THEN 'EXPIRED'
            WHEN t.last_error LIKE '%missed for longer than catch_up_window_seconds' THEN 'WINDOW'
            WHEN t.last_error LIKE '%missed; a later one was run for all (catch_up_mode RUN_ONE_NOW)' THEN 'ONE_FOR_ALL'
            WHEN t.last_error LIKE '%missed (catch_up_mode SKIP_MISSED)' THEN 'MISSED'
            WHEN t.last_error LIKE '%its day is excluded by the calendar' THEN 'CALENDAR'
            WHEN t.last_error LIKE '%moved by the calendar to a time at which another one runs' THEN 'CALENDAR_MERGED'
            WHEN t.last_error LIKE '%its local time does not exist that day' THEN 'DST_GAP'
            WHEN t.last_error LIKE '%its local time does not exist that day; one runs for all at the clock change' THEN 'DST_GAP_MERGED'
            WHEN t.last_error LIKE '%its local time comes twice that day; the other one runs' THEN 'DST_COPY'
            WHEN t.last_error LIKE '%is not over' THEN 'OVERLAP' END, NULL) AS skipped_reason,
        iif(t.kind = 2 AND t.state IN (7, 8) AND t.started_ms = 0, strftime('%Y-%m-%dT%H:%M:%fZ', t.scheduled_ms / 1000.0, 'unixepoch'), NULL) AS skipped_from,
        iif(t.kind = 2 AND t.state IN (7, 8) AND t.started_ms = 0, strftime('%Y-%m-%dT%H:%M:%fZ', max(t.cursor_ms, t.scheduled_ms) / 1000.0, 'unixepoch'), NULL) AS skipped_to,
        iif(t.kind = 2 AND t.state IN (7, 8) AND t.started_ms = 0, max(t.skipped_count, 1), NULL) AS skipped_times,
        CASE WHEN t.run_id IS NOT NULL THEN
            lower(substr(hex(t.run_id), 1, 8) || '-' || substr(hex(t.run_id), 9, 4) || '-' || substr(hex(t.run_id), 13, 4) || '-' ||
            substr(hex(t.run_id), 17, 4) || '-' || substr(hex(t.run_id), 21)) END AS run_id
    FROM tasks AS t JOIN lanes AS l ON l.lane = t.lane LEFT JOIN belfry_tenants AS n ON n.number = t.tenant_id
    WHERE NOT t.deleted;

CREATE VIEW belfry_executions AS
    SELECT lower(substr(hex(x.id), 1, 8) || '-' || substr(hex(x.id), 9, 4) || '-' || substr(hex(x.id), 13, 4) || '-' ||
            substr(hex(x.id), 17, 4) || '-' || substr(hex(x.id), 21)) AS id,
        n.name AS tenant,
        lower(substr(hex(x.task_id), 1, 8) || '-' || substr(hex(x.task_id), 9, 4) || '-' || substr(hex(x.task_id), 13, 4) || '-' ||
            substr(hex(x.task_id), 17, 4) || '-' || substr(hex(x.task_id), 21)) AS task_id,
        CASE WHEN x.occurrence_id IS NOT NULL THEN
            lower(substr(hex(x.occurrence_id), 1, 8) || '-' || substr(hex(x.occurrence_id), 9, 4) || '-' ||
                substr(hex(x.occurrence_id), 13, 4) || '-' || substr(hex(x.occurrence_id), 17, 4) || '-' ||
                substr(hex(x.occurrence_id), 21)) END AS occurrence_id,
        t.name AS task_name, coalesce(t.queue, l.queue) AS queue,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(x.scheduled_ms, 0) / 1000.0, 'unixepoch') AS scheduled_for,
        x.attempt AS attempt_number,
        CASE x.status WHEN 0 THEN 'COMPLETED' WHEN 1 THEN 'FAILED' WHEN 2 THEN 'LOST' WHEN 3 THEN 'CANCELLED' END AS status,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(x.started_us / 1000, 0) / 1000.0, 'unixepoch') AS started_at,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(x.completed_us / 1000, 0) / 1000.0, 'unixepoch') AS completed_at,
        (nullif(x.started_us, 0) - 1000 * x.due_ms) / 1000.0 AS delay_ms,
        CASE x.late_by WHEN 1 THEN 'DOWN' WHEN 2 THEN 'PAUSED' WHEN 3 THEN 'CREATED' WHEN 4 THEN 'SPREAD' WHEN 5 THEN 'SLOT' WHEN 6 THEN 'LIMIT'
            WHEN 7 THEN 'BREAKER' WHEN 8 THEN 'RETRY_AFTER' WHEN 9 THEN 'HOST' WHEN 10 THEN 'ROOM' WHEN 11 THEN 'BACKLOG' END AS delay_cause,
        (nullif(x.completed_us, 0) - nullif(x.started_us, 0)) / 1000.0 AS duration_ms,
        x.worker, nullif(x.http_status, 0) AS http_status, x.error AS error_message, x.trace_id, x.fence
    FROM executions AS x LEFT JOIN belfry_tenants AS n ON n.number = x.tenant_id LEFT JOIN tasks AS t ON t.id = x.task_id
        LEFT JOIN lanes AS l ON l.lane = t.lane;

CREATE VIEW belfry_queues AS
    SELECT n.name AS tenant, q.queue AS name,
        nullif(json_extract(c.doc, '$.max_dispatches_per_second'), 0) AS max_dispatches_per_second,
        nullif(json_extract(c.doc, '$.max_burst'), 0) AS max_burst, nullif(json_extract(c.doc, '$.max_concurrent'), 0) AS max_concurrent,
        coalesce(json_extract(c.doc, '$.weight'), 100) AS weight,
        coalesce(p.paused, 0) AS paused,
        iif(p.paused, json_extract(c.doc, '$.paused.by'), NULL) AS paused_by, iif(p.paused, json_extract(c.doc, '$.paused.reason'), NULL) AS paused_reason,
        iif(p.paused, json_extract(c.doc, '$.paused.since'), NULL) AS paused_since,
        iif(p.paused, json_extract(c.doc, '$.paused.until'), NULL) AS paused_until,
        (SELECT count(*) FROM lanes AS l CROSS JOIN tasks AS t ON t.lane = l.lane
            WHERE l.tenant_id = q.tenant_id AND l.queue = q.queue AND t.state = 0 AND t.kind <> 1
                AND (t.near OR t.due_ms - t.created_ms < 108000000)
                AND t.due_ms <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AND NOT t.deleted) AS due
    FROM (SELECT tenant_id, queue FROM lanes WHERE queue <> '' UNION SELECT tenant_id, name FROM catalog WHERE kind = 0) AS q
        LEFT JOIN catalog AS c ON c.kind = 0 AND c.tenant_id = q.tenant_id AND c.name = q.queue
        LEFT JOIN (SELECT tenant_id, name, json_type(doc, '$.paused') = 'object' AND
                       coalesce(julianday(json_extract(doc, '$.paused.until')) > julianday('now'), 1) AS paused
                   FROM catalog WHERE kind = 0) AS p ON p.tenant_id = q.tenant_id AND p.name = q.queue
        LEFT JOIN belfry_tenants AS n ON n.number = q.tenant_id;

CREATE VIEW belfry_workflows AS
    SELECT lower(substr(hex(r.run_id), 1, 8) || '-' || substr(hex(r.run_id), 9, 4) || '-' || substr(hex(r.run_id), 13, 4) || '-' ||
            substr(hex(r.run_id), 17, 4) || '-' || substr(hex(r.run_id), 21)) AS id,
        n.name AS tenant, r.workflow, nullif(r.version, 0) AS version, lower(hex(r.hash)) AS definition_hash,
        lower(substr(hex(r.root_id), 1, 8) || '-' || substr(hex(r.root_id), 9, 4) || '-' || substr(hex(r.root_id), 13, 4) || '-' ||
            substr(hex(r.root_id), 17, 4) || '-' || substr(hex(r.root_id), 21)) AS root_id,
        r.depth, strftime('%Y-%m-%dT%H:%M:%fZ', nullif(r.opened_ms, 0) / 1000.0, 'unixepoch') AS opened_at,
        strftime('%Y-%m-%dT%H:%M:%fZ', nullif(r.deadline_ms, 0) / 1000.0, 'unixepoch') AS deadline_at,
        iif(r.depth = 0, r.tasks, NULL) AS tasks, r.generation AS retries,
        CASE r.stop WHEN 1 THEN 'CANCELLED' WHEN 2 THEN 'CANCELLED_AND_UNDONE' WHEN 3 THEN 'DEADLINE' END AS stopped, r.stopped_by, r.paused
    FROM runs AS r LEFT JOIN belfry_tenants AS n ON n.number = r.tenant_id;
