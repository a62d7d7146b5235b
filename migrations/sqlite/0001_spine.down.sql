-- Takes everything with it: this is the first.
DROP TABLE leases;
DROP TABLE api_keys;
DROP TABLE idempotency;
DROP TABLE executions;
DROP TABLE claims;
DROP TABLE counts;
DROP TABLE tasks;
DROP TABLE lanes;
