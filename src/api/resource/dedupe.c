/* One pass: the keys are looked up and decided on, the answer is written, tasks that are to be moved are moved, and last of all
 * one operation makes what is new and keeps the idempotency record. What has changed in between is found by the store (versions
 * of what is moved, holders of what is taken over), and the pass begins anew; what it has moved already stays so, and is not
 * moved again. A task that is claimed a moment before its time is asked back from its owner; if that takes too long it counts as
 * fired. */
#include "api/resource/dedupe.h"

#include "api/resource/recall.h"
#include "api/server/internal.h"
#include "api/task/json.h"
#include "base/map.h"

enum { TRIES_MAX = 32, TRIES_AT_ONCE = 3, LOOK_AGAIN_MS = 10, NS_PER_MS = 1000000 };

/* A key, and whose it is so far. */
struct holder {
    struct dedupe_pass *d;
    const struct task *before; /* as it was read; NULL: it is made by this request */
    struct task *row;          /* as it will be */
    bool moves;
    struct op_put put;
};

struct dedupe_pass {
    struct request *q;
    struct creation *v;
    size_t n;
    void (*answer)(struct request *q, const struct creation *v, size_t n);

    struct map by_key; /* struct holder *; of one pass */
    struct hash_key hash_key;
    struct holder **moves;
    size_t move_count, at; /* at: the next to be asked back */
    struct task *made;
    struct uuid *takes_over; /* of each that is made */
    size_t made_count, found_count;

    int tries;
    int64_t deadline_ns;   /* for those that are claimed; 0: none was yet */
    atomic_size_t pending; /* moves under way; who takes the last one off goes on */
    bool again;            /* something was not as it was read */
    bool waits;            /* somebody is to give a task back, and has not yet */
    bool recorded;         /* a move keeps the idempotency record */
    struct timer timer;
};

static route_handler decide;

/* ---- deciding ---- */

/* A claim that is not given back is as good as fired. */
static bool may_move(const struct dedupe_pass *d, const struct task *t)
{
    int64_t now_ns = clock_steady_ns(d->q->server->setup.clock);
    bool too_late = t->state == TASK_RUNNING && d->deadline_ns && now_ns >= d->deadline_ns;
    return t->kind == TASK_ONE_TIME && !t->attempts && !t->losses && !task_is_final(t->state) && !too_late &&
           task_shown_state(t, d->q->now_ms) != TASK_RUNNING;
}

/* As an edit of its run_at would. */
static void move(struct holder *h, const struct task *wanted, int64_t now_ms)
{
    struct task *t = h->row;
    if (t->scheduled_ms == wanted->scheduled_ms)
        return;
    t->scheduled_ms = wanted->scheduled_ms;
    t->due_ms = max_of(now_ms, wanted->scheduled_ms);
    if (!h->before || h->moves)
        return;
    h->moves = true;
    t->version++;
    t->updated_ms = now_ms;
    if (t->state == TASK_RUNNING || (t->state == TASK_BLOCKED && t->waits_for.n)) {
        t->state = TASK_SCHEDULED;
        t->claim = (struct uuid){ 0 };
        t->waits_for = (struct str){ NULL, 0 };
    }
    h->d->moves[h->d->move_count++] = h;
}

static struct holder *add_holder(struct dedupe_pass *d, struct str key, const struct task *before, struct task *row)
{
    struct holder *h = arena_new(&d->q->arena, struct holder);
    if (!h)
        return NULL;
    *h = (struct holder){ .d = d, .before = before, .row = row };
    map_put(&d->by_key, key, h);
    return h;
}

static enum err dedupe_no_room(struct error *e)
{
    return error_set(e, ERR_LIMIT,
                     "the tasks and those of their keys do not fit in the memory allowed; send fewer at once");
}

/* *ret NULL: nobody holds it. */
static enum err find_holder(struct dedupe_pass *d, struct reader *r, const struct task *t, struct holder **ret,
                            struct error *e)
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
    *ret = add_holder(d, t->dedupe_key, before, row);
    return *ret ? ERR_OK : dedupe_no_room(e);
}

static enum err make(struct dedupe_pass *d, struct creation *c, struct uuid takes_over, struct error *e)
{
    struct task *row = &d->made[d->made_count];
    *row = *c->asked;
    c->task = row;
    d->takes_over[d->made_count++] = takes_over;
    if (row->dedupe_key.n && !add_holder(d, row->dedupe_key, NULL, row))
        return dedupe_no_room(e);
    return ERR_OK;
}

static enum err decide_one(struct dedupe_pass *d, struct reader *r, struct creation *c, struct error *e)
{
    struct holder *h = NULL;
    if (!c->asked)
        return ERR_OK;
    if (c->asked->dedupe_key.n && find_holder(d, r, c->asked, &h, e))
        return e->code;
    bool moves = h && c->asked->dedupe == DEDUPE_RESCHEDULE;
    c->found = h && !(moves && !may_move(d, h->row));
    if (!c->found)
        return make(d, c, h ? h->row->id : (struct uuid){ 0 }, e);
    if (moves)
        move(h, c->asked, d->q->now_ms);
    c->task = h->row;
    d->found_count++;
    return ERR_OK;
}

static enum err decide_all(struct dedupe_pass *d, struct reader *r, struct error *e)
{
    enum err rc = ERR_OK;
    map_init(&d->by_key, d->hash_key);
    d->move_count = d->at = d->made_count = d->found_count = 0;
    d->again = d->waits = d->recorded = false;
    for (size_t i = 0; rc == ERR_OK && i < d->n; i++)
        rc = decide_one(d, r, &d->v[i], e);
    map_release(&d->by_key);
    return rc;
}

/* ---- what is new ---- */

static void nudge(struct dedupe_pass *d)
{
    request_nudge(d->q, d->made, d->made_count);
    for (size_t i = 0; i < d->move_count; i++)
        request_nudge(d->q, d->moves[i]->row, 1);
}

static enum handled finish(struct dedupe_pass *d)
{
    struct metrics *m = d->q->server->setup.metrics;
    metric_add(m, METRIC_TASKS_SCHEDULED, (int64_t)d->made_count);
    metric_add(m, METRIC_TASKS_DEDUPLICATED, (int64_t)d->found_count);
    nudge(d);
    return HANDLED_DONE;
}

static enum handled fail(struct dedupe_pass *d, const struct op *op)
{
    if (op->rc == ERR_UNAVAILABLE) /* they may be there, and the answer lost */
        nudge(d);
    return request_fail(d->q, &op->error);
}

static void look_again(struct timer *timer)
{
    struct dedupe_pass *d = container_of(timer, struct dedupe_pass, timer);
    request_later(d->q, decide);
}

static enum handled look_later(struct dedupe_pass *d, int64_t ms)
{
    d->timer.fire = look_again;
    timers_add(d->q->server->timers, &d->timer, ms);
    return HANDLED_LATER;
}

/* Of all who want the same key, on several nodes, one gets through at a time: who has lost often does not come back at the same moment as
 * the others. */
static enum handled begin_anew(struct dedupe_pass *d)
{
    uint8_t chance;
    crypto_random(&chance, sizeof chance);
    if (++d->tries < TRIES_AT_ONCE)
        return request_later(d->q, decide);
    if (d->tries < TRIES_MAX)
        return look_later(d, 1 + chance % (2 * d->tries));
    return request_refuse(d->q, PROBLEM_CONFLICT,
                          "the task of this dedupe_key changes faster than this can be done; try again");
}

static void inserted(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct dedupe_pass *d = q->dedupe;
    enum handled next = HANDLED_LATER;
    if (request_is_replay(op))
        next = request_later(q, request_replay_stored);
    else if (op->rc == ERR_CONFLICT && strcmp(op->error.field, "dedupe_key") == 0)
        next = begin_anew(d);
    else
        next = op->rc ? fail(d, op) : finish(d);
    if (next == HANDLED_DONE)
        request_answer(q);
}

static enum handled insert(struct dedupe_pass *d)
{
    struct request *q = d->q;
    if (d->made_count == 0 && (d->recorded || !q->has_record))
        return finish(d);
    q->write.insert = (struct op_insert){
        .op = { .kind = OP_INSERT },
        .tasks = d->made,
        .count = d->made_count,
        .takes_over = d->takes_over,
        .idempotency = d->recorded ? NULL : request_record(q),
    };
    return request_submit(q, inserted);
}

/* ---- what is moved ---- */

static void recalled(struct request *q, enum recall_result result, bool known);

/* True: the owner of a claimed task was asked for it. */
static bool ask_next(struct dedupe_pass *d)
{
    const struct api_server *s = d->q->server;
    int64_t now_ns = clock_steady_ns(s->setup.clock);
    while (d->at < d->move_count) {
        const struct holder *h = d->moves[d->at++];
        if (h->before->state != TASK_RUNNING)
            continue;
        if (!d->deadline_ns)
            d->deadline_ns = now_ns + s->limits.recall_ms * NS_PER_MS;
        struct recall_order recall_request = { .running = h->before,
                                               .replace = h->row }; /* the record is kept with what is new */
        if (recall_ask(d->q, &recall_request, max_of((d->deadline_ns - now_ns) / NS_PER_MS, (int64_t)1), recalled))
            return true;
        d->waits = true;
    }
    return false;
}

static enum handled go_on(struct dedupe_pass *d)
{
    if (ask_next(d))
        return HANDLED_LATER;
    if (d->waits)
        return look_later(d, LOOK_AGAIN_MS);
    return d->again ? begin_anew(d) : insert(d);
}

static void recalled(struct request *q, enum recall_result result, bool known)
{
    (void)known;
    q->dedupe->waits = q->dedupe->waits || result != RECALL_DONE;
    if (go_on(q->dedupe) == HANDLED_DONE)
        request_answer(q);
}

/* All puts are done. */
static enum handled judge_moves(struct dedupe_pass *d)
{
    for (size_t i = 0; i < d->move_count; i++) {
        const struct op *op = &d->moves[i]->put.op;
        if (request_is_replay(op)) /* it was the only one */
            return request_later(d->q, request_replay_stored);
        if (op->rc && op->rc != ERR_CONFLICT && op->rc != ERR_NOT_FOUND)
            return fail(d, op);
        d->again = d->again || op->rc;
    }
    return go_on(d);
}

static enum handled one_less(struct dedupe_pass *d)
{
    return atomic_fetch_sub(&d->pending, 1) > 1 ? HANDLED_LATER : judge_moves(d);
}

static void moved(struct op *op)
{
    struct holder *h = op->context;
    struct dedupe_pass *d = h->d;
    arena_release(&op->arena);
    if (one_less(d) == HANDLED_DONE)
        request_answer(d->q);
}

static void submit(struct holder *h, const struct idempotency *record)
{
    enum { RESULTS_MAX = 64 * 1024 };
    h->put = (struct op_put){
        .op = { .kind = OP_PUT, .done = moved, .context = h },
        .task = h->row,
        .version = h->before->version,
        .fence = h->before->fence,
        .state = h->before->state,
        .idempotency = record,
    };
    arena_init(&h->put.op.arena, RESULTS_MAX);
    writer_submit(h->d->q->server->setup.writer, &h->put.op);
}

/* What is claimed is not the writer's to change: its owner is asked afterwards. */
static enum handled move_all(struct dedupe_pass *d)
{
    bool alone = d->move_count == 1 && d->made_count == 0 && d->moves[0]->before->state != TASK_RUNNING;
    const struct idempotency *record = alone ? request_record(d->q) : NULL;
    d->recorded = record;
    atomic_store(&d->pending, 1); /* ours, so that none of them is the last before all are submitted */
    for (size_t i = 0; i < d->move_count; i++) {
        d->moves[i]->put.op.rc = ERR_OK;
        if (d->moves[i]->before->state == TASK_RUNNING)
            continue;
        atomic_fetch_add(&d->pending, 1);
        submit(d->moves[i], record);
    }
    return one_less(d);
}

/* ---- one pass ---- */

static enum handled decide(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct dedupe_pass *d = q->dedupe;
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    enum err rc = q->has_record ? request_replay(q, r, &e) : ERR_NOT_FOUND;
    if (rc == ERR_OK)
        return HANDLED_DONE;
    if (rc == ERR_NOT_FOUND)
        rc = decide_all(d, r, &e);
    if (rc)
        return request_fail(q, &e);
    d->answer(q, d->v, d->n);
    return move_all(d);
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
        .moves = arena_array(&q->arena, struct holder *, n),
        .made = arena_array(&q->arena, struct task, n),
        .takes_over = arena_array(&q->arena, struct uuid, n),
    };
    if (!d->moves || !d->made || !d->takes_over)
        return request_refuse(q, PROBLEM_TOO_LARGE, "the tasks do not fit in the memory allowed; send fewer at once");
    crypto_random(&d->hash_key, sizeof d->hash_key);
    q->dedupe = d;
    return r ? decide(q, r) : request_later(q, decide);
}
