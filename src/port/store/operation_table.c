#include "port/store/operation_table.h"

#include <assert.h>

#include "core/target/target_url.h"
#include "port/store.h"

/* ---- checks of what callers give and stores answer ---- */

static void check_no_waits(const struct task *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert(t[i].waits_for.n == 0);
}

static void check_insert(const struct op *op)
{
    const struct op_insert *insert = (const struct op_insert *)op;
    check_no_waits(insert->tasks, insert->count);
    for (size_t i = 0; insert->depends && i < insert->count; i++) {
        const struct task *t = &insert->tasks[i];
        assert(insert->depends[i].n <= DEPENDENCIES_MAX);
        assert(!insert->depends[i].n || (t->kind == TASK_ONE_TIME && t->state == TASK_SCHEDULED && !t->deleted));
    }
}

static void check_claim(const struct op *op)
{
    const struct op_claim *c = (const struct op_claim *)op;
    assert(!uuid_is_nil(c->claim) && !uuid_is_nil(c->node) && c->max > 0 && c->max <= CLAIM_MAX);
    assert(c->until_ms >= c->now_ms && c->lane_count > 0 && c->help_after_ms >= 0);
    for (size_t i = 0; c->lease && i < c->lane_count; i++)
        assert(!c->lanes[i].lane.late);
}

static void check_claim_result(const struct op *op)
{
    const struct op_claim *c = (const struct op_claim *)op;
    assert(c->ret.n <= c->max);
    for (size_t i = 0; i < c->ret.n; i++) {
        const struct task *t = &c->ret.v[i];
        assert(t->state == TASK_RUNNING && t->fence > 0 && uuid_eq(t->claim, c->claim));
        assert(t->kind != TASK_RECURRING && t->due_ms <= c->until_ms && t->waits_for.n == 0);
    }
    for (size_t i = 0; i < c->lane_count; i++)
        assert(c->lanes[i].ret_taken <= c->lanes[i].max && c->lanes[i].ret_next_due_ms >= c->ret_next_due_ms);
}

static void check_settle(const struct op *op)
{
    const struct op_settle *s = (const struct op_settle *)op;
    assert(!s->idempotency || s->n == 1);
    for (size_t i = 0; i < s->n; i++) {
        assert(s->v[i].fence > 0);
        assert(s->v[i].replace || task_may_become(TASK_RUNNING, s->v[i].verdict.next));
    }
}

static void check_recurring(const struct op *op)
{
    const struct op_recurring *r = (const struct op_recurring *)op;
    assert(!r->own || r->help_until_ms <= r->until_ms);
}

static void check_spawn(const struct op *op)
{
    const struct op_spawn *s = (const struct op_spawn *)op;
    check_no_waits(s->plan->occurrences.v, s->plan->occurrences.n);
}

static void check_catch_up(const struct op *op)
{
    assert(((const struct op_catch_up *)op)->max > 0);
}

static void check_put(const struct op *op)
{
    const struct op_put *put = (const struct op_put *)op;
    if (put->also)
        check_no_waits(put->also, 1);
    assert(!put->max_pending || (put->also && !put->withdraw && put->task->state == put->state));
    assert(!put->depends || (put->task->kind == TASK_ONE_TIME && put->state < TASK_RUNNING &&
                             !task_is_final(put->task->state) && put->depends->n <= DEPENDENCIES_MAX));
}

static void check_catalog(const struct op *op)
{
    const struct op_catalog *c = (const struct op_catalog *)op;
    assert(c->n > 0 && c->n <= CATALOG_LIST_MAX);
    for (size_t i = 0; i < c->n; i++) {
        const struct catalog_entry *x = &c->v[i].entry;
        assert((int)x->kind < CATALOG_KINDS && x->tenant >= 0 && x->name.n > 0 && x->name.n <= CATALOG_NAME_MAX);
        assert(c->v[i].version >= -1);
    }
}

static void check_purge(const struct op *op)
{
    assert(((const struct op_purge *)op)->max > 0);
}

static void check_heartbeat(const struct op *op)
{
    assert(!uuid_is_nil(((const struct op_heartbeat *)op)->node.id));
}

static void check_node_dead(const struct op *op)
{
    assert(((const struct op_node_dead *)op)->beats > 0);
}

static void check_limit_take(const struct op *op)
{
    const struct op_limit_take *l = (const struct op_limit_take *)op;
    assert(!uuid_is_nil(l->node));
    for (size_t i = 0; i < l->n; i++) {
        const struct share *s = &l->v[i];
        assert(s->key.n > 0 && s->key.n <= SHARE_KEY_MAX && s->rate >= 0 && (s->rate == 0 || s->burst >= 1));
        assert(s->want_tokens >= 0 && s->give_back_tokens >= 0 && s->concurrency >= 0 && s->want_places >= 0);
    }
}

static void check_limit_take_result(const struct op *op)
{
    const struct op_limit_take *l = (const struct op_limit_take *)op;
    for (size_t i = 0; i < l->n; i++) {
        const struct share *s = &l->v[i];
        assert(s->ret_tokens >= 0 && s->ret_tokens <= s->want_tokens && s->ret_places >= 0);
        assert(s->ret_places <= s->want_places);
    }
}

static void check_recall(const struct op *op)
{
    assert(((const struct op_recall *)op)->fence > 0);
}

static void check_recall_result(const struct op *op)
{
    assert(!uuid_is_nil(((const struct op_recall *)op)->ret_owner));
}

static void check_recall_list(const struct op *op)
{
    const struct op_recall_list *l = (const struct op_recall_list *)op;
    assert(l->max > 0);
    for (size_t i = 0; i < l->refused_count; i++)
        assert(l->refused[i].fence > 0);
}

static void check_recall_list_result(const struct op *op)
{
    const struct op_recall_list *l = (const struct op_recall_list *)op;
    assert(l->ret_count <= l->max);
    for (size_t i = 0; i < l->ret_count; i++)
        assert(uuid_cmp(l->ret[i].id, i ? l->ret[i - 1].id : l->after) > 0);
}

static void check_handoff(const struct op *op)
{
    assert(!uuid_is_nil(((const struct op_handoff *)op)->node));
}

static void check_handed_off(const struct op *op)
{
    assert(((const struct op_handed_off *)op)->max > 0);
}

static void check_retake(const struct op *op)
{
    const struct op_retake *r = (const struct op_retake *)op;
    assert(!uuid_is_nil(r->claim) && !uuid_is_nil(r->node) && r->n <= CLAIM_MAX);
    for (size_t i = 0; i < r->n; i++)
        assert(r->v[i].fence > 0);
}

static void check_retake_result(const struct op *op)
{
    const struct op_retake *r = (const struct op_retake *)op;
    assert(r->ret.n <= r->n);
    for (size_t i = 0; i < r->ret.n; i++) {
        const struct task *t = &r->ret.v[i];
        assert(t->state == TASK_RUNNING && t->fence > 1 && uuid_eq(t->claim, r->claim) && retake_may(r, t));
    }
}

static void check_leases_expired(const struct op *op)
{
    assert(((const struct op_leases_expired *)op)->max > 0);
}

static void check_breakers(const struct op *op)
{
    const struct op_breakers *b = (const struct op_breakers *)op;
    assert(b->n > 0 && b->n <= BREAKERS_CHANGE_MAX);
    for (size_t i = 0; i < b->n; i++) {
        const struct breaker_row *r = &b->v[i].row;
        assert(r->tenant >= 0 && r->host.n <= TARGET_HOST_MAX && r->reason.n <= BREAKER_REASON_MAX);
        assert(b->v[i].close ? r->host.n > 0 || !uuid_is_nil(r->id) : r->host.n > 0 && !uuid_is_nil(r->id));
    }
}

static void check_stats(const struct op *op)
{
    const struct op_stats *s = (const struct op_stats *)op;
    assert(s->n > 0 && s->n <= STATS_ROWS_MAX);
    for (size_t i = 0; i < s->n; i++) {
        const struct stats_row *r = &s->v[i];
        assert(r->grain == STATS_OF_NODE && r->written > 0 && r->tenant >= STATS_ALL && !uuid_is_nil(r->node));
        assert(r->minute_ms % STATS_MINUTE_MS == 0);
    }
}

static void check_open(const struct op *op)
{
    const struct op_open *o = (const struct op_open *)op;
    assert(o->fence > 0 && o->n <= OPEN_ROWS_MAX && (!o->begin || o->first) && !uuid_is_nil(o->run));
    for (size_t i = 0; i < o->n; i++) {
        const struct task *t = &o->rows[i].task;
        assert(t->kind == TASK_ONE_TIME && !uuid_is_nil(t->run) && uuid_eq(t->id, place_id(t->run, t->place)));
        assert(t->state != TASK_RUNNING && t->waits_for.n == 0 && !t->deleted);
    }
}

static void check_await(const struct op *op)
{
    const struct op_await *a = (const struct op_await *)op;
    assert(a->fence > 0 && a->signal.n > 0 && a->timeout_ms >= 0);
}

static void check_signal(const struct op *op)
{
    const struct op_signal *s = (const struct op_signal *)op;
    assert(s->signal->name.n > 0 && s->signal->sender.n > 0 && s->signal->sender.n <= SIGNAL_SENDER_MAX);
}

static void check_stop(const struct op *op)
{
    const struct op_stop *s = (const struct op_stop *)op;
    assert(s->max > 0 && (s->change == RUN_CANCEL) == (s->stop != RUN_GOES_ON));
}

static void check_define(const struct op *op)
{
    const struct op_define *d = (const struct op_define *)op;
    assert((d->name.n > 0 || d->definition) && d->remove == !d->definition);
}

static void check_reseal(const struct op *op)
{
    const struct op_reseal *r = (const struct op_reseal *)op;
    for (size_t i = 0; i < r->n; i++)
        assert(r->v[i].was.n > 0 && r->v[i].becomes.n > 0 && (i == 0 || uuid_cmp(r->v[i - 1].id, r->v[i].id) < 0));
    for (size_t i = 0; i < r->definition_count; i++)
        assert(r->definitions[i].becomes.n > 0 &&
               (i == 0 || definition_cmp(r->definitions[i - 1].definition, r->definitions[i].definition) < 0));
}

static void check_reseal_result(const struct op *op)
{
    const struct op_reseal *r = (const struct op_reseal *)op;
    assert(r->ret_changed <= r->n + r->definition_count);
}

static void check_fold(const struct op *op)
{
    const struct op_fold *f = (const struct op_fold *)op;
    assert(f->hit_count <= FOLD_HITS_MAX && f->n <= FOLD_RECORDS_MAX);
    for (size_t i = 1; i < f->hit_count; i++)
        assert(uuid_cmp(f->hits[i - 1], f->hits[i]) < 0);
    for (size_t i = 0; i < f->n; i++) {
        const struct record *r = &f->v[i].record;
        assert(r->tenant > 0 && !uuid_is_nil(r->id) && r->key.n <= RECORD_KEY_MAX && f->v[i].version >= 0);
        assert(i == 0 || uuid_cmp(f->v[i - 1].record.id, r->id) < 0);
        assert(!f->v[i].remove || f->v[i].version > 0);
    }
}

/* ---- weights: the number of rows that an operation may touch ---- */

/* Edges are rows, too. */
static size_t insert_weight(const struct op *op)
{
    const struct op_insert *insert = (const struct op_insert *)op;
    size_t n = insert->count;
    for (size_t i = 0; insert->depends && i < insert->count; i++)
        n += insert->depends[i].n;
    return n;
}

#define WEIGHT(verb, member)                                                                                           \
    static size_t verb##_weight(const struct op *op)                                                                   \
    {                                                                                                                  \
        return ((const struct op_##verb *)op)->member;                                                                 \
    }
WEIGHT(claim, max)
WEIGHT(orphans, max)
WEIGHT(settle, n)
WEIGHT(recurring, max)
WEIGHT(spawn, plan->occurrences.n)
WEIGHT(catch_up, max)
WEIGHT(catalog, n)
WEIGHT(purge, max)
WEIGHT(limit_take, n)
WEIGHT(recall_list, max)
WEIGHT(handoff, n)
WEIGHT(handed_off, max)
WEIGHT(running, n)
WEIGHT(retake, n)
WEIGHT(lease_renew, n)
WEIGHT(worker_report, n)
WEIGHT(breakers, n)
WEIGHT(stats, n)
WEIGHT(signal, n)
WEIGHT(stop, max)
WEIGHT(reseal, n + ((const struct op_reseal *)op)->definition_count)
WEIGHT(fold, hit_count + ((const struct op_fold *)op)->n)
#undef WEIGHT

static size_t leases_expired_weight(const struct op *op)
{
    const struct op_leases_expired *x = (const struct op_leases_expired *)op;
    return x->max + x->max_waiting;
}

static size_t open_weight(const struct op *op)
{
    const struct op_open *open = (const struct op_open *)op;
    size_t n = open->n + open->also_count + 1;
    for (size_t i = 0; i < open->n; i++)
        n += open->rows[i].n;
    return n;
}

static size_t arrive_weight(const struct op *op)
{
    (void)op;
    return ARRIVALS_MAX;
}

/* ---- the table ---- */

#define KEY(verb) offsetof(struct op_##verb, idempotency)
/* clang-format off */
const struct op_row op_table[OP_KINDS] = {
    /* name, urgency, route, weight, idempotency key, check of the arguments, check of the result */
    [OP_INSERT]        = { "OP_INSERT",         OP_REST,  OP_VIA_ALL,    insert_weight,         KEY(insert),   check_insert,         NULL },
    [OP_CLAIM]         = { "OP_CLAIM",          OP_FRONT, OP_VIA_CLAIMS, claim_weight,          0,             check_claim,          check_claim_result },
    [OP_CLAIMED]       = { "OP_CLAIMED",        OP_FRONT, OP_VIA_CLAIMS, NULL,                  0,             NULL,                 NULL },
    [OP_ORPHANS]       = { "OP_ORPHANS",        OP_FRONT, OP_VIA_ALL,    orphans_weight,        0,             NULL,                 NULL },
    [OP_SETTLE]        = { "OP_SETTLE",         OP_FRONT, OP_VIA_ALL,    settle_weight,         KEY(settle),   check_settle,         NULL },
    [OP_RECURRING]     = { "OP_RECURRING",      OP_REST,  OP_VIA_ALL,    recurring_weight,      0,             check_recurring,      NULL },
    [OP_SPAWN]         = { "OP_SPAWN",          OP_REST,  OP_VIA_ALL,    spawn_weight,          0,             check_spawn,          NULL },
    [OP_CATCH_UP]      = { "OP_CATCH_UP",       OP_FRONT, OP_VIA_ALL,    catch_up_weight,       0,             check_catch_up,       NULL }, /* no claim is made until it is done */
    [OP_PUT]           = { "OP_PUT",            OP_REST,  OP_VIA_ALL,    NULL,                  KEY(put),      check_put,            NULL },
    [OP_KEY_PUT]       = { "OP_KEY_PUT",        OP_REST,  OP_VIA_ALL,    NULL,                  KEY(key_put),  NULL,                 NULL },
    [OP_CATALOG]       = { "OP_CATALOG",        OP_REST,  OP_VIA_ALL,    catalog_weight,        KEY(catalog),  check_catalog,        NULL },
    [OP_LEASE]         = { "OP_LEASE",          OP_FRONT, OP_VIA_URGENT, NULL,                  0,             NULL,                 NULL }, /* a late one costs its holder the lease */
    [OP_PURGE]         = { "OP_PURGE",          OP_REST,  OP_VIA_ALL,    purge_weight,          0,             check_purge,          NULL },
    [OP_HEARTBEAT]     = { "OP_HEARTBEAT",      OP_FRONT, OP_VIA_URGENT, NULL,                  0,             check_heartbeat,      NULL }, /* a late one costs the node its life */
    [OP_NODE_DEAD]     = { "OP_NODE_DEAD",      OP_FRONT, OP_VIA_URGENT, NULL,                  0,             check_node_dead,      NULL },
    [OP_LIMIT_TAKE]    = { "OP_LIMIT_TAKE",     OP_FRONT, OP_VIA_URGENT, limit_take_weight,     0,             check_limit_take,     check_limit_take_result }, /* claims wait for it */
    [OP_RECALL]        = { "OP_RECALL",         OP_FRONT, OP_VIA_URGENT, NULL,                  0,             check_recall,         check_recall_result },
    [OP_RECALL_LIST]   = { "OP_RECALL_LIST",    OP_FRONT, OP_VIA_URGENT, recall_list_weight,    0,             check_recall_list,    check_recall_list_result },
    [OP_HANDOFF]       = { "OP_HANDOFF",        OP_FRONT, OP_VIA_ALL,    handoff_weight,        0,             check_handoff,        NULL },
    [OP_HANDED_OFF]    = { "OP_HANDED_OFF",     OP_REST,  OP_VIA_ALL,    handed_off_weight,     0,             check_handed_off,     NULL },
    [OP_RUNNING]       = { "OP_RUNNING",        OP_REST,  OP_VIA_ALL,    running_weight,        0,             NULL,                 NULL },
    [OP_RETAKE]        = { "OP_RETAKE",         OP_FRONT, OP_VIA_CLAIMS, retake_weight,         0,             check_retake,         check_retake_result },
    [OP_LEASE_RENEW]   = { "OP_LEASE_RENEW",    OP_FRONT, OP_VIA_ALL,    lease_renew_weight,    0,             NULL,                 NULL }, /* a late one costs its holder the lease */
    [OP_LEASES_EXPIRED]= { "OP_LEASES_EXPIRED", OP_FRONT, OP_VIA_ALL,    leases_expired_weight, 0,             check_leases_expired, NULL },
    [OP_WORKER_REPORT] = { "OP_WORKER_REPORT",  OP_REST,  OP_VIA_ALL,    worker_report_weight,  0,             NULL,                 NULL },
    [OP_BREAKERS]      = { "OP_BREAKERS",       OP_FRONT, OP_VIA_ALL,    breakers_weight,       KEY(breakers), check_breakers,       NULL }, /* other nodes call the host until it is there */
    [OP_STATS]         = { "OP_STATS",          OP_REST,  OP_VIA_ALL,    stats_weight,          0,             check_stats,          NULL },
    [OP_ARRIVE]        = { "OP_ARRIVE",         OP_FRONT, OP_VIA_ALL,    arrive_weight,         0,             NULL,                 NULL }, /* children wait for it */
    [OP_OPEN]          = { "OP_OPEN",           OP_REST,  OP_VIA_ALL,    open_weight,           0,             check_open,           NULL },
    [OP_AWAIT]         = { "OP_AWAIT",          OP_REST,  OP_VIA_ALL,    NULL,                  0,             check_await,          NULL },
    [OP_SIGNAL]        = { "OP_SIGNAL",         OP_REST,  OP_VIA_ALL,    signal_weight,         KEY(signal),   check_signal,         NULL },
    [OP_STOP]          = { "OP_STOP",           OP_REST,  OP_VIA_ALL,    stop_weight,           KEY(stop),     check_stop,           NULL },
    [OP_DEFINE]        = { "OP_DEFINE",         OP_REST,  OP_VIA_ALL,    NULL,                  KEY(define),   check_define,         NULL },
    [OP_FOLD]          = { "OP_FOLD",           OP_REST,  OP_VIA_ALL,    fold_weight,           KEY(fold),     check_fold,           NULL },
    [OP_RESEAL]        = { "OP_RESEAL",         OP_REST,  OP_VIA_ALL,    reseal_weight,         0,             check_reseal,         check_reseal_result },
};
/* clang-format on */
#undef KEY

size_t op_weight(const struct op *op)
{
    const struct op_row *row = &op_table[op->kind];
    return row->weight ? row->weight(op) : 1;
}

const struct idempotency *op_idempotency(const struct op *op)
{
    size_t at = op_table[op->kind].idempotency_at;
    return at ? *(const struct idempotency *const *)((const char *)op + at) : NULL;
}

const struct audit *op_audit(const struct op *op)
{
    bool stale =
        op->kind == OP_SETTLE && ((const struct op_settle *)op)->n && ((const struct op_settle *)op)->v[0].stale;
    return op->rc == ERR_OK && !stale ? op->audit : NULL;
}
