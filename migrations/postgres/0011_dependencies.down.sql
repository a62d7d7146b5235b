DROP VIEW belfry_dependencies;
DROP TABLE arrivals;
DROP TABLE joins;
DROP TABLE edges;
-- A task that waits for others would wait for ever: it becomes PAUSED.
INSERT INTO counts (tenant_id, state, shard, n)
    SELECT t.tenant_id, s.state, 0, CASE s.state WHEN 2 THEN count(*) ELSE -count(*) END FROM tasks AS t CROSS JOIN (VALUES (1), (2)) AS s(state)
    WHERE t.state = 1 AND t.links & 4 <> 0 AND NOT t.deleted GROUP BY t.tenant_id, s.state
    ON CONFLICT (tenant_id, state, shard) DO UPDATE SET n = counts.n + excluded.n;
UPDATE tasks SET state = 2 WHERE state = 1 AND links & 4 <> 0;
ALTER TABLE tasks DROP COLUMN links;
