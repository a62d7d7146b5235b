-- What others run: workers of a fleet, and those who lease tasks. See src/port/store.h.

ALTER TABLE tasks ADD COLUMN needs TEXT; -- JSON: labels and room that it needs of a worker; NULL: nothing in particular

-- Lanes of what is never claimed (WORKFLOW) are pool 4 now, so that pool 1 is what is leased (WORKER), and pool 3 its suspects.
INSERT OR IGNORE INTO lanes (tenant_id, queue, class, pool)
    SELECT DISTINCT l.tenant_id, l.queue, l.class, CASE WHEN t.target = 4 THEN 4 ELSE 3 END
    FROM lanes AS l CROSS JOIN tasks AS t ON t.lane = l.lane
    WHERE l.pool = 1 AND (t.target = 4 OR t.losses >= 2);
UPDATE tasks SET lane = (SELECT n.lane FROM lanes AS l JOIN lanes AS n ON n.tenant_id = l.tenant_id AND n.queue = l.queue
                         AND n.class = l.class AND n.pool = CASE WHEN tasks.target = 4 THEN 4 ELSE 3 END
                         WHERE l.lane = tasks.lane)
    WHERE lane IN (SELECT lane FROM lanes WHERE pool = 1) AND (target = 4 OR losses >= 2);

-- Who sees to a claim's tasks: 0 its node, 1 a queue, 2 who leased them (src/store/common/claim_hold.h).
ALTER TABLE claims ADD COLUMN hold INTEGER NOT NULL DEFAULT 0;
CREATE INDEX claims_hold ON claims (hold, node) WHERE hold > 0;

-- Under which terms a task is leased. A row whose task is not RUNNING under that fence is over.
CREATE TABLE task_leases (
    tenant_id INTEGER NOT NULL,
    task_id BLOB NOT NULL PRIMARY KEY,
    queue TEXT, -- from which it was taken
    fence INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    worker TEXT,
    progress TEXT -- JSON
) WITHOUT ROWID;
CREATE INDEX task_leases_until ON task_leases (until_ms);
CREATE INDEX task_leases_queue ON task_leases (tenant_id, queue);

-- Workers of a fleet, as they were last heard of.
CREATE TABLE workers (
    tenant_id INTEGER NOT NULL DEFAULT 0,
    id BLOB NOT NULL PRIMARY KEY,
    name TEXT,
    version TEXT,
    slots INTEGER NOT NULL,
    running INTEGER NOT NULL,
    joined_ms INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL,
    left_ms INTEGER NOT NULL, -- 0: it did not say that it goes
    doc TEXT
) WITHOUT ROWID;
