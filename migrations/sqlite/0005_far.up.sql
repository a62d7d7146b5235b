-- Tasks that are due in days lie in the order in which they came, by the day they are due: a million of them at random times would each
-- touch another page of tasks_due. They come near before their day does. See src/store/sqlite/far_due.c.

ALTER TABLE tasks ADD COLUMN near INTEGER NOT NULL DEFAULT 0; -- 1: it was far and has come near
DROP INDEX tasks_due;
CREATE INDEX tasks_due ON tasks (lane, due_ms, id)
    WHERE state = 0 AND kind <> 1 AND (near OR due_ms - created_ms < 108000000);
CREATE INDEX tasks_far ON tasks (due_ms / 86400000)
    WHERE state = 0 AND kind <> 1 AND NOT near AND due_ms - created_ms >= 108000000;
