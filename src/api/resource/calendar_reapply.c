/* Works page by page: puts all tasks of a page at once, reads and puts those again that another request changed
 * meanwhile, then recalls the claimed occurrences of each task. The answer is written already and does not depend on
 * any of this. */
#include "api/resource/calendar_reapply.h"

#include "api/resource/withdraw_occurrences.h"
#include "api/server/internal.h"
#include "api/task/json.h"
#include "base/log.h"
#include "core/task/spawn.h"

enum { PAGE = 64, PAGE_ARENA = 256 << 20, TRIES_MAX = 8 };

struct calendar_reapply_task {
    struct op_put put;
    struct task current, next;
    enum { REAPPLY_READY, REAPPLY_WRITTEN, REAPPLY_CONFLICT /* another change came first */, REAPPLY_ENDED } state;
};

struct calendar_reapply_run {
    struct request *q;
    struct str calendar;
    struct uuid before; /* where the next page starts */
    bool more;
    struct arena page; /* the tasks of one page: there may be many pages */
    struct calendar_reapply_task *v;
    size_t n, at;
    int tries;
    atomic_size_t waiting;
};

static route_handler calendar_reapply_next_page, calendar_reapply_put_again, calendar_reapply_withdraw_each;

static enum handled calendar_reapply_end(struct calendar_reapply_run *c)
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

/* If there is no next occurrence, or the rule cannot be made, the cursor is now: the spawner looks at once, and ends
 * the task or logs the error. */
static int64_t calendar_reapply_cursor(struct request *q, const struct task *t)
{
    const struct api_setup *setup = &q->server->setup;
    struct recurrence rule;
    cleanup_with(rule_base_release) struct rule_base base = { 0 };
    if (task_rule(t, setup->zones, setup->catalog, &rule, &base, NULL))
        return min_of(t->cursor_ms, q->now_ms);
    if (t->cursor_ms < q->now_ms)
        return t->cursor_ms; /* missed occurrences are still caught up */
    int64_t first_ms = spawn_first(&rule, q->now_ms);
    if (first_ms >= t->cursor_ms && first_ms != INT64_MAX)
        return t->cursor_ms; /* what is left out before it has its row, and is still left out */
    return first_ms == INT64_MAX ? q->now_ms : spawn_first_entry(&rule, q->now_ms);
}

static void calendar_reapply_prepare(struct request *q, struct reader *r, struct calendar_reapply_task *o)
{
    struct error e = { 0 };
    o->state = REAPPLY_READY;
    o->next = o->current;
    o->next.version++;
    o->next.updated_ms = q->now_ms;
    o->next.cursor_ms = calendar_reapply_cursor(q, &o->current);
    o->put = (struct op_put){
        .op = { .kind = OP_PUT },
        .task = &o->next,
        .version = o->current.version,
        .fence = o->current.fence,
        .state = o->current.state,
        .cursor_ms = o->current.cursor_ms,
        .withdraw = true,
    };
    /* Also if the cursor stays: the occurrences that are withdrawn may set it back, into a row. */
    if (withdraw_cuts(q, r, &o->current, &q->calendar_reapply_run->page, &o->put, &e) == ERR_OK)
        return;
    log_warn("calendar_reapply_failed", kv_uuid("task", o->current.id), kv_err(&e));
    o->state = REAPPLY_ENDED;
}

/* ---- the tasks of a page ---- */

static void calendar_reapply_put_ended(struct request *q)
{
    if (atomic_fetch_sub(&q->calendar_reapply_run->waiting, 1) == 1)
        request_later(q, calendar_reapply_put_again);
}

static void calendar_reapply_on_put(struct op *op)
{
    struct calendar_reapply_task *o = container_of(op, struct calendar_reapply_task, put.op);
    struct request *q = op->context;
    cleanup_with(log_request_leave) struct log_request before = request_log_enter(q);
    arena_release(&op->arena);
    o->state = op->rc == ERR_OK ? REAPPLY_WRITTEN : op->rc == ERR_CONFLICT ? REAPPLY_CONFLICT : REAPPLY_ENDED;
    if (o->state == REAPPLY_WRITTEN) {
        o->next.cursor_ms = o->put.ret_cursor_ms;
        request_nudge(q, &o->next, 1);
    } else if (o->state == REAPPLY_ENDED && op->rc != ERR_NOT_FOUND) { /* NOT_FOUND: deleted meanwhile */
        log_warn("calendar_reapply_failed", kv_uuid("task", o->current.id), kv_err(&op->error));
    }
    calendar_reapply_put_ended(q);
}

static enum handled calendar_reapply_submit_all(struct request *q)
{
    struct calendar_reapply_run *c = q->calendar_reapply_run;
    atomic_store(&c->waiting, 1); /* counts this function itself, so that no put is the last before all are submitted */
    for (size_t i = 0; i < c->n; i++) {
        struct op *op = &c->v[i].put.op;
        if (c->v[i].state != REAPPLY_READY)
            continue;
        op->done = calendar_reapply_on_put;
        op->context = q;
        op->request = q->response.request_id;
        arena_init(&op->arena, 64 * 1024);
        atomic_fetch_add(&c->waiting, 1);
        writer_submit(q->server->setup.writer, op);
    }
    calendar_reapply_put_ended(q);
    return HANDLED_LATER;
}

/* Puts the tasks again that another request changed meanwhile, as they are now. */
static enum handled calendar_reapply_put_again(struct request *q, struct reader *r)
{
    struct calendar_reapply_run *c = q->calendar_reapply_run;
    struct error ignored;
    size_t ready = 0;
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    for (size_t i = 0; i < c->n && c->tries < TRIES_MAX; i++) {
        struct calendar_reapply_task *o = &c->v[i];
        if (o->state != REAPPLY_CONFLICT)
            continue;
        o->state = REAPPLY_ENDED;
        if (reader_get(r, q->who.tenant, o->current.id, &c->page, &o->current, &ignored) ||
            task_is_final(o->current.state))
            continue;
        calendar_reapply_prepare(q, r, o);
        ready += o->state == REAPPLY_READY;
    }
    c->tries++;
    c->at = 0;
    return ready ? calendar_reapply_submit_all(q) : calendar_reapply_withdraw_each(q, r);
}

static enum handled calendar_reapply_next_page(struct request *q, struct reader *r)
{
    struct calendar_reapply_run *c = q->calendar_reapply_run;
    struct task_page page = { 0 };
    struct error e = { 0 };
    struct task_filter f = calendar_users(q->who.tenant, c->calendar, PAGE);
    f.before = c->before;
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    arena_reset(&c->page);
    enum err rc = reader_list(r, &f, &c->page, &page, &e);
    c->v = rc ? NULL : arena_array(&c->page, struct calendar_reapply_task, page.tasks.n + 1);
    if (!c->v) {
        log_warn("calendar_reapply_failed", kv_str("calendar", c->calendar), kv_err(&e));
        return calendar_reapply_end(c); /* the calendar is changed, and the answer says so */
    }
    c->n = page.tasks.n;
    c->more = page.more;
    c->before = page.next_before;
    c->tries = 0;
    for (size_t i = 0; i < c->n; i++) {
        c->v[i].current = page.tasks.v[i];
        calendar_reapply_prepare(q, r, &c->v[i]);
    }
    return c->n      ? calendar_reapply_submit_all(q)
           : c->more ? request_later(q, calendar_reapply_next_page)
                     : calendar_reapply_end(c);
}

static enum handled calendar_reapply_withdraw_each(struct request *q, struct reader *r)
{
    struct calendar_reapply_run *c = q->calendar_reapply_run;
    (void)r;
    while (c->at < c->n) {
        const struct calendar_reapply_task *o = &c->v[c->at++];
        if (o->state == REAPPLY_WRITTEN)
            return withdraw_claimed_then(q, &o->next, 0, calendar_reapply_withdraw_each);
    }
    return c->more ? request_later(q, calendar_reapply_next_page) : calendar_reapply_end(c);
}

enum handled calendar_reapply(struct request *q, struct str calendar)
{
    q->calendar_reapply_run = arena_new(&q->arena, struct calendar_reapply_run);
    *q->calendar_reapply_run = (struct calendar_reapply_run){ .q = q, .calendar = calendar };
    arena_init(&q->calendar_reapply_run->page, PAGE_ARENA);
    q->cost = THREAD_POOL_QUICK; /* the upload was slow; a page of its tasks is not */
    return request_later(q, calendar_reapply_next_page);
}
