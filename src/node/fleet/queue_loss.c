/* A batch has two parts: some of its tasks are claimed anew, then the others are settled. A task that could not be
 * claimed anew, because it changed meanwhile or for a reason that only the store knows, is among the others: its
 * fence says whether somebody else has it by now. */
#include "node/fleet/queue_loss.h"

#include <assert.h>
#include <stdlib.h>

#include "base/map.h"

static struct queue_loss *queue_loss_of(struct reaper *r)
{
    return container_of(r, struct queue_loss, reaper);
}

static struct outcome queue_loss_outcome(enum delivery delivery)
{
    return (struct outcome){ .kind = delivery == DELIVER_AT_MOST_ONCE ? OUTCOME_LOST : OUTCOME_RETURNED,
                             .retry_after_ms = -1,
                             .late_by = LATE_DOWN };
}

bool queue_loss_note(const struct queue_loss *q, const struct task *t, struct arena *a, struct queue_loss_task *ret)
{
    struct outcome o = queue_loss_outcome(t->delivery);
    struct settle_facts facts = settle_facts_of(t, &o, a);
    if (!arena_str(a, facts.retry.rules, &facts.retry.rules) || !arena_str(a, facts.queue, &facts.queue) ||
        !arena_str(a, facts.name, &facts.name) || !arena_str(a, facts.trace, &facts.trace))
        return false;
    bool retake = q->setup.scheduler && scheduler_may_retake(q->setup.scheduler, t);
    *ret = (struct queue_loss_task){ facts, retake };
    return true;
}

/* ---- claiming anew in place ---- */

static void queue_loss_on_retaken(void *context, const struct tasks *tasks)
{
    struct queue_loss *q = context;
    struct map taken;
    map_init(&taken, HASH_STABLE);
    for (size_t i = 0; i < tasks->n; i++)
        map_put(&taken, uuid_bytes(&tasks->v[i].id), &tasks->v[i]);
    for (size_t i = 0; i < q->reaper.found; i++)
        q->taken[i] = map_get(&taken, uuid_bytes(&q->v[i].facts.id)) != NULL;
    map_release(&taken);
    reaper_prepared(&q->reaper);
}

static bool queue_loss_prepare(struct reaper *r)
{
    struct queue_loss *q = queue_loss_of(r);
    size_t n = 0;
    q->taken = xcalloc(r->found, sizeof *q->taken);
    q->ids = xcalloc(r->found, sizeof *q->ids);
    for (size_t i = 0; i < r->found; i++)
        if (q->v[i].retake)
            q->ids[n++] = (struct fenced_id){ q->v[i].facts.id, q->v[i].facts.fence };
    return n && scheduler_retake(q->setup.scheduler, &(struct scheduler_retake){ q->ids, n, queue_loss_on_retaken, q });
}

/* ---- verdicts on the others ---- */

static void queue_loss_decide(struct reaper *r)
{
    struct queue_loss *q = queue_loss_of(r);
    for (size_t i = 0; i < r->found; i++) {
        const struct settle_facts *t = &q->v[i].facts;
        if (q->taken[i])
            continue;
        struct event *e = reaper_next_event(r);
        *e = (struct event){ .task = *t, .outcome = queue_loss_outcome(t->delivery) };
        struct verdict v = settle(t, &e->outcome, reaper_verdict_ms(r), &r->random, &r->arena);
        reaper_add(r, (struct settlement){
                          .id = t->id, .fence = t->fence, .parent = t->parent, .tenant = t->tenant, .verdict = v });
    }
}

static void queue_loss_on_batch_over(struct reaper *r)
{
    struct queue_loss *q = queue_loss_of(r);
    free(q->taken);
    free(q->ids);
    q->taken = NULL;
    q->ids = NULL;
    q->v = NULL;
    q->setup.batch_over(q->setup.batch_context);
}

static const struct reaper_source queue_loss_source = {
    .name = "queue_loss",
    .prepare = queue_loss_prepare,
    .decide = queue_loss_decide,
    .batch_over = queue_loss_on_batch_over,
};

/* ---- public functions ---- */

void queue_loss_init(struct queue_loss *q, const struct queue_loss_setup *setup)
{
    *q = (struct queue_loss){ .setup = *setup };
    reaper_init(&q->reaper, &queue_loss_source, &setup->reaper);
}

void queue_loss_settle(struct queue_loss *q, const struct queue_loss_task *v, size_t n)
{
    assert(n > 0 && n <= QUEUE_LOSS_BATCH);
    q->v = v;
    reaper_begin(&q->reaper, n);
}

int64_t queue_loss_step(struct queue_loss *q, struct moment now, int64_t behind_ms)
{
    return reaper_step(&q->reaper, now, behind_ms, false);
}

void queue_loss_stop(struct queue_loss *q)
{
    reaper_stop(&q->reaper);
}

bool queue_loss_is_idle(const struct queue_loss *q)
{
    return reaper_is_idle(&q->reaper);
}
