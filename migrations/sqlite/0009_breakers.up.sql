-- Circuit breakers that are not closed (struct breaker_row in src/port/store/breakers.h).
CREATE TABLE breakers (
    id BLOB NOT NULL UNIQUE,
    tenant_id INTEGER NOT NULL,
    host TEXT NOT NULL, -- *: the tenant's own
    opened_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    reopened INTEGER NOT NULL,
    reason TEXT,
    PRIMARY KEY (tenant_id, host)
) WITHOUT ROWID;
