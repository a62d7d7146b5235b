/* The catalogue: the stream in which workers read which routes exist. A publisher adds a route before it pushes the
 * first task of it. */
#include "queue/amqp/internal.h"

#define RECORD_ROUTE "route"

void catalogue_on_record(struct queue_hub *hub, const struct rabbit_message *m)
{
    struct route_facts facts = { 0 };
    struct error e = { 0 };
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 1 << 20);
    uint64_t epoch;
    if (epoch_is(m, &epoch)) {
        epoch_on_record(hub, epoch);
    } else if (strcmp(m->type, RECORD_ROUTE) == 0 && route_read_facts(buf_str(&m->body), &a, &facts, &e) == ERR_OK) {
        struct route *r = routes_get(&hub->routes, hub, &facts);
        r->catalogued = true;
        r->found_ms = r->found_ms ? r->found_ms : rabbit_now_ms();
        hub->has_news = true;
    }
}

/* Whether this process has read the route from the catalogue. *ret_new: its queue may have been created just now, by
 * this or another process. */
static bool catalogue_has(struct queue_hub *hub, const struct route *r, bool *ret_new)
{
    hub_lock(hub);
    const struct route *read = map_get(&hub->routes.by_text, r->text);
    bool is = hub->link.state && read && read->catalogued;
    *ret_new = !read || !read->found_ms || rabbit_now_ms() - read->found_ms < NEW_QUEUE_MS;
    hub_unlock(hub);
    return is;
}

enum err catalogue_write(struct queue_hub *hub, const char *type, struct str body, struct error *e)
{
    rabbit_publish_begin(&hub->push);
    const struct rabbit_envelope message = {
        .key = str_from(hub->routes_name), .body = body, .type = type, .mandatory = true
    };
    return rabbit_publish(&hub->push, &message, e) || rabbit_publish_end(&hub->push, e) ? e->code : ERR_OK;
}

enum err catalogue_add(struct queue_hub *hub, struct route *r, struct error *e)
{
    if (r->declared_generation == hub->push.generation)
        return ERR_OK;
    if (rabbit_declare(&hub->push, CHANNEL_CALLS, r->name, RABBIT_TASKS, NULL, e) ||
        rabbit_declare(&hub->push, CHANNEL_CALLS, r->wakeup, RABBIT_WAKEUP, NULL, e))
        return e->code;
    bool is_new;
    if (!catalogue_has(hub, r, &is_new) && catalogue_write(hub, RECORD_ROUTE, r->text, e))
        return error_wrap(e, "catalogue '%s'", r->name);
    if (new_queue_guard_route(hub, r, is_new, e))
        return e->code;
    r->declared_generation = hub->push.generation;
    return ERR_OK;
}
