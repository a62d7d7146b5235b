/* A batch is two steps: some of it is asked for, then what is left of it is settled. What was not taken, because it changed meanwhile or for
 * a reason that only the store knows, is among that: the fence says whether it is somebody else's by now. */
#include "node/fleet/queue_loss.h"

#include <assert.h>
#include <stdlib.h>

#include "base/map.h"

enum { VERDICTS_ARENA = 64 << 20 };

struct outcome queue_loss_outcome(enum delivery delivery)
{
    return (struct outcome){ .kind = delivery == DELIVER_AT_MOST_ONCE ? OUTCOME_LOST : OUTCOME_RETURNED,
                             .retry_after_ms = -1 };
}

bool queue_loss_note(const struct missing *m, const struct task *t, struct arena *a, struct queue_loss_task *ret)
{
    struct outcome o = queue_loss_outcome(t->delivery);
    struct settle_facts facts = settle_facts_of(t, &o, a);
    if (facts.retry.rules.n && !arena_str(a, facts.retry.rules, &facts.retry.rules))
        return false;
    bool retake = m->setup.scheduler && scheduler_may_retake(m->setup.scheduler, t);
    *ret = (struct queue_loss_task){ facts, retake };
    return true;
}

/* ---- the rest ---- */

static void batch_done(struct missing *m)
{
    arena_release(&m->verdicts);
    free(m->names);
    m->names = NULL;
    m->v = NULL;
    m->setup.ends.done(m->setup.ends.context);
}

static void add(struct missing *m, size_t at, const struct settle_facts *t)
{
    struct event *e = &m->events[at];
    *e = (struct event){ .task = *t, .outcome = queue_loss_outcome(t->delivery) };
    struct verdict v = settle(t, &e->outcome, m->now.wall_ms + m->behind_ms, &m->random, &m->verdicts);
    m->settlements[at] = (struct settlement){ .id = t->id, .fence = t->fence, .parent = t->parent, .verdict = v };
}

/* Whatever of the batch was not taken. */
static void settle_rest(struct missing *m, const struct map *taken)
{
    size_t n = 0;
    arena_init(&m->verdicts, VERDICTS_ARENA);
    m->events = arena_alloc(&m->verdicts, m->n * sizeof *m->events);
    m->settlements = arena_alloc(&m->verdicts, m->n * sizeof *m->settlements);
    assert(m->events && m->settlements);
    for (size_t i = 0; i < m->n; i++)
        if (!taken || !map_get(taken, uuid_bytes(&m->v[i].facts.id)))
            add(m, n++, &m->v[i].facts);
    if (n)
        settle_retry_submit(&m->ends, m->events, m->settlements, n, m->now);
    else
        batch_done(m);
}

/* ---- what is claimed anew ---- */

static void retaken(void *context, const struct tasks *tasks)
{
    struct missing *m = context;
    struct map taken;
    m->retaking = false;
    if (m->given_up) {
        batch_done(m);
        return;
    }
    map_init(&taken, HASH_STABLE);
    for (size_t i = 0; i < tasks->n; i++)
        map_put(&taken, uuid_bytes(&tasks->v[i].id), &tasks->v[i]);
    settle_rest(m, &taken);
    map_release(&taken);
}

static bool retake(struct missing *m)
{
    size_t n = 0;
    m->names = xcalloc(m->n, sizeof *m->names);
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].retake)
            m->names[n++] = (struct fenced_id){ m->v[i].facts.id, m->v[i].facts.fence };
    m->retaking = true; /* it may be done at once */
    bool asked = n && scheduler_retake(m->setup.scheduler, &(struct scheduler_retake){ m->names, n, retaken, m });
    m->retaking = m->retaking && asked;
    return asked;
}

/* ---- doors ---- */

static void settled(void *context, const struct event *e, const struct settlement *s)
{
    struct missing *m = context;
    m->setup.ends.settled(m->setup.ends.context, e, s);
}

static void unblocked(void *context, uint64_t lanes)
{
    struct missing *m = context;
    m->setup.ends.unblocked(m->setup.ends.context, lanes);
}

static void rest_settled(void *context)
{
    batch_done(context);
}

void queue_loss_init(struct missing *m, const struct queue_loss_setup *setup)
{
    *m = (struct missing){ .setup = *setup };
    m->ends.setup = (struct settle_retry_setup){ .writer = setup->ends.writer,
                                                 .metrics = setup->ends.metrics,
                                                 .settled = settled,
                                                 .unblocked = unblocked,
                                                 .done = rest_settled,
                                                 .context = m };
    prng_init(&m->random, setup->seed);
}

void queue_loss_settle(struct missing *m, const struct queue_loss_task *v, size_t n, struct moment now,
                       int64_t behind_ms)
{
    assert(queue_loss_is_idle(m) && n > 0 && n <= QUEUE_LOSS_BATCH);
    m->v = v;
    m->n = n;
    m->now = now;
    m->behind_ms = behind_ms;
    if (!retake(m))
        settle_rest(m, NULL);
}

int64_t queue_loss_step(struct missing *m, struct moment now, int64_t behind_ms)
{
    m->now = now;
    m->behind_ms = behind_ms;
    return settle_retry_step(&m->ends, now);
}

void queue_loss_give_up(struct missing *m)
{
    m->given_up = true;
    settle_retry_give_up(&m->ends);
}

bool queue_loss_is_idle(const struct missing *m)
{
    return !m->retaking && !m->v && settle_retry_is_idle(&m->ends);
}
