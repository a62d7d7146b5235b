-- The lanes of a class are one again: the first of them.
ALTER TABLE lanes ADD COLUMN class smallint NOT NULL DEFAULT 0;
UPDATE lanes SET class = CASE WHEN priority >= 7 THEN 2 WHEN priority >= 4 THEN 1 ELSE 0 END;
ALTER TABLE lanes DROP CONSTRAINT lanes_key;
UPDATE lanes SET pool = CASE pool WHEN 5 THEN 0 ELSE 2 END WHERE pool IN (5, 6);
UPDATE tasks AS t SET lane = n.lane
    FROM lanes AS l JOIN (SELECT tenant_id, queue, class, pool, min(lane) AS lane FROM lanes GROUP BY tenant_id, queue, class, pool) AS n
        USING (tenant_id, queue, class, pool)
    WHERE l.lane = t.lane AND n.lane <> l.lane;
DELETE FROM lanes WHERE lane NOT IN (SELECT min(lane) FROM lanes GROUP BY tenant_id, queue, class, pool);
ALTER TABLE lanes
    DROP COLUMN priority,
    DROP COLUMN requires,
    DROP COLUMN cpu_milli,
    DROP COLUMN memory_mb,
    DROP COLUMN host,
    ALTER COLUMN class DROP DEFAULT,
    ADD UNIQUE (tenant_id, queue, class, pool);
ALTER TABLE tasks DROP COLUMN aside, DROP COLUMN recalled;
DROP INDEX tasks_spawned;
CREATE INDEX tasks_spawned ON tasks (parent_id) WHERE parent_id IS NOT NULL AND state < 3;
