/* Messages from a queue or a topic: other programs may write anything there. A message that is read must be written so
 * that it reads back the same. */
#include <stdlib.h>

#include "core/target/message.h"
#include "port/event_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void try_task(struct arena *a, struct buf *once, struct buf *twice, struct str text)
{
    struct task t;
    struct str tenant;
    struct jw w;
    struct error e = { 0 };
    if (message_read_task(a, text, &t, &tenant, &e)) {
        require(e.text[0] && (e.code == ERR_CORRUPT || e.code == ERR_LIMIT));
        return;
    }
    require(t.fence > 0 && t.state == TASK_RUNNING && t.priority >= PRIORITY_MIN && t.priority <= PRIORITY_MAX);
    jw_init(&w, once);
    message_write_task(&w, &t, tenant, t.signing);
    require(message_read_task(a, buf_str(once), &t, &tenant, &e) == ERR_OK);
    jw_init(&w, twice);
    message_write_task(&w, &t, tenant, t.signing);
    require(str_eq(buf_str(once), buf_str(twice)));
}

static void try_event(struct arena *a, struct buf *once, struct buf *twice, struct str text)
{
    struct event ev;
    struct jw w;
    struct error e = { 0 };
    if (event_read(a, text, &ev, &e)) {
        require(e.text[0] && (e.code == ERR_CORRUPT || e.code == ERR_LIMIT));
        return;
    }
    require(ev.kind == EVENT_WORKER || (ev.task.fence > 0 && ev.task.place.n <= PLACE_MAX));
    jw_init(&w, once);
    event_write(&w, &ev);
    require(event_read(a, buf_str(once), &ev, &e) == ERR_OK);
    jw_init(&w, twice);
    event_write(&w, &ev);
    require(str_eq(buf_str(once), buf_str(twice)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(struct arena *, struct buf *, struct buf *, struct str) = { try_task, try_event };
    for (size_t i = 0; i < array_count(tries); i++) {
        struct arena a;
        struct buf once, twice;
        arena_init(&a, 16 << 20);
        buf_init(&once, 16 << 20);
        buf_init(&twice, 16 << 20);
        tries[i](&a, &once, &twice, (struct str){ (const char *)data, size });
        arena_release(&a);
        buf_release(&once);
        buf_release(&twice);
    }
    return 0;
}
