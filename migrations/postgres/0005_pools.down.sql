ALTER TABLE workers
    DROP COLUMN queues,
    DROP COLUMN tenants,
    DROP COLUMN labels,
    DROP COLUMN priority_min,
    DROP COLUMN priority_max,
    DROP COLUMN cpu_milli,
    DROP COLUMN memory_mb;
