ALTER TABLE api_keys ADD COLUMN parent TEXT; -- of a session or a login code: the key that it acts for (docs/SECURITY.md)
CREATE INDEX api_keys_ended ON api_keys (abs(expires_ms)) WHERE parent IS NOT NULL;
