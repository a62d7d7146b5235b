/* Which hits an operation leaves. The same for every store. */
#include <assert.h>
#include <string.h>

#include "port/store.h"

static bool hits_want(const struct hit_wants *wants, int32_t tenant, enum hit_kind kind)
{
    return wants && tenant > 0 && wants->of(wants, tenant) & 1U << kind;
}

/* One thing that happened to one task. */
struct happening {
    int32_t tenant;
    enum hit_kind kind;
    struct str cause;
    struct uuid task;
    int64_t at_ms, count;
    int64_t fence;
};

static struct hit *hits_begin(struct hits *h, const struct happening *x, struct str cause)
{
    struct hit *hit = &h->v[h->n];
    assert(cause.n <= HIT_CAUSE_MAX);
    memcpy(h->causes[h->n], cause.p, cause.n);
    *hit = (struct hit){ .id = uuid_derived_from(x->at_ms, x->task, x->fence * 8 + x->kind),
                         .tenant = x->tenant,
                         .kind = x->kind,
                         .at_ms = x->at_ms,
                         .cause = { h->causes[h->n], cause.n },
                         .tasks = { h->texts[h->n], 0 } };
    h->tasks[h->n] = 0;
    h->n++;
    return hit;
}

/* The hit that the task joins: the last one of the same tenant, kind and cause, while it has room. */
static struct hit *hits_find(struct hits *h, const struct happening *x)
{
    for (size_t i = h->n; i-- > 0;) {
        struct hit *hit = &h->v[i];
        if (i == HITS_MAX || (hit->tenant == x->tenant && hit->kind == x->kind && str_eq(hit->cause, x->cause) &&
                              h->tasks[i] < HIT_TASKS_MAX))
            return hit;
    }
    return h->n < HITS_MAX ? hits_begin(h, x, x->cause) : hits_begin(h, x, S("other"));
}

static void hits_add(struct hits *h, const struct happening *x)
{
    struct hit *hit = hits_find(h, x);
    size_t at = (size_t)(hit - h->v);
    hit->count += x->count;
    if (h->tasks[at] == HIT_TASKS_MAX || at == HITS_MAX)
        return;
    char text[UUID_TEXT + 1];
    uuid_format(x->task, text);
    if (h->tasks[at]++)
        h->texts[at][hit->tasks.n++] = ' ';
    memcpy(h->texts[at] + hit->tasks.n, text, UUID_TEXT);
    hit->tasks.n += UUID_TEXT;
}

/* ---- OP_SETTLE ---- */

static bool hits_of_verdict(const struct settlement *s, struct happening *ret)
{
    const struct verdict *v = &s->verdict;
    bool failed = v->has_execution && v->execution.status != EXECUTION_COMPLETED;
    switch (s->ret_state) {
    case TASK_COMPLETED: ret->kind = HIT_SUCCESS; return true;
    case TASK_FAILED:
        ret->kind = HIT_FAILURE;
        ret->cause = str_from(v->cause.text[0]         ? v->cause.text
                              : v->retry_cause.text[0] ? v->retry_cause.text
                                                       : "failed");
        return true;
    case TASK_EXPIRED:
        ret->kind = HIT_MISSED;
        ret->cause = S("expired");
        return true;
    case TASK_SCHEDULED:
        ret->kind = HIT_RETRY;
        ret->cause = str_from(v->retry_cause.text[0] ? v->retry_cause.text : "failed");
        return failed && !s->replace;
    default: return false;
    }
}

static void hits_of_settle(const struct op_settle *op, const struct hit_wants *wants, struct hits *ret)
{
    for (size_t i = 0; i < op->n; i++) {
        const struct settlement *s = &op->v[i];
        struct happening x = {
            .tenant = s->tenant, .cause = S("done"), .task = s->id, .at_ms = op->now_ms, .count = 1, .fence = s->fence
        };
        if (!s->stale && hits_of_verdict(s, &x) && hits_want(wants, x.tenant, x.kind))
            hits_add(ret, &x);
    }
}

/* ---- OP_SPAWN, OP_PUT ---- */

static bool hits_is_missed(const struct task *occurrence)
{
    static const char *const missed[] = { "WINDOW", "ONE_FOR_ALL", "MISSED" };
    const char *why = occurrence->state == TASK_SKIPPED ? skip_reason_name(occurrence) : NULL;
    for (size_t i = 0; why && i < array_count(missed); i++)
        if (strcmp(why, missed[i]) == 0)
            return true;
    return false;
}

static void hits_of_spawn(const struct op_spawn *op, const struct hit_wants *wants, struct hits *ret)
{
    for (size_t i = 0; i < op->plan->occurrences.n; i++) {
        const struct task *t = &op->plan->occurrences.v[i];
        struct happening x = { .tenant = t->tenant,
                               .kind = HIT_MISSED,
                               .cause = S("skipped"),
                               .task = t->id,
                               .at_ms = op->now_ms,
                               .count = skip_count(t) };
        if (hits_is_missed(t) && hits_want(wants, t->tenant, HIT_MISSED))
            hits_add(ret, &x);
    }
}

static void hits_of_put(const struct op_put *op, const struct hit_wants *wants, struct hits *ret)
{
    const struct task *t = op->task;
    struct happening x = { .tenant = t->tenant,
                           .kind = HIT_MISSED,
                           .cause = S("expired"),
                           .task = t->id,
                           .at_ms = t->updated_ms,
                           .count = 1,
                           .fence = t->fence };
    if (t->state == TASK_EXPIRED && op->state != TASK_EXPIRED && hits_want(wants, t->tenant, HIT_MISSED))
        hits_add(ret, &x);
}

bool op_may_hit(const struct op *op, const struct hit_wants *wants)
{
    return wants && op->rc == ERR_OK && (op->kind == OP_SETTLE || op->kind == OP_SPAWN || op->kind == OP_PUT) &&
           wants->of(wants, 0);
}

void hits_of_op(const struct op *op, const struct hit_wants *wants, struct hits *ret)
{
    ret->n = 0;
    if (!op_may_hit(op, wants))
        return;
    if (op->kind == OP_SETTLE)
        hits_of_settle((const struct op_settle *)op, wants, ret);
    else if (op->kind == OP_SPAWN)
        hits_of_spawn((const struct op_spawn *)op, wants, ret);
    else
        hits_of_put((const struct op_put *)op, wants, ret);
}
