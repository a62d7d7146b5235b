/* Submitters touch `arrived` only, under the lock; everything else belongs to the batcher's thread. The thread sleeps only
 * when nothing has arrived and nothing is left over, so whoever puts the first operation into an empty `arrived` wakes it.
 *
 * Order. Operations of one class (in front, or the rest) keep the order they came in, over transactions too: a class is one
 * list, taken from its front. Two operations on one task change places only when
 *
 *  - one is in front (claim, settle) and the other is of the rest. Every operation of the rest that changes an existing task
 *    names what it saw: a put the version, fence and state, a spawn the version and cursor. A settle names the fence. A
 *    claim raises the fence and changes the state. So whichever comes second finds either what it expected, and the two do
 *    not meet, or something else, and is refused (ERR_CONFLICT, stale) just as if it had been submitted a moment later.
 *    An insert's task is known to nobody before its commit; a claim that passes it by is followed by another, because the
 *    insert's done tells the scheduler. One thing no guard covers, in this order or the other: a settle tells a recurring
 *    parent its last run, and a put of the parent brings the one it read;
 *  - an operation waits because its idempotency key is in the batch already. It answers a request that runs at the same time
 *    as those behind it, so no order between them was promised, and the guards above hold.
 *
 * A batch that is split is applied from left to right, so it keeps its order too.
 *
 * Waiting for company. Clients that were answered together ask again together, a moment later. So when the last transaction
 * held many operations and few have come since, the next one waits for the others: at most COMPANY_US, never if something in
 * front is among them, and not at all when the last one was small, so that nobody who works alone ever waits. */
#include "platform/batcher.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/map.h"
#include "platform/clock_system.h"
#include "port/crypto.h"

/* One transaction: what is in front gets at most these, the rest whatever is left, and at least a quarter. The bound on tasks
 * keeps a claim from waiting long behind a flood of creates. */
enum { TASKS_MAX = 20000, FRONT_TASKS_MAX = TASKS_MAX / 4 * 3, FRONT_OPS_MAX = STORE_BATCH_MAX / 4 * 3 };

/* Half of what the last two transactions held is expected again. */
enum { COMPANY_MIN = 8, COMPANY_US = 300 };

struct batcher {
    struct writer base;
    struct store *store;
    struct metrics *metrics;
    struct clock *clock;
    void (*unblocked)(void *context, uint64_t lanes); /* NULL: nobody wants to know */
    void *unblocked_context;
    pthread_t thread;

    pthread_mutex_t lock; /* over the next six */
    pthread_cond_t wake;
    struct list arrived;
    size_t arrived_count, wake_at; /* whoever makes it so many wakes the thread */
    bool hurried;                  /* something that goes in front has arrived */
    bool stopping;

    struct list front, rest;     /* taken off `arrived`, in order */
    struct map keys;             /* idempotency keys in the batch → their operation */
    size_t op_count, task_count; /* in the batch */
    size_t count_before;         /* operations in the one before */
    struct op *batch[STORE_BATCH_MAX];
};

/* ---- what an operation is ---- */

static bool goes_in_front(enum op_kind kind)
{
    switch (kind) {
    case OP_CLAIM:
    case OP_CLAIMED:
    case OP_ORPHANS:
    case OP_CATCH_UP: /* no claim is made until it is done */
    case OP_SETTLE:
    case OP_LEASE:     /* names no task, and a late one costs its holder the lease */
    case OP_HEARTBEAT: /* and this one its life */
    case OP_NODE_DEAD:
    case OP_LIMIT_TAKE: /* claims wait for it */
    case OP_RECALL:
    case OP_RECALL_LIST:
    case OP_HANDOFF:
    case OP_RETAKE:
    case OP_LEASE_RENEW: /* late ones cost their holders the lease */
    case OP_LEASES_EXPIRED: return true;
    case OP_INSERT:
    case OP_RECURRING:
    case OP_SPAWN:
    case OP_PUT:
    case OP_KEY_PUT:
    case OP_CATALOG:
    case OP_PURGE:
    case OP_HANDED_OFF:
    case OP_RUNNING:
    case OP_WORKER_REPORT: return false;
    }
    return false;
}

/* How many tasks it may touch. */
static size_t task_count_of(const struct op *op)
{
    switch (op->kind) {
    case OP_INSERT: return ((const struct op_insert *)op)->count;
    case OP_CLAIM: return ((const struct op_claim *)op)->max;
    case OP_ORPHANS: return ((const struct op_orphans *)op)->max;
    case OP_CATCH_UP: return ((const struct op_catch_up *)op)->max;
    case OP_SETTLE: return ((const struct op_settle *)op)->n;
    case OP_RECURRING: return ((const struct op_recurring *)op)->max;
    case OP_SPAWN: return ((const struct op_spawn *)op)->plan->occurrences.n;
    case OP_PURGE: return ((const struct op_purge *)op)->max;
    case OP_CATALOG: return ((const struct op_catalog *)op)->n;
    case OP_LIMIT_TAKE: return ((const struct op_limit_take *)op)->n;
    case OP_RECALL_LIST: return ((const struct op_recall_list *)op)->max;
    case OP_HANDOFF: return ((const struct op_handoff *)op)->n;
    case OP_HANDED_OFF: return ((const struct op_handed_off *)op)->max;
    case OP_RUNNING: return ((const struct op_running *)op)->n;
    case OP_RETAKE: return ((const struct op_retake *)op)->n;
    case OP_LEASE_RENEW: return ((const struct op_lease_renew *)op)->n;
    case OP_LEASES_EXPIRED: return ((const struct op_leases_expired *)op)->max;
    case OP_WORKER_REPORT: return ((const struct op_worker_report *)op)->n;
    case OP_CLAIMED:
    case OP_PUT:
    case OP_KEY_PUT:
    case OP_LEASE:
    case OP_HEARTBEAT:
    case OP_NODE_DEAD:
    case OP_RECALL: return 1;
    }
    return 1;
}

/* Tenant and key as one text; p NULL when the operation has none. */
static struct str idempotency_key(const struct op *op)
{
    static_assert(offsetof(struct idempotency, key) == sizeof(int32_t), "the key stands right behind the tenant");
    const struct idempotency *i = NULL;
    if (op->kind == OP_INSERT)
        i = ((const struct op_insert *)op)->idempotency;
    else if (op->kind == OP_PUT)
        i = ((const struct op_put *)op)->idempotency;
    else if (op->kind == OP_CATALOG)
        i = ((const struct op_catalog *)op)->idempotency;
    else if (op->kind == OP_SETTLE)
        i = ((const struct op_settle *)op)->idempotency;
    return i ? (struct str){ (const char *)i, sizeof i->tenant + sizeof i->key } : (struct str){ 0 };
}

/* ---- running a batch ---- */

static enum err transact(struct batcher *b, struct op *const *ops, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        ops[i]->rc = ERR_OK; /* it may have been tried before */
    if (failpoint("before_commit"))
        return error_set(e, ERR_UNAVAILABLE, "failpoint before_commit");
    int64_t start_ns = clock_steady_ns(b->clock);
    enum err rc = store_apply(b->store, ops, n, e);
    metric_observe_us(b->metrics, METRIC_STORE_TIME, (clock_steady_ns(b->clock) - start_ns) / 1000);
    if (failpoint("after_commit"))
        return error_set(e, ERR_UNAVAILABLE, "failpoint after_commit");
    return rc;
}

static uint64_t woken_by(const struct op *op)
{
    if (op->kind != OP_PUT)
        return 0;
    return op->rc == ERR_OK            ? ((const struct op_put *)op)->ret_unblocked_lanes
           : op->rc == ERR_UNAVAILABLE ? UINT64_MAX
                                       : 0;
}

/* done may free its operation: nothing of it is touched afterwards. */
static void finish(struct batcher *b, struct op *const *ops, size_t n)
{
    uint64_t woken = 0;
    for (size_t i = 0; i < n; i++) {
        woken |= woken_by(ops[i]);
        op_complete(ops[i]);
    }
    if (woken && b->unblocked)
        b->unblocked(b->unblocked_context, woken);
}

static void refuse(struct batcher *b, struct op *const *ops, size_t n, const struct error *e)
{
    assert(e->code != ERR_OK);
    for (size_t i = 0; i < n; i++) {
        ops[i]->rc = e->code;
        ops[i]->error = *e;
    }
    finish(b, ops, n);
}

/* Halves what fails until the culprit stands alone: n operations cost at most 2n - 1 attempts, and each is in at most
 * 1 + log2 n of them. Once the store is unavailable nothing more is tried. False: it is, and *e says why. */
static bool run(struct batcher *b, struct op *const *ops, size_t n, struct error *e)
{
    enum err rc = transact(b, ops, n, e);
    if (rc == ERR_OK) {
        finish(b, ops, n);
        return true;
    }
    if (rc == ERR_UNAVAILABLE || n == 1) {
        refuse(b, ops, n, e);
        return rc != ERR_UNAVAILABLE;
    }
    if (run(b, ops, n / 2, e))
        return run(b, ops + n / 2, n - n / 2, e);
    refuse(b, ops + n / 2, n - n / 2, e);
    return false;
}

/* ---- gathering one ---- */

/* True if the operation's key was not in the batch yet, or it has none. */
static bool key_is_new(struct batcher *b, struct op *op)
{
    struct str key = idempotency_key(op);
    if (!key.p)
        return true;
    if (map_get(&b->keys, key))
        return false;
    map_put(&b->keys, key, op);
    return true;
}

/* Moves operations into the batch until it holds so many of them, or of tasks. The first always goes, however big it is: no
 * class is starved by the other. */
static void fill(struct batcher *b, struct list *from, size_t ops_max, size_t tasks_max)
{
    bool is_first = true;
    list_each (from, link) {
        struct op *op = container_of(link, struct op, link);
        size_t tasks = task_count_of(op);
        if (b->op_count == ops_max || (!is_first && b->task_count + tasks > tasks_max))
            return;
        if (!key_is_new(b, op))
            continue; /* waits for the next transaction, where it finds the answer to the first */
        list_remove(link);
        b->batch[b->op_count++] = op;
        b->task_count += tasks;
        is_first = false;
    }
}

static void gather(struct batcher *b)
{
    b->count_before = b->op_count;
    b->op_count = b->task_count = 0;
    fill(b, &b->front, FRONT_OPS_MAX, FRONT_TASKS_MAX);
    fill(b, &b->rest, STORE_BATCH_MAX, TASKS_MAX);
    for (size_t i = 0; i < b->op_count; i++) {
        struct str key = idempotency_key(b->batch[i]);
        if (key.p)
            map_remove(&b->keys, key);
    }
}

/* ---- the thread ---- */

/* Under the lock, with something arrived. */
static void wait_for_company(struct batcher *b)
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

/* Waits until there is something to do, and takes all that has arrived. False: there is nothing, and it is to end. */
static bool take_arrived(struct batcher *b)
{
    struct list taken;
    list_init(&taken);
    bool has_left = !list_empty(&b->front) || !list_empty(&b->rest);
    pthread_mutex_lock(&b->lock);
    b->wake_at = 1;
    while (!has_left && list_empty(&b->arrived) && !b->stopping)
        pthread_cond_wait(&b->wake, &b->lock);
    if (!has_left)
        wait_for_company(b);
    list_append(&taken, &b->arrived);
    b->arrived_count = 0;
    b->hurried = false;
    pthread_mutex_unlock(&b->lock);
    struct list *link;
    while ((link = list_pop(&taken)))
        list_push(goes_in_front(container_of(link, struct op, link)->kind) ? &b->front : &b->rest, link);
    return !list_empty(&b->front) || !list_empty(&b->rest);
}

static void *work(void *context)
{
    struct batcher *b = context;
    while (take_arrived(b)) {
        struct error e = { 0 };
        gather(b);
        run(b, b->batch, b->op_count, &e);
    }
    return NULL;
}

/* The wake-up is given under the lock: once done has run, whoever waits for it may free the batcher. */
static void submit(struct writer *w, struct op *op)
{
    struct batcher *b = container_of(w, struct batcher, base);
    assert(op->done);
    pthread_mutex_lock(&b->lock);
    bool hurries = goes_in_front(op->kind);
    b->hurried = b->hurried || hurries;
    b->arrived_count++;
    if (hurries || b->arrived_count == b->wake_at)
        pthread_cond_signal(&b->wake);
    list_push(&b->arrived, &op->link);
    pthread_mutex_unlock(&b->lock);
}

struct batcher *batcher_new(struct store *s, struct metrics *m, struct clock *c)
{
    static const struct writer_ops ops = { submit };
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
    int failed = pthread_create(&b->thread, NULL, work, b);
    assert(!failed);
    pthread_setname_np(b->thread, "batcher"); /* for whoever looks at the process from outside */
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
