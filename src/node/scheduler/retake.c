/* A task that the queue has forgotten is claimed anew in place, whoever had claimed it, and then treated like any
 * claimed task. One operation is under way at a time. If its answer was lost, the claim is read back by its id until
 * the store answers; the caller waits for that. */
#include <assert.h>

#include "base/log.h"
#include "node/scheduler/internal.h"

enum {
    RETAKE_BYTES = 16 << 10, /* of a task: larger tasks are claimed a few at a time */
    RETAKE_ARENA = 128 << 20,
    RETRY_MIN_MS = 20,
    RETRY_MAX_MS = 1000,
};

static bool retake_may_begin(const struct scheduler *s)
{
    return s->begun && !s->suspended && !s->draining && !s->isolating && !s->retaking.claim;
}

bool scheduler_may_retake(struct scheduler *s, const struct task *t)
{
    if (t->delivery != DELIVER_AT_LEAST_ONCE || task_is_suspect(t) || !s->begun)
        return false;
    bool holds = scheduler_holds(s, t->id, t->fence);
    return lanes_may_retake(s->lanes, lanes_know(s->lanes, task_lane(t)), holds, s->now.wall_ms);
}

/* The former holder lets go first, so that the tasks do not count twice. */
static void retake_finish(struct scheduler *s, const struct tasks *taken)
{
    struct claim *c = take(s->retaking.claim);
    struct scheduler_retake ask = s->retaking.ask;
    s->retaking.retry_ms = 0;
    if (taken->n) {
        s->setup.retaken(s->setup.context, taken);
        scheduler_arm(s, c, taken);
    }
    ask.done(ask.context, taken);
    claim_unref(c);
}

static void retake_finish_with_none(struct scheduler *s)
{
    retake_finish(s, &(struct tasks){ 0 });
}

static void retake_on_read_back(struct op *op);

static void retake_failed(struct scheduler *s, struct claim *c)
{
    struct retaking *r = &s->retaking;
    log_warn("claim_failed", kv_err(&c->op.error));
    r->retry_ms = min_of(max_of(r->retry_ms * 2, (int64_t)RETRY_MIN_MS), (int64_t)RETRY_MAX_MS);
    r->retry_at_ms = s->now.steady_ms + r->retry_ms;
    scheduler_refused(s, &c->op);
    claim_read_back(c, retake_on_read_back);
}

static void retake_answered(struct claim *c, const struct tasks *taken)
{
    struct scheduler *s = c->scheduler;
    if (c->disowned)
        retake_finish_with_none(s);
    else if (c->op.rc)
        retake_failed(s, c);
    else
        retake_finish(s, taken);
}

static void retake_on_read_back(struct op *op)
{
    struct claim *c = container_of(op, struct claim, op);
    retake_answered(c, &c->readback.ret);
}

static void retake_on_answer(struct op *op)
{
    struct claim *c = container_of(op, struct claim, op);
    retake_answered(c, &c->retake.ret);
}

bool scheduler_retake(struct scheduler *s, const struct scheduler_retake *r)
{
    assert(s->setup.fleet && r->n > 0 && r->n <= CLAIM_MAX);
    if (!retake_may_begin(s))
        return false;
    struct claim *c = xnew(*c);
    c->scheduler = s;
    c->id = uuid_next(&s->ids, s->now.wall_ms);
    c->references = 1;
    c->retake = (struct op_retake){ .op = { .kind = OP_RETAKE, .done = retake_on_answer },
                                    .claim = c->id,
                                    .node = s->setup.node,
                                    .v = r->v,
                                    .n = r->n,
                                    .max_bytes = RETAKE_BYTES };
    arena_init(&c->op.arena, RETAKE_ARENA);
    s->retaking.ask = *r;
    s->retaking.claim = c;
    writer_submit(s->setup.writer, &c->op);
    return true;
}

int64_t scheduler_retake_step(struct scheduler *s)
{
    struct retaking *r = &s->retaking;
    if (!r->claim || !r->claim->waits)
        return INT64_MAX;
    if (r->retry_at_ms > s->now.steady_ms)
        return moment_wall_at(s->now, r->retry_at_ms);
    r->claim->waits = false;
    writer_submit(s->setup.writer, &r->claim->op);
    return INT64_MAX;
}

void scheduler_disown_retake(struct scheduler *s)
{
    struct claim *c = s->retaking.claim;
    if (!c)
        return;
    c->disowned = true;
    if (c->waits)
        retake_finish_with_none(s);
}
