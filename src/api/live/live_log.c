#include "api/live/live_log.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

void live_log_init(struct live_log *l)
{
    *l = (struct live_log){ 0 };
    list_init(&l->events);
}

void live_part_init(struct live_part *p)
{
    *p = (struct live_part){ 0 };
    list_init(&p->events);
}

static struct live_event *live_event_of(struct list *of_tenant)
{
    return container_of(of_tenant, struct live_event, of_tenant);
}

static void live_log_remove(struct live_log *l, struct live_event *e)
{
    assert(e->number == e->part->before + 1);
    e->part->before = e->number;
    e->part->n--;
    l->n--;
    list_remove(&e->link);
    list_remove(&e->of_tenant);
    free(e);
}

void live_log_add(struct live_log *l, struct live_part *p, const struct live_event *e)
{
    struct live_event *copy = xmalloc(sizeof *copy + str_pack_size(e->queue) + str_pack_size(e->text));
    char *at = (char *)(copy + 1);
    *copy = *e;
    copy->queue = str_pack(e->queue, &at);
    copy->text = str_pack(e->text, &at);
    copy->part = p;
    copy->number = ++p->last;
    list_push(&l->events, &copy->link);
    list_push(&p->events, &copy->of_tenant);
    l->n++;
    p->n++;
    if (p->n > LIVE_LOG_TENANT)
        live_log_remove(l, live_event_of(p->events.next));
    if (l->n > LIVE_LOG_MAX)
        live_log_remove(l, container_of(l->events.next, struct live_event, link));
}

void live_log_drop(struct live_log *l, struct live_part *p)
{
    while (!list_empty(&p->events))
        live_log_remove(l, live_event_of(p->events.next));
    p->before = ++p->last;
}

bool live_part_has_since(const struct live_part *p, uint64_t number)
{
    return number >= p->before && number <= p->last;
}

const struct live_event *live_part_since(const struct live_part *p, uint64_t number)
{
    struct list *at = p->events.prev; /* readers are near the end */
    const struct live_event *first = NULL;
    for (; at != &p->events && live_event_of(at)->number > number; at = at->prev)
        first = live_event_of(at);
    return first;
}

const struct live_event *live_part_next(const struct live_part *p, const struct live_event *e)
{
    return e->of_tenant.next == &p->events ? NULL : live_event_of(e->of_tenant.next);
}
