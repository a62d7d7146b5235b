-- The names of the actor and of the object, as they were when it happened; NULL: none, or the row is older than these columns.
ALTER TABLE audit ADD COLUMN actor_name TEXT;
ALTER TABLE audit ADD COLUMN object_name TEXT;

-- An attempt that waited for a slot of its concurrency key is late by KEY (12), no longer by SLOT.
DROP VIEW belfry_executions;
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
            WHEN 7 THEN 'BREAKER' WHEN 8 THEN 'RETRY_AFTER' WHEN 9 THEN 'HOST' WHEN 10 THEN 'ROOM' WHEN 11 THEN 'BACKLOG' WHEN 12 THEN 'KEY' END AS delay_cause,
        (nullif(x.completed_us, 0) - nullif(x.started_us, 0)) / 1000.0 AS duration_ms,
        x.worker, nullif(x.http_status, 0) AS http_status, x.error AS error_message, x.trace_id, x.fence
    FROM executions AS x LEFT JOIN belfry_tenants AS n ON n.number = x.tenant_id LEFT JOIN tasks AS t ON t.id = x.task_id
        LEFT JOIN lanes AS l ON l.lane = t.lane;
