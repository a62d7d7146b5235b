-- Who did what: src/port/store/audit.h.
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
    count INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE audit_purge (running INTEGER NOT NULL); -- has a row only within a transaction that purges audit rows

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

-- Of a database on which the migration before was applied without them.
CREATE INDEX IF NOT EXISTS tasks_expiring ON tasks (scheduled_ms + expires_after_ms, id) WHERE expires_after_ms > 0 AND (state = 0 OR waits_for IS NOT NULL) AND kind <> 1 AND NOT deleted AND links & 288 = 0;
CREATE INDEX IF NOT EXISTS tasks_with_expiry ON tasks (id) WHERE expires_after_ms > 0 AND state < 4;
