-- The figures of each minute, by node and tenant: src/port/store/stats.h.
CREATE TABLE stats (
    minute_ms INTEGER NOT NULL,
    node_id BLOB NOT NULL, -- all bits set: several nodes
    tenant_id INTEGER NOT NULL, -- 0: all tenants together; 2147483647: tenants without rows of their own
    grain INTEGER NOT NULL, -- enum stats_grain
    written INTEGER NOT NULL,
    created INTEGER NOT NULL, -- tasks accepted
    executed INTEGER NOT NULL, -- attempts that ended
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL, -- tasks that ended in failure
    retried INTEGER NOT NULL,
    lost INTEGER NOT NULL, -- attempts that were lost with their process
    skipped INTEGER NOT NULL, -- occurrences that were skipped
    expired INTEGER NOT NULL,
    faults INTEGER NOT NULL, -- attempts that failed or were lost
    belfry_faults INTEGER NOT NULL, -- those by a fault of Belfry
    delay_0 INTEGER NOT NULL, -- buckets of the start delay: stats_bounds_us in src/base/stats/stats.c
    delay_1 INTEGER NOT NULL,
    delay_2 INTEGER NOT NULL,
    delay_3 INTEGER NOT NULL,
    delay_4 INTEGER NOT NULL,
    delay_5 INTEGER NOT NULL,
    delay_6 INTEGER NOT NULL,
    delay_7 INTEGER NOT NULL,
    delay_8 INTEGER NOT NULL,
    delay_us INTEGER NOT NULL,
    run_0 INTEGER NOT NULL, -- buckets of how long attempts took
    run_1 INTEGER NOT NULL,
    run_2 INTEGER NOT NULL,
    run_3 INTEGER NOT NULL,
    run_4 INTEGER NOT NULL,
    run_5 INTEGER NOT NULL,
    run_6 INTEGER NOT NULL,
    run_7 INTEGER NOT NULL,
    run_8 INTEGER NOT NULL,
    run_us INTEGER NOT NULL,
    claimed INTEGER NOT NULL,
    claim_failures INTEGER NOT NULL,
    requests INTEGER NOT NULL, -- to the API
    request_errors INTEGER NOT NULL,
    store_wait_0 INTEGER NOT NULL, -- buckets of the wait for a transaction
    store_wait_1 INTEGER NOT NULL,
    store_wait_2 INTEGER NOT NULL,
    store_wait_3 INTEGER NOT NULL,
    store_wait_4 INTEGER NOT NULL,
    store_wait_5 INTEGER NOT NULL,
    store_wait_6 INTEGER NOT NULL,
    store_wait_7 INTEGER NOT NULL,
    store_wait_8 INTEGER NOT NULL,
    backlog INTEGER NOT NULL, -- due tasks that wait
    oldest_wait_ms INTEGER NOT NULL,
    low_wait_ms INTEGER NOT NULL,
    busy_milli INTEGER NOT NULL, -- thousandths of the worker slots in use
    skew_ms INTEGER NOT NULL, -- by how much a node's clock is surely wrong
    PRIMARY KEY (tenant_id, minute_ms, grain, node_id)
) WITHOUT ROWID;
CREATE INDEX stats_grain ON stats (grain, minute_ms, tenant_id, node_id);
