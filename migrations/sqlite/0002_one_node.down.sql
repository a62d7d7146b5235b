-- What waits for a slot waits for its time again: without slots nothing holds it back. The rest of what is dropped here is lost.
INSERT INTO counts (tenant_id, state, n)
SELECT tenant_id, 0, count(*) FROM tasks WHERE waits_for IS NOT NULL AND state = 1 AND NOT deleted GROUP BY tenant_id
ON CONFLICT (tenant_id, state) DO UPDATE SET n = n + excluded.n;
UPDATE counts SET n = n - (SELECT count(*) FROM tasks AS t
                           WHERE t.waits_for IS NOT NULL AND t.state = 1 AND NOT t.deleted
                               AND t.tenant_id = counts.tenant_id)
WHERE state = 1;
UPDATE tasks SET state = 0 WHERE waits_for IS NOT NULL AND state = 1;

-- Suspects go back to the lanes of all; where there is none, theirs becomes one. A lane that is left empty stays: numbers have no gaps.
UPDATE lanes SET pool = 0
WHERE pool = 2 AND NOT EXISTS (SELECT 1 FROM lanes AS l WHERE l.tenant_id = lanes.tenant_id AND l.queue = lanes.queue
                                                         AND l.class = lanes.class AND l.pool = 0);
UPDATE tasks SET lane = (SELECT l.lane FROM lanes AS s JOIN lanes AS l USING (tenant_id, queue, class)
                         WHERE s.lane = tasks.lane AND l.pool = 0)
WHERE lane IN (SELECT lane FROM lanes WHERE pool = 2);
DROP TABLE ended;
DROP INDEX api_keys_tenant;
DROP TABLE catalog;
DROP TABLE dedupe;
DROP TABLE slots;
DROP INDEX tasks_failed_at;
DROP INDEX tasks_cause;
DROP INDEX tasks_waiting;
DROP INDEX tasks_failed;
CREATE INDEX tasks_failed ON tasks (tenant_id, id) WHERE state = 5;
DROP INDEX tasks_calendar;
ALTER TABLE tasks DROP COLUMN calendar;
ALTER TABLE tasks DROP COLUMN failed_ms;
ALTER TABLE tasks DROP COLUMN resolution;
ALTER TABLE tasks DROP COLUMN resolved_ms;
ALTER TABLE tasks DROP COLUMN cause;
ALTER TABLE tasks DROP COLUMN waits_for;
ALTER TABLE tasks DROP COLUMN gates;
