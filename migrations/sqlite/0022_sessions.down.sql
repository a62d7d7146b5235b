-- Made again: SQLite drops no column of a schema with the views of 0014. Without its parent, a session would be a key.
CREATE TABLE api_keys_kept AS SELECT * FROM api_keys WHERE parent IS NULL;
DROP TABLE api_keys;
CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    hash BLOB NOT NULL,
    name TEXT,
    scopes TEXT,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id);
INSERT INTO api_keys SELECT id, tenant_id, hash, name, scopes, created_ms, expires_ms FROM api_keys_kept;
DROP TABLE api_keys_kept;
