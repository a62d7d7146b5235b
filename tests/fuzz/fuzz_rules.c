/* The documents of queues, tenants and calendars, which users write. An accepted document is written so that it reads
 * back the same, and writing it again gives the same text. */
#include <stdlib.h>

#include "core/sharing/queue_rules.h"
#include "core/sharing/tenant_rules.h"
#include "core/time/calendar_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

union rules {
    struct queue_rules queue;
    struct tenant_rules tenant;
    struct calendar_doc calendar;
};

struct kind {
    enum err (*read)(struct str, struct arena *, union rules *, struct error *);
    void (*write)(struct jw *, const union rules *);
};

static enum err read_queue(struct str text, struct arena *a, union rules *ret, struct error *e)
{
    return queue_rules_read(text, a, &ret->queue, e);
}

static enum err read_tenant(struct str text, struct arena *a, union rules *ret, struct error *e)
{
    return tenant_rules_read(text, a, &ret->tenant, e);
}

static enum err read_calendar(struct str text, struct arena *a, union rules *ret, struct error *e)
{
    return calendar_doc_read(text, a, &ret->calendar, e);
}

static void write_queue(struct jw *w, const union rules *r)
{
    require(r->queue.weight >= 1 && r->queue.rate >= 0 && (r->queue.rate <= 0 || r->queue.burst >= 1));
    queue_rules_write(w, &r->queue);
}

static void write_tenant(struct jw *w, const union rules *r)
{
    require(r->tenant.number >= 1 && r->tenant.name.n > 0);
    tenant_rules_write(w, &r->tenant);
}

static void write_calendar(struct jw *w, const union rules *r)
{
    for (size_t i = 1; i < r->calendar.excluded_count; i++)
        require(r->calendar.excluded[i - 1].day < r->calendar.excluded[i].day);
    calendar_doc_write(w, &r->calendar);
}

static const struct kind kinds[] = {
    { read_queue, write_queue },
    { read_tenant, write_tenant },
    { read_calendar, write_calendar },
};

static void write_object(const struct kind *k, const union rules *r, struct buf *out)
{
    struct jw w;
    buf_init(out, 8 << 20);
    jw_init(&w, out);
    jw_object(&w);
    k->write(&w, r);
    jw_object_end(&w);
}

static void try_kind(const struct kind *k, struct str text)
{
    union rules r, again;
    struct error e = { 0 };
    cleanup_with(buf_release) struct buf first = { 0 }, second = { 0 };
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 16 << 20);
    if (k->read(text, &a, &r, &e)) {
        require(e.text[0]);
        return;
    }
    write_object(k, &r, &first);
    require(!first.full && k->read(buf_str(&first), &a, &again, &e) == ERR_OK);
    write_object(k, &again, &second);
    require(str_eq(buf_str(&first), buf_str(&second)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < array_count(kinds); i++)
        try_kind(&kinds[i], (struct str){ (const char *)data, size });
    return 0;
}
