-- readers from 4
-- Circuit breakers that are not closed (struct breaker_row in src/port/store/breakers.h).
CREATE TABLE breakers (
    id uuid NOT NULL UNIQUE,
    tenant_id integer NOT NULL,
    host text COLLATE "C" NOT NULL, -- *: the tenant's own
    opened_ms bigint NOT NULL,
    until_ms bigint NOT NULL,
    calls bigint NOT NULL,
    failures bigint NOT NULL,
    reopened bigint NOT NULL,
    reason text,
    PRIMARY KEY (tenant_id, host)
);
