-- readers from 1
-- What others run: workers of a fleet, and those who lease tasks. See src/port/store.h.

-- Lanes of what is never claimed (WORKFLOW) are pool 4 now, so that pool 1 is what is leased (WORKER), and pool 3 its suspects.
INSERT INTO lanes (tenant_id, queue, class, pool)
    SELECT DISTINCT l.tenant_id, l.queue, l.class, CASE WHEN t.target = 4 THEN 4 ELSE 3 END
    FROM lanes AS l JOIN tasks AS t ON t.lane = l.lane
    WHERE l.pool = 1 AND (t.target = 4 OR t.losses >= 2)
    ON CONFLICT (tenant_id, queue, class, pool) DO NOTHING;
UPDATE tasks AS t SET lane = n.lane FROM lanes AS l JOIN lanes AS n USING (tenant_id, queue, class)
    WHERE l.lane = t.lane AND l.pool = 1 AND (t.target = 4 OR t.losses >= 2)
        AND n.pool = CASE WHEN t.target = 4 THEN 4 ELSE 3 END;

-- Under which terms a task is leased. A row whose task is not RUNNING under that fence is over.
CREATE TABLE task_leases (
    tenant_id integer NOT NULL,
    task_id uuid PRIMARY KEY,
    queue text COLLATE "C", -- from which it was taken
    fence bigint NOT NULL,
    until_ms bigint NOT NULL,
    worker text,
    progress text -- JSON
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX task_leases_until ON task_leases (until_ms, task_id);
CREATE INDEX task_leases_queue ON task_leases (tenant_id, queue);

-- Workers of a fleet, as they were last heard of.
CREATE TABLE workers (
    id uuid PRIMARY KEY,
    name text,
    version text,
    slots bigint NOT NULL,
    running bigint NOT NULL,
    joined_ms bigint NOT NULL,
    seen_ms bigint NOT NULL,
    left_ms bigint NOT NULL, -- 0: it did not say that it goes
    doc text
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);

-- Last, because these two keep others out until the step is done.
-- Who sees to a claim's tasks: 0 its node, 1 a queue, 2 who leased them (src/store/common/claim_hold.h).
ALTER TABLE claims ADD COLUMN hold smallint NOT NULL DEFAULT 0;
CREATE INDEX claims_hold ON claims (hold, node) WHERE hold > 0;
ALTER TABLE tasks ADD COLUMN needs text; -- JSON: labels and room that it needs of a worker; NULL: nothing in particular
