/* The plan is the only state. Its lock is never held during a call of the inner store. */
#include "model/store_faults.h"

#include <pthread.h>
#include <stdlib.h>

struct store_faults {
    struct store base;
    struct store *inner;
    pthread_mutex_t lock; /* guards all members below */
    struct store_fault *steps;
    size_t at, n; /* at: the step for the next call */
    size_t calls;
};

static struct store_faults *store_faults_of(struct store *s)
{
    return container_of(s, struct store_faults, base);
}

static size_t store_faults_times(const struct store_fault *s)
{
    return s->times ? s->times : 1;
}

static struct store_fault store_faults_next(struct store_faults *f)
{
    struct store_fault fault = { .kind = FAULT_NONE };
    pthread_mutex_lock(&f->lock);
    f->calls++;
    if (f->at < f->n) {
        struct store_fault *step = &f->steps[f->at];
        fault = *step;
        step->times = store_faults_times(step) - 1;
        if (step->times == 0)
            f->at++;
    }
    pthread_mutex_unlock(&f->lock);
    if (fault.code == ERR_OK)
        fault.code = ERR_UNAVAILABLE;
    return fault;
}

/* Wipes the results of a failed call, so that a caller that uses them fails its tests. */
static void store_faults_wipe_results(struct op *op)
{
    static const size_t ret_at[] = {
        [OP_CLAIM] = offsetof(struct op_claim, ret),     [OP_CLAIMED] = offsetof(struct op_claimed, ret),
        [OP_ORPHANS] = offsetof(struct op_orphans, ret), [OP_RECURRING] = offsetof(struct op_recurring, ret),
        [OP_RETAKE] = offsetof(struct op_retake, ret),   [OP_KINDS - 1] = 0,
    };
    if (op->kind == OP_CATALOG) {
        struct op_catalog *c = container_of(op, struct op_catalog, op);
        for (size_t i = 0; i < c->n; i++)
            c->v[i].ret_version = c->v[i].ret_created_ms = -1;
    }
    if (op->kind == OP_HEARTBEAT) {
        struct op_heartbeat *b = container_of(op, struct op_heartbeat, op);
        b->ret = (struct node_rows){ 0 };
        b->ret_dead = b->ret_recall_requested = b->ret_has_orphans = false;
    }
    if (op->kind == OP_LIMIT_TAKE) {
        struct op_limit_take *s = container_of(op, struct op_limit_take, op);
        for (size_t i = 0; i < s->n; i++)
            s->v[i].ret_tokens = s->v[i].ret_places = -1;
    }
    if (op->kind == OP_RECALL) {
        struct op_recall *r = container_of(op, struct op_recall, op);
        r->ret_refused = r->ret_handed_off = false;
    }
    if (op->kind == OP_RECALL_LIST)
        container_of(op, struct op_recall_list, op)->ret_count = 0;
    if (ret_at[op->kind])
        *(struct tasks *)(void *)((char *)op + ret_at[op->kind]) = (struct tasks){ 0 };
}

static enum err store_faults_apply_and_lose(struct store_faults *f, enum err code, struct op *const *ops, size_t n,
                                            struct error *e)
{
    enum err rc = store_apply(f->inner, ops, n, e);
    for (size_t i = 0; i < n; i++)
        store_faults_wipe_results(ops[i]);
    return rc == ERR_OK ? error_set(e, code, "injected: the answer to the commit was lost") : rc;
}

static enum err store_faults_apply_without(struct store_faults *f, const struct store_fault *fault,
                                           struct op *const *ops, size_t n, struct error *e)
{
    struct op **others = xcalloc(n, sizeof(struct op *));
    size_t count = 0;
    enum err rc = ERR_OK;
    for (size_t i = 0; i < n; i++)
        if (i != fault->op)
            others[count++] = ops[i];
    if (count)
        rc = store_apply(f->inner, others, count, e);
    free(others);
    if (rc == ERR_OK && fault->op < n)
        ops[fault->op]->rc = error_set(&ops[fault->op]->error, fault->code, "injected: this operation fails");
    return rc;
}

static enum err store_faults_apply(struct store *s, struct op *const *ops, size_t n, struct error *e)
{
    struct store_faults *f = store_faults_of(s);
    struct store_fault fault = store_faults_next(f);
    switch (fault.kind) {
    case FAULT_NONE: break;
    case FAULT_BEFORE: return error_set(e, fault.code, "injected: the store is down");
    case FAULT_AFTER: return store_faults_apply_and_lose(f, fault.code, ops, n, e);
    case FAULT_OP: return store_faults_apply_without(f, &fault, ops, n, e);
    }
    return store_apply(f->inner, ops, n, e);
}

static enum err store_faults_reader(struct store *s, struct reader **ret, struct error *e)
{
    return store_reader(store_faults_of(s)->inner, ret, e);
}

static void store_faults_watch(struct store *s, struct store_watch *w)
{
    store_watch(store_faults_of(s)->inner, w);
}

static void store_faults_barrier_wait(struct store *s, struct store_barrier *barrier)
{
    store_barrier_wait(store_faults_of(s)->inner, barrier);
}

static bool store_faults_barrier_cancel(struct store *s, struct store_barrier *barrier)
{
    return store_barrier_cancel(store_faults_of(s)->inner, barrier);
}

static void store_faults_catalog_applied(struct store *s, uint64_t heard)
{
    store_catalog_applied(store_faults_of(s)->inner, heard);
}

static void store_faults_notify_settled(struct store *s, const struct fenced_id *settled, size_t n)
{
    store_notify_settled(store_faults_of(s)->inner, settled, n);
}

static void store_faults_broadcast(struct store *s, struct str line)
{
    store_broadcast(store_faults_of(s)->inner, line);
}

static void store_faults_free(struct store *s)
{
    struct store_faults *f = store_faults_of(s);
    store_free(f->inner);
    pthread_mutex_destroy(&f->lock);
    free(f->steps);
    free(f);
}

struct store *store_faults_new(struct store *inner, struct store_faults **ret)
{
    static const struct store_ops ops = { .apply = store_faults_apply,
                                          .reader = store_faults_reader,
                                          .watch = store_faults_watch,
                                          .barrier_wait = store_faults_barrier_wait,
                                          .barrier_cancel = store_faults_barrier_cancel,
                                          .catalog_applied = store_faults_catalog_applied,
                                          .notify_settled = store_faults_notify_settled,
                                          .broadcast = store_faults_broadcast,
                                          .free = store_faults_free };
    static const struct store_ops alone = { .apply = store_faults_apply,
                                            .reader = store_faults_reader,
                                            .free = store_faults_free };
    struct store_faults *f = xnew(*f);
    f->base.ops = store_is_shared(inner) ? &ops : &alone;
    f->inner = inner;
    pthread_mutex_init(&f->lock, NULL);
    *ret = f;
    return &f->base;
}

void store_faults_plan(struct store_faults *f, const struct store_fault *steps, size_t n)
{
    struct store_fault *copy = xcalloc(n, sizeof *copy);
    if (n)
        memcpy(copy, steps, n * sizeof *copy);
    pthread_mutex_lock(&f->lock);
    struct store_fault *old = f->steps;
    f->steps = copy;
    f->at = 0;
    f->n = n;
    pthread_mutex_unlock(&f->lock);
    free(old);
}

size_t store_faults_left(struct store_faults *f)
{
    size_t left = 0;
    pthread_mutex_lock(&f->lock);
    for (size_t i = f->at; i < f->n; i++)
        left += store_faults_times(&f->steps[i]);
    pthread_mutex_unlock(&f->lock);
    return left;
}

size_t store_faults_calls(struct store_faults *f)
{
    pthread_mutex_lock(&f->lock);
    size_t calls = f->calls;
    pthread_mutex_unlock(&f->lock);
    return calls;
}
