DROP TRIGGER audit_delete;
DROP TRIGGER audit_insert;
DROP TRIGGER audit_update;
DROP TABLE audit_purge;
DROP TABLE audit;
