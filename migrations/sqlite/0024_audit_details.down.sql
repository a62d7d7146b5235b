-- Made again: SQLite drops no column of a schema with the views of 0014.
CREATE TABLE audit_kept AS SELECT id, tenant_id, strand, seq, at_ms, actor, address, action, kind, object, digest, outcome, count, actor_name, object_name FROM audit;
DROP TABLE audit;
CREATE TABLE audit (
    id BLOB PRIMARY KEY, -- begins with the time
    tenant_id INTEGER NOT NULL, -- of the actor
    strand BLOB NOT NULL, -- the writer: a new one each time the store is opened
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    actor TEXT,
    address TEXT,
    action TEXT NOT NULL,
    kind TEXT, -- of the object
    object TEXT,
    digest BLOB NOT NULL, -- SHA-256 of the request's body
    outcome INTEGER NOT NULL, -- enum audit_outcome
    count INTEGER NOT NULL,
    actor_name TEXT,
    object_name TEXT
) WITHOUT ROWID;
INSERT INTO audit SELECT id, tenant_id, strand, seq, at_ms, actor, address, action, kind, object, digest, outcome, count, actor_name, object_name FROM audit_kept;
DROP TABLE audit_kept;
CREATE TRIGGER audit_update BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows cannot be changed');
END;
-- INSERT OR REPLACE deletes a row without asking the trigger below.
CREATE TRIGGER audit_insert BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
BEGIN
    SELECT RAISE(IGNORE);
END;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit WHEN NOT EXISTS (SELECT 1 FROM audit_purge)
BEGIN
    SELECT RAISE(ABORT, 'audit rows cannot be deleted; they go with time, see retention.audit');
END;
