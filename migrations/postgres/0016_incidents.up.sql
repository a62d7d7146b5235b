-- readers from 4
-- What notifications are made of: src/port/store/incidents.h.
CREATE TABLE hits (
    id uuid PRIMARY KEY, -- begins with the time
    tenant_id integer NOT NULL,
    kind integer NOT NULL, -- enum hit_kind
    at_ms bigint NOT NULL,
    count bigint NOT NULL,
    cause text COLLATE "C",
    tasks text COLLATE "C" -- ids, separated by blanks
);

CREATE TABLE incident_records (
    id uuid PRIMARY KEY, -- begins with the time
    kind integer NOT NULL, -- enum record_kind
    tenant_id integer NOT NULL,
    setting_id uuid,
    incident_id uuid, -- of a message
    key text COLLATE "C" UNIQUE, -- of an incident that is open
    version bigint NOT NULL,
    next_ms bigint NOT NULL, -- 0: nothing is left to do
    doc text
);
CREATE INDEX incident_records_next ON incident_records (next_ms, id) WHERE next_ms > 0;
CREATE INDEX incident_records_tenant ON incident_records (tenant_id, kind, id);
