-- A lane is a priority, what its tasks need of a worker, and the host of those that were put aside: see core/task/task.h. A lane of a
-- class becomes the lane of one priority: low 0, normal 5, high 7.
CREATE TABLE lanes_by_need (
    lane INTEGER PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    requires TEXT NOT NULL, -- labels; '': none
    cpu_milli INTEGER NOT NULL,
    memory_mb INTEGER NOT NULL,
    host TEXT NOT NULL, -- '': tasks that were not put aside
    pool INTEGER NOT NULL,
    UNIQUE (tenant_id, queue, priority, requires, cpu_milli, memory_mb, host, pool)
);
INSERT INTO lanes_by_need (lane, tenant_id, queue, priority, requires, cpu_milli, memory_mb, host, pool)
    SELECT lane, tenant_id, queue, CASE class WHEN 0 THEN 0 WHEN 1 THEN 5 ELSE 7 END, '', 0, 0, '', pool FROM lanes;
DROP TABLE lanes;
ALTER TABLE lanes_by_need RENAME TO lanes;

ALTER TABLE tasks ADD COLUMN aside TEXT; -- the host for whose sake it was put aside; NULL: it was not
ALTER TABLE tasks ADD COLUMN recalled INTEGER NOT NULL DEFAULT 0; -- a user is about to change it

-- Tasks that are not final move to the lane of their priority and needs. Leased ones (pools 1 and 3) have no needs. Tasks that are not
-- claimed ahead (AT_MOST_ONCE, or with a concurrency key) get lanes apart: pool 5, and 6 for suspects. Of a final task only the queue is
-- read from its lane. A damaged row stays where it is. Lanes are numbered without gaps.
CREATE TEMP TABLE moving AS
    SELECT t.rid, l.tenant_id, l.queue, t.priority, iif(t.late AND l.pool IN (0, 2), iif(l.pool = 0, 5, 6), l.pool) AS pool,
        iif(l.pool IN (1, 3), '', coalesce(json_extract(t.needs, '$.requires'), '')) AS requires,
        iif(l.pool IN (1, 3), 0, coalesce(json_extract(t.needs, '$.cpu_milli'), 0)) AS cpu_milli,
        iif(l.pool IN (1, 3), 0, coalesce(json_extract(t.needs, '$.memory_mb'), 0)) AS memory_mb
    FROM (SELECT *, delivery = 1 OR iif(json_valid(gates), json_extract(gates, '$.concurrency_key') IS NOT NULL, 0) AS late
          FROM tasks WHERE state <= 3 AND priority BETWEEN 0 AND 9 AND (needs IS NULL OR json_valid(needs))) AS t
        CROSS JOIN lanes AS l ON l.lane = t.lane
    WHERE t.priority <> l.priority OR (t.needs IS NOT NULL AND l.pool NOT IN (1, 3)) OR (t.late AND l.pool IN (0, 2));
INSERT INTO lanes (lane, tenant_id, queue, priority, requires, cpu_milli, memory_mb, host, pool)
    SELECT (SELECT max(lane) FROM lanes) + row_number() OVER (ORDER BY tenant_id, queue, priority, requires, cpu_milli, memory_mb, pool),
        tenant_id, queue, priority, requires, cpu_milli, memory_mb, '', pool
    FROM (SELECT DISTINCT tenant_id, queue, priority, requires, cpu_milli, memory_mb, pool FROM moving) AS m
    WHERE NOT EXISTS (SELECT 1 FROM lanes AS l
                      WHERE l.tenant_id = m.tenant_id AND l.queue = m.queue AND l.priority = m.priority AND l.requires = m.requires
                          AND l.cpu_milli = m.cpu_milli AND l.memory_mb = m.memory_mb AND l.host = '' AND l.pool = m.pool);
UPDATE tasks SET lane = l.lane
    FROM temp.moving AS m JOIN lanes AS l
        ON l.tenant_id = m.tenant_id AND l.queue = m.queue AND l.priority = m.priority AND l.requires = m.requires
            AND l.cpu_milli = m.cpu_milli AND l.memory_mb = m.memory_mb AND l.host = '' AND l.pool = m.pool
    WHERE tasks.rid = m.rid;
DROP TABLE temp.moving;

-- Claims look for earlier occurrences of a recurring task.
DROP INDEX tasks_spawned;
CREATE INDEX tasks_spawned ON tasks (parent_id, due_ms) WHERE parent_id IS NOT NULL AND state < 3;
