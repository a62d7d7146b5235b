-- readers from 4
-- Who did what: src/port/store/audit.h.
CREATE TABLE audit (
    id uuid PRIMARY KEY, -- begins with the time
    tenant_id integer NOT NULL, -- of the actor
    strand uuid NOT NULL, -- the writer: a new one each time the store is opened
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    actor text COLLATE "C",
    address text COLLATE "C",
    action text COLLATE "C" NOT NULL,
    kind text COLLATE "C", -- of the object
    object text COLLATE "C",
    digest bytea NOT NULL, -- SHA-256 of the request's body
    outcome integer NOT NULL, -- enum audit_outcome
    count bigint NOT NULL
);

CREATE FUNCTION belfry_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'DELETE' AND current_setting('belfry.audit_purge', true) = 'on' THEN RETURN OLD; END IF
    ; RAISE EXCEPTION 'audit rows cannot be changed or deleted: they go with time, see retention.audit'
    ; END $$;
CREATE TRIGGER audit_change BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION belfry_audit_refuse();
CREATE TRIGGER audit_truncate BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION belfry_audit_refuse();

-- Of a database on which the migration before was applied without them.
CREATE INDEX IF NOT EXISTS tasks_expiring ON tasks ((scheduled_ms + expires_after_ms), id) WHERE expires_after_ms > 0 AND (state = 0 OR waits_for IS NOT NULL) AND kind <> 1 AND NOT deleted AND links & 288 = 0;
CREATE INDEX IF NOT EXISTS tasks_with_expiry ON tasks (id) WHERE expires_after_ms > 0 AND state < 4;
