DROP VIEW belfry_breakers;
DROP VIEW belfry_queues;
DROP VIEW belfry_executions;
DROP VIEW belfry_tasks;
DROP VIEW belfry_tenants;
DROP FUNCTION belfry_time(bigint);
