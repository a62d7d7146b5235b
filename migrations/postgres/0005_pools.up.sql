-- readers from 4
-- Which tasks a worker can run (struct worker_kind in src/core/sharing/pools.h). A worker that reported itself before may run any.
ALTER TABLE workers
    ADD COLUMN queues text COLLATE "C", -- names, sorted, separated by commas; NULL: all
    ADD COLUMN tenants text COLLATE "C",
    ADD COLUMN labels text COLLATE "C" DEFAULT '*', -- NULL: none; *: not known
    ADD COLUMN priority_min integer NOT NULL DEFAULT 0,
    ADD COLUMN priority_max integer NOT NULL DEFAULT 9,
    ADD COLUMN cpu_milli bigint NOT NULL DEFAULT -1, -- -1: no limit
    ADD COLUMN memory_mb bigint NOT NULL DEFAULT -1;
