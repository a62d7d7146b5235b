DROP TABLE audit;
DROP FUNCTION belfry_audit_refuse();
