/* Large inserts give way to the operations of other tenants (platform/batcher.h). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"
#include "platform/batcher.h"

enum { OPS = 8, LARGE = 10000 };

struct probe {
    union {
        struct op op;
        struct op_insert insert;
        struct op_settle settle;
        struct op_lease lease;
    };
    struct world *world;
    size_t call; /* the call of apply that it was in, 1 for the first */
    size_t done; /* its place among those that are done */
};

/* A store that takes notes, and waits at a gate. The lock is over all but the probes' operations. */
struct world {
    struct store store;
    struct clock clock;
    atomic_int_least64_t ns;
    struct metrics *metrics;
    struct batcher *batcher;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closed;
    size_t calls, done;
    struct probe plug, p[OPS];
};

static struct task tasks[4][LARGE];

static enum err world_apply(struct store *base, struct op *const *ops, size_t n, struct error *e)
{
    (void)e;
    struct world *w = container_of(base, struct world, store);
    pthread_mutex_lock(&w->lock);
    w->calls++;
    pthread_cond_broadcast(&w->changed);
    while (w->closed)
        pthread_cond_wait(&w->changed, &w->lock);
    for (size_t i = 0; i < n; i++)
        container_of(ops[i], struct probe, op)->call = w->calls;
    pthread_mutex_unlock(&w->lock);
    return ERR_OK;
}

static int64_t world_steady_ns(struct clock *c)
{
    return container_of(c, struct world, clock)->ns += 1500000; /* so each transaction takes 1.5 ms */
}

static void world_on_done(struct op *op)
{
    struct probe *p = container_of(op, struct probe, op);
    pthread_mutex_lock(&p->world->lock);
    p->done = ++p->world->done;
    pthread_cond_broadcast(&p->world->changed);
    pthread_mutex_unlock(&p->world->lock);
}

static void submit(struct world *w, struct probe *p, enum op_kind kind)
{
    p->op.kind = kind;
    p->op.done = world_on_done;
    p->world = w;
    writer_submit(batcher_writer(w->batcher), &p->op);
}

static void insert(struct world *w, size_t i, int32_t tenant, size_t count)
{
    tasks[tenant][0].tenant = tenant;
    w->p[i].insert.tasks = tasks[tenant];
    w->p[i].insert.count = count;
    submit(w, &w->p[i], OP_INSERT);
}

/* A transaction has begun and is held up: what is submitted next gathers behind it. */
static int open_world(void **state)
{
    static const struct store_ops store_ops = { .apply = world_apply };
    static const struct clock_ops clock_ops = { .steady_ns = world_steady_ns };
    struct world *w = xnew(*w);
    w->store.ops = &store_ops;
    w->clock.ops = &clock_ops;
    w->closed = true;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->metrics = metrics_new();
    w->batcher = batcher_new(&w->store, w->metrics, &w->clock);
    submit(w, &w->plug, OP_LEASE);
    pthread_mutex_lock(&w->lock);
    while (w->calls == 0)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    *state = w;
    return 0;
}

static int close_world(void **state)
{
    struct world *w = *state;
    batcher_free(w->batcher);
    metrics_free(w->metrics);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    free(w);
    return 0;
}

/* Lets go, and waits until so many operations are done besides the plug. */
static void run(struct world *w, size_t count)
{
    pthread_mutex_lock(&w->lock);
    w->closed = false;
    pthread_cond_broadcast(&w->changed);
    while (w->done < count + 1)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static void a_large_insert_gives_way_and_tenants_take_turns(void **state)
{
    struct world *w = *state;
    static const size_t calls[] = { 4, 5, 6, 3, 2, 2 };
    for (size_t i = 0; i < 3; i++)
        insert(w, i, 1, LARGE);
    insert(w, 3, 3, LARGE);
    insert(w, 4, 2, 1);
    submit(w, &w->p[5], OP_SETTLE);
    run(w, array_count(calls));
    for (size_t i = 0; i < array_count(calls); i++)
        assert_int_equal(w->p[i].call, calls[i]);
}

static void large_inserts_of_a_lone_tenant_share_a_transaction(void **state)
{
    struct world *w = *state;
    insert(w, 0, 1, LARGE - 1);
    insert(w, 1, 1, 1);
    insert(w, 2, 1, LARGE);
    run(w, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(w->p[i].call, 2);
}

static void what_waits_is_written_before_the_end(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < 3; i++)
        insert(w, i, 1, LARGE);
    insert(w, 3, 2, 1);
    pthread_mutex_lock(&w->lock);
    w->closed = false;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    batcher_free(take(w->batcher));
    assert_int_equal(w->done, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_large_insert_gives_way_and_tenants_take_turns, open_world, close_world),
        cmocka_unit_test_setup_teardown(large_inserts_of_a_lone_tenant_share_a_transaction, open_world, close_world),
        cmocka_unit_test_setup_teardown(what_waits_is_written_before_the_end, open_world, close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
