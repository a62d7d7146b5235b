DELETE FROM api_keys WHERE parent IS NOT NULL; -- without its parent, a session would be a key
DROP INDEX api_keys_ended;
ALTER TABLE api_keys DROP COLUMN parent;
