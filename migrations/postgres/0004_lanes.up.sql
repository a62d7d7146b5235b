-- Lanes by priority, needs and host (struct lane in src/core/task/task.h), where a lane was a class. Nodes of the release before cannot
-- work with this schema: they would claim from none of these lanes. So there is no `readers from` line, and all nodes stop for it.

-- A lane of a class becomes the lane of one of its priorities, without needs: most tasks stay where they are.
ALTER TABLE lanes
    ADD COLUMN priority smallint NOT NULL DEFAULT 0,
    ADD COLUMN requires text COLLATE "C" NOT NULL DEFAULT '', -- labels, sorted, separated by commas
    ADD COLUMN cpu_milli bigint NOT NULL DEFAULT 0,
    ADD COLUMN memory_mb bigint NOT NULL DEFAULT 0,
    ADD COLUMN host text COLLATE "C" NOT NULL DEFAULT ''; -- of tasks that were put aside
UPDATE lanes SET priority = CASE class WHEN 0 THEN 0 WHEN 1 THEN 5 ELSE 7 END;
ALTER TABLE lanes
    DROP COLUMN class,
    ALTER COLUMN priority DROP DEFAULT,
    ADD CONSTRAINT lanes_key UNIQUE (tenant_id, queue, priority, requires, cpu_milli, memory_mb, host, pool);

ALTER TABLE tasks
    ADD COLUMN aside text COLLATE "C", -- the host in whose lane it waits; NULL: none
    ADD COLUMN recalled boolean NOT NULL DEFAULT false; -- a user is about to change it

-- A text that is not what it should be counts as none: one row that Belfry did not write must not stop the upgrade.
CREATE FUNCTION moving_json(t text) RETURNS json LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN RETURN t::json; EXCEPTION WHEN data_exception THEN RETURN NULL; END $$;
CREATE FUNCTION moving_number(t text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN RETURN coalesce(t::bigint, 0); EXCEPTION WHEN data_exception THEN RETURN 0; END $$;

-- The other tasks move to their lanes, unless they are final: of a final task's lane only the queue's name is read. What a task asks of a
-- worker counts, except for WORKER tasks (target 3), which are leased by queue. Tasks that are not claimed ahead (AT_MOST_ONCE, or with a
-- concurrency key) get lanes apart: pool 5, and 6 for suspects.
CREATE VIEW moving AS
    SELECT t.id, l.tenant_id, l.queue, t.priority, coalesce(x.needs->>'requires', '') COLLATE "C" AS requires,
        moving_number(x.needs->>'cpu_milli') AS cpu_milli, moving_number(x.needs->>'memory_mb') AS memory_mb,
        (CASE WHEN x.late AND l.pool IN (0, 2) THEN 5 + l.pool / 2 ELSE l.pool END)::smallint AS pool
    FROM tasks AS t JOIN lanes AS l ON l.lane = t.lane
        CROSS JOIN LATERAL (SELECT CASE WHEN t.target <> 3 THEN moving_json(t.needs) END,
            t.delivery = 1 OR moving_json(t.gates)->>'concurrency_key' IS NOT NULL) AS x(needs, late)
    WHERE t.state <= 3 AND t.priority BETWEEN 0 AND 9 AND (t.priority <> l.priority OR x.needs IS NOT NULL OR (x.late AND l.pool IN (0, 2)));
INSERT INTO lanes (tenant_id, queue, priority, requires, cpu_milli, memory_mb, pool)
    SELECT DISTINCT tenant_id, queue, priority, requires, cpu_milli, memory_mb, pool FROM moving ON CONFLICT DO NOTHING;
UPDATE tasks AS t SET lane = n.lane
    FROM moving AS m JOIN lanes AS n USING (tenant_id, queue, priority, requires, cpu_milli, memory_mb, pool)
    WHERE t.id = m.id;
DROP VIEW moving;
DROP FUNCTION moving_json(text), moving_number(text);

-- Claims look for earlier occurrences of a recurring task.
DROP INDEX tasks_spawned;
CREATE INDEX tasks_spawned ON tasks (parent_id, due_ms) WHERE parent_id IS NOT NULL AND state < 3;
