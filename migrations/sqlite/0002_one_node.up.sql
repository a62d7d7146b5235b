-- Conflicts, dead letters and what users set up: what one node needs besides firing. See src/port/store.h.

ALTER TABLE tasks ADD COLUMN gates TEXT;       -- JSON: concurrency key and limit, overlap, dedupe; NULL: none of them
ALTER TABLE tasks ADD COLUMN waits_for TEXT;   -- BLOCKED: the slot key
ALTER TABLE tasks ADD COLUMN cause TEXT;       -- FAILED: its fingerprint
ALTER TABLE tasks ADD COLUMN resolved_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN resolution TEXT;
ALTER TABLE tasks ADD COLUMN failed_ms INTEGER; -- FAILED: since when; else NULL
ALTER TABLE tasks ADD COLUMN calendar TEXT;    -- RECURRING: which one it goes by
UPDATE tasks SET failed_ms = completed_ms WHERE state = 5;

-- An index that says nothing of what a claim and a settle change costs them nothing: so it is failed_ms that is asked, not the state.
CREATE INDEX tasks_waiting ON tasks (waits_for, due_ms, id) WHERE waits_for IS NOT NULL; -- the line of a slot
DROP INDEX tasks_failed;
CREATE INDEX tasks_failed ON tasks (tenant_id, id) WHERE failed_ms IS NOT NULL;
-- Dead letters by their cause, with all that grouping them asks for; and FAILED tasks in the order in which they may be forgotten.
CREATE INDEX tasks_cause ON tasks (tenant_id, cause, id, failed_ms) WHERE failed_ms IS NOT NULL AND resolved_ms = 0 AND deleted = 0;
CREATE INDEX tasks_failed_at ON tasks ((resolved_ms > 0), failed_ms) WHERE failed_ms IS NOT NULL;

-- What recurs: how many a tenant has, and which of them go by a calendar.
CREATE INDEX tasks_calendar ON tasks (tenant_id, calendar, id) WHERE kind = 1 AND deleted = 0;

-- Who holds a slot; the key says whose (src/core/sharing/slot.h).
CREATE TABLE slots (
    tenant_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    task_id BLOB NOT NULL,
    PRIMARY KEY (key, task_id)
) WITHOUT ROWID;
CREATE INDEX slots_task ON slots (task_id);

CREATE TABLE dedupe (
    tenant_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    task_id BLOB NOT NULL,
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, key)
) WITHOUT ROWID;
CREATE INDEX dedupe_until ON dedupe (until_ms);

CREATE TABLE catalog (
    tenant_id INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    doc TEXT -- last, because it may be long
);
CREATE UNIQUE INDEX catalog_name ON catalog (kind, tenant_id, name);
CREATE INDEX catalog_jobs ON catalog (updated_ms) WHERE kind = 4; -- for who forgets them

CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id);

-- Tasks that became final, so that who forgets them need not step over those that wait: an index over them would cost every settle a
-- tenth of its time, and this costs it a few bytes. A row lists the rids of tasks that ended in one transaction, at one millisecond,
-- as decimal numbers with blanks between, at most 256. What a task's own row says is true. FAILED ones are not here: they have tasks_failed_at.
CREATE TABLE ended (
    tenant_id INTEGER NOT NULL DEFAULT 0,
    completed_ms INTEGER NOT NULL,
    tasks TEXT NOT NULL
);
CREATE INDEX ended_at ON ended (completed_ms);
INSERT INTO ended (completed_ms, tasks)
    SELECT completed_ms, group_concat(rid, ' ') FROM tasks WHERE state > 3 AND state <> 5 AND completed_ms > 0
    GROUP BY completed_ms, rid / 256;

-- Suspects get lanes apart, pool 2: what was lost twice or more moves there. Lanes are numbered without gaps.
INSERT INTO lanes (lane, tenant_id, queue, class, pool)
SELECT (SELECT max(lane) FROM lanes) + row_number() OVER (ORDER BY l.lane), l.tenant_id, l.queue, l.class, 2
FROM lanes AS l
WHERE l.pool = 0 AND l.lane IN (SELECT lane FROM tasks WHERE losses >= 2)
    AND NOT EXISTS (SELECT 1 FROM lanes AS s
                    WHERE s.tenant_id = l.tenant_id AND s.queue = l.queue AND s.class = l.class AND s.pool = 2);
UPDATE tasks SET lane = (SELECT s.lane FROM lanes AS l JOIN lanes AS s USING (tenant_id, queue, class)
                         WHERE l.lane = tasks.lane AND s.pool = 2)
WHERE losses >= 2 AND lane IN (SELECT lane FROM lanes WHERE pool = 0);
