-- readers from 4
-- The figures of each minute, by node and tenant: src/port/store/stats.h. A figure that is 0 is NULL.
CREATE TABLE stats (
    minute_ms bigint NOT NULL,
    node_id uuid NOT NULL, -- all bits set: several nodes
    tenant_id integer NOT NULL, -- 0: all tenants together; 2147483647: tenants without rows of their own
    grain integer NOT NULL, -- enum stats_grain
    written bigint NOT NULL,
    created bigint, -- tasks accepted
    executed bigint, -- attempts that ended
    completed bigint,
    failed bigint, -- tasks that ended in failure
    retried bigint,
    lost bigint, -- attempts that were lost with their process
    skipped bigint, -- occurrences that were skipped
    expired bigint,
    faults bigint, -- attempts that failed or were lost
    belfry_faults bigint, -- those by a fault of Belfry
    delay_0 bigint, -- buckets of the start delay: stats_bounds_us in src/base/stats/stats.c
    delay_1 bigint,
    delay_2 bigint,
    delay_3 bigint,
    delay_4 bigint,
    delay_5 bigint,
    delay_6 bigint,
    delay_7 bigint,
    delay_8 bigint,
    delay_us bigint,
    run_0 bigint, -- buckets of how long attempts took
    run_1 bigint,
    run_2 bigint,
    run_3 bigint,
    run_4 bigint,
    run_5 bigint,
    run_6 bigint,
    run_7 bigint,
    run_8 bigint,
    run_us bigint,
    claimed bigint,
    claim_failures bigint,
    requests bigint, -- to the API
    request_errors bigint,
    store_wait_0 bigint, -- buckets of the wait for a transaction
    store_wait_1 bigint,
    store_wait_2 bigint,
    store_wait_3 bigint,
    store_wait_4 bigint,
    store_wait_5 bigint,
    store_wait_6 bigint,
    store_wait_7 bigint,
    store_wait_8 bigint,
    backlog bigint, -- due tasks that wait
    oldest_wait_ms bigint,
    low_wait_ms bigint,
    busy_milli bigint, -- thousandths of the worker slots in use
    skew_ms bigint, -- by how much a node's clock is surely wrong
    PRIMARY KEY (tenant_id, minute_ms, grain, node_id)
);
CREATE INDEX stats_grain ON stats (grain, minute_ms, tenant_id, node_id);
