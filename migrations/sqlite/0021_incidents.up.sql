-- What notifications are made of: src/port/store/incidents.h.
CREATE TABLE hits (
    id BLOB PRIMARY KEY, -- begins with the time
    tenant_id INTEGER NOT NULL,
    kind INTEGER NOT NULL, -- enum hit_kind
    at_ms INTEGER NOT NULL,
    count INTEGER NOT NULL,
    cause TEXT,
    tasks TEXT -- ids, separated by blanks
) WITHOUT ROWID;

CREATE TABLE incident_records (
    id BLOB PRIMARY KEY, -- begins with the time
    kind INTEGER NOT NULL, -- enum record_kind
    tenant_id INTEGER NOT NULL,
    setting_id BLOB,
    incident_id BLOB, -- of a message
    key TEXT UNIQUE, -- of an incident that is open
    version INTEGER NOT NULL,
    next_ms INTEGER NOT NULL, -- 0: nothing is left to do
    doc TEXT
);
CREATE INDEX incident_records_next ON incident_records (next_ms, id) WHERE next_ms > 0;
CREATE INDEX incident_records_tenant ON incident_records (tenant_id, kind, id);
