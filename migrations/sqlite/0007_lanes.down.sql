-- The lanes of a class are one again, numbered without gaps; their tasks move to it. A task that was put aside waits with the others.
CREATE TABLE lanes_by_class (
    lane INTEGER PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    queue TEXT NOT NULL,
    class INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    UNIQUE (tenant_id, queue, class, pool)
);
INSERT INTO lanes_by_class (tenant_id, queue, class, pool)
    SELECT tenant_id, queue, CASE WHEN priority <= 3 THEN 0 WHEN priority <= 6 THEN 1 ELSE 2 END AS class,
        CASE pool WHEN 5 THEN 0 WHEN 6 THEN 2 ELSE pool END AS of_class
    FROM lanes GROUP BY tenant_id, queue, class, of_class ORDER BY min(lane);
UPDATE tasks SET lane = c.lane
    FROM lanes AS l JOIN lanes_by_class AS c
        ON c.tenant_id = l.tenant_id AND c.queue = l.queue AND c.pool = CASE l.pool WHEN 5 THEN 0 WHEN 6 THEN 2 ELSE l.pool END
            AND c.class = CASE WHEN l.priority <= 3 THEN 0 WHEN l.priority <= 6 THEN 1 ELSE 2 END
    WHERE tasks.lane = l.lane;
DROP TABLE lanes;
ALTER TABLE lanes_by_class RENAME TO lanes;
ALTER TABLE tasks DROP COLUMN aside;
ALTER TABLE tasks DROP COLUMN recalled;
DROP INDEX tasks_spawned;
CREATE INDEX tasks_spawned ON tasks (parent_id) WHERE parent_id IS NOT NULL AND state < 3;
