#include "check.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/prng.h"
#include "platform/batcher.h"
#include "port/store/operation_table.h"
#include "seed.h"

/* ---- a store that only takes notes, and waits at a gate ---- */

enum { LOG_MAX = 40000 };

struct entry {
    size_t batch; /* 1 for the first call of apply */
    int id;
};

struct stub {
    struct store base;
    pthread_mutex_t lock; /* over all below */
    pthread_cond_t changed;
    bool closed;
    size_t calls;                 /* of apply, also those waiting at the gate */
    int poison[4];                /* a batch with one of these fails as a whole */
    enum err poison_code;         /* so */
    size_t down_from, down_until; /* calls in [from, until) say ERR_UNAVAILABLE */
    int conflict;                 /* this operation fails alone */
    struct entry log[LOG_MAX];    /* what was in a call of apply */
    size_t n;
};

/* Any operation, and what became of it. */
struct probe {
    union {
        struct op op;
        struct op_insert insert;
        struct op_claim claim;
        struct op_claimed claimed;
        struct op_orphans held;
        struct op_settle settle;
        struct op_recurring recurring;
        struct op_spawn spawn;
        struct op_catch_up missed;
        struct op_put put;
        struct op_key_put key_put;
        struct op_catalog catalog;
        struct op_breakers breakers;
        struct op_lease lease;
        struct op_purge forget;
        struct op_signal signal;
        struct op_stop stop;
        struct op_define define;
    };
    int id;
    struct world *world;
    int done_count; /* guarded by the world's lock, like rc */
    enum err rc;
    char text[64];
    size_t done_order;
};

struct fake_clock {
    struct clock base;
    atomic_int_least64_t ns;
};

struct world {
    struct stub stub;
    struct fake_clock clock;
    struct metrics *metrics;
    struct batcher *batcher;
    size_t done_count; /* guarded by stub.lock */
    struct probe plug;
};

static bool is_poison(const struct stub *s, int id)
{
    for (size_t i = 0; i < array_count(s->poison); i++)
        if (id && s->poison[i] == id)
            return true;
    return false;
}

static enum err stub_verdict(struct stub *s, struct op *const *ops, size_t n, struct error *e)
{
    if (s->calls >= s->down_from && s->calls < s->down_until)
        return error_set(e, ERR_UNAVAILABLE, "disk full at call %zu", s->calls);
    for (size_t i = 0; i < n; i++) {
        int id = container_of(ops[i], struct probe, op)->id;
        if (s->poison_code != ERR_OK && (s->poison[0] == -1 || is_poison(s, id)))
            return error_set(e, s->poison_code, "cannot stand %d", id);
    }
    for (size_t i = 0; i < n; i++)
        if (s->conflict && container_of(ops[i], struct probe, op)->id == s->conflict)
            ops[i]->rc = error_set(&ops[i]->error, ERR_CONFLICT, "another was faster");
    return ERR_OK;
}

static enum err stub_apply(struct store *base, struct op *const *ops, size_t n, struct error *e)
{
    struct stub *s = container_of(base, struct stub, base);
    pthread_mutex_lock(&s->lock);
    s->calls++;
    pthread_cond_broadcast(&s->changed);
    while (s->closed)
        pthread_cond_wait(&s->changed, &s->lock);
    for (size_t i = 0; i < n; i++) {
        assert(s->n < LOG_MAX);
        s->log[s->n++] = (struct entry){ s->calls, container_of(ops[i], struct probe, op)->id };
    }
    enum err rc = stub_verdict(s, ops, n, e);
    container_of(s, struct world, stub)->clock.ns += 1500000; /* so each transaction takes 1.5 ms */
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static int64_t fake_steady_ns(struct clock *c)
{
    return container_of(c, struct fake_clock, base)->ns;
}

static int open_world(void **state)
{
    static const struct store_ops store_ops = { .apply = stub_apply };
    static const struct clock_ops clock_ops = { .steady_ns = fake_steady_ns };
    struct world *w = xnew(*w);
    w->stub.base.ops = &store_ops;
    w->clock.base.ops = &clock_ops;
    pthread_mutex_init(&w->stub.lock, NULL);
    pthread_cond_init(&w->stub.changed, NULL);
    w->metrics = metrics_new();
    w->batcher = batcher_new(&w->stub.base, w->metrics, &w->clock.base);
    *state = w;
    return 0;
}

static int close_world(void **state)
{
    struct world *w = *state;
    batcher_free(w->batcher);
    metrics_free(w->metrics);
    pthread_mutex_destroy(&w->stub.lock);
    pthread_cond_destroy(&w->stub.changed);
    free(w);
    return 0;
}

static void note_done(struct op *op)
{
    struct probe *p = container_of(op, struct probe, op);
    struct world *w = p->world;
    pthread_mutex_lock(&w->stub.lock);
    p->done_count++;
    p->rc = op->rc;
    snprintf(p->text, sizeof p->text, "%s", op->rc ? op->error.text : "");
    p->done_order = ++w->done_count;
    pthread_cond_broadcast(&w->stub.changed);
    pthread_mutex_unlock(&w->stub.lock);
}

static struct task blank[30000];

static void prepare(struct world *w, struct probe *p, enum op_kind kind, int id)
{
    static struct lane_quota lanes[1];
    static const struct spawn_plan plan = { .occurrences = { blank, 3 } };
    static struct catalog_change changes[] = { { .entry.name = { "a", 1 } }, { .entry.name = { "b", 1 } } };
    static const struct breaker_change breaker = { .row.host = { "a", 1 }, .close = true };
    p->op.kind = kind;
    p->op.done = note_done;
    p->id = id;
    p->world = w;
    if (kind == OP_CLAIM) {
        p->claim.claim = p->claim.node = (struct uuid){ { 1 } };
        p->claim.lanes = lanes;
        p->claim.lane_count = p->claim.max = 1;
    }
    if (kind == OP_SPAWN)
        p->spawn.plan = &plan;
    if (kind == OP_PURGE)
        p->forget.max = max_of(p->forget.max, (size_t)1);
    if (kind == OP_CATALOG) {
        p->catalog.v = changes;
        p->catalog.n = array_count(changes);
    }
    if (kind == OP_BREAKERS) {
        p->breakers.v = &breaker;
        p->breakers.n = 1;
    }
}

static void submit(struct world *w, struct probe *p, enum op_kind kind, int id)
{
    prepare(w, p, kind, id);
    writer_submit(batcher_writer(w->batcher), &p->op);
}

static void insert(struct world *w, struct probe *p, int id, size_t tasks, const struct idempotency *key)
{
    assert_true(tasks <= array_count(blank));
    p->insert.tasks = blank;
    p->insert.count = tasks;
    p->insert.idempotency = key;
    submit(w, p, OP_INSERT, id);
}

/* Lets a transaction begin and holds it up, so that what is submitted next gathers behind it. */
static void hold_up(struct world *w)
{
    w->stub.closed = true; /* nobody else looks yet */
    submit(w, &w->plug, OP_KEY_PUT, 0);
    pthread_mutex_lock(&w->stub.lock);
    while (w->stub.calls == 0)
        pthread_cond_wait(&w->stub.changed, &w->stub.lock);
    pthread_mutex_unlock(&w->stub.lock);
}

static void open_gate(struct world *w)
{
    pthread_mutex_lock(&w->stub.lock);
    w->stub.closed = false;
    pthread_cond_broadcast(&w->stub.changed);
    pthread_mutex_unlock(&w->stub.lock);
}

/* Lets everything go, and returns when it is done. */
static void let_go(struct world *w)
{
    open_gate(w);
    batcher_free(take(w->batcher));
}

static void wait_done(struct world *w, size_t count)
{
    pthread_mutex_lock(&w->stub.lock);
    while (w->done_count < count)
        pthread_cond_wait(&w->stub.changed, &w->stub.lock);
    pthread_mutex_unlock(&w->stub.lock);
}

/* Operations of call n of apply, 1 for the first: the plug's. */
static size_t batch_size(const struct world *w, size_t batch)
{
    size_t count = 0;
    for (size_t i = 0; i < w->stub.n; i++)
        count += w->stub.log[i].batch == batch;
    return count;
}

static void assert_batch(const struct world *w, size_t batch, const int *ids, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < w->stub.n; i++) {
        if (w->stub.log[i].batch != batch)
            continue;
        assert_true(at < n);
        assert_int_equal(w->stub.log[i].id, ids[at++]);
    }
    assert_int_equal(at, n);
}
#define assert_batch(w, batch, ...)                                                                                    \
    assert_batch((w), (batch), (const int[]){ __VA_ARGS__ }, array_count(((const int[]){ __VA_ARGS__ })))

/* ---- gathering ---- */

static void lone_operation_is_applied_at_once(void **state)
{
    struct world *w = *state;
    struct probe p = { 0 };
    submit(w, &p, OP_PUT, 7);
    wait_done(w, 1);
    assert_int_equal(p.rc, ERR_OK);
    assert_int_equal(w->stub.calls, 1);
}

static void what_arrives_during_a_commit_shares_the_next(void **state)
{
    struct world *w = *state;
    static struct probe p[100];
    memset(p, 0, sizeof p);
    hold_up(w);
    for (int i = 0; i < 100; i++)
        insert(w, &p[i], i + 1, 1, NULL);
    let_go(w);
    assert_int_equal(w->stub.calls, 2);
    assert_int_equal(batch_size(w, 2), 100);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(p[i].done_count, 1);
        assert_int_equal(p[i].done_order, i + 2); /* in order, behind the plug */
    }
}

static void claims_and_settles_go_before_the_rest_each_in_order(void **state)
{
    struct world *w = *state;
    static const enum op_kind kinds[] = { OP_INSERT,  OP_SETTLE, OP_PUT,     OP_CLAIM,   OP_RECURRING,
                                          OP_CLAIMED, OP_SPAWN,  OP_ORPHANS, OP_KEY_PUT, OP_SETTLE,
                                          OP_PURGE,   OP_LEASE,  OP_CATALOG, OP_CATCH_UP };
    struct probe p[array_count(kinds)] = { 0 };
    hold_up(w);
    p[array_count(kinds) - 1].missed.max = 1;
    for (size_t i = 0; i < array_count(kinds); i++)
        submit(w, &p[i], kinds[i], (int)i + 1);
    let_go(w);
    assert_int_equal(w->stub.calls, 2);
    assert_batch(w, 2, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13);
}

/* The thread wakes at the first of the two. */
static void a_pair_is_in_one_transaction_even_if_nothing_else_is_to_be_done(void **state)
{
    struct world *w = *state;
    enum { PAIRS = 50 };
    struct probe p[2 * PAIRS] = { 0 };
    for (size_t i = 0; i < PAIRS; i++) {
        prepare(w, &p[2 * i], OP_SETTLE, (int)(2 * i));
        prepare(w, &p[2 * i + 1], OP_CLAIM, (int)(2 * i + 1));
        writer_submit_pair(batcher_writer(w->batcher), &p[2 * i].op, &p[2 * i + 1].op);
        wait_done(w, 2 * i + 2);
    }
    let_go(w);
    for (size_t i = 0; i < PAIRS; i++)
        assert_batch(w, i + 1, (int)(2 * i), (int)(2 * i + 1));
}

static void batch_holds_no_more_operations_than_the_store_takes(void **state)
{
    struct world *w = *state;
    struct probe *p = xcalloc(5000, sizeof *p);
    hold_up(w);
    for (int i = 0; i < 5000; i++)
        submit(w, &p[i], OP_KEY_PUT, i + 1);
    let_go(w);
    assert_int_equal(w->stub.calls, 3);
    assert_int_equal(batch_size(w, 2), STORE_BATCH_MAX);
    assert_int_equal(batch_size(w, 3), 5000 - STORE_BATCH_MAX);
    for (size_t i = 0; i < w->stub.n; i++)
        assert_int_equal(w->stub.log[i].id, i);
    free(p);
}

static void batch_is_bounded_in_tasks(void **state)
{
    struct world *w = *state;
    struct probe p[6] = { 0 };
    hold_up(w);
    for (int i = 0; i < 5; i++)
        insert(w, &p[i], i + 1, 6000, NULL);
    insert(w, &p[5], 6, 30000, NULL); /* more than fits, so it goes alone */
    let_go(w);
    assert_batch(w, 2, 1, 2, 3);
    assert_batch(w, 3, 4, 5);
    assert_batch(w, 4, 6);
    assert_int_equal(w->stub.calls, 4);
}

static void every_kind_counts_its_tasks(void **state)
{
    struct world *w = *state;
    struct probe p[10] = { [0].held.max = 14998, [4].recurring.max = 9000, [5].forget.max = 19993 };
    hold_up(w);
    submit(w, &p[0], OP_ORPHANS, 1);
    submit(w, &p[1], OP_CLAIMED, 2);
    submit(w, &p[2], OP_CLAIM, 3); /* 15,000: full to the last */
    submit(w, &p[3], OP_LEASE, 4);
    submit(w, &p[4], OP_RECURRING, 5);
    submit(w, &p[5], OP_PURGE, 6);
    submit(w, &p[6], OP_SPAWN, 7); /* of three */
    submit(w, &p[7], OP_KEY_PUT, 8);
    submit(w, &p[8], OP_PUT, 9);
    submit(w, &p[9], OP_CATALOG, 10); /* of two: 20,001 */
    let_go(w);
    assert_batch(w, 2, 1, 2, 3, 5);
    assert_batch(w, 3, 4, 6, 7, 8, 9);
    assert_batch(w, 4, 10);
}

static void flood_of_settles_leaves_room_for_creates(void **state)
{
    struct world *w = *state;
    struct probe *p = xcalloc(5011, sizeof *p);
    hold_up(w);
    for (int i = 0; i < 5000; i++)
        submit(w, &p[i], OP_SETTLE, i + 1);
    for (int i = 0; i < 10; i++)
        insert(w, &p[5000 + i], 6000 + i, 1, NULL);
    let_go(w);
    assert_int_equal(w->stub.calls, 3);
    assert_int_equal(batch_size(w, 2), STORE_BATCH_MAX / 4 * 3 + 10);
    assert_int_equal(p[5009].done_order, STORE_BATCH_MAX / 4 * 3 + 11);
    assert_int_equal(batch_size(w, 3), 5000 - STORE_BATCH_MAX / 4 * 3);
    free(p);
}

static void big_create_is_not_starved_by_big_settles(void **state)
{
    struct world *w = *state;
    static struct settlement settlements[14000];
    for (size_t i = 0; i < array_count(settlements); i++)
        settlements[i] = (struct settlement){ .fence = 1, .verdict.next = TASK_COMPLETED };
    struct probe p[3] = { 0 };
    hold_up(w);
    for (int i = 0; i < 2; i++) {
        p[i].settle.v = settlements;
        p[i].settle.n = array_count(settlements);
        submit(w, &p[i], OP_SETTLE, i + 1);
    }
    insert(w, &p[2], 3, 10000, NULL);
    let_go(w);
    assert_batch(w, 2, 1, 3);
    assert_batch(w, 3, 2);
}

static void second_of_two_equal_idempotency_keys_waits(void **state)
{
    struct world *w = *state;
    struct idempotency a = { .tenant = 1, .key = { 1 } }, b = { .tenant = 1, .key = { 1, [31] = 1 } };
    struct idempotency same = a, other_tenant = a;
    same.payload[0] = 1; /* also when it asks for something else: the store tells them apart */
    other_tenant.tenant = 2;
    struct probe p[9] = { 0 };
    hold_up(w);
    insert(w, &p[0], 1, 1, &a);
    insert(w, &p[1], 2, 1, &same);
    insert(w, &p[2], 3, 1, &b);
    p[3].put.idempotency = &same;
    submit(w, &p[3], OP_PUT, 4);
    insert(w, &p[4], 5, 1, &other_tenant);
    insert(w, &p[5], 6, 1, NULL);
    insert(w, &p[6], 7, 1, NULL);
    p[7].catalog.idempotency = &same;
    submit(w, &p[7], OP_CATALOG, 8);
    struct settlement one = { .fence = 1, .verdict.next = TASK_COMPLETED };
    p[8].settle.v = &one;
    p[8].settle.n = 1;
    p[8].settle.idempotency = &b;
    submit(w, &p[8], OP_SETTLE, 9); /* in front of all others, so the other one waits */
    let_go(w);
    assert_batch(w, 2, 9, 1, 5, 6, 7);
    assert_batch(w, 3, 2, 3);
    assert_batch(w, 4, 4);
    assert_batch(w, 5, 8);
    assert_int_equal(w->stub.calls, 5);
}

static size_t batch_of(const struct world *w, int id)
{
    for (size_t i = 0; i < w->stub.n; i++)
        if (w->stub.log[i].id == id)
            return w->stub.log[i].batch;
    fail_msg("operation %d never came", id);
    return 0;
}

/* Walks the table of operations: whichever carries a key, the second of two waits for the answer to the first. */
static void equal_keys_are_never_in_one_transaction(void **state)
{
    struct world *w = *state;
    struct idempotency keys[OP_KINDS] = { 0 };
    struct settlement one = { .fence = 1, .verdict.next = TASK_COMPLETED };
    struct signal_row signal = { .name = S("go"), .sender = S("me") };
    struct definition definition = { .tenant = 1 };
    struct probe p[OP_KINDS][2] = { 0 };
    hold_up(w);
    for (size_t kind = 0; kind < OP_KINDS; kind++) {
        keys[kind] = (struct idempotency){ .tenant = 1, .key = { (uint8_t)kind } };
        for (int i = 0; i < 2 && op_table[kind].idempotency_at; i++) {
            if (kind == OP_SETTLE)
                p[kind][i].settle = (struct op_settle){ .v = &one, .n = 1 };
            if (kind == OP_SIGNAL)
                p[kind][i].signal = (struct op_signal){ .signal = &signal };
            if (kind == OP_STOP)
                p[kind][i].stop = (struct op_stop){ .max = 1, .change = RUN_PAUSE };
            if (kind == OP_DEFINE)
                p[kind][i].define = (struct op_define){ .name = S("d"), .definition = &definition };
            *(const struct idempotency **)((char *)&p[kind][i] + op_table[kind].idempotency_at) = &keys[kind];
            submit(w, &p[kind][i], (enum op_kind)kind, (int)(2 * kind) + i + 1);
        }
    }
    let_go(w);
    size_t pairs = 0;
    for (size_t kind = 0; kind < OP_KINDS; kind++) {
        if (!op_table[kind].idempotency_at)
            continue;
        assert_int_equal(batch_of(w, (int)(2 * kind) + 1), 2);
        assert_int_equal(batch_of(w, (int)(2 * kind) + 2), 3);
        pairs++;
    }
    assert_true(pairs >= 5);
}

static void what_is_left_over_waits_for_no_arrival(void **state)
{
    struct world *w = *state;
    struct probe p[4] = { 0 };
    hold_up(w);
    for (int i = 0; i < 2; i++) {
        insert(w, &p[i], i + 1, 15000, NULL);
        p[i + 2].held.max = 15000;
        submit(w, &p[i + 2], OP_ORPHANS, i + 3);
    }
    open_gate(w);
    wait_done(w, 5);
    assert_batch(w, 2, 3, 1);
    assert_batch(w, 3, 4, 2);
}

/* ---- failing ---- */

static void operation_that_fails_alone_leaves_its_neighbours(void **state)
{
    struct world *w = *state;
    struct probe p[3] = { 0 };
    w->stub.conflict = 2;
    hold_up(w);
    for (int i = 0; i < 3; i++)
        submit(w, &p[i], OP_PUT, i + 1);
    p[0].op.rc = ERR_CORRUPT; /* from an earlier life */
    let_go(w);
    assert_int_equal(w->stub.calls, 2);
    assert_int_equal(p[0].rc, ERR_OK);
    assert_int_equal(p[1].rc, ERR_CONFLICT);
    assert_string_equal(p[1].text, "another was faster");
    assert_int_equal(p[2].rc, ERR_OK);
}

static void culprit_is_found_by_halving(void **state)
{
    struct world *w = *state;
    static struct probe p[64];
    memset(p, 0, sizeof p);
    w->stub.poison[0] = 38;
    w->stub.poison_code = ERR_CORRUPT;
    hold_up(w);
    for (int i = 0; i < 64; i++)
        submit(w, &p[i], OP_PUT, i + 1);
    let_go(w);
    assert_int_equal(w->stub.calls, 1 + 1 + 2 * 6);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(p[i].done_count, 1);
        assert_int_equal(p[i].rc, i == 37 ? ERR_CORRUPT : ERR_OK);
        assert_int_equal(p[i].done_order, i + 2);
    }
    assert_string_equal(p[37].text, "cannot stand 38");
}

static void several_culprits_are_found_and_told_apart(void **state)
{
    struct world *w = *state;
    static struct probe p[37];
    memset(p, 0, sizeof p);
    memcpy(w->stub.poison, (const int[]){ 1, 2, 20, 37 }, sizeof w->stub.poison);
    w->stub.poison_code = ERR_LIMIT;
    hold_up(w);
    for (int i = 0; i < 37; i++)
        submit(w, &p[i], OP_PUT, i + 1);
    let_go(w);
    for (int i = 0; i < 37; i++) {
        char text[32];
        snprintf(text, sizeof text, "cannot stand %d", i + 1);
        assert_int_equal(p[i].rc, is_poison(&w->stub, i + 1) ? ERR_LIMIT : ERR_OK);
        assert_string_equal(p[i].text, is_poison(&w->stub, i + 1) ? text : "");
    }
}

static void store_that_always_fails_costs_a_bounded_number_of_attempts(void **state)
{
    struct world *w = *state;
    static struct probe p[100];
    memset(p, 0, sizeof p);
    hold_up(w);
    pthread_mutex_lock(&w->stub.lock);
    w->stub.poison[0] = -1; /* everything, the plug too */
    w->stub.poison_code = ERR_CORRUPT;
    pthread_mutex_unlock(&w->stub.lock);
    for (int i = 0; i < 100; i++)
        submit(w, &p[i], OP_PUT, i + 1);
    let_go(w);
    assert_int_equal(w->stub.calls, 1 + 2 * 100 - 1);
    for (int i = 0; i < 100; i++)
        assert_true(p[i].done_count == 1 && p[i].rc == ERR_CORRUPT);
}

static void unavailable_store_is_asked_once(void **state)
{
    struct world *w = *state;
    struct probe p[8] = { 0 };
    w->stub.down_from = 2;
    w->stub.down_until = 3;
    hold_up(w);
    for (int i = 0; i < 8; i++)
        submit(w, &p[i], OP_PUT, i + 1);
    let_go(w);
    assert_int_equal(w->stub.calls, 2);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(p[i].rc, ERR_UNAVAILABLE);
        assert_string_equal(p[i].text, "disk full at call 2");
    }
    assert_int_equal(w->plug.rc, ERR_OK);
}

static void store_that_goes_away_while_halving_is_not_asked_again(void **state)
{
    struct world *w = *state;
    struct probe p[8] = { 0 };
    w->stub.poison[0] = 1;
    w->stub.poison_code = ERR_CORRUPT;
    w->stub.down_from = 5; /* 2: all eight, 3: first four, 4: first two, 5: the first */
    w->stub.down_until = SIZE_MAX;
    hold_up(w);
    for (int i = 0; i < 8; i++)
        submit(w, &p[i], OP_PUT, i + 1);
    let_go(w);
    assert_int_equal(w->stub.calls, 5);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(p[i].done_count, 1);
        assert_int_equal(p[i].rc, ERR_UNAVAILABLE);
        assert_string_equal(p[i].text, "disk full at call 5");
    }
}

static void failpoint_before_the_commit_leaves_the_store_alone(void **state)
{
    struct world *w = *state;
    struct error e;
    struct probe p = { 0 };
    assert_ok(failpoint_arm(S("before_commit:error"), &e), &e);
    submit(w, &p, OP_PUT, 1);
    batcher_free(take(w->batcher));
    assert_ok(failpoint_arm(S(""), &e), &e);
    assert_int_equal(w->stub.calls, 0);
    assert_int_equal(p.rc, ERR_UNAVAILABLE);
    assert_string_equal(p.text, "failpoint before_commit");
}

static void failpoint_after_the_commit_loses_the_answer(void **state)
{
    struct world *w = *state;
    struct error e;
    struct probe p = { 0 };
    assert_ok(failpoint_arm(S("after_commit:error"), &e), &e);
    submit(w, &p, OP_PUT, 1);
    batcher_free(take(w->batcher));
    assert_ok(failpoint_arm(S(""), &e), &e);
    assert_int_equal(w->stub.calls, 1);
    assert_int_equal(p.rc, ERR_UNAVAILABLE);
    assert_string_equal(p.text, "failpoint after_commit");
}

/* ---- the thread ---- */

static void transactions_are_timed(void **state)
{
    struct world *w = *state;
    struct probe p[2] = { 0 };
    hold_up(w);
    submit(w, &p[0], OP_PUT, 1);
    submit(w, &p[1], OP_PUT, 2);
    let_go(w);
    struct buf out;
    buf_init(&out, 1 << 20);
    metrics_print(w->metrics, &out);
    assert_int_equal(metric_count(w->metrics, METRIC_STORE_TIME), 2);
    assert_non_null(strstr(buf_cstr(&out), "\nbelfry_store_commit_duration_seconds_sum 0.003000\n"));
    assert_int_equal(metric_count(w->metrics, METRIC_STORE_WAIT), 3);
    assert_non_null(strstr(buf_cstr(&out), "\nbelfry_store_wait_seconds_sum 0.003000\n")); /* two, behind the first */
    buf_release(&out);
}

/* Frees its operation and submits the next, until the last. */
static void chain(struct op *op)
{
    struct probe *p = container_of(op, struct probe, op);
    struct world *w = p->world;
    int left = p->id;
    pthread_mutex_lock(&w->stub.lock);
    w->done_count++;
    pthread_mutex_unlock(&w->stub.lock);
    free(p);
    if (left == 1)
        return;
    p = xnew(*p);
    *p = (struct probe){ .op = { .kind = OP_LEASE, .done = chain }, .id = left - 1, .world = w };
    writer_submit(batcher_writer(w->batcher), &p->op);
}

static void done_may_free_and_submit_and_the_drain_waits_for_it(void **state)
{
    struct world *w = *state;
    struct batcher *b = w->batcher;
    struct probe *p = xnew(*p);
    *p = (struct probe){ .op = { .kind = OP_LEASE, .done = chain }, .id = 500, .world = w };
    writer_submit(batcher_writer(b), &p->op);
    batcher_free(b);
    w->batcher = NULL;
    assert_int_equal(w->done_count, 500);
    assert_int_equal(w->stub.calls, 500);
}

static void batcher_that_had_nothing_to_do_ends(void **state)
{
    struct world *w = *state;
    batcher_free(take(w->batcher));
    batcher_free(NULL);
    assert_int_equal(w->stub.calls, 0);
}

enum { THREADS = 8, SUBMITS = 3000 };

struct submitter {
    struct world *w;
    struct prng random;
    struct probe *probes;
    int first_id;
};

static void *submit_many(void *context)
{
    struct submitter *s = context;
    static const enum op_kind kinds[] = { OP_SETTLE, OP_LEASE, OP_INSERT, OP_PUT };
    for (int i = 0; i < SUBMITS; i++)
        submit(s->w, &s->probes[i], kinds[prng_below(&s->random, 4)], s->first_id + i);
    return NULL;
}

static void operations_of_many_threads_are_each_done_once_and_in_order(void **state)
{
    struct world *w = *state;
    struct prng r = seeded_prng(__func__);
    struct probe *p = xcalloc(THREADS * SUBMITS, sizeof *p);
    struct submitter s[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        s[i] = (struct submitter){ .w = w, .probes = p + i * SUBMITS, .first_id = 1 + i * SUBMITS };
        prng_init(&s[i].random, prng_u64(&r));
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &s[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    batcher_free(take(w->batcher));
    assert_int_equal(w->stub.n, THREADS * SUBMITS);
    int last[THREADS][2] = { 0 }; /* the id last seen of each thread, of each class */
    for (size_t i = 0; i < w->stub.n; i++) {
        int id = w->stub.log[i].id, thread = (id - 1) / SUBMITS;
        bool rest = p[id - 1].op.kind == OP_INSERT || p[id - 1].op.kind == OP_PUT;
        assert_true(id > last[thread][rest]);
        last[thread][rest] = id;
    }
    for (int i = 0; i < THREADS * SUBMITS; i++)
        assert_true(p[i].done_count == 1 && p[i].rc == ERR_OK);
    printf("# %d operations in %zu transactions\n", THREADS * SUBMITS, w->stub.calls);
    free(p);
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(lone_operation_is_applied_at_once),
        test(what_arrives_during_a_commit_shares_the_next),
        test(claims_and_settles_go_before_the_rest_each_in_order),
        test(a_pair_is_in_one_transaction_even_if_nothing_else_is_to_be_done),
        test(batch_holds_no_more_operations_than_the_store_takes),
        test(batch_is_bounded_in_tasks),
        test(every_kind_counts_its_tasks),
        test(flood_of_settles_leaves_room_for_creates),
        test(big_create_is_not_starved_by_big_settles),
        test(second_of_two_equal_idempotency_keys_waits),
        test(equal_keys_are_never_in_one_transaction),
        test(what_is_left_over_waits_for_no_arrival),
        test(operation_that_fails_alone_leaves_its_neighbours),
        test(culprit_is_found_by_halving),
        test(several_culprits_are_found_and_told_apart),
        test(store_that_always_fails_costs_a_bounded_number_of_attempts),
        test(unavailable_store_is_asked_once),
        test(store_that_goes_away_while_halving_is_not_asked_again),
        test(failpoint_before_the_commit_leaves_the_store_alone),
        test(failpoint_after_the_commit_loses_the_answer),
        test(transactions_are_timed),
        test(done_may_free_and_submit_and_the_drain_waits_for_it),
        test(batcher_that_had_nothing_to_do_ends),
        test(operations_of_many_threads_are_each_done_once_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
