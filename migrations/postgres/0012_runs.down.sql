-- Runs and their steps cannot go on without these tables: what is not final becomes CANCELLED.
INSERT INTO counts (tenant_id, state, shard, n)
    SELECT t.tenant_id, s.state, 0, CASE s.state WHEN 6 THEN count(*) ELSE -count(*) FILTER (WHERE t.state = s.state) END
    FROM tasks AS t CROSS JOIN (VALUES (0), (1), (2), (3), (6)) AS s(state)
    WHERE (t.run_id IS NOT NULL OR t.target = 4) AND t.kind <> 1 AND t.state < 4 AND NOT t.deleted GROUP BY t.tenant_id, s.state
    ON CONFLICT (tenant_id, state, shard) DO UPDATE SET n = counts.n + excluded.n;
UPDATE tasks SET state = 6 WHERE (run_id IS NOT NULL OR target = 4) AND kind <> 1 AND state < 4;
UPDATE tasks SET links = links & 15 WHERE links > 15;
DROP TABLE signals;
DROP TABLE outputs;
DROP TABLE workflows;
DROP TABLE definitions;
DROP TABLE runs;
ALTER TABLE edges DROP COLUMN old;
ALTER TABLE joins DROP COLUMN max_broken;
DROP INDEX tasks_unopened, tasks_runs;
ALTER TABLE tasks DROP COLUMN queue;
ALTER TABLE tasks DROP COLUMN place;
ALTER TABLE tasks DROP COLUMN run_id;
