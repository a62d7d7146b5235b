-- readers from 4
-- The moment that the user of a task waits for, if that is not due_ms (0: it is), and what put it off: enum late_cause in src/core/task/late.h.
ALTER TABLE tasks ADD COLUMN awaited_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN late_by smallint NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN late_by smallint NOT NULL DEFAULT 0;
-- Months that are over and not archived yet are tables of their own. A statement ends where a line ends with a semicolon.
DO $$ DECLARE month text; BEGIN
    FOR month IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^executions_[0-9]{4}_[0-9]{2}_over$'
        AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'executions'::regclass)
    LOOP EXECUTE format('ALTER TABLE %I ADD COLUMN IF NOT EXISTS late_by smallint NOT NULL DEFAULT 0', month); END LOOP
; END $$;
-- A WORKER task used to get the default of timeout_ms, which had no effect. Now it has one, and the default is no limit (0).
UPDATE tasks SET timeout_ms = 0 WHERE target = 3 AND timeout_ms = 30000;
