/* Submitters touch `arrived` only, under the lock. Everything else belongs to the batcher's thread. The thread sleeps
 * only when nothing has arrived and nothing is left over, so a submitter that adds the first operation to an empty
 * `arrived` wakes it.
 *
 * Order. Operations of one urgency (front or rest) keep the order in which they came, over transactions too: each
 * urgency is one list, taken from its head. Two operations on one task change places in two cases only:
 *
 *  1. One is in front (a claim, a settle) and the other is of the rest. Every operation of the rest that changes an
 *     existing task names what it saw: a put the version, fence and state, a spawn the version and cursor. A settle
 *     names the fence. A claim raises the fence and changes the state. So the second of the two either finds what it
 *     expects, and they do not interfere, or finds something else and is refused (ERR_CONFLICT, stale), as if it had
 *     been submitted a moment later. An insert's task is unknown to all before its commit. A claim that passes it by is
 *     followed by another, because the insert's `done` nudges the scheduler. One thing no guard covers, in this order
 *     or the other: a settle writes the last run of a recurring parent, and a put of the parent writes the one that it
 *     read.
 *  2. An operation waits because its idempotency key is already in the batch. It answers a request that runs at the
 *     same time as those behind it, so no order between them was promised, and the guards above hold.
 *  3. A large insert lets others pass (below). Its tasks are unknown to all before its commit.
 *
 * A batch that is split is applied from left to right, so it keeps its order too.
 *
 * Large inserts. A batch of 10,000 tasks is one transaction, and all others wait for its end. So while other tenants
 * write too, a transaction has large inserts of one tenant only, in turn, up to LARGE_TASKS_MAX; operations that have
 * arrived before go ahead of it; and the next large insert waits as long as the last one took.
 *
 * Waiting for company. Clients that were answered together ask again together, a moment later. So if the last
 * transaction held many operations and few have arrived since, the next one waits for the others: at most COMPANY_US,
 * never if a front operation is among them, and not at all if the last one was small, so that a lone client never
 * waits. */
#include "platform/batcher.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/map.h"
#include "platform/clock_system.h"
#include "port/crypto.h"
#include "port/store/operation_table.h"

/* Limits of one transaction. Front operations get at most FRONT_*, the rest gets what is left: at least a quarter. The
 * bound on tasks keeps a claim from waiting long behind a flood of creates. */
enum { TASKS_MAX = 20000, FRONT_TASKS_MAX = TASKS_MAX / 4 * 3, FRONT_OPS_MAX = STORE_BATCH_MAX / 4 * 3 };

/* Half of the operations of the last two transactions is expected again. */
enum { COMPANY_MIN = 8, COMPANY_US = 300 };

/* An insert of LARGE_MIN tasks is large. After another tenant has written, the next OTHERS_TURNS transactions with
 * large inserts give way. */
enum { LARGE_MIN = 200, LARGE_TASKS_MAX = 5000, OTHERS_TURNS = 16 };

struct batcher {
    struct writer base;
    struct store *store;
    struct metrics *metrics;
    struct clock *clock;
    void (*unblocked)(void *context, uint64_t lanes); /* NULL: no listener */
    void *unblocked_context;
    pthread_t thread;

    pthread_mutex_t lock; /* guards the next six */
    pthread_cond_t wake;
    struct list arrived;
    size_t arrived_count, wake_at; /* the submitter that reaches wake_at wakes the thread */
    bool hurried;                  /* a front operation has arrived */
    bool stopping;

    struct list front, rest;     /* taken from `arrived`, in order */
    struct map keys;             /* idempotency keys in the batch → their operation */
    size_t op_count, task_count; /* in the batch */
    size_t count_before;         /* operations in the one before */
    struct op *batch[STORE_BATCH_MAX];

    size_t large_count;     /* large inserts in `rest` */
    int32_t large_tenant;   /* of the last large insert; 0: none yet */
    size_t others_turns;    /* over 0: large inserts give way to other tenants */
    bool has_large;         /* the batch has large inserts */
    bool gave_way;          /* the batch before went ahead of a large insert */
    int64_t large_ready_ns; /* when the next large insert may go */
    int64_t pause_us;       /* nothing but large inserts is left, and they wait for so long; 0: else */
};

/* ---- properties of an operation ---- */

static bool op_is_front(const struct op *op)
{
    return op_table[op->kind].urgency == OP_FRONT;
}

/* Tenant and key as one text; p NULL when the operation has none. */
static struct str op_key_text(const struct op *op)
{
    static_assert(offsetof(struct idempotency, key) == sizeof(int32_t), "the key stands right behind the tenant");
    const struct idempotency *i = op_idempotency(op);
    return i ? (struct str){ (const char *)i, sizeof i->tenant + sizeof i->key } : (struct str){ 0 };
}

/* The tenant of a user's change; 0: it is another operation. */
static int32_t op_tenant(const struct op *op)
{
    const struct task *t = NULL;
    if (op->kind == OP_INSERT && ((const struct op_insert *)op)->count)
        t = ((const struct op_insert *)op)->tasks;
    else if (op->kind == OP_PUT)
        t = ((const struct op_put *)op)->task;
    return t ? t->tenant : 0;
}

static bool op_is_large(const struct op *op)
{
    return op->kind == OP_INSERT && ((const struct op_insert *)op)->count >= LARGE_MIN;
}

/* ---- running a batch ---- */

static enum err batch_transact(struct batcher *b, struct op *const *ops, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        ops[i]->rc = ERR_OK; /* it may be a second try */
    if (failpoint("before_commit"))
        return error_set(e, ERR_UNAVAILABLE, "failpoint before_commit");
    int64_t start_ns = clock_steady_ns(b->clock);
    enum err rc = store_apply(b->store, ops, n, e);
    int64_t end_ns = clock_steady_ns(b->clock);
    metric_observe_us(b->metrics, METRIC_STORE_TIME, (end_ns - start_ns) / 1000);
    if (b->has_large)
        b->large_ready_ns = end_ns + (end_ns - start_ns);
    if (failpoint("after_commit"))
        return error_set(e, ERR_UNAVAILABLE, "failpoint after_commit");
    return rc;
}

static uint64_t op_unblocked_lanes(const struct op *op)
{
    if (op->kind != OP_PUT && op->kind != OP_STOP && op->kind != OP_SIGNAL)
        return 0;
    if (op->rc)
        return op->rc == ERR_UNAVAILABLE ? UINT64_MAX : 0;
    if (op->kind == OP_SIGNAL)
        return ((const struct op_signal *)op)->ret_unblocked_lanes;
    if (op->kind == OP_STOP) { /* tasks that it has cancelled leave arrivals */
        const struct op_stop *stop = (const struct op_stop *)op;
        return op_unblocked(stop->ret_unblocked_lanes, stop->change == RUN_CANCEL && stop->ret_changed > 0);
    }
    const struct op_put *put = (const struct op_put *)op;
    return op_unblocked(put->ret_unblocked_lanes, put->ret_arrivals_left);
}

/* `done` may free its operation: nothing of it is touched afterwards. */
static void batch_finish(struct batcher *b, struct op *const *ops, size_t n)
{
    uint64_t unblocked = 0;
    for (size_t i = 0; i < n; i++) {
        unblocked |= op_unblocked_lanes(ops[i]);
        op_complete(ops[i]);
    }
    if (unblocked && b->unblocked)
        b->unblocked(b->unblocked_context, unblocked);
}

static void batch_fail(struct batcher *b, struct op *const *ops, size_t n, const struct error *e)
{
    assert(e->code != ERR_OK);
    for (size_t i = 0; i < n; i++) {
        ops[i]->rc = e->code;
        ops[i]->error = *e;
    }
    batch_finish(b, ops, n);
}

/* If a batch fails, halves it until the culprit stands alone: n operations cost at most 2n - 1 attempts, and each is in
 * at most 1 + log2 n of them. Returns false if the store is unavailable, with the reason in *e; then nothing more is
 * tried. */
static bool batch_run(struct batcher *b, struct op *const *ops, size_t n, struct error *e)
{
    enum err rc = batch_transact(b, ops, n, e);
    if (rc == ERR_OK) {
        batch_finish(b, ops, n);
        return true;
    }
    if (rc == ERR_UNAVAILABLE || n == 1) {
        batch_fail(b, ops, n, e);
        return rc != ERR_UNAVAILABLE;
    }
    if (batch_run(b, ops, n / 2, e))
        return batch_run(b, ops + n / 2, n - n / 2, e);
    batch_fail(b, ops + n / 2, n - n / 2, e);
    return false;
}

/* ---- gathering a batch ---- */

/* True if the operation has no key, or its key is not in the batch yet. */
static bool batch_add_key(struct batcher *b, struct op *op)
{
    struct str key = op_key_text(op);
    if (!key.p)
        return true;
    if (map_get(&b->keys, key))
        return false;
    map_put(&b->keys, key, op);
    return true;
}

static void batch_add(struct batcher *b, struct op *op)
{
    bool large = op_is_large(op);
    list_remove(&op->link);
    b->batch[b->op_count++] = op;
    b->task_count += op_weight(op);
    b->large_count -= large;
    b->has_large = b->has_large || large;
    if (large)
        b->large_tenant = op_tenant(op);
}

/* Which operations of a list go into the batch. */
struct batch_room {
    size_t ops_max, tasks_max;
    bool no_large;
    int32_t large_tenant; /* over 0: only large inserts of this tenant */
};

/* The first always goes, however big it is, so that neither urgency starves the other. */
static void batch_fill(struct batcher *b, struct list *from, struct batch_room room)
{
    bool is_first = true;
    list_each (from, link) {
        struct op *op = container_of(link, struct op, link);
        bool is_meant = room.large_tenant ? op_is_large(op) && op_tenant(op) == room.large_tenant
                                          : !room.no_large || !op_is_large(op);
        if (!is_meant)
            continue;
        if (b->op_count == room.ops_max || (!is_first && b->task_count + op_weight(op) > room.tasks_max))
            return;
        if (!batch_add_key(b, op))
            continue; /* waits for the next transaction, where it finds the answer of the first */
        batch_add(b, op);
        is_first = false;
    }
}

/* The tenant whose large insert is next: the first that is not the last one's, if there is one. */
static int32_t batch_next_large(struct batcher *b)
{
    int32_t first = 0;
    list_each (&b->rest, link) {
        const struct op *op = container_of(link, struct op, link);
        if (!op_is_large(op))
            continue;
        if (op_tenant(op) != b->large_tenant)
            return op_tenant(op);
        first = op_tenant(op);
    }
    return first;
}

/* Others go first: those that are in the batch now, and those that come while large inserts pause. */
static void batch_fill_large(struct batcher *b, bool has_others)
{
    int64_t left_ns = b->large_ready_ns - clock_steady_ns(b->clock);
    if (has_others && !b->gave_way) {
        b->gave_way = true;
        return;
    }
    if (left_ns > 0) {
        b->pause_us = b->op_count ? 0 : left_ns / 1000 + 1;
        return;
    }
    b->gave_way = false;
    b->others_turns--;
    batch_fill(b, &b->rest,
               (struct batch_room){ .ops_max = STORE_BATCH_MAX,
                                    .tasks_max = b->task_count + LARGE_TASKS_MAX,
                                    .large_tenant = batch_next_large(b) });
}

static void batch_gather(struct batcher *b, bool stopping)
{
    bool gives_way = b->others_turns && b->large_count && !stopping;
    b->count_before = b->op_count;
    b->op_count = b->task_count = 0;
    b->has_large = false;
    b->pause_us = 0;
    batch_fill(b, &b->front, (struct batch_room){ .ops_max = FRONT_OPS_MAX, .tasks_max = FRONT_TASKS_MAX });
    size_t front = b->op_count;
    batch_fill(b, &b->rest,
               (struct batch_room){ .ops_max = STORE_BATCH_MAX, .tasks_max = TASKS_MAX, .no_large = gives_way });
    if (gives_way)
        batch_fill_large(b, b->op_count > front);
    for (size_t i = 0; i < b->op_count; i++) {
        struct str key = op_key_text(b->batch[i]);
        if (key.p)
            map_remove(&b->keys, key);
    }
}

/* ---- the thread ---- */

/* Called under the lock, after something has arrived. */
static void batcher_wait_for_company(struct batcher *b)
{
    size_t both = b->op_count + b->count_before, expected = both / 2;
    if (b->op_count < COMPANY_MIN || b->arrived_count >= expected || b->hurried || b->stopping)
        return;
    struct timespec until = clock_condition_end(COMPANY_US);
    b->wake_at = expected;
    while (b->arrived_count < expected && !b->hurried && !b->stopping)
        if (pthread_cond_timedwait(&b->wake, &b->lock, &until))
            break;
}

/* Called under the lock: large inserts wait, and whatever arrives goes before them. */
static void batcher_pause(struct batcher *b)
{
    struct timespec until = clock_condition_end(b->pause_us);
    while (list_empty(&b->arrived) && !b->stopping)
        if (pthread_cond_timedwait(&b->wake, &b->lock, &until))
            return;
}

static void batcher_sort(struct batcher *b, struct op *op)
{
    int32_t tenant = op_tenant(op);
    if (op_is_large(op)) {
        b->large_count++;
        b->large_tenant = b->large_tenant ? b->large_tenant : tenant;
    }
    if (tenant && b->large_tenant && tenant != b->large_tenant)
        b->others_turns = OTHERS_TURNS;
    list_push(op_is_front(op) ? &b->front : &b->rest, &op->link);
}

/* Waits for work and takes all that has arrived. False: there is none, and the thread is to end. */
static bool batcher_take_arrived(struct batcher *b, bool *ret_stopping)
{
    struct list taken;
    list_init(&taken);
    bool has_left = !list_empty(&b->front) || !list_empty(&b->rest);
    pthread_mutex_lock(&b->lock);
    b->wake_at = 1;
    while (!has_left && list_empty(&b->arrived) && !b->stopping)
        pthread_cond_wait(&b->wake, &b->lock);
    if (!has_left)
        batcher_wait_for_company(b);
    if (b->pause_us)
        batcher_pause(b);
    list_append(&taken, &b->arrived);
    b->arrived_count = 0;
    b->hurried = false;
    *ret_stopping = b->stopping;
    pthread_mutex_unlock(&b->lock);
    struct list *link;
    while ((link = list_pop(&taken)))
        batcher_sort(b, container_of(link, struct op, link));
    return !list_empty(&b->front) || !list_empty(&b->rest);
}

static void batcher_measure_waits(struct batcher *b)
{
    int64_t now_ns = clock_steady_ns(b->clock);
    for (size_t i = 0; i < b->op_count; i++)
        metric_observe_us(b->metrics, METRIC_STORE_WAIT, (now_ns - b->batch[i]->submitted_ns) / 1000);
}

static void *batcher_thread(void *context)
{
    struct batcher *b = context;
    bool stopping = false;
    while (batcher_take_arrived(b, &stopping)) {
        struct error e = { 0 };
        batch_gather(b, stopping);
        batcher_measure_waits(b);
        if (b->op_count)
            batch_run(b, b->batch, b->op_count, &e);
    }
    return NULL;
}

/* Signals under the lock: as soon as `done` has run, the thread that waits for it may free the batcher. */
/* The lock is held. */
static void batcher_add(struct batcher *b, struct op *op)
{
    assert(op->done);
    op->submitted_ns = clock_steady_ns(b->clock);
    bool hurries = op_is_front(op);
    b->hurried = b->hurried || hurries;
    b->arrived_count++;
    if (hurries || b->arrived_count == b->wake_at)
        pthread_cond_signal(&b->wake);
    list_push(&b->arrived, &op->link);
}

static void batcher_submit(struct writer *w, struct op *op)
{
    struct batcher *b = container_of(w, struct batcher, base);
    pthread_mutex_lock(&b->lock);
    batcher_add(b, op);
    pthread_mutex_unlock(&b->lock);
}

static void batcher_submit_pair(struct writer *w, struct op *first, struct op *second)
{
    struct batcher *b = container_of(w, struct batcher, base);
    pthread_mutex_lock(&b->lock);
    batcher_add(b, first);
    batcher_add(b, second);
    pthread_mutex_unlock(&b->lock);
}

struct batcher *batcher_new(struct store *s, struct metrics *m, struct clock *c)
{
    static const struct writer_ops ops = { batcher_submit, batcher_submit_pair };
    struct hash_key key;
    crypto_random(&key, sizeof key);
    struct batcher *b = xnew(*b);
    b->base.ops = &ops;
    b->store = s;
    b->metrics = m;
    b->clock = c;
    list_init(&b->arrived);
    list_init(&b->front);
    list_init(&b->rest);
    map_init(&b->keys, key);
    pthread_mutex_init(&b->lock, NULL);
    clock_condition_init(&b->wake);
    int failed = pthread_create(&b->thread, NULL, batcher_thread, b);
    assert(!failed);
    pthread_setname_np(b->thread, "batcher"); /* shown by top and gdb */
    return b;
}

void batcher_watch(struct batcher *b, void (*unblocked)(void *context, uint64_t lanes), void *context)
{
    b->unblocked = unblocked;
    b->unblocked_context = context;
}

struct writer *batcher_writer(struct batcher *b)
{
    return &b->base;
}

void batcher_free(struct batcher *b)
{
    if (!b)
        return;
    assert(!pthread_equal(pthread_self(), b->thread));
    pthread_mutex_lock(&b->lock);
    b->stopping = true;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    map_release(&b->keys);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->wake);
    free(b);
}
