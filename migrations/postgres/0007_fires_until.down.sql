ALTER TABLE nodes DROP COLUMN fires_until_ms;
