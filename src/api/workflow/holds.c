#include "api/workflow/holds.h"

#include <stdarg.h>
#include <stdio.h>

#include "api/server/internal.h"
#include "api/workflow/waits.h"
#include "base/rfc3339.h"
#include "core/flow/place.h"
#include "core/sharing/slot.h"

enum { RATE_HELD_MS = 500 }; /* a task that is due starts within less */
enum { LOOKS_MAX = 50, BELOW_MAX = 100, TEXT_MAX = 1024, NAME_SHOWN = 120, BELOW_ARENA = 64 << 20 };

__attribute__((format(printf, 5, 6))) static enum err
holds_set(struct run_holds *c, struct run_hold *h, struct error *e, enum explain_gate gate, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    h->gate = gate;
    return arena_str(&c->q->arena, str_from(text), &h->text) ? ERR_OK : error_no_room(e);
}

/* False: the answer has looked at the store often enough. */
static bool holds_may_look(struct run_holds *c)
{
    return c->looks++ < LOOKS_MAX;
}

/* ---- queues ---- */

static enum err holds_read_queue(struct run_holds *c, const struct task *t, struct run_hold *h, struct error *e)
{
    char until[RFC3339_TEXT + 1] = "";
    struct catalog_cache *catalog = c->q->server->setup.catalog;
    struct queue_rules rules = catalog ? catalog_cache_queue(catalog, t->tenant, t->queue, NULL) : QUEUE_RULES_DEFAULT;
    if (!queue_is_paused(&rules, c->q->now_ms))
        return ERR_OK;
    h->name = t->queue;
    if (rules.paused_until_ms)
        rfc3339_format(rules.paused_until_ms, until);
    return holds_set(c, h, e, EXPLAIN_QUEUE_PAUSED, "queue '" STR_FMT "' is paused%s%s", STR_ARG(t->queue),
                     until[0] ? " until " : "", until);
}

/* It is due, and the queue has not let it go: others of the queue were first. */
static enum err holds_read_rate(struct run_holds *c, const struct task *t, struct run_hold *h, struct error *e)
{
    struct catalog_cache *catalog = c->q->server->setup.catalog;
    struct queue_rules rules = catalog ? catalog_cache_queue(catalog, t->tenant, t->queue, NULL) : QUEUE_RULES_DEFAULT;
    if (rules.rate <= 0 || t->state != TASK_SCHEDULED || c->q->now_ms - t->due_ms < RATE_HELD_MS)
        return ERR_OK;
    h->name = t->queue;
    return holds_set(c, h, e, EXPLAIN_QUEUE_RATE,
                     "queue '" STR_FMT "' starts at most %g a second; 'belfry queue set " STR_FMT " --rate' changes it",
                     STR_ARG(t->queue), rules.rate, STR_ARG(t->queue));
}

/* ---- breakers ---- */

/* A task that a breaker holds is put aside, in the lane of its host. */
static enum err holds_read_breaker(struct run_holds *c, const struct task *t, struct run_hold *h, struct error *e)
{
    struct breaker_filter f = { .tenant = t->tenant, .host = t->aside, .limit = 1 };
    struct breaker_rows v = { 0 };
    char id[UUID_TEXT + 1], until[RFC3339_TEXT + 1];
    if (!t->aside.n || t->state != TASK_SCHEDULED || !holds_may_look(c))
        return ERR_OK;
    if (reader_breakers(c->r, &f, &c->q->arena, &v, e))
        return e->code;
    if (!v.n)
        return ERR_OK;
    bool is_tenants = str_eq(v.v[0].host, BREAKER_ANY_HOST), waits = v.v[0].until_ms > c->q->now_ms;
    struct str host = is_tenants ? S("the tenant") : str_utf8_cut(v.v[0].host, NAME_SHOWN);
    uuid_format(v.v[0].id, id);
    rfc3339_format(v.v[0].until_ms, until);
    if (!arena_str(&c->q->arena, str_from(id), &h->name))
        return error_no_room(e);
    return holds_set(c, h, e, is_tenants ? EXPLAIN_TENANT_BREAKER : EXPLAIN_HOST_BREAKER,
                     "the circuit breaker of " STR_FMT " is open%s%s; 'belfry breakers close %s' closes it",
                     STR_ARG(host), waits ? ", next trial at " : ", and tries one task at a time", waits ? until : "",
                     id);
}

/* ---- keys ---- */

/* "step 'a' of the run 'x'", "the task 'x'" or "the task ID". */
static enum err holds_write_holder(struct run_holds *c, struct uuid holder, struct buf *out, struct error *e)
{
    struct task t;
    struct run_place p = { 0 };
    char id[UUID_TEXT + 1];
    uuid_format(holder, id);
    enum err rc = reader_get(c->r, c->q->who.tenant, holder, &c->q->arena, &t, e);
    if (rc == ERR_OK)
        rc = run_place_read(c->q, c->r, &t, &p, e);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == ERR_OK && p.subject.n)
        buf_add(out, p.subject);
    else if (rc == ERR_OK && t.name.n)
        buf_printf(out, "the task '" STR_FMT "'", STR_ARG(str_utf8_cut(t.name, NAME_SHOWN)));
    else
        buf_printf(out, "the task %s", id);
    return ERR_OK;
}

static enum err holds_look_up_key(struct run_holds *c, struct str key, struct run_hold *h, struct error *e)
{
    struct slot_holders holders = { 0 };
    struct str name = slot_key_name(key);
    cleanup_with(buf_release) struct buf by;
    buf_init(&by, TEXT_MAX / 2);
    if (reader_slots(c->r, key, &c->q->arena, &holders, e))
        return e->code;
    if (holders.n && holds_write_holder(c, holders.v[0].task, &by, e))
        return e->code;
    if (holders.n > 1)
        buf_printf(&by, " and %zu more", holders.n - 1);
    if (!arena_str(&c->q->arena, name, &h->name))
        return error_no_room(e);
    return holds_set(c, h, e, EXPLAIN_CONCURRENCY_KEY, "waits for key '" STR_FMT "'%s%s",
                     STR_ARG(str_utf8_cut(name, NAME_SHOWN)), by.n ? ", held by " : "", buf_cstr(&by));
}

/* The key that only the items of one map have is the limit of that map. */
static bool holds_is_limit_of_map(const struct run_holds *c, const struct task *t)
{
    return place_kind(t->place) == PLACE_KIND_STEP && place_item(t->place) >= 0 &&
           c->d->steps[place_step(t->place)].map.max_concurrent > 0;
}

static enum err holds_read_key(struct run_holds *c, const struct task *t, struct run_hold *h, struct error *e)
{
    struct slot_need needs[SLOTS_MAX];
    if (t->state != TASK_BLOCKED || !slot_needs(t, needs))
        return ERR_OK;
    if (holds_is_limit_of_map(c, t))
        return holds_set(c, h, e, EXPLAIN_CONCURRENCY_KEY, "its map runs %lld at once",
                         (long long)c->d->steps[place_step(t->place)].map.max_concurrent);
    if (!str_eq(c->key, needs[0].key) && holds_may_look(c)) {
        c->of_key = (struct run_hold){ 0 };
        if (!arena_str(&c->q->arena, needs[0].key, &c->key))
            return error_no_room(e);
        if (holds_look_up_key(c, c->key, &c->of_key, e))
            return e->code;
    }
    if (str_eq(c->key, needs[0].key))
        *h = c->of_key;
    return ERR_OK;
}

/* ---- signals ---- */

static enum err holds_read_signal(struct run_holds *c, const struct task *t, struct run_hold *h, struct error *e)
{
    const struct dag_await *a = &c->d->steps[place_step(t->place)].await;
    struct signal_rows v = { 0 };
    bool looks = holds_may_look(c);
    if (looks && reader_signals(c->r, t->run, a->signal, &c->q->arena, &v, e))
        return e->code;
    if (!arena_str(&c->q->arena, a->signal, &h->name))
        return error_no_room(e);
    size_t rejections = signal_rejections(&v);
    if (rejections && v.n - rejections < (size_t)a->approvals)
        return holds_set(c, h, e, EXPLAIN_SIGNAL, "rejected by signal '" STR_FMT "': fails after the resume",
                         STR_ARG(a->signal));
    if (!looks || a->approvals == 1)
        return holds_set(c, h, e, EXPLAIN_SIGNAL, "waits for signal '" STR_FMT "'", STR_ARG(a->signal));
    return holds_set(c, h, e, EXPLAIN_SIGNAL, "waits for signal '" STR_FMT "', %zu of %lld received",
                     STR_ARG(a->signal), v.n - rejections, (long long)a->approvals);
}

/* ---- runs and items below ---- */

/* The first of these tasks that is held. */
static enum err holds_first_of(struct run_holds *c, const struct step_filter *f, struct run_hold *h, struct error *e)
{
    struct tasks v = { 0 };
    cleanup_with(arena_release) struct arena page;
    arena_init(&page, BELOW_ARENA);
    if (reader_steps(c->r, f, &page, &v, e))
        return e->code;
    for (size_t i = 0; i < v.n && h->gate == EXPLAIN_NONE; i++) {
        bool is_known = place_kind(v.v[i].place) != PLACE_KIND_DEADLINE && place_step(v.v[i].place) < c->d->n;
        if (is_known && run_hold_read(c, &v.v[i], h, e))
            return e->code;
    }
    return h->name.n && !arena_str(&c->q->arena, h->name, &h->name);
}

static enum err holds_read_below(struct run_holds *c, const struct task *t, struct run_hold *h, struct error *e)
{
    struct run_row row;
    char id[UUID_TEXT + 1];
    struct step_filter f = { .tenant = t->tenant,
                             .run = t->id,
                             .states =
                                 1U << TASK_SCHEDULED | 1U << TASK_BLOCKED | 1U << TASK_PAUSED | 1U << TASK_RUNNING,
                             .limit = BELOW_MAX };
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    if (c->depth >= RUN_DEPTH_MAX || !holds_may_look(c))
        return ERR_OK;
    enum err rc = reader_run(c->r, t->tenant, t->id, &c->q->arena, &row, e);
    if (rc == ERR_OK)
        rc = definition_cache_get(c->q->server->definitions, c->r, t->tenant, row.hash, &d, e);
    if (rc)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    struct run_holds below = {
        .q = c->q, .r = c->r, .d = d->dag, .stop = row.stop, .depth = c->depth + 1, .looks = c->looks
    };
    rc = holds_first_of(&below, &f, h, e);
    c->looks = below.looks;
    if (rc || h->gate == EXPLAIN_NONE || h->gate == EXPLAIN_PAUSED || !uuid_is_nil(h->run)) /* paused with this run */
        return rc;
    h->run = t->id;
    uuid_format(t->id, id);
    return holds_set(c, h, e, h->gate, STR_FMT " in run %s", STR_ARG(h->text), id);
}

/* The items of a map are in its queue. If the map limits how many run at once, others wait for these, and only what
 * holds these is told. */
static enum err holds_read_items(struct run_holds *c, const struct task *t, struct run_hold *h, struct error *e)
{
    bool limited = c->d->steps[place_step(t->place)].map.max_concurrent > 0;
    struct step_filter f = { .tenant = t->tenant,
                             .run = t->run,
                             .states = 1U << TASK_SCHEDULED | (limited ? 0 : 1U << TASK_BLOCKED),
                             .by_step = true,
                             .step = place_step(t->place),
                             .has_after = true,
                             .after = t->place,
                             .limit = BELOW_MAX };
    if (holds_read_queue(c, t, h, e))
        return e->code;
    if (h->gate != EXPLAIN_NONE || !holds_may_look(c))
        return ERR_OK;
    if (holds_first_of(c, &f, h, e))
        return e->code;
    if (h->gate == EXPLAIN_WORKER) /* others may be leased */
        *h = (struct run_hold){ .gate = EXPLAIN_NONE };
    return ERR_OK;
}

/* ---- workers ---- */

/* A stop cannot end what a worker has: the worker hears of it with its next renewal, or the lease ends. */
static enum err holds_read_lease(struct run_holds *c, const struct task *t, struct run_hold *h, struct error *e)
{
    struct lease_row lease;
    char until[RFC3339_TEXT + 1];
    bool is_undo = place_kind(t->place) == PLACE_KIND_UNDO;
    if (c->stop == RUN_GOES_ON || is_undo || t->target != TARGET_WORKER || !holds_may_look(c))
        return ERR_OK;
    enum err rc = reader_lease(c->r, t->tenant, t->id, &c->q->arena, &lease, e);
    if (rc)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    rfc3339_format(lease.until_ms, until);
    h->name = lease.worker;
    return holds_set(c, h, e, EXPLAIN_LEASED,
                     "the run was stopped, and the worker '" STR_FMT "' was asked to end it; its lease ends at %s",
                     STR_ARG(str_utf8_cut(lease.worker, NAME_SHOWN)), until);
}

/* ---- all of them ---- */

enum err run_hold_read(struct run_holds *c, const struct task *t, struct run_hold *ret, struct error *e)
{
    bool is_map = c->d->steps[place_step(t->place)].map.is_set && place_item(t->place) < 0 &&
                  place_kind(t->place) == PLACE_KIND_STEP;
    *ret = (struct run_hold){ .gate = EXPLAIN_NONE };
    if (task_is_final(t->state))
        return ERR_OK;
    if (t->state == TASK_PAUSED)
        return holds_set(c, ret, e, EXPLAIN_PAUSED, "the run is paused");
    if (t->links & TASK_AWAITS)
        return holds_read_signal(c, t, ret, e);
    if (t->links & TASK_OPEN)
        return is_map ? holds_read_items(c, t, ret, e) : holds_read_below(c, t, ret, e);
    if (task_shown_state(t, c->q->now_ms) == TASK_RUNNING)
        return holds_read_lease(c, t, ret, e);
    if (t->links & TASK_WAITS)
        return ERR_OK;
    if (holds_read_queue(c, t, ret, e))
        return e->code;
    if (ret->gate == EXPLAIN_NONE && holds_read_key(c, t, ret, e))
        return e->code;
    if (ret->gate == EXPLAIN_NONE && holds_read_breaker(c, t, ret, e))
        return e->code;
    if (ret->gate == EXPLAIN_NONE && holds_read_rate(c, t, ret, e))
        return e->code;
    bool waits = t->target == TARGET_WORKER && t->state == TASK_SCHEDULED && t->due_ms <= c->q->now_ms;
    return ret->gate == EXPLAIN_NONE && waits ? holds_set(c, ret, e, EXPLAIN_WORKER, "no worker has leased it")
                                              : ERR_OK;
}

void run_hold_write(struct jw *w, const struct run_hold *h)
{
    jw_key(w, "waits_for");
    if (h->gate == EXPLAIN_NONE) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_cstr(w, "gate", explain_gate_name(h->gate));
    jw_kv_str_or_null(w, "name", h->name);
    jw_kv_uuid(w, "run", h->run);
    jw_kv_str(w, "explanation", h->text);
    jw_object_end(w);
}
