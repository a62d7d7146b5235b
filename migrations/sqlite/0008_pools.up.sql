-- Which tasks a worker can run (struct worker_kind in src/core/sharing/pools.h). A worker that reported itself before may run any.
ALTER TABLE workers ADD COLUMN queues TEXT; -- names, sorted, separated by commas; NULL: all
ALTER TABLE workers ADD COLUMN tenants TEXT;
ALTER TABLE workers ADD COLUMN labels TEXT DEFAULT '*'; -- NULL: none; *: not known
ALTER TABLE workers ADD COLUMN priority_min INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN priority_max INTEGER NOT NULL DEFAULT 9;
ALTER TABLE workers ADD COLUMN cpu_milli INTEGER NOT NULL DEFAULT -1; -- -1: no limit
ALTER TABLE workers ADD COLUMN memory_mb INTEGER NOT NULL DEFAULT -1;
