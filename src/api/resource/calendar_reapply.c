/* Page by page: the tasks of one are put in one go, those that somebody else was faster with are read and put again, then what is claimed
 * of each is asked back. The answer is written already and does not depend on any of it. */
#include "api/resource/calendar_reapply.h"

#include "api/resource/listing.h"
#include "api/resource/withdraw.h"
#include "api/server/internal.h"
#include "api/task/json.h"
#include "base/log.h"
#include "core/task/spawn.h"

enum { PAGE = 64, PAGE_ARENA = 256 << 20, TRIES_MAX = 8 };

struct one {
    struct op_put put;
    struct task current, next;
    enum { ONE_READY, ONE_WRITTEN, ONE_LOST /* another was faster */, ONE_OVER } state;
};

struct calendar_reapply_run {
    struct request *q;
    struct str calendar;
    struct uuid before; /* where the next page goes on */
    bool more;
    struct arena page; /* its tasks: there may be many pages */
    struct one *v;
    size_t n, at;
    int tries;
    atomic_size_t waiting;
};

static route_handler next_page, put_again, withdraw_each;

static enum handled over(struct calendar_reapply_run *c)
{
    arena_release(&c->page);
    return HANDLED_DONE;
}

struct task_filter calendar_users(int32_t tenant, struct str calendar, size_t limit)
{
    return (struct task_filter){ .tenant = tenant,
                                 .calendar = calendar,
                                 .by_kind = true,
                                 .recurring = true,
                                 .states = 1U << TASK_SCHEDULED | 1U << TASK_PAUSED | 1U << TASK_BLOCKED,
                                 .limit = limit };
}

/* ---- one task ---- */

/* Nothing to come, or not to be had: the spawner looks at once, and ends the task or says what is wrong. */
static int64_t new_cursor(struct request *q, const struct task *t)
{
    const struct api_setup *setup = &q->server->setup;
    struct recurrence rule;
    cleanup_with(rule_base_release) struct rule_base base = { 0 };
    if (task_rule(t, setup->zones, setup->catalog, &rule, &base, NULL))
        return min_of(t->cursor_ms, q->now_ms);
    if (t->cursor_ms < q->now_ms)
        return t->cursor_ms; /* what is to be caught up stays so */
    int64_t first_ms = spawn_first(&rule, q->now_ms);
    return first_ms == INT64_MAX ? q->now_ms : first_ms;
}

static void prepare(struct request *q, struct one *o)
{
    o->state = ONE_READY;
    o->next = o->current;
    o->next.version++;
    o->next.updated_ms = q->now_ms;
    o->next.cursor_ms = new_cursor(q, &o->current);
    o->put = (struct op_put){
        .op = { .kind = OP_PUT },
        .task = &o->next,
        .version = o->current.version,
        .fence = o->current.fence,
        .state = o->current.state,
        .cursor_ms = o->current.cursor_ms,
        .withdraw = true,
    };
}

/* ---- many of them at once ---- */

static void part_done(struct request *q)
{
    if (atomic_fetch_sub(&q->calendar_reapply_run->waiting, 1) == 1)
        request_later(q, put_again);
}

static void put_done(struct op *op)
{
    struct one *o = container_of(op, struct one, put.op);
    struct request *q = op->context;
    arena_release(&op->arena);
    o->state = op->rc == ERR_OK ? ONE_WRITTEN : op->rc == ERR_CONFLICT ? ONE_LOST : ONE_OVER;
    if (o->state == ONE_WRITTEN) {
        o->next.cursor_ms = o->put.ret_cursor_ms;
        request_nudge(q, &o->next, 1);
    } else if (o->state == ONE_OVER && op->rc != ERR_NOT_FOUND) { /* deleted meanwhile: nothing to think about */
        log_warn("reconsider_failed", kv_uuid("task", o->current.id), kv_err(&op->error));
    }
    part_done(q);
}

static enum handled submit_all(struct request *q)
{
    struct calendar_reapply_run *c = q->calendar_reapply_run;
    atomic_store(&c->waiting, 1); /* ours, so that nobody goes on while we hand out */
    for (size_t i = 0; i < c->n; i++) {
        struct op *op = &c->v[i].put.op;
        if (c->v[i].state != ONE_READY)
            continue;
        op->done = put_done;
        op->context = q;
        arena_init(&op->arena, 64 * 1024);
        atomic_fetch_add(&c->waiting, 1);
        writer_submit(q->server->setup.writer, op);
    }
    part_done(q);
    return HANDLED_LATER;
}

/* Those that were changed in between, as they are now. */
static enum handled put_again(struct request *q, struct reader *r)
{
    struct calendar_reapply_run *c = q->calendar_reapply_run;
    struct error ignored;
    size_t ready = 0;
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    for (size_t i = 0; i < c->n && c->tries < TRIES_MAX; i++) {
        struct one *o = &c->v[i];
        if (o->state != ONE_LOST)
            continue;
        o->state = ONE_OVER;
        if (reader_get(r, q->who.tenant, o->current.id, &c->page, &o->current, &ignored) ||
            task_is_final(o->current.state))
            continue;
        prepare(q, o);
        ready++;
    }
    c->tries++;
    c->at = 0;
    return ready ? submit_all(q) : withdraw_each(q, r);
}

static enum handled next_page(struct request *q, struct reader *r)
{
    struct calendar_reapply_run *c = q->calendar_reapply_run;
    struct task_page page = { 0 };
    struct error e = { 0 };
    struct task_filter f = calendar_users(q->who.tenant, c->calendar, PAGE);
    f.before = c->before;
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    arena_reset(&c->page);
    enum err rc = reader_list(r, &f, &c->page, &page, &e);
    c->v = rc ? NULL : arena_array(&c->page, struct one, page.tasks.n + 1);
    if (!c->v) {
        log_warn("reconsider_failed", kv_str("calendar", c->calendar), kv_err(&e));
        return over(c); /* the change is made and is answered as such */
    }
    c->n = page.tasks.n;
    c->more = page.more;
    c->before = page.next_before;
    c->tries = 0;
    for (size_t i = 0; i < c->n; i++) {
        c->v[i].current = page.tasks.v[i];
        prepare(q, &c->v[i]);
    }
    return c->n ? submit_all(q) : c->more ? request_later(q, next_page) : over(c);
}

static enum handled withdraw_each(struct request *q, struct reader *r)
{
    struct calendar_reapply_run *c = q->calendar_reapply_run;
    (void)r;
    while (c->at < c->n) {
        const struct one *o = &c->v[c->at++];
        if (o->state == ONE_WRITTEN)
            return withdraw_claimed_then(q, &o->next, withdraw_each);
    }
    return c->more ? request_later(q, next_page) : over(c);
}

enum handled calendar_reapply(struct request *q, struct str calendar)
{
    q->calendar_reapply_run = arena_new(&q->arena, struct calendar_reapply_run);
    *q->calendar_reapply_run = (struct calendar_reapply_run){ .q = q, .calendar = calendar };
    arena_init(&q->calendar_reapply_run->page, PAGE_ARENA);
    return request_later(q, next_page);
}
