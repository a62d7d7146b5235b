UPDATE executions SET late_by = 5 WHERE late_by = 12;
UPDATE tasks SET late_by = 5 WHERE late_by = 12;
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
ALTER TABLE audit DROP COLUMN actor_name;
ALTER TABLE audit DROP COLUMN object_name;
