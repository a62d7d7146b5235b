-- What runs elsewhere is its node's again: found as what a dead node left behind.
DROP TABLE workers;
DROP TABLE task_leases;
DROP INDEX claims_hold;
ALTER TABLE claims DROP COLUMN hold;
INSERT INTO lanes (tenant_id, queue, class, pool) SELECT DISTINCT tenant_id, queue, class, 1 FROM lanes WHERE pool > 2
    ON CONFLICT (tenant_id, queue, class, pool) DO NOTHING;
UPDATE tasks AS t SET lane = n.lane FROM lanes AS l JOIN lanes AS n USING (tenant_id, queue, class)
    WHERE l.lane = t.lane AND l.pool > 2 AND n.pool = 1;
ALTER TABLE tasks DROP COLUMN needs;
