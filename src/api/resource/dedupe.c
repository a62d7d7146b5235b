/* One pass:
 * 1. Look up the holder of each key and decide: create, return or move.
 * 2. Write the answer.
 * 3. Move the tasks that are to be moved.
 * 4. Insert the new tasks and the idempotency record, in one operation.
 *
 * If something changed in between, the store detects it (by the version of a moved task, or the holder of a key that is
 * taken over), and the pass starts again. Tasks that were moved already stay moved and are not moved again. A task that
 * is claimed shortly before its time is recalled from its owner. If that takes too long, it counts as fired. */
#include "api/resource/dedupe.h"

#include "api/resource/recall.h"
#include "api/server/audit.h"
#include "api/server/internal.h"
#include "api/task/json.h"
#include "api/task/secret_headers.h"
#include "base/map.h"

enum { TRIES_MAX = 32, TRIES_AT_ONCE = 3, RETRY_MS = 10, NS_PER_MS = 1000000 };

/* A dedupe key, and the task that holds it so far. */
struct dedupe_holder {
    struct dedupe_pass *d;
    const struct task *before; /* as it was read; NULL: this request creates it */
    struct task *row;          /* as it will be stored */
    bool moves;
    struct op_put put;
};

struct dedupe_pass {
    struct request *q;
    struct creation *v;
    size_t n;
    void (*answer)(struct request *q, const struct creation *v, size_t n);

    struct map by_key; /* struct dedupe_holder *; of one pass */
    struct hash_key hash_key;
    struct dedupe_holder **moves;
    size_t move_count, at; /* at: the next one to recall */
    struct task *made;
    struct uuid *takes_over; /* for each new task: the holder whose key it takes over */
    size_t made_count, found_count;

    int tries;
    int64_t deadline_ns;   /* for recalls; 0: there was none yet */
    atomic_size_t pending; /* moves in progress; the thread that ends the last one continues */
    bool again;            /* something was not as it was read: start again */
    bool waits;            /* an owner has not given its task back yet */
    bool recorded;         /* a move stores the idempotency record */
    struct timer timer;
};

static route_handler dedupe_decide;

/* ---- decisions ---- */

/* A claimed task that is not given back in time counts as fired. */
static bool dedupe_may_move(const struct dedupe_pass *d, const struct task *t)
{
    int64_t now_ns = clock_steady_ns(d->q->server->setup.clock);
    bool too_late = t->state == TASK_RUNNING && d->deadline_ns && now_ns >= d->deadline_ns;
    return t->kind == TASK_ONE_TIME && !t->attempts && !t->losses && !task_is_final(t->state) && !too_late &&
           task_shown_state(t, d->q->now_ms) != TASK_RUNNING;
}

/* When the task is to run, if each create moves it but none beyond what the user allows. */
static int64_t dedupe_wanted_ms(const struct task *t, const struct task *wanted)
{
    int64_t max_wait_ms = wanted->dedupe_max_wait_ms ? wanted->dedupe_max_wait_ms : t->dedupe_max_wait_ms;
    return max_wait_ms ? min_of(wanted->scheduled_ms, t->created_ms + max_wait_ms) : wanted->scheduled_ms;
}

/* True: it does something else than before. A run has other retries than a task, and keeps its result. */
static bool dedupe_replace(struct dedupe_holder *h, const struct task *wanted)
{
    struct request *q = h->d->q;
    struct task *t = h->row;
    struct secret_sealer sealer = { q->server->setup.secrets, t->tenant, t->id };
    struct error ignored; /* the secrets were encrypted a moment ago, with the same keys */
    struct str config = wanted->target_config;
    if (secret_headers_move(&sealer, wanted->id, wanted->target_config, t->target_config, &q->arena, &config, &ignored))
        config = wanted->target_config;
    if (t->target == wanted->target && t->timeout_ms == wanted->timeout_ms && str_eq(t->payload, wanted->payload) &&
        str_eq(t->target_config, config) && str_eq(t->extra, wanted->extra))
        return false;
    bool does_other =
        t->target != wanted->target || !str_eq(t->payload, wanted->payload) || !str_eq(t->target_config, config);
    if (h->before && h->before->target == TARGET_WORKFLOW && does_other)
        t->links |= TASK_NEW_INPUT;
    if (t->target != wanted->target) {
        t->retry = wanted->retry;
        t->links = (t->links & ~TASK_KEEPS_OUTPUT) | (wanted->links & TASK_KEEPS_OUTPUT);
    }
    t->target = wanted->target;
    t->timeout_ms = wanted->timeout_ms;
    t->payload = wanted->payload;
    t->target_config = config;
    t->extra = wanted->extra;
    return true;
}

/* Moves the task as an edit of its run_at would. */
static void dedupe_move(struct dedupe_holder *h, const struct task *wanted, int64_t now_ms)
{
    struct task *t = h->row;
    int64_t at_ms = dedupe_wanted_ms(t, wanted);
    bool replaced = wanted->dedupe == DEDUPE_REPLACE && dedupe_replace(h, wanted);
    if (t->scheduled_ms == at_ms && !replaced)
        return;
    t->scheduled_ms = at_ms;
    task_set_due(t, at_ms);
    task_put_off(t, max_of(now_ms, at_ms), LATE_CREATED);
    if (!h->before || h->moves)
        return;
    h->moves = true;
    t->version++;
    t->updated_ms = now_ms;
    task_forget_delays(t);
    if (t->state == TASK_RUNNING || (t->state == TASK_BLOCKED && t->waits_for.n)) {
        t->state = TASK_SCHEDULED;
        t->claim = (struct uuid){ 0 };
        t->waits_for = (struct str){ NULL, 0 };
    }
    h->d->moves[h->d->move_count++] = h;
}

static struct dedupe_holder *dedupe_add_holder(struct dedupe_pass *d, struct str key, const struct task *before,
                                               struct task *row)
{
    struct dedupe_holder *h = arena_new(&d->q->arena, struct dedupe_holder);
    if (!h)
        return NULL;
    *h = (struct dedupe_holder){ .d = d, .before = before, .row = row };
    map_put(&d->by_key, key, h);
    return h;
}

static enum err dedupe_no_room(struct error *e)
{
    return error_set(
        e, ERR_LIMIT,
        "the tasks and the holders of their dedupe_keys do not fit in the memory allowed; send fewer at once");
}

/* *ret NULL: no task holds the key. */
static enum err dedupe_find_holder(struct dedupe_pass *d, struct reader *r, const struct task *t,
                                   struct dedupe_holder **ret, struct error *e)
{
    struct arena *a = &d->q->arena;
    struct uuid id;
    *ret = map_get(&d->by_key, t->dedupe_key);
    if (*ret)
        return ERR_OK;
    struct task *before = arena_new(a, struct task), *row = arena_new(a, struct task);
    if (!before || !row)
        return dedupe_no_room(e);
    enum err rc = reader_dedupe(r, t->tenant, t->dedupe_key, t->created_ms, &id, e);
    if (rc == ERR_OK)
        rc = reader_get(r, t->tenant, id, a, before, e);
    if (rc)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    *row = *before;
    *ret = dedupe_add_holder(d, t->dedupe_key, before, row);
    return *ret ? ERR_OK : dedupe_no_room(e);
}

static enum err dedupe_make(struct dedupe_pass *d, struct creation *c, struct uuid takes_over, struct error *e)
{
    struct task *row = &d->made[d->made_count];
    *row = *c->asked;
    c->task = row;
    d->takes_over[d->made_count++] = takes_over;
    if (row->dedupe_key.n && !dedupe_add_holder(d, row->dedupe_key, NULL, row))
        return dedupe_no_room(e);
    return ERR_OK;
}

static enum err dedupe_decide_one(struct dedupe_pass *d, struct reader *r, struct creation *c, struct error *e)
{
    struct dedupe_holder *h = NULL;
    if (!c->asked)
        return ERR_OK;
    if (c->asked->dedupe_key.n && dedupe_find_holder(d, r, c->asked, &h, e))
        return e->code;
    bool moves = h && c->asked->dedupe != DEDUPE_RETURN;
    if (moves && h->row->target == TARGET_WORKFLOW && !identity_may(&d->q->who, SCOPE_WORKFLOWS_WRITE))
        return error_set(e, ERR_CONFLICT,
                         "the dedupe_key is held by a run of a workflow, which the API key may not move: it needs the "
                         "scope 'workflows:write'");
    c->found = h && !(moves && !dedupe_may_move(d, h->row));
    if (!c->found)
        return dedupe_make(d, c, h ? h->row->id : (struct uuid){ 0 }, e);
    if (moves)
        dedupe_move(h, c->asked, d->q->now_ms);
    if (d->q->route->scope == SCOPE_WORKFLOWS_WRITE && h->row->target != TARGET_WORKFLOW)
        return error_set(e, ERR_CONFLICT,
                         "the dedupe_key is held by a task that is no run of a workflow; use another key, or "
                         "'dedupe_action': \"REPLACE\"");
    c->task = h->row;
    d->found_count++;
    return ERR_OK;
}

static enum err dedupe_decide_all(struct dedupe_pass *d, struct reader *r, struct error *e)
{
    enum err rc = ERR_OK;
    map_init(&d->by_key, d->hash_key);
    d->move_count = d->at = d->made_count = d->found_count = 0;
    d->again = d->waits = d->recorded = false;
    for (size_t i = 0; rc == ERR_OK && i < d->n; i++)
        rc = dedupe_decide_one(d, r, &d->v[i], e);
    map_release(&d->by_key);
    return rc;
}

/* ---- new tasks ---- */

static void dedupe_nudge(struct dedupe_pass *d)
{
    request_nudge(d->q, d->made, d->made_count);
    for (size_t i = 0; i < d->move_count; i++)
        request_nudge(d->q, d->moves[i]->row, 1);
}

static enum handled dedupe_finish(struct dedupe_pass *d)
{
    struct metrics *m = d->q->server->setup.metrics;
    metric_add_for(m, METRIC_TASKS_SCHEDULED, d->q->who.tenant, (int64_t)d->made_count);
    metric_add(m, METRIC_TASKS_DEDUPLICATED, (int64_t)d->found_count);
    live_on_created(d->q->server->live, d->made, d->made_count);
    transition_log_created(d->q->server->setup.transitions, d->made, d->made_count);
    dedupe_nudge(d);
    return HANDLED_DONE;
}

static enum handled dedupe_fail(struct dedupe_pass *d, const struct op *op)
{
    if (op->rc == ERR_UNAVAILABLE) /* the tasks may have been written, and only the answer lost */
        dedupe_nudge(d);
    return request_fail(d->q, &op->error);
}

static void dedupe_on_retry_timer(struct timer *timer)
{
    struct dedupe_pass *d = container_of(timer, struct dedupe_pass, timer);
    request_later(d->q, dedupe_decide);
}

static enum handled dedupe_retry_later(struct dedupe_pass *d, int64_t ms)
{
    d->timer.fire = dedupe_on_retry_timer;
    timers_add(d->q->server->timers, &d->timer, ms);
    return HANDLED_LATER;
}

/* If many requests on several nodes want the same key, one succeeds at a time. After several tries a request waits for
 * a random time, so that they do not all come back at the same moment. */
static enum handled dedupe_start_again(struct dedupe_pass *d)
{
    uint8_t chance;
    crypto_random(&chance, sizeof chance);
    if (++d->tries < TRIES_AT_ONCE)
        return request_later(d->q, dedupe_decide);
    if (d->tries < TRIES_MAX)
        return dedupe_retry_later(d, 1 + chance % (2 * d->tries));
    return request_refuse(d->q, PROBLEM_CONFLICT,
                          "other requests changed the task of this dedupe_key first, many times; try again");
}

static void dedupe_on_inserted(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct dedupe_pass *d = q->dedupe;
    enum handled next = HANDLED_LATER;
    if (request_is_replay(op))
        next = request_later(q, request_replay_stored);
    else if (op->rc == ERR_CONFLICT && strcmp(op->error.field, "dedupe_key") == 0)
        next = dedupe_start_again(d);
    else
        next = op->rc ? dedupe_fail(d, op) : dedupe_finish(d);
    if (next == HANDLED_DONE)
        request_answer(q);
}

static enum handled dedupe_insert(struct dedupe_pass *d)
{
    struct request *q = d->q;
    if (d->made_count == 0 && (d->recorded || !q->has_record))
        return dedupe_finish(d);
    q->write.insert = (struct op_insert){
        .op = { .kind = OP_INSERT },
        .tasks = d->made,
        .count = d->made_count,
        .takes_over = d->takes_over,
        .definition = q->definition,
        .idempotency = d->recorded ? NULL : request_record(q),
    };
    return request_submit(q, dedupe_on_inserted);
}

/* ---- moved tasks ---- */

static void dedupe_on_recalled(struct request *q, enum recall_result result, bool known);

/* True: the owner of a claimed task was asked to give it back. */
static bool dedupe_recall_next(struct dedupe_pass *d)
{
    const struct api_server *s = d->q->server;
    int64_t now_ns = clock_steady_ns(s->setup.clock);
    while (d->at < d->move_count) {
        const struct dedupe_holder *h = d->moves[d->at++];
        if (h->before->state != TASK_RUNNING)
            continue;
        if (!d->deadline_ns)
            d->deadline_ns = now_ns + recall_wait_ms(d->q, h->before) * NS_PER_MS;
        struct recall_order order = { .running = h->before,
                                      .replace = h->row }; /* the record is stored with the new tasks */
        if (recall_ask(d->q, &order, max_of((d->deadline_ns - now_ns) / NS_PER_MS, (int64_t)1), dedupe_on_recalled))
            return true;
        d->waits = true;
    }
    return false;
}

static enum handled dedupe_continue(struct dedupe_pass *d)
{
    if (dedupe_recall_next(d))
        return HANDLED_LATER;
    if (d->waits)
        return dedupe_retry_later(d, RETRY_MS);
    return d->again ? dedupe_start_again(d) : dedupe_insert(d);
}

static void dedupe_on_recalled(struct request *q, enum recall_result result, bool known)
{
    q->dedupe->waits = q->dedupe->waits || result != RECALL_DONE || !known;
    if (dedupe_continue(q->dedupe) == HANDLED_DONE)
        request_answer(q);
}

/* All puts have ended. */
static enum handled dedupe_check_moves(struct dedupe_pass *d)
{
    for (size_t i = 0; i < d->move_count; i++) {
        const struct op *op = &d->moves[i]->put.op;
        if (request_is_replay(op)) /* it was the only move, and had the record */
            return request_later(d->q, request_replay_stored);
        if (op->rc && op->rc != ERR_CONFLICT && op->rc != ERR_NOT_FOUND)
            return dedupe_fail(d, op);
        d->again = d->again || op->rc;
    }
    return dedupe_continue(d);
}

static enum handled dedupe_move_ended(struct dedupe_pass *d)
{
    return atomic_fetch_sub(&d->pending, 1) > 1 ? HANDLED_LATER : dedupe_check_moves(d);
}

static void dedupe_on_moved(struct op *op)
{
    struct dedupe_holder *h = op->context;
    struct dedupe_pass *d = h->d;
    cleanup_with(log_request_leave) struct log_request before = request_log_enter(d->q);
    arena_release(&op->arena);
    if (dedupe_move_ended(d) == HANDLED_DONE)
        request_answer(d->q);
}

static void dedupe_submit_move(struct dedupe_holder *h, const struct idempotency *record)
{
    enum { RESULTS_MAX = 64 * 1024 };
    h->put = (struct op_put){
        .op = { .kind = OP_PUT, .done = dedupe_on_moved, .context = h, .request = h->d->q->response.request_id },
        .task = h->row,
        .version = h->before->version,
        .fence = h->before->fence,
        .state = h->before->state,
        .idempotency = record,
    };
    h->put.op.audit = request_audit_of(h->d->q, &h->put.op);
    arena_init(&h->put.op.arena, RESULTS_MAX);
    writer_submit(h->d->q->server->setup.writer, &h->put.op);
}

/* The writer moves the unclaimed tasks. The claimed ones are recalled afterwards. */
static enum handled dedupe_move_all(struct dedupe_pass *d)
{
    bool alone = d->move_count == 1 && d->made_count == 0 && d->moves[0]->before->state != TASK_RUNNING;
    const struct idempotency *record = alone ? request_record(d->q) : NULL;
    d->recorded = record;
    /* counts this function itself, so that no move is the last before all are submitted */
    atomic_store(&d->pending, 1);
    for (size_t i = 0; i < d->move_count; i++) {
        d->moves[i]->put.op.rc = ERR_OK;
        if (d->moves[i]->before->state == TASK_RUNNING)
            continue;
        atomic_fetch_add(&d->pending, 1);
        dedupe_submit_move(d->moves[i], record);
    }
    return dedupe_move_ended(d);
}

/* ---- the definition of a run ---- */

static void dedupe_on_defined(struct op *op)
{
    struct request *q = request_finish_op(op);
    if ((op->rc ? request_fail(q, &op->error) : dedupe_move_all(q->dedupe)) == HANDLED_DONE)
        request_answer(q);
}

/* Before a task that exists names it: whatever fails in between, it names a definition that is stored. */
static enum handled dedupe_define(struct dedupe_pass *d)
{
    struct request *q = d->q;
    q->write.define = (struct op_define){
        .op = { .kind = OP_DEFINE }, .definition = q->definition, .tenant = q->who.tenant, .now_ms = q->now_ms
    };
    return request_submit(q, dedupe_on_defined);
}

/* ---- one pass ---- */

static enum handled dedupe_decide(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct dedupe_pass *d = q->dedupe;
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    enum err rc = q->has_record ? request_replay(q, r, &e) : ERR_NOT_FOUND;
    if (rc == ERR_OK)
        return HANDLED_DONE;
    if (rc == ERR_NOT_FOUND)
        rc = dedupe_decide_all(d, r, &e);
    if (rc)
        return request_fail(q, &e);
    d->answer(q, d->v, d->n);
    return q->definition && d->move_count ? dedupe_define(d) : dedupe_move_all(d);
}

enum handled dedupe_create(struct request *q, struct reader *r, struct creation *v, size_t n,
                           void (*answer)(struct request *q, const struct creation *v, size_t n))
{
    struct dedupe_pass *d = arena_new(&q->arena, struct dedupe_pass);
    *d = (struct dedupe_pass){
        .q = q,
        .v = v,
        .n = n,
        .answer = answer,
        .moves = arena_array(&q->arena, struct dedupe_holder *, n),
        .made = arena_array(&q->arena, struct task, n),
        .takes_over = arena_array(&q->arena, struct uuid, n),
    };
    if (!d->moves || !d->made || !d->takes_over)
        return request_refuse(q, PROBLEM_TOO_LARGE, "the tasks do not fit in the memory allowed; send fewer at once");
    crypto_random(&d->hash_key, sizeof d->hash_key);
    q->dedupe = d;
    return r ? dedupe_decide(q, r) : request_later(q, dedupe_decide);
}
