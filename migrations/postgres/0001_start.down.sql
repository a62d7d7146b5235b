DROP TABLE cluster, wishes, places, shares, nodes, ended, catalog, dedupe, slots, leases, api_keys, idempotency, executions, claims, counts, tasks, lanes;
