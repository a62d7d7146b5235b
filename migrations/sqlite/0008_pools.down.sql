ALTER TABLE workers DROP COLUMN queues;
ALTER TABLE workers DROP COLUMN tenants;
ALTER TABLE workers DROP COLUMN labels;
ALTER TABLE workers DROP COLUMN priority_min;
ALTER TABLE workers DROP COLUMN priority_max;
ALTER TABLE workers DROP COLUMN cpu_milli;
ALTER TABLE workers DROP COLUMN memory_mb;
