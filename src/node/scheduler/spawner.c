/* Invariants:
 *  - At most one visit is under way, with one page. The next page is read when every task of the last one is
 *    answered.
 *  - visit_at_ms is when the next visit is due; INT64_MAX: nothing is known to come.
 *  - A task whose cursor is before from_ms could not be spawned by an earlier visit and waits for trouble_at_ms; or
 *    it was written since, and then the spawner was nudged. A visit without trouble leaves nothing behind, and the
 *    next one begins at the first cursor. */
#include "node/scheduler/spawner.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/task/spawn.h"

enum {
    PAGE = 100,
    TROUBLE_MS = 5000,
    ARENA = 32 << 20, /* a task of any size */
    HELP_PART = 4,    /* a quarter of ahead_ms: within that, tasks of other partitions are spawned by any node */
    TAKEN_PART = 2    /* Rows that a change leaves behind the cursor were spawned at most ahead_ms before their time. */
};

struct spawner {
    struct spawner_setup setup;
    struct moment now;
    struct op_recurring *page;    /* NULL: no visit is under way */
    size_t in_flight;             /* spawns in flight */
    int64_t missed;               /* occurrences that this visit found missed */
    int64_t visit_at_ms, from_ms; /* wall, like cursors */
    int64_t trouble_at_ms; /* steady: when the tasks that were passed over are tried again; INT64_MAX: none were */
    int64_t poll_at_ms;    /* steady: when to visit although nobody nudged; INT64_MAX: the next step sets it */
    bool suspended, draining;
    bool shares; /* other nodes have partitions, too */
    struct partitions own;
    struct partitions asked; /* the partitions of the page in flight */
};

struct spawning {
    struct op_spawn op;
    struct spawn_plan plan;
    struct task task;
    struct spawner *spawner;
};

struct spawner *spawner_new(const struct spawner_setup *setup, struct moment now)
{
    struct spawner *s = xnew(*s);
    s->setup = *setup;
    s->now = now;
    s->visit_at_ms = now.wall_ms;
    s->trouble_at_ms = s->poll_at_ms = INT64_MAX;
    s->suspended = true;
    return s;
}

void spawner_free(struct spawner *s)
{
    if (!s)
        return;
    assert(spawner_is_idle(s));
    free(s);
}

/* ---- when to visit, and from which cursor on ---- */

static void spawner_visit_at(struct spawner *s, int64_t when_ms, int64_t cursor_ms)
{
    s->visit_at_ms = min_of(s->visit_at_ms, when_ms);
    s->from_ms = min_of(s->from_ms, cursor_ms);
}

/* Half of ahead_ms before the cursor: each visit then makes several seconds of occurrences at once. */
static int64_t spawner_in_time_for(const struct spawner *s, int64_t cursor_ms)
{
    return cursor_ms - s->setup.ahead_ms / 2;
}

static void spawner_visit_later(struct spawner *s, const struct spawn_plan *plan)
{
    spawner_visit_at(s, plan->look_ms ? plan->look_ms : spawner_in_time_for(s, plan->cursor_ms), plan->cursor_ms);
}

/* The task could not be spawned: it is passed over until trouble_at_ms; with its cursor, only until the next visit. */
static void spawner_leave_behind(struct spawner *s, int64_t cursor_ms)
{
    s->trouble_at_ms = min_of(s->trouble_at_ms, s->now.steady_ms + TROUBLE_MS);
    s->from_ms = min_of(s->from_ms, cursor_ms);
}

static bool spawner_may_spawn(const struct spawner *s)
{
    return !s->suspended && !s->draining;
}

/* ---- one task ---- */

static void spawner_spawning_free(struct spawning *sp)
{
    arena_release(&sp->op.op.arena);
    free(sp);
}

static void spawner_nudge_occurrences(struct spawner *s, const struct spawn_plan *plan)
{
    for (size_t i = 0; i < plan->occurrences.n; i++)
        if (plan->occurrences.v[i].state == TASK_SCHEDULED)
            s->setup.spawned(s->setup.context, &plan->occurrences.v[i]);
}

static void spawner_tell_skipped(struct spawner *s, const struct spawn_plan *plan)
{
    for (size_t i = 0; s->setup.skipped && i < plan->occurrences.n; i++)
        if (plan->occurrences.v[i].state == TASK_SKIPPED)
            s->setup.skipped(s->setup.context, &plan->occurrences.v[i]);
}

static void spawner_page_over(struct spawner *s);

static void spawner_on_spawned(struct op *op)
{
    struct spawning *sp = container_of(op, struct spawning, op.op);
    struct spawner *s = sp->spawner;
    if (op->rc == ERR_OK) {
        spawner_nudge_occurrences(s, &sp->plan);
        spawner_tell_skipped(s, &sp->plan);
        metric_add_for(s->setup.metrics, METRIC_TASKS_SCHEDULED, sp->task.tenant, sp->plan.runs);
        metric_add_for(s->setup.metrics, METRIC_RUNS_SKIPPED, sp->task.tenant, sp->plan.skipped);
        s->missed += sp->plan.missed;
        if (sp->plan.more)
            spawner_visit_at(s, s->now.wall_ms, sp->plan.cursor_ms);
        else if (!sp->plan.ended)
            spawner_visit_later(s, &sp->plan);
    } else if (op->rc == ERR_CONFLICT) { /* a user has changed the task: its cursor may be anywhere */
        spawner_visit_at(s, s->now.wall_ms, 0);
    } else {
        log_warn("spawn_failed", kv_uuid("task", sp->task.id), kv_err(&op->error));
        spawner_nudge_occurrences(s, &sp->plan); /* the spawn may have been done, and the answer lost */
        spawner_leave_behind(s, sp->op.cursor_ms);
    }
    spawner_spawning_free(sp);
    if (--s->in_flight == 0)
        spawner_page_over(s);
}

static enum err spawner_find_calendar(struct spawner *s, const struct task *t, const struct calendar **ret,
                                      struct error *e)
{
    if (!t->schedule.calendar.n || !s->setup.catalog)
        return ERR_OK;
    return catalog_cache_calendar(s->setup.catalog, t->tenant, t->schedule.calendar, ret, e);
}

static bool spawner_plan(struct spawner *s, const struct task *from, const struct spawn_taken *taken,
                         struct spawning *sp, struct error *e)
{
    struct tz *zone = NULL;
    const struct calendar *calendar = NULL;
    struct recurrence rule;
    const struct task *t = &sp->task;
    if (!task_copy(&sp->op.op.arena, from, &sp->task)) {
        (void)error_set(e, ERR_LIMIT, "too little memory for the task");
        return false;
    }
    enum err rc = zoneinfo_get(s->setup.zones, t->schedule.time_zone, &zone, e);
    if (rc == ERR_OK)
        rc = spawner_find_calendar(s, t, &calendar, e);
    if (rc == ERR_OK)
        rc = schedule_rule(&t->schedule, t->id, zone, calendar, t->created_ms, &rule, e);
    if (rc == ERR_OK)
        rc = spawn_plan(t, &rule, taken, s->now.wall_ms, s->now.wall_ms + s->setup.ahead_ms, &sp->op.op.arena,
                        &sp->plan, e);
    catalog_cache_calendar_unref(calendar);
    tz_unref(zone);
    return rc == ERR_OK;
}

static void spawner_spawn_one(struct spawner *s, const struct task *t, const struct spawn_taken *taken)
{
    struct spawning *sp = xnew(*sp);
    struct error e;
    sp->spawner = s;
    arena_init(&sp->op.op.arena, ARENA);
    if (!spawner_plan(s, t, taken, sp, &e)) {
        log_error("spawn_impossible", kv_uuid("task", t->id), kv_err(&e));
        spawner_leave_behind(s, INT64_MAX);
        spawner_spawning_free(sp);
        return;
    }
    if (sp->plan.look_ms && !sp->plan.ended && sp->plan.occurrences.n == 0) {
        spawner_visit_later(s, &sp->plan);
        spawner_spawning_free(sp);
        return;
    }
    sp->op.op.kind = OP_SPAWN;
    sp->op.op.done = spawner_on_spawned;
    sp->op.id = t->id;
    sp->op.version = t->version;
    sp->op.cursor_ms = t->cursor_ms;
    sp->op.plan = &sp->plan;
    sp->op.now_ms = s->now.wall_ms;
    s->in_flight++;
    writer_submit(s->setup.writer, &sp->op.op);
}

/* ---- a visit, page by page ---- */

static void spawner_on_page(struct op *op);

static void spawner_ask_for_page(struct spawner *s)
{
    struct op_recurring *p = s->page;
    p->op = (struct op){ .kind = OP_RECURRING, .done = spawner_on_page, .context = s };
    arena_init(&p->op.arena, ARENA);
    writer_submit(s->setup.writer, &p->op);
}

static void spawner_visit_over(struct spawner *s)
{
    struct op_recurring *p = s->page;
    if (p->ret_next_ms != INT64_MAX)
        spawner_visit_at(s, spawner_in_time_for(s, p->ret_next_ms), p->ret_next_ms);
    if (s->trouble_at_ms == INT64_MAX)
        s->from_ms = 0;
    if (s->missed)
        log_info("missed", kv_i64("occurrences", s->missed));
    s->missed = 0;
    free(take(s->page));
}

/* Every task of the page is answered: read the next page, or end the visit. */
static void spawner_page_over(struct spawner *s)
{
    struct op_recurring *p = s->page;
    bool more = p->ret.n == p->max && spawner_may_spawn(s);
    if (more) {
        p->after_cursor_ms = p->ret.v[p->ret.n - 1].cursor_ms;
        p->after_id = p->ret.v[p->ret.n - 1].id;
        p->max = PAGE;
    }
    arena_release(&p->op.arena);
    if (more)
        spawner_ask_for_page(s);
    else
        spawner_visit_over(s);
}

static void spawner_page_failed(struct spawner *s)
{
    struct op_recurring *p = s->page;
    p->ret.n = 0;
    p->ret_next_ms = INT64_MAX;
    if (p->op.rc == ERR_LIMIT && p->max > 1) { /* the tasks are large: fewer at a time */
        p->max /= 2;
        arena_release(&p->op.arena);
        spawner_ask_for_page(s);
        return;
    }
    log_warn("spawn_failed", kv_err(&p->op.error));
    spawner_leave_behind(s, p->after_cursor_ms);
    spawner_page_over(s);
}

static void spawner_on_page(struct op *op)
{
    struct op_recurring *p = container_of(op, struct op_recurring, op);
    struct spawner *s = op->context;
    if (op->rc) {
        spawner_page_failed(s);
        return;
    }
    s->in_flight++; /* so that a spawn that is done at once does not end the page */
    for (size_t i = 0; i < p->ret.n && spawner_may_spawn(s); i++)
        spawner_spawn_one(s, &p->ret.v[i], &p->ret_taken[i]);
    if (--s->in_flight == 0)
        spawner_page_over(s);
}

static void spawner_visit(struct spawner *s)
{
    if (s->trouble_at_ms <= s->now.steady_ms) {
        s->trouble_at_ms = INT64_MAX;
        s->from_ms = 0;
    }
    s->page = xnew(*s->page);
    s->asked = s->own;
    *s->page = (struct op_recurring){ .after_cursor_ms = s->from_ms,
                                      .until_ms = s->now.wall_ms + s->setup.ahead_ms,
                                      .max = PAGE,
                                      .own = s->shares ? &s->asked : NULL,
                                      .help_until_ms = s->now.wall_ms + s->setup.ahead_ms / HELP_PART,
                                      .taken_ms = TAKEN_PART * s->setup.ahead_ms };
    s->visit_at_ms = s->poll_at_ms = INT64_MAX;
    s->from_ms = s->page->until_ms; /* unless a nudge during the visit says otherwise */
    spawner_ask_for_page(s);
}

/* ---- public functions ---- */

int64_t spawner_step(struct spawner *s, struct moment now)
{
    s->now = now;
    if (!s->page && spawner_may_spawn(s) && spawner_next_ms(s) <= now.wall_ms)
        spawner_visit(s);
    if (s->page || !spawner_may_spawn(s))
        return INT64_MAX;
    if (s->setup.poll_ms)
        s->poll_at_ms = min_of(s->poll_at_ms, now.steady_ms + s->setup.poll_ms);
    return spawner_next_ms(s);
}

void spawner_nudge(struct spawner *s, int64_t cursor_ms)
{
    if (cursor_ms != INT64_MAX) /* INT64_MAX: nothing is to come */
        spawner_visit_at(s, spawner_in_time_for(s, cursor_ms), cursor_ms);
}

void spawner_suspend(struct spawner *s, bool hold)
{
    s->suspended = hold;
}

void spawner_on_clock_set_back(struct spawner *s, struct moment now)
{
    s->now = now;
    spawner_visit_at(s, now.wall_ms, 0);
}

void spawner_set_own(struct spawner *s, const struct partitions *own)
{
    s->shares = own != NULL;
    if (own)
        s->own = *own;
}

void spawner_drain(struct spawner *s)
{
    s->draining = true;
}

bool spawner_is_idle(const struct spawner *s)
{
    return !s->page && !s->in_flight;
}

int64_t spawner_next_ms(const struct spawner *s)
{
    int64_t again_ms = min_of(s->trouble_at_ms, s->poll_at_ms);
    return min_of(s->visit_at_ms, moment_wall_at(s->now, again_ms));
}
