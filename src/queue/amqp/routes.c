/* Routes: which task queue at the broker a task goes to, and which workers serve it. The name of a route ends in a
 * hash of its facts. */
#include <stdio.h>
#include <stdlib.h>

#include "core/task/wire.h"
#include "platform/clock_system.h"
#include "queue/amqp/internal.h"

enum { NAME_QUEUE_MAX = 64 };

#define AT(member) WIRE_AT(struct route_facts, member)
static const struct wire_field route_fields[] = {
    { "tenant", WIRE_TEXT, AT(tenant) },
    { "queue", WIRE_TEXT, AT(queue), .always = true },
    { "priority_min", WIRE_INT, AT(priority_min), WIRE_BETWEEN(PRIORITY_MIN, PRIORITY_MAX), .always = true },
    { "priority_max", WIRE_INT, AT(priority_max), WIRE_BETWEEN(PRIORITY_MIN, PRIORITY_MAX), .always = true },
    { "requires", WIRE_TEXT, AT(requires) },
    { "cpu_milli", WIRE_I64, AT(cpu_milli), WIRE_BETWEEN(0, WIRE_MS_MAX) },
    { "memory_mb", WIRE_I64, AT(memory_mb), WIRE_BETWEEN(0, WIRE_MS_MAX) },
    { "suspect", WIRE_BOOL, AT(suspect) },
};
#undef AT

void routes_init(struct route_set *s)
{
    *s = (struct route_set){ 0 };
    map_init(&s->by_text, HASH_STABLE);
}

void routes_release(struct route_set *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->v[i]);
    free(s->v);
    map_release(&s->by_text);
}

static void route_write_facts(struct buf *to, const struct route_facts *facts)
{
    struct jw w;
    jw_init(&w, to);
    wire_write(&w, route_fields, array_count(route_fields), facts);
}

enum err route_read_facts(struct str text, struct arena *a, struct route_facts *ret, struct error *e)
{
    return wire_read(a, text, route_fields, array_count(route_fields), ret, e);
}

static const char *route_class_name(const struct route_facts *r, char out[8])
{
    if (r->priority_min != r->priority_max)
        return priority_class_names[priority_class_of(r->priority_min)];
    snprintf(out, 8, "%d", r->priority_min);
    return out;
}

static struct route *route_new(const struct queue_hub *hub, const struct route_facts *facts, struct str text)
{
    char class_text[8];
    struct str queue = str_utf8_cut(facts->queue, NAME_QUEUE_MAX);
    struct route *r = xcalloc(1, sizeof *r + text.n + str_pack_size(facts->tenant) + str_pack_size(facts->queue) +
                                     str_pack_size(facts->requires) + 1);
    char *at = (char *)(r + 1);
    r->facts = *facts;
    r->facts.tenant = str_pack(facts->tenant, &at);
    r->facts.queue = str_pack(facts->queue, &at);
    r->facts.requires = str_pack(facts->requires, &at);
    r->text = str_pack(text, &at);
    rabbit_name(&hub->url, r->name, "tasks.%s." STR_FMT ".%016llx", route_class_name(facts, class_text), STR_ARG(queue),
                (unsigned long long)hash_bytes(HASH_STABLE, text));
    snprintf(r->wakeup, sizeof r->wakeup, "%.*s.bell", RABBIT_NAME - 6, r->name);
    return r;
}

struct route *routes_get(struct route_set *s, struct queue_hub *hub, const struct route_facts *facts)
{
    char memory[2048];
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, sizeof memory + facts->queue.n * 6 + facts->tenant.n * 6 + facts->requires.n * 6);
    route_write_facts(&text, facts);
    struct route *r = map_get(&s->by_text, buf_str(&text));
    if (r)
        return r;
    r = route_new(hub, facts, buf_str(&text));
    if (s->n == s->cap) {
        s->cap = s->cap * 2 + 16;
        s->v = xrealloc(s->v, s->cap * sizeof(struct route *));
    }
    r->number = s->n;
    s->v[s->n++] = r;
    map_put(&s->by_text, r->text, r);
    return r;
}

struct route_facts route_of(const struct queue_hub *hub, const struct task *t, struct str tenant)
{
    static const int first[] = { [CLASS_LOW] = PRIORITY_MIN, [CLASS_NORMAL] = 4, [CLASS_HIGH] = 7 };
    static const int last[] = { [CLASS_LOW] = 3, [CLASS_NORMAL] = 6, [CLASS_HIGH] = PRIORITY_MAX };
    enum priority_class class_ = priority_class_of(t->priority);
    bool exact = hub->url.exact_priorities;
    return (struct route_facts){ .tenant = rabbit_url_separates_tenant(&hub->url, tenant) ? tenant : S(""),
                                 .queue = t->queue,
                                 .requires = t->requires,
                                 .cpu_milli = t->cpu_milli,
                                 .memory_mb = t->memory_mb,
                                 .priority_min = exact ? t->priority : first[class_],
                                 .priority_max = exact ? t->priority : last[class_],
                                 .suspect = task_is_suspect(t) };
}

/* If a route holds a whole priority class, a filter must accept all of the class or none of it. */
static enum err route_filter_splits_class(struct error *e)
{
    return error_field(
        e, "worker.priorities",
        "must be made of whole classes (0-3, 4-6, 7-9), unless the queue's address says priorities=exact");
}

enum err route_serves(const struct route_facts *r, const struct queue_filter *f, bool *ret, struct error *e)
{
    struct task like = { .queue = r->queue, .requires = r->requires, .priority = r->priority_min };
    bool lowest = queue_lets_through(f, &like, r->tenant);
    like.priority = r->priority_max;
    bool highest = queue_lets_through(f, &like, r->tenant);
    if (lowest != highest || (!lowest && f && f->priority_min > r->priority_min && f->priority_max < r->priority_max))
        return route_filter_splits_class(e);
    *ret = lowest;
    return ERR_OK;
}

enum err queue_amqp_can_filter(struct str url, const struct queue_filter *f, struct error *e)
{
    struct rabbit_url parts;
    if (rabbit_url_parse(url, &parts, e))
        return e->code;
    enum err rc = ERR_OK;
    bool low = f->priority_min == 0 || f->priority_min == 4 || f->priority_min == 7;
    bool high = f->priority_max == 3 || f->priority_max == 6 || f->priority_max == PRIORITY_MAX;
    if (!parts.exact_priorities && !(low && high))
        rc = route_filter_splits_class(e);
    for (size_t i = 0; !rc && i < f->tenant_count; i++)
        if (!rabbit_url_separates_tenant(&parts, f->tenants[i]))
            rc = error_field(e, "worker.tenants",
                             "'" STR_FMT
                             "' has no queues of its own: name it in tenants= of the queue's address, on all nodes",
                             STR_ARG(f->tenants[i]));
    rabbit_url_release(&parts);
    return rc;
}
