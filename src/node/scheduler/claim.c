/* At most one claim is in flight. A claim whose answer was lost is read back by its id before the next one is made. */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/scheduler/internal.h"

enum {
    CLAIM_BATCH = 2000,
    CLAIM_BYTES_MAX = 64 << 20,
    RETRY_MIN_MS = 20,
    RETRY_MAX_MS = 1000,
    HELP_AFTER_MS = 100,     /* tasks of other partitions that are overdue by this much are claimed, too */
    HELP_PAUSE_MS = 200,     /* after a busy time: the other nodes are about to have room as well */
    BUSY_HELP_MS = 86400000, /* while busy: practically never, so that not all nodes try to claim the same tasks */
    ISOLATION_DOUBLED = 7,   /* at most so many times */
    PLACE_EARLY_MS = 100,    /* a place is taken at most so long before the task is due, if tasks are claimed ahead */
};

void claim_unref(struct claim *c)
{
    assert(c->references > 0);
    if (--c->references)
        return;
    arena_release(&c->op.arena);
    if (c->armed)
        scheduler_free_planned(c->scheduler, &c->planned);
    free(c->armed);
    free(c);
}

static void scheduler_adapt_window(struct scheduler *s, int64_t took_ms, bool full)
{
    s->slowest_ms = max_of(took_ms, s->slowest_ms - s->slowest_ms / 8 - 1);
    int64_t wanted = full ? s->setup.arm_max_ms : 4 * s->slowest_ms;
    wanted = max_of(wanted, s->window_ms - s->window_ms / 8); /* it rises at once and falls slowly */
    int64_t most_ms = s->setup.ahead_ms ? min_of(s->setup.arm_max_ms, (int64_t)PLACE_EARLY_MS) : s->setup.arm_max_ms;
    s->window_ms = min_of(max_of(wanted, s->setup.arm_min_ms), most_ms);
    lanes_set_window(s->lanes, s->window_ms);
}

struct held *scheduler_find_held(const struct scheduler *s, struct uuid id, int64_t fence)
{
    struct fenced_id k = { id, fence };
    return map_get(&s->held, fenced_id_key(&k));
}

struct held *scheduler_remove_held(struct scheduler *s, struct uuid id, int64_t fence)
{
    struct fenced_id k = { id, fence };
    return map_remove(&s->held, fenced_id_key(&k));
}

static struct held *scheduler_add_held(struct scheduler *s, const struct task *t, struct lane_entry *lane)
{
    struct held *h = xnew(*h);
    *h = (struct held){ .key = { t->id, t->fence }, .lane = lane, .suspect = task_is_suspect(t) };
    h->is_parent = t->links & TASK_HAS_CHILDREN;
    s->parents += h->is_parent;
    if (h->suspect) {
        int doubled = min_of(t->losses - SUSPECT_LOSSES, (int)ISOLATION_DOUBLED);
        s->suspects++;
        s->alone_until_ms = s->now.steady_ms + ((int64_t)SCHEDULER_ISOLATION_MS << doubled);
    }
    if (s->setup.fleet) {
        h->facts = xnew(*h->facts);
        *h->facts = settle_facts_of(t, &(struct outcome){ .kind = OUTCOME_CANCELLED }, NULL);
        h->facts->retry.rules = h->facts->place = h->facts->queue = h->facts->name = h->facts->trace = S("");
    }
    struct held *before = map_put(&s->held, fenced_id_key(&h->key), h);
    assert(!before);
    return h;
}

/* If the rules have changed meanwhile and the task may not run, it is due on the wheel at once, to be returned. */
static void scheduler_arm_one(struct scheduler *s, struct armed *a)
{
    const struct task *t = a->task;
    list_push(&s->armed, &a->link);
    s->armed_count++;
    if (a->claim->ahead || (a->claim->contested && !scheduler_has_place(s, a->held)))
        scheduler_add_ahead(s, a);
    else
        scheduler_give_place(s, a->held);
    a->held->taken_back = a->held->placed && lanes_is_to_return(s->lanes, a->held->lane, s->now.wall_ms);
    wheel_add(&s->wheel, &a->entry, a->held->taken_back ? s->now.wall_ms : t->due_ms);
}

void scheduler_arm(struct scheduler *s, struct claim *c, const struct tasks *tasks)
{
    struct lane last = { 0 };
    struct lane_entry *lane = NULL;
    c->armed = xcalloc(tasks->n, sizeof *c->armed);
    c->references += tasks->n;
    c->armed_count = tasks->n;
    list_init(&c->planned);
    for (size_t i = 0; i < tasks->n; i++) { /* many of one lane follow each other */
        const struct task *t = &tasks->v[i];
        struct lane of_task = task_lane(t);
        if (!lane || !lane_eq(&last, &of_task)) {
            last = of_task;
            lane = lanes_know(s->lanes, last);
        }
        c->armed[i] = (struct armed){ .task = t, .claim = c, .held = scheduler_add_held(s, t, lane) };
        c->armed[i].held->armed = &c->armed[i];
        scheduler_arm_one(s, &c->armed[i]);
    }
    metric_add(s->setup.metrics, METRIC_CLAIMS, 1);
    metric_add(s->setup.metrics, METRIC_TASKS_CLAIMED, (int64_t)tasks->n);
}

/* Its tasks belong to other nodes, or will be found by recovery. */
static void scheduler_drop_claim(struct scheduler *s, struct claim *c)
{
    if (c->op.kind == OP_CLAIM)
        lanes_answer_lost(s->lanes, &c->round);
    s->claiming = NULL;
    claim_unref(c);
}

static void scheduler_claim_failed(struct scheduler *s, struct claim *c);

/* False: it is dropped, or tried again. */
static bool scheduler_claim_succeeded(struct scheduler *s, struct claim *c)
{
    if (c->disowned)
        scheduler_drop_claim(s, c);
    else if (c->op.rc)
        scheduler_claim_failed(s, c);
    else
        return true;
    return false;
}

static void scheduler_on_claim_read_back(struct op *op)
{
    struct claim *c = container_of(op, struct claim, op);
    struct scheduler *s = c->scheduler;
    if (!scheduler_claim_succeeded(s, c))
        return;
    s->claiming = NULL;
    s->retry_ms = 0;
    if (c->readback.ret.n) { /* else the store can be read, and perhaps not be written */
        s->failing_ms = 0;
        scheduler_arm(s, c, &c->readback.ret);
    }
    claim_unref(c);
}

void claim_read_back(struct claim *c, void (*done)(struct op *op))
{
    arena_reset(&c->op.arena);
    struct arena arena = c->op.arena;
    c->waits = true;
    c->readback = (struct op_claimed){ .op = { .kind = OP_CLAIMED, .arena = arena, .done = done }, .claim = c->id };
}

void scheduler_refused(struct scheduler *s, const struct op *op)
{
    if (op->rc == ERR_CONFLICT && strcmp(op->error.field, "node") == 0 && s->setup.refused)
        s->setup.refused(s->setup.context);
}

/* It is not known whether the claim was committed: it is read back by its id, with growing delays, until the store
 * answers. Which tasks it unblocked or replaced is not known either; replaced tasks run to their end. */
static void scheduler_claim_failed(struct scheduler *s, struct claim *c)
{
    log_warn("claim_failed", kv_err(&c->op.error));
    metric_add(s->setup.metrics, METRIC_CLAIM_FAILURES, 1);
    s->failures = s->failing_ms ? s->failures + 1 : 1;
    s->failing_ms = s->failing_ms ? s->failing_ms : max_of(s->now.steady_ms, (int64_t)1);
    s->failed_ms = s->now.steady_ms;
    s->retry_ms = min_of(max_of(s->retry_ms * 2, (int64_t)RETRY_MIN_MS), (int64_t)RETRY_MAX_MS);
    s->retry_at_ms = s->now.steady_ms + s->retry_ms;
    if (c->op.kind == OP_CLAIM) {
        scheduler_refused(s, &c->op);
        lanes_answer_lost(s->lanes, &c->round);
        lanes_on_unblocked(s->lanes, UINT64_MAX, s->now.wall_ms);
    }
    claim_read_back(c, scheduler_on_claim_read_back);
}

void scheduler_report_gated(struct scheduler *s, const struct op_claim *a)
{
    static const enum metric counted[] = {
        [TASK_BLOCKED] = METRIC_TASKS_BLOCKED, [TASK_CANCELLED] = METRIC_TASKS_REPLACED
    };
    for (size_t i = 0; i < a->ret_gated.n; i++) {
        const struct task *t = &a->ret_gated.v[i];
        assert(t->state == TASK_BLOCKED || t->state == TASK_SKIPPED || t->state == TASK_CANCELLED);
        if (t->state == TASK_SKIPPED)
            metric_add_for(s->setup.metrics, METRIC_RUNS_SKIPPED, t->tenant, 1);
        else
            metric_add(s->setup.metrics, counted[t->state], 1);
        s->setup.gated(s->setup.context, t, false);
    }
    for (size_t i = 0; i < a->ret_replaced_count; i++)
        s->setup.replaced(s->setup.context, &a->ret_replaced[i]);
}

static bool scheduler_helps(const struct scheduler *s)
{
    return !s->busy && s->now.steady_ms >= s->help_from_ms;
}

/* A claim that was filled by tasks of our own partitions is followed by one of those alone. When there is room again,
 * or when other nodes were met at their tasks, what they leave is claimed after HELP_PAUSE_MS. */
static void scheduler_plan_help(struct scheduler *s, const struct op_claim *a)
{
    bool was_busy = s->busy;
    s->busy = s->shares && s->answered_full;
    if (!a->own || s->busy)
        return;
    if (was_busy || a->ret_conflicts)
        s->help_from_ms = s->now.steady_ms + HELP_PAUSE_MS;
    if (!scheduler_helps(s))
        lanes_all_due(s->lanes, moment_wall_at(s->now, s->help_from_ms));
}

static void scheduler_on_claimed(struct op *op)
{
    struct claim *c = container_of(op, struct claim, op);
    struct scheduler *s = c->scheduler;
    if (!scheduler_claim_succeeded(s, c))
        return;
    const struct op_claim *a = &c->ask;
    s->claiming = NULL;
    s->retry_ms = s->failing_ms = 0;
    s->last_claim_ms = a->now_ms;
    s->answered = true;
    s->answered_begun_ms = c->begun_ms;
    s->answered_full = lanes_answered(s->lanes, &c->round, a);
    scheduler_plan_help(s, a);
    if (a->ret.n)
        scheduler_arm(s, c, &a->ret);
    metric_add(s->setup.metrics, METRIC_CLAIM_CONFLICTS, a->ret_conflicts);
    scheduler_report_gated(s, a);
    lanes_on_unblocked(s->lanes, a->ret_unblocked_lanes, s->now.wall_ms);
    claim_unref(c);
}

static void scheduler_make_claim(struct scheduler *s, struct claim *c, size_t max_bytes)
{
    const struct lanes_round *r = &c->round;
    c->scheduler = s;
    c->id = uuid_next(&s->ids, s->now.wall_ms);
    c->references = 1;
    c->begun_ms = s->now.steady_ms;
    c->ahead = r->ahead;
    c->own = s->own;
    c->ask = (struct op_claim){
        .op = { .kind = OP_CLAIM, .done = scheduler_on_claimed },
        .claim = c->id,
        .node = s->setup.node,
        .lanes = r->v,
        .lane_count = r->n,
        .lines = r->line_count ? r->lines : NULL,
        .line_count = r->line_count,
        .now_ms = s->now.wall_ms,
        .until_ms = r->until_ms,
        .max = r->max,
        .max_bytes = max_bytes,
        .max_suspects = r->suspects,
        .own = s->shares ? &c->own : NULL,
        .help_after_ms = scheduler_helps(s) ? HELP_AFTER_MS : BUSY_HELP_MS,
    };
    arena_init(&c->op.arena, 2 * (size_t)CLAIM_BYTES_MAX);
    s->claiming = c;
}

void scheduler_submit_claim(struct scheduler *s, struct claim *c, size_t max_bytes)
{
    scheduler_make_claim(s, c, max_bytes);
    writer_submit(s->setup.writer, &c->op);
}

static enum lanes_wanted scheduler_lanes_wanted(const struct scheduler *s)
{
    return s->suspects ? LANES_DUE : s->isolating ? LANES_SUSPECT : LANES_EITHER;
}

/* Whether only a suspect may be claimed now. It ends if there is no suspect, if one has been tried
 * (scheduler_on_settled), or after a time. */
static bool scheduler_isolates(struct scheduler *s)
{
    bool due = s->suspects || lanes_next_suspect_ms(s->lanes) <= s->now.wall_ms;
    s->isolating = s->isolating && due && s->now.steady_ms < s->alone_until_ms;
    return s->isolating;
}

bool scheduler_may_claim(struct scheduler *s)
{
    bool alone = scheduler_isolates(s) && s->suspects, soon = s->now.steady_ms < s->rules_come_ms;
    return !alone && !soon && !s->claiming && s->begun && !s->suspended && !s->draining && lanes_has_room(s->lanes);
}

int64_t scheduler_next_claim_ms(const struct scheduler *s)
{
    return lanes_next_ms(s->lanes, scheduler_lanes_wanted(s));
}

static void scheduler_on_granted(void *context, struct heap_node *ready)
{
    struct scheduler *s = context;
    struct armed *a = container_of(ready, struct armed, ready);
    list_remove(&a->ready_since);
    s->ready_count--;
    scheduler_give_place(s, a->held);
    if (s->claiming)
        s->claiming->contested = true;
    wheel_add(&s->wheel, &a->entry, s->now.wall_ms); /* it fires in this step */
}

/* Shares the room among ready tasks and due tasks of the store. NULL: nothing is to be claimed. */
static struct claim *scheduler_ask_due(struct scheduler *s)
{
    struct lanes_offer offer = { .max = CLAIM_BATCH,
                                 .wanted = scheduler_lanes_wanted(s),
                                 .now = s->now,
                                 .grant = scheduler_on_granted,
                                 .context = s };
    offer.claims = !scheduler_has_due(s) && scheduler_may_claim(s) && scheduler_next_claim_ms(s) <= s->now.wall_ms;
    if (!offer.claims && (!lanes_ready_count(s->lanes) || !scheduler_may_fire(s)))
        return NULL;
    struct claim *c = xnew(*c);
    if (lanes_ask(s->lanes, &offer, &c->round))
        return c;
    free(c);
    return NULL;
}

static void scheduler_claim_due(struct scheduler *s)
{
    struct claim *c = scheduler_ask_due(s);
    if (c)
        scheduler_submit_claim(s, c, CLAIM_BYTES_MAX);
}

struct op *scheduler_claim_behind(struct scheduler *s, const struct event *v, size_t n)
{
    bool expects = false;
    if (!s->parents || !writer_has_pairs(s->setup.writer) || scheduler_has_due(s) || !scheduler_may_claim(s))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const struct held *h = scheduler_find_held(s, v[i].task.id, v[i].task.fence);
        if (!h || !h->is_parent)
            continue;
        lanes_expect_children(s->lanes, h->lane, s->now.wall_ms);
        expects = true;
    }
    struct claim *c = expects ? scheduler_ask_due(s) : NULL;
    if (!c)
        return NULL;
    scheduler_make_claim(s, c, CLAIM_BYTES_MAX);
    return &c->op;
}

void scheduler_claim(struct scheduler *s)
{
    if (s->claiming && s->claiming->waits && s->retry_at_ms <= s->now.steady_ms) {
        s->claiming->waits = false;
        writer_submit(s->setup.writer, &s->claiming->op);
        return;
    }
    scheduler_claim_due(s);
    if (!scheduler_has_due(s))
        scheduler_claim_ahead(s);
}

void scheduler_measure_claim(struct scheduler *s)
{
    if (!s->answered)
        return;
    int64_t took_ms = s->now.steady_ms - s->answered_begun_ms;
    s->answered = false;
    scheduler_adapt_window(s, took_ms, s->answered_full);
    scheduler_adapt_ahead(s, took_ms);
    metric_observe_us(s->setup.metrics, METRIC_CLAIM_TIME, took_ms * 1000);
}
