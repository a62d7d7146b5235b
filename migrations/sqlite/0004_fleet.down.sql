-- What runs elsewhere is its node's again: found as what a dead node left behind.
DROP TABLE workers;
DROP TABLE task_leases;
DROP INDEX claims_hold;
ALTER TABLE claims DROP COLUMN hold;
INSERT OR IGNORE INTO lanes (tenant_id, queue, class, pool)
    SELECT DISTINCT tenant_id, queue, class, 1 FROM lanes WHERE pool > 2;
UPDATE tasks SET lane = (SELECT n.lane FROM lanes AS l JOIN lanes AS n ON n.tenant_id = l.tenant_id AND n.queue = l.queue
                         AND n.class = l.class AND n.pool = 1 WHERE l.lane = tasks.lane)
    WHERE lane IN (SELECT lane FROM lanes WHERE pool > 2);
ALTER TABLE tasks DROP COLUMN needs;
