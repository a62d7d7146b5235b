/* What two stores answered, held side by side. Where the contract names no order, sets are compared. */
#include <stdio.h>
#include <stdlib.h>

#include "store_model.h"

#define differ(...) (snprintf(why, WHY_MAX, __VA_ARGS__), false)
#define number_same(what, a, b)                                                                                        \
    ((a) == (b) ? true : differ("%s: %lld and %lld", (what), (long long)(a), (long long)(b)))

static bool same_tasks(const char *what, const struct tasks *a, const struct tasks *b, char why[WHY_MAX])
{
    if (!number_same(what, a->n, b->n))
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const char *field = task_difference(&a->v[i], &b->v[i]);
        if (field)
            return differ("%s: task %zu differs in %s", what, i, field);
    }
    return true;
}

static int by_id(const void *a, const void *b)
{
    return uuid_cmp(((const struct task *)a)->id, ((const struct task *)b)->id);
}

static bool same_set(const char *what, const struct tasks *a, const struct tasks *b, char why[WHY_MAX])
{
    if (a->n)
        qsort(a->v, a->n, sizeof *a->v, by_id);
    if (b->n)
        qsort(b->v, b->n, sizeof *b->v, by_id);
    return same_tasks(what, a, b, why);
}

static int64_t fires_until_sum(const struct op_orphans *op)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < op->ret.n; i++)
        sum += (uint64_t)op->ret_fires_until_ms[i];
    return (int64_t)sum;
}

/* Which ones come when there are more is not said. */
static bool same_orphans(const struct op_orphans *a, const struct op_orphans *b, char why[WHY_MAX])
{
    if (a->ret.n == a->max)
        return number_same("held", a->ret.n, b->ret.n);
    return number_same("sum of fires_until_ms", fires_until_sum(a), fires_until_sum(b)) &&
           same_set("held", &a->ret, &b->ret, why);
}

static bool same_settlements(const struct op_settle *a, const struct op_settle *b, char why[WHY_MAX])
{
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].stale != b->v[i].stale)
            return differ("settlement %zu: stale %d and %d", i, a->v[i].stale, b->v[i].stale);
        else if (!a->v[i].stale && a->v[i].ret_state != b->v[i].ret_state)
            return differ("settlement %zu: %s and %s", i, task_state_name(a->v[i].ret_state),
                          task_state_name(b->v[i].ret_state));
    return true;
}

/* What is due beyond their sight stores need not tell apart. */
static int64_t in_sight(const struct op_claim *op, int64_t due_ms)
{
    return min_of(due_ms, op->now_ms + CLAIM_SIGHT_MS);
}

static bool same_lanes(const struct op_claim *a, const struct op_claim *b, char why[WHY_MAX])
{
    for (size_t i = 0; i < a->lane_count; i++)
        if (!number_same("taken of a lane", a->lanes[i].ret_taken, b->lanes[i].ret_taken) ||
            !number_same("a lane's next due", in_sight(a, a->lanes[i].ret_next_due_ms),
                         in_sight(b, b->lanes[i].ret_next_due_ms)) ||
            !number_same("a lane's next of its own", in_sight(a, a->lanes[i].ret_next_own_ms),
                         in_sight(b, b->lanes[i].ret_next_own_ms)))
            return false;
    return number_same("claim's next due", in_sight(a, a->ret_next_due_ms), in_sight(b, b->ret_next_due_ms)) &&
           number_same("claim's next suspect", in_sight(a, a->ret_next_suspect_ms),
                       in_sight(b, b->ret_next_suspect_ms));
}

static bool same_replaced(const struct op_claim *a, const struct op_claim *b, char why[WHY_MAX])
{
    for (size_t i = 0; i < a->ret_replaced_count; i++) {
        size_t found = 0;
        for (size_t j = 0; j < b->ret_replaced_count; j++)
            found += uuid_eq(a->ret_replaced[i].id, b->ret_replaced[j].id) &&
                     a->ret_replaced[i].fence == b->ret_replaced[j].fence &&
                     a->ret_replaced[i].by_scheduled_ms == b->ret_replaced[j].by_scheduled_ms;
        if (!found)
            return differ("a replaced task is missing, or its fence or who replaces it another");
    }
    return number_same("replaced", a->ret_replaced_count, b->ret_replaced_count);
}

static bool same_claims(const struct op_claim *a, const struct op_claim *b, char why[WHY_MAX])
{
    return same_tasks("claim", &a->ret, &b->ret, why) && same_set("gated", &a->ret_gated, &b->ret_gated, why) &&
           same_replaced(a, b, why) && same_lanes(a, b, why) &&
           number_same("claim woke", a->ret_unblocked_lanes, b->ret_unblocked_lanes);
}

static bool same_taken(const struct op_recurring *a, const struct op_recurring *b, char why[WHY_MAX])
{
    for (size_t i = 0; i < a->ret.n; i++) {
        const struct spawn_taken *x = &a->ret_taken[i], *y = &b->ret_taken[i];
        if (!number_same("taken times", x->n, y->n) || !number_same("taken until", x->before_ms, y->before_ms))
            return false;
        for (size_t j = 0; j < x->n; j++)
            if (!number_same("taken from", x->v[j].first_ms, y->v[j].first_ms) ||
                !number_same("taken to", x->v[j].last_ms, y->v[j].last_ms))
                return false;
    }
    return true;
}

static bool same_answers(const union any_op *a, const union any_op *b, char why[WHY_MAX])
{
    switch (a->op.kind) {
    case OP_CLAIM: return same_claims(&a->claim, &b->claim, why);
    case OP_CLAIMED: return same_set("claimed", &a->claimed.ret, &b->claimed.ret, why);
    case OP_ORPHANS: return same_orphans(&a->held, &b->held, why);
    case OP_SETTLE:
        return same_settlements(&a->settle, &b->settle, why) &&
               number_same("settle woke", a->settle.ret_unblocked_lanes, b->settle.ret_unblocked_lanes);
    case OP_RECURRING:
        return same_tasks("recurring", &a->recurring.ret, &b->recurring.ret, why) &&
               same_taken(&a->recurring, &b->recurring, why) &&
               number_same("recurring's next", a->recurring.ret_next_ms, b->recurring.ret_next_ms);
    case OP_CATCH_UP:
        return number_same("missed", a->missed.ret_withdrawn, b->missed.ret_withdrawn) &&
               (uuid_eq(a->missed.ret_after, b->missed.ret_after) || differ("missed: where to go on"));
    case OP_PUT:
        return number_same("put's state", a->put.ret_state, b->put.ret_state) &&
               number_same("put's withdrawn", a->put.ret_withdrawn, b->put.ret_withdrawn) &&
               number_same("put's cuts", a->put.ret_cut, b->put.ret_cut) &&
               number_same("put woke", a->put.ret_unblocked_lanes, b->put.ret_unblocked_lanes) &&
               (a->put.task->kind != TASK_RECURRING ||
                number_same("put's cursor", a->put.ret_cursor_ms, b->put.ret_cursor_ms));
    case OP_OPEN:
    case OP_AWAIT:
    case OP_SIGNAL:
    case OP_STOP:
    case OP_DEFINE: return same_run_answers(a, b, why);
    case OP_ARRIVE: return number_same("arrived", a->arrive.ret_applied, b->arrive.ret_applied);
    case OP_LEASE: return number_same("lease", a->lease.ret_held, b->lease.ret_held);
    case OP_PURGE: return number_same("forgotten", a->forget.ret_purged, b->forget.ret_purged);
    case OP_INSERT:
    case OP_SPAWN:
    case OP_HANDOFF:
    case OP_STATS:
    case OP_FOLD:
    case OP_KEY_PUT: return true;
    case OP_WORKER_REPORT: return number_same("a report changed", a->worker.ret_changed, b->worker.ret_changed);
    case OP_BREAKERS: return number_same("breakers changed", a->breakers.ret_changed, b->breakers.ret_changed);
    case OP_RESEAL: return number_same("resealed", a->reseal.ret_changed, b->reseal.ret_changed);
    case OP_CATALOG: return same_catalog_changes(&a->catalog, &b->catalog, why);
    case OP_HEARTBEAT: return same_beats(&a->beat, &b->beat, why);
    case OP_NODE_DEAD: return number_same("buried", a->bury.ret_marked_dead, b->bury.ret_marked_dead);
    case OP_LIMIT_TAKE: return same_shares(&a->share, &b->share, why);
    case OP_RECALL:
        if (a->recall_request.ret_refused != b->recall_request.ret_refused)
            return differ("a recall request: whether it was refused");
        if (b->recall_request.ret_handed_off && !a->recall_request.ret_handed_off)
            return differ("a recall request: the claim was not handed off");
        return uuid_eq(a->recall_request.ret_owner, b->recall_request.ret_owner) || differ("a wish: the owner");
    case OP_RECALL_LIST: return same_recall_requests(&a->recall_requests, &b->recall_requests, why);
    case OP_HANDED_OFF:
        return same_tasks("handed", &a->handed.ret, &b->handed.ret, why) && same_epochs(&a->handed, &b->handed, why) &&
               number_same("more handed", a->handed.ret_more, b->handed.ret_more);
    case OP_RUNNING: return same_running(&a->running, &b->running, why);
    case OP_RETAKE: return same_set("retaken", &a->retake.ret, &b->retake.ret, why);
    case OP_LEASE_RENEW: return same_keeps(&a->keep, &b->keep, why);
    case OP_LEASES_EXPIRED:
        return same_tasks("leases over", &a->leases_over.ret, &b->leases_over.ret, why) &&
               number_same("next lease over", a->leases_over.ret_next_ms, b->leases_over.ret_next_ms) &&
               same_tasks("waiting", &a->leases_over.ret_waiting, &b->leases_over.ret_waiting, why) &&
               number_same("next waiting", a->leases_over.ret_next_waiting_ms, b->leases_over.ret_next_waiting_ms) &&
               number_same("expires", a->leases_over.ret_expires, b->leases_over.ret_expires);
    }
    return differ("no such operation");
}

bool same_results(const union any_op *a, const union any_op *b, char why[WHY_MAX])
{
    if (a->op.rc != b->op.rc)
        return differ("operation %d: %s and %s (%s)", a->op.kind, err_text(a->op.rc), err_text(b->op.rc),
                      b->op.error.text);
    if (a->op.rc == ERR_OK)
        return same_answers(a, b, why);
    bool promised = a->op.kind == OP_INSERT || a->op.kind == OP_PUT || a->op.kind == OP_CATALOG ||
                    a->op.kind == OP_SETTLE || a->op.kind == OP_RECALL || a->op.kind >= OP_OPEN;
    if (promised && strcmp(a->op.error.field, b->op.error.field) != 0)
        return differ("operation %d: field '%s' and '%s'", a->op.kind, a->op.error.field, b->op.error.field);
    return true;
}

/* ---- reading ---- */

static bool same_lists(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct task_filter f = model_filter(m);
    struct task_page p = { 0 }, q = { 0 };
    size_t n = 0, o = 0, max = below(m, 30);
    if (reader_list(a, &f, &m->arena, &p, NULL) || reader_list(b, &f, &m->arena, &q, NULL))
        return differ("a list failed");
    if (!same_tasks("list", &p.tasks, &q.tasks, why) || !number_same("list's more", p.more, q.more))
        return false;
    if (p.more && !uuid_eq(p.next_before, q.next_before))
        return differ("list's next_before");
    f.before = (struct uuid){ 0 };
    if (reader_count(a, &f, max, &n, NULL) || reader_count(b, &f, max, &o, NULL))
        return differ("a count failed");
    return number_same("count", n, o);
}

static bool same_executions(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct task t;
    if (!model_look(m, &t))
        return true;
    struct execution_filter f = { .tenant = t.tenant,
                                  .task = t.kind == TASK_OCCURRENCE ? t.parent : t.id,
                                  .statuses = chance(m, 30) ? 1u << below(m, 3) : 0,
                                  .limit = 1 + below(m, 5) };
    for (struct execution_page p = { .more = true }, q = p; p.more; f.before = p.next_before) {
        if (reader_executions(a, &f, &m->arena, &p, NULL) || reader_executions(b, &f, &m->arena, &q, NULL))
            return differ("executions failed");
        if (!number_same("executions", p.executions.n, q.executions.n) ||
            !number_same("executions' more", p.more, q.more))
            return false;
        for (size_t i = 0; i < p.executions.n; i++) {
            const char *field = execution_difference(&p.executions.v[i], &q.executions.v[i]);
            if (field)
                return differ("execution %zu differs in %s", i, field);
        }
        if (p.more && !uuid_eq(p.next_before, q.next_before))
            return differ("executions' next_before");
    }
    return true;
}

static int compare_ids(const void *a, const void *b)
{
    return uuid_cmp(*(const struct uuid *)a, *(const struct uuid *)b);
}

enum { HISTORY_MAX = 4000 };

/* The ids of the whole history, in pages, sorted: stores order what ended at one time as they like. */
static size_t history_of(struct model *m, struct reader *r, struct history_filter f, struct uuid *ret)
{
    size_t n = 0;
    for (struct history_page p = { .more = true }; p.more && n < HISTORY_MAX; f.before = p.next_before) {
        if (reader_history(r, &f, &m->arena, &p, NULL))
            return SIZE_MAX;
        for (size_t i = 0; i < p.n && n < HISTORY_MAX; i++)
            ret[n++] = p.v[i].execution.id;
    }
    qsort(ret, n, sizeof *ret, compare_ids);
    return n;
}

static bool same_history(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    static struct uuid x[HISTORY_MAX], y[HISTORY_MAX];
    struct history_filter f = { .tenant = 1 + (int)below(m, 2),
                                .statuses = chance(m, 30) ? 1u << below(m, 3) : 0,
                                .queue = chance(m, 20) ? one_of(m, model_queues, array_count(model_queues)) : S(""),
                                .to_us = INT64_MAX / 4,
                                .limit = 1 + below(m, 100) };
    if (!chance(m, 10)) /* it reads everything */
        return true;
    size_t n = history_of(m, a, f, x), other = history_of(m, b, f, y);
    if (!number_same("the history", n, other) || n == SIZE_MAX)
        return false;
    return !n || memcmp(x, y, n * sizeof *x) == 0 || differ("the history has other ids");
}

static bool same_gets(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct task t, u;
    if (!m->pool_count)
        return true;
    const struct known *k = &m->pool[below(m, m->pool_count)];
    enum err x = reader_get(a, k->tenant, k->id, &m->arena, &t, NULL);
    enum err y = reader_get(b, k->tenant, k->id, &m->arena, &u, NULL);
    if (!number_same("get", x, y) || x)
        return x == y;
    const char *field = task_difference(&t, &u);
    return field ? differ("a task differs in %s", field) : true;
}

static bool same_records(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    uint8_t key[32] = { (uint8_t)below(m, 12) };
    int32_t tenant = chance(m, 50) ? TENANT : OTHER_TENANT;
    struct idempotency i, j;
    enum err x = reader_idempotency(a, tenant, key, &m->arena, &i, NULL);
    enum err y = reader_idempotency(b, tenant, key, &m->arena, &j, NULL);
    if (!number_same("idempotency", x, y))
        return false;
    if (x == ERR_OK && (i.status != j.status || i.created_ms != j.created_ms || !str_eq(i.answer, j.answer) ||
                        memcmp(i.payload, j.payload, sizeof i.payload) != 0))
        return differ("an idempotency record differs");
    struct api_key k, l;
    x = reader_key(a, S("k1"), &m->arena, &k, NULL);
    y = reader_key(b, S("k1"), &m->arena, &l, NULL);
    if (!number_same("key", x, y))
        return false;
    if (x == ERR_OK && (!str_eq(k.name, l.name) || !str_eq(k.scopes, l.scopes) || memcmp(k.hash, l.hash, 32) != 0 ||
                        !str_eq(k.parent, l.parent) || k.expires_ms != l.expires_ms))
        return differ("a key differs");
    return true;
}

/* The second may name empty lanes too. */
static bool same_overview(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct lane *v, *u;
    size_t n, o;
    if (reader_lanes(a, &m->arena, &v, &n, NULL) || reader_lanes(b, &m->arena, &u, &o, NULL))
        return differ("lanes failed");
    for (size_t i = 0; i < n; i++) {
        size_t found = 0;
        for (size_t j = 0; j < o; j++)
            found += lane_eq(&v[i], &u[j]);
        if (found != 1)
            return differ("a lane is named %zu times", found);
    }
    struct used_queues p, q;
    if (reader_queues(a, TENANT, &m->arena, &p, NULL) || reader_queues(b, TENANT, &m->arena, &q, NULL))
        return differ("queues failed");
    for (size_t i = 0; i < p.n; i++) {
        size_t found = 0;
        for (size_t j = 0; j < q.n; j++)
            found += str_eq(p.v[i], q.v[j]);
        if (found != 1)
            return differ("queue " STR_FMT " is named %zu times", STR_ARG(p.v[i]), found);
    }
    struct store_counts c, d;
    if (reader_counts(a, m->now_ms, &c, NULL) || reader_counts(b, m->now_ms, &d, NULL))
        return differ("counts failed");
    for (size_t i = 0; i < array_count(c.by_state); i++)
        if (!number_same(task_state_name((enum task_state)i), c.by_state[i], d.by_state[i]))
            return false;
    int64_t x, y;
    struct str queue = one_of(m, model_queues, array_count(model_queues));
    if (reader_queue_due(a, TENANT, queue, m->now_ms, &x, NULL) ||
        reader_queue_due(b, TENANT, queue, m->now_ms, &y, NULL))
        return differ("what is due of a queue failed");
    return number_same("due", c.due, d.due) && number_same("due of a queue", x, y);
}

/* A difference stays, so a later step finds it as well; comparing everything after each step took most of the time. */
enum { COMPARE_PERCENT = 35 };

bool same_reads(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    for (int i = 0; i < 3; i++)
        if (!same_gets(m, a, b, why))
            return false;
    typedef bool compare_fn(struct model * m, struct reader * a, struct reader * b, char why[WHY_MAX]);
    static compare_fn *const compares[] = { same_lists,         same_executions, same_history, same_records,
                                            same_other_records, same_overview,   same_fleet,   same_links,
                                            same_runs,          same_stats,      same_sealed };
    for (size_t i = 0; i < array_count(compares); i++)
        if (chance(m, COMPARE_PERCENT) && !compares[i](m, a, b, why))
            return false;
    return true;
}
