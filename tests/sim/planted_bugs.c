/* Each planted bug is a few lines between the writer and the store, or between the world and the node. */
#include <stdlib.h>

#include "model/store_memory.h"
#include "sim.h"

static enum err apply_one(struct sim *s, struct op *op, struct error *e)
{
    return store_apply(s->store, &op, 1, e);
}

static enum err settle_any_fence(struct sim *s, struct op_settle *op, struct error *e)
{
    int64_t *fences = xcalloc(op->n, sizeof *fences);
    for (size_t i = 0; i < op->n; i++) {
        cleanup_with(arena_release) struct arena a;
        struct task t;
        arena_init(&a, 1 << 20);
        fences[i] = op->v[i].fence;
        const struct subject *x = oracle_find(s, op->v[i].id);
        if (x && reader_get(s->reader, x->tenant, op->v[i].id, &a, &t, e) == ERR_OK && t.state == TASK_RUNNING)
            op->v[i].fence = t.fence;
    }
    enum err rc = apply_one(s, &op->op, e);
    for (size_t i = 0; i < op->n; i++)
        op->v[i].fence = fences[i];
    free(fences);
    return rc;
}

static enum err settle_uncounted(struct sim *s, struct op_settle *op, struct error *e)
{
    for (size_t i = 0; i < op->n; i++)
        if (op->v[i].verdict.next == TASK_SCHEDULED)
            op->v[i].verdict.attempts = 0;
    return apply_one(s, &op->op, e);
}

static enum err settle_at_most_once_again(struct sim *s, struct op_settle *op, struct error *e)
{
    for (size_t i = 0; i < op->n; i++) {
        struct verdict *v = &op->v[i].verdict;
        if (v->next == TASK_FAILED && v->has_execution && v->execution.status == EXECUTION_LOST) {
            v->next = TASK_SCHEDULED;
            v->due_ms = op->now_ms;
        }
    }
    return apply_one(s, &op->op, e);
}

static enum err spawn_twice(struct sim *s, struct op_spawn *op, struct error *e)
{
    enum err rc = apply_one(s, &op->op, e);
    if (rc || op->op.rc)
        return rc;
    for (size_t i = 0; i < op->plan->occurrences.n; i++) {
        struct task again = op->plan->occurrences.v[i];
        struct op_insert insert = { .op = { .kind = OP_INSERT }, .tasks = &again, .count = 1 };
        again.id = uuid_next(&s->ids, wall_ms(s));
        rc = apply_one(s, &insert.op, e);
    }
    return rc;
}

static enum err spawn_less(struct sim *s, struct op_spawn *op, struct error *e)
{
    struct spawn_plan less = *op->plan;
    const struct spawn_plan *plan = op->plan;
    if (less.occurrences.n && chance(s, 30))
        less.occurrences.n--;
    op->plan = &less;
    enum err rc = apply_one(s, &op->op, e);
    op->plan = plan;
    return rc;
}

static enum err insert_without_key(struct sim *s, struct op_insert *op, struct error *e)
{
    const struct idempotency *key = op->idempotency;
    op->idempotency = NULL;
    enum err rc = apply_one(s, &op->op, e);
    op->idempotency = key;
    return rc;
}

/* As its user asked for it, except for one thing. */
static enum err insert_changed(struct sim *s, struct op_insert *op, struct error *e)
{
    const struct task *tasks = op->tasks;
    struct task *changed = xcalloc(op->count, sizeof *changed);
    for (size_t i = 0; i < op->count; i++) {
        changed[i] = tasks[i];
        if (s->plant == PLANT_UNDYING)
            changed[i].expires_after_ms = 0;
        else if (changed[i].concurrency_limit)
            changed[i].concurrency_limit++;
    }
    op->tasks = changed;
    enum err rc = apply_one(s, &op->op, e);
    op->tasks = tasks;
    free(changed);
    return rc;
}

static enum err settle_as_poison(struct sim *s, struct op_settle *op, struct error *e)
{
    for (size_t i = 0; i < op->n; i++) {
        struct verdict *v = &op->v[i].verdict;
        if (v->has_execution && v->execution.status == EXECUTION_LOST && v->losses > SUSPECT_LOSSES - 1)
            v->next = TASK_FAILED;
    }
    return apply_one(s, &op->op, e);
}

static enum err wake_unheard(struct sim *s, struct op *op, struct error *e)
{
    enum err rc = apply_one(s, op, e);
    if (op->kind == OP_CLAIM)
        ((struct op_claim *)op)->ret_unblocked_lanes = 0;
    else if (op->kind == OP_SETTLE)
        ((struct op_settle *)op)->ret_unblocked_lanes = 0;
    else if (op->kind == OP_PUT)
        ((struct op_put *)op)->ret_unblocked_lanes = 0;
    return rc;
}

static enum err claim_uncounted(struct sim *s, struct op_claim *op, struct error *e)
{
    enum err rc = apply_one(s, &op->op, e);
    for (size_t i = 0; !rc && !op->op.rc && i < op->ret_gated.n; i++) {
        const struct task *t = &op->ret_gated.v[i];
        if (t->state == TASK_SKIPPED)
            store_memory_uncount_skip(s->store, t->parent);
    }
    return rc;
}

/* A node is not told that it is dead: its heartbeats seem to rise. */
static enum err beat_undead(struct sim *s, struct op_heartbeat *op, struct error *e)
{
    enum err rc = apply_one(s, &op->op, e);
    for (size_t i = 0; !rc && op->ret_dead && i < op->ret.n; i++) {
        if (!uuid_eq(op->ret.v[i].id, op->node.id))
            continue;
        op->ret.v[i].dead = false;
        op->ret.v[i].beats = INT64_MAX / 2 + s->steady_us;
    }
    op->ret_dead = false;
    return rc;
}

/* It hears of no other node. */
static enum err beat_unaware(struct sim *s, struct op_heartbeat *op, struct error *e)
{
    enum err rc = apply_one(s, &op->op, e);
    size_t n = 0;
    for (size_t i = 0; !rc && i < op->ret.n; i++)
        if (uuid_eq(op->ret.v[i].id, op->node.id))
            op->ret.v[n++] = op->ret.v[i];
    op->ret.n = n;
    return rc;
}

/* Confirmed and not done. */
static enum err skip(struct op *op)
{
    op->rc = ERR_OK;
    for (size_t i = 0; op->kind == OP_SETTLE && i < ((struct op_settle *)op)->n; i++)
        ((struct op_settle *)op)->v[i].stale = false;
    return ERR_OK;
}

/* Every node gets all that it asks for of a limit. */
static enum err share_generously(struct sim *s, struct op_limit_take *op, struct error *e)
{
    enum err rc = apply_one(s, &op->op, e);
    for (size_t i = 0; i < op->n; i++) {
        op->v[i].ret_tokens = op->v[i].want_tokens;
        op->v[i].ret_places = op->v[i].want_places;
    }
    return rc;
}

/* As if the queue had everything. */
static enum err claim_and_hand(struct sim *s, struct op_claim *op, struct error *e)
{
    enum err rc = apply_one(s, &op->op, e);
    struct op_handoff hand = { .op = { .kind = OP_HANDOFF }, .node = op->node, .claims = &op->claim, .n = 1 };
    return rc || op->op.rc ? rc : apply_one(s, &hand.op, e);
}

static enum err running_all(struct op_running *op)
{
    for (size_t i = 0; i < op->n; i++)
        op->ret[i] = true;
    op->op.rc = ERR_OK;
    return ERR_OK;
}

/* What a dead node had claimed ahead is found when it is long due, as if it had been begun. */
static enum err orphans_due(struct sim *s, struct op_orphans *op, struct error *e)
{
    enum { RELEASED_LATE_MS = 2500 };
    enum err rc = apply_one(s, &op->op, e);
    size_t n = 0;
    for (size_t i = 0; !rc && i < op->ret.n; i++)
        if (op->ret.v[i].due_ms + RELEASED_LATE_MS <= wall_ms(s) ||
            uuid_time_ms(op->ret.v[i].claim) >= op->ret.v[i].due_ms)
            op->ret.v[n++] = op->ret.v[i];
    op->ret.n = rc ? op->ret.n : n;
    return rc;
}

/* A signal is lost unless the step waits already. */
static enum err signal_late_only(struct sim *s, struct op_signal *op, struct error *e)
{
    cleanup_with(arena_release) struct arena a;
    struct task t;
    arena_init(&a, 1 << 20);
    bool awaited = reader_get(s->reader, op->tenant, op->steps[0], &a, &t, e) == ERR_OK && t.links & TASK_AWAITS;
    return awaited ? apply_one(s, &op->op, e) : skip(&op->op);
}

/* The first row of a page that starts at once is there twice. */
static enum err open_twice(struct sim *s, struct op_open *op, struct error *e)
{
    enum err rc = apply_one(s, &op->op, e);
    for (size_t i = 0; !rc && !op->op.rc && !op->ret_stopped && !op->ret_arrivals_left && i < op->n; i++) {
        struct task again = op->rows[i].task;
        if (again.state != TASK_SCHEDULED || again.target == TARGET_WORKFLOW ||
            place_kind(again.place) != PLACE_KIND_STEP)
            continue;
        struct op_insert insert = { .op = { .kind = OP_INSERT }, .tasks = &again, .count = 1 };
        again.id = uuid_next(&s->ids, wall_ms(s));
        again.run = (struct uuid){ 0 }; /* the run sees only the first */
        again.place = again.links = 0;
        return apply_one(s, &insert.op, e);
    }
    return rc;
}

static enum err apply_planted(struct sim *s, struct op *op, struct error *e)
{
    bool settle = op->kind == OP_SETTLE, insert = op->kind == OP_INSERT, spawn = op->kind == OP_SPAWN;
    switch (s->plant) {
    case PLANT_NO_FENCE: return settle ? settle_any_fence(s, (struct op_settle *)op, e) : apply_one(s, op, e);
    case PLANT_FORGETFUL: return settle ? settle_uncounted(s, (struct op_settle *)op, e) : apply_one(s, op, e);
    case PLANT_AMO_AGAIN: return settle ? settle_at_most_once_again(s, (struct op_settle *)op, e) : apply_one(s, op, e);
    case PLANT_LOST_SETTLE: return settle && chance(s, 10) ? skip(op) : apply_one(s, op, e);
    case PLANT_LOST_INSERT: return insert && chance(s, 10) ? skip(op) : apply_one(s, op, e);
    case PLANT_LOST_PUT:
        return op->kind == OP_PUT && task_is_final(((struct op_put *)op)->task->state) ? skip(op) : apply_one(s, op, e);
    case PLANT_DOUBLE_SPAWN: return spawn ? spawn_twice(s, (struct op_spawn *)op, e) : apply_one(s, op, e);
    case PLANT_LOST_SPAWN: return spawn ? spawn_less(s, (struct op_spawn *)op, e) : apply_one(s, op, e);
    case PLANT_LOST_MISSED: return op->kind == OP_CATCH_UP ? skip(op) : apply_one(s, op, e);
    case PLANT_DOUBLE_KEY: return insert ? insert_without_key(s, (struct op_insert *)op, e) : apply_one(s, op, e);
    case PLANT_CROWDED:
    case PLANT_UNDYING: return insert ? insert_changed(s, (struct op_insert *)op, e) : apply_one(s, op, e);
    case PLANT_HANGING_JUDGE: return settle ? settle_as_poison(s, (struct op_settle *)op, e) : apply_one(s, op, e);
    case PLANT_LOST_WAKE: return wake_unheard(s, op, e);
    case PLANT_NO_BURIAL: return op->kind == OP_NODE_DEAD ? skip(op) : apply_one(s, op, e);
    case PLANT_UNDEAD:
        return op->kind == OP_HEARTBEAT ? beat_undead(s, (struct op_heartbeat *)op, e) : apply_one(s, op, e);
    case PLANT_HOARDER:
        return op->kind == OP_HEARTBEAT ? beat_unaware(s, (struct op_heartbeat *)op, e) : apply_one(s, op, e);
    case PLANT_GENEROUS:
        return op->kind == OP_LIMIT_TAKE ? share_generously(s, (struct op_limit_take *)op, e) : apply_one(s, op, e);
    case PLANT_HAND_EARLY:
        return op->kind == OP_CLAIM && is_fleet(s) ? claim_and_hand(s, (struct op_claim *)op, e) : apply_one(s, op, e);
    case PLANT_HELD_FOREVER: return op->kind == OP_RUNNING ? running_all((struct op_running *)op) : apply_one(s, op, e);
    case PLANT_NO_RELEASE:
        return op->kind == OP_ORPHANS ? orphans_due(s, (struct op_orphans *)op, e) : apply_one(s, op, e);
    case PLANT_EARLY_SIGNAL:
        return op->kind == OP_SIGNAL ? signal_late_only(s, (struct op_signal *)op, e) : apply_one(s, op, e);
    case PLANT_OPENED_TWICE: return op->kind == OP_OPEN ? open_twice(s, (struct op_open *)op, e) : apply_one(s, op, e);
    case PLANT_UNCOUNTED:
        return op->kind == OP_CLAIM ? claim_uncounted(s, (struct op_claim *)op, e) : apply_one(s, op, e);
    default: return apply_one(s, op, e);
    }
}

enum err plant_apply(struct sim *s, struct op *const *ops, size_t n, struct error *e)
{
    if (s->plant == PLANT_NONE)
        return store_apply(s->store, ops, n, e);
    for (size_t i = 0; i < n; i++) {
        enum err rc = apply_planted(s, ops[i], e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

/* A completion that never comes. The operation is kept, so that the node can be taken apart at the end. */
bool plant_swallows(struct sim_node *n, struct op *op)
{
    struct sim *s = n->sim;
    if (s->plant != PLANT_SWALLOWED || op->kind != OP_SETTLE || !chance(s, 3))
        return false;
    list_push(&n->writer.swallowed, &op->link);
    return true;
}

void plant_store(struct sim *s)
{
    static const enum memory_bug bugs[PLANT_COUNT] = {
        [PLANT_ARRIVAL_LOST] = MEMORY_LOSES_ARRIVALS,
        [PLANT_STEP_LOST] = MEMORY_LOSES_ARRIVALS,
        [PLANT_ARRIVAL_DOUBLED] = MEMORY_DOUBLES_ARRIVALS,
        [PLANT_STEP_DOUBLED] = MEMORY_DOUBLES_ARRIVALS,
        [PLANT_ARRIVAL_EARLY] = MEMORY_ARRIVES_EARLY,
        [PLANT_STEP_EARLY] = MEMORY_ARRIVES_EARLY,
        [PLANT_SKIP_KEPT] = MEMORY_KEEPS_SKIPS,
        [PLANT_FORGOTTEN] = MEMORY_PURGES_STEPS,
    };
    bool of_steps = s->plant >= PLANT_STEP_LOST;
    store_memory_plant(s->store, !of_steps || s->profile.flows ? bugs[s->plant] : MEMORY_SOUND);
}
