/* Limits over all nodes: the shares of several nodes on one store, whose answers come late or never. */
#include <stdio.h>

#include "base/prng.h"
#include "both_at.h"
#include "check.h"
#include "core/sharing/bucket.h"
#include "model/store_memory.h"
#include "node/scheduler/limit_shares.h"
#include "seed.h"

enum { NODES = 3, NOW = 1000000, ARENA = 1 << 16 };

/* One node: its part of one limit, and its operation in flight. */
struct party {
    struct writer writer;
    struct uuid id;
    struct limit_shares *shares;
    struct limit_share *entry;
    size_t armed, held;
    struct op *pending;
    int changed;
    struct world *world;
};

struct world {
    struct store *store;
    struct party v[NODES];
    int64_t now_ms;
    int operations;
};

static void apply(struct world *w, struct op *op)
{
    struct error e;
    assert_int_equal(store_apply(w->store, &op, 1, &e), ERR_OK);
    assert_int_equal(op->rc, ERR_OK);
}

static void submit(struct writer *writer, struct op *op)
{
    struct party *p = container_of(writer, struct party, writer);
    assert_null(p->pending);
    assert_int_equal(op->kind, OP_LIMIT_TAKE);
    p->pending = op;
    p->world->operations++;
}

static void changed(void *context, struct limit_share *e)
{
    struct party *p = context;
    assert_ptr_equal(e, p->entry);
    p->changed++;
}

static void beat(struct world *w, struct uuid id)
{
    struct op_heartbeat op = { .op.kind = OP_HEARTBEAT,
                               .node = { .id = id, .name = S("n"), .version = S("1"), .doc = S("{}") },
                               .now_ms = w->now_ms };
    arena_init(&op.op.arena, ARENA);
    apply(w, &op.op);
    arena_release(&op.op.arena);
}

static int setup(void **state)
{
    static const struct writer_ops ops = { submit };
    struct world *w = xnew(*w);
    w->store = store_memory_new();
    w->now_ms = NOW;
    for (int i = 0; i < NODES; i++) {
        struct party *p = &w->v[i];
        p->writer.ops = &ops;
        p->world = w;
        p->id.b[0] = (uint8_t)(i + 1);
        beat(w, p->id);
        p->shares = limit_shares_new(
            &(struct limit_shares_setup){ .writer = &p->writer, .node = &p->id, .changed = changed, .context = p });
        p->entry = limit_shares_add(p->shares, S("q:1:mail"), NULL, &p->armed, &p->held);
    }
    *state = w;
    return 0;
}

static void answer(struct party *p)
{
    struct op *op = take(p->pending);
    if (!op)
        return;
    apply(p->world, op);
    op->done(op);
}

/* The answer is lost, whether or not the operation was committed. */
static void lose(struct party *p, bool committed)
{
    struct op *op = take(p->pending);
    if (committed)
        apply(p->world, op);
    op->rc = error_set(&op->error, ERR_UNAVAILABLE, "the answer was lost");
    op->done(op);
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < NODES; i++) {
        if (w->v[i].pending)
            answer(&w->v[i]);
        limit_shares_free(w->v[i].shares);
    }
    store_free(w->store);
    free(w);
    return 0;
}

static void limit(struct world *w, double rate, int64_t burst, int64_t concurrency)
{
    for (int i = 0; i < NODES; i++)
        limit_shares_set_limits(w->v[i].shares, w->v[i].entry, rate, burst, concurrency);
}

static void step(struct party *p)
{
    limit_shares_step(p->shares, both_at(p->world->now_ms), true);
}

static void pass(struct world *w, int64_t ms)
{
    for (int64_t end = w->now_ms + ms; w->now_ms < end; w->now_ms++)
        for (int i = 0; i < NODES; i++) {
            step(&w->v[i]);
            if (w->v[i].pending)
                answer(&w->v[i]);
        }
}

/* Something is due, as the lanes say it; then as many as possible are claimed. */
static size_t claim(struct party *p, size_t max)
{
    limit_shares_want(p->shares, p->entry, both_at(p->world->now_ms));
    int64_t left = limit_shares_places_left(p->entry);
    if (left <= 0)
        limit_shares_wait_for_places(p->shares, p->entry);
    size_t n = left <= 0 ? 0 : min_of((size_t)left, max);
    p->held += n;
    return n;
}

static void end_all(struct party *p)
{
    p->held = 0;
    limit_shares_on_used_less(p->shares, p->entry);
}

static size_t fire(struct party *p, size_t max)
{
    size_t n = 0;
    limit_shares_want(p->shares, p->entry, both_at(p->world->now_ms));
    while (n < max && limit_shares_take_token(p->shares, p->entry))
        n++;
    return n;
}

/* ---- places ---- */

static void a_limit_holds_for_all_nodes_together(void **state)
{
    struct world *w = *state;
    limit(w, 0, 0, 5);
    size_t held = 0;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < NODES; i++)
            held += claim(&w->v[i], 5);
        pass(w, 10);
    }
    assert_int_equal(held, 5);
}

static void places_that_lie_idle_come_to_who_waits(void **state)
{
    struct world *w = *state;
    limit(w, 0, 0, 4);
    for (int i = 0; i < 20; i++) {
        claim(&w->v[0], 4);
        pass(w, 5);
    }
    assert_int_equal(w->v[0].held, 4);
    assert_int_equal(claim(&w->v[1], 4), 0);
    pass(w, 100);
    assert_int_equal(w->v[1].entry->places, 0);
    end_all(&w->v[0]);
    int64_t since_ms = w->now_ms;
    while (limit_shares_places_left(w->v[1].entry) == 0 && w->now_ms < since_ms + 1000)
        pass(w, 1);
    assert_in_range(w->now_ms - since_ms, 0, 200);
    assert_int_equal(w->v[1].changed, 1);
}

static void who_waits_for_places_asks_less_and_less_often(void **state)
{
    struct world *w = *state;
    limit(w, 0, 0, 1);
    claim(&w->v[0], 1);
    pass(w, 20);
    assert_int_equal(claim(&w->v[0], 1), 1);
    assert_int_equal(claim(&w->v[1], 1), 0);
    pass(w, 2000);
    int before = w->operations;
    pass(w, 3200);
    assert_in_range(w->operations - before, 9, 11);
    end_all(&w->v[0]);
    int64_t since_ms = w->now_ms;
    while (limit_shares_places_left(w->v[1].entry) == 0 && w->now_ms < since_ms + 1000)
        pass(w, 1);
    assert_in_range(w->now_ms - since_ms, 0, LIMIT_SHARES_KEEP_MS + LIMIT_SHARES_PLACES_MAX_MS);
    assert_int_equal(claim(&w->v[1], 1), 1);
    assert_int_equal(w->v[1].entry->places_wait_ms, 0);
}

static void who_has_nothing_to_do_asks_for_nothing(void **state)
{
    struct world *w = *state;
    limit(w, 10, 10, 4);
    claim(&w->v[0], 1);
    pass(w, 1000);
    int before = w->operations;
    pass(w, 10000);
    assert_int_equal(w->operations, before);
}

static void nothing_is_given_back_while_a_claim_is_under_way(void **state)
{
    struct world *w = *state;
    struct party *p = &w->v[0];
    limit(w, 0, 0, 4);
    claim(p, 0);
    pass(w, 1);
    assert_true(limit_shares_places_left(p->entry) > 0);
    w->now_ms += 10000;
    limit_shares_step(p->shares, both_at(w->now_ms), false);
    assert_null(p->pending);
    assert_true(limit_shares_places_left(p->entry) > 0);
    step(p);
    assert_non_null(p->pending);
    assert_int_equal(limit_shares_places_left(p->entry), 0);
}

static void places_given_back_are_not_ours_whatever_the_answer(void **state)
{
    struct world *w = *state;
    limit(w, 0, 0, 2);
    for (int i = 0; i < 6; i++) {
        claim(&w->v[0], 2);
        pass(w, 10);
    }
    assert_int_equal(w->v[0].held, 2);
    end_all(&w->v[0]);
    w->now_ms += 1000;
    step(&w->v[0]);
    lose(&w->v[0], true);
    assert_int_equal(claim(&w->v[0], 2), 0);
    claim(&w->v[1], 0);
    pass(w, 100);
    assert_true(w->v[0].entry->places + w->v[1].entry->places <= 2);
}

static void an_answer_that_was_lost_is_asked_for_again(void **state)
{
    struct world *w = *state;
    limit(w, 0, 0, 8);
    claim(&w->v[0], 0);
    step(&w->v[0]);
    lose(&w->v[0], true); /* the store has a place for it that nobody wants any more */
    w->now_ms += 1000;
    pass(w, 300);
    for (int i = 0; i < 50; i++) {
        claim(&w->v[1], 8);
        pass(w, 10);
    }
    assert_int_equal(w->v[1].held, 8);
}

static void a_limit_that_is_gone_gives_its_places_back(void **state)
{
    struct world *w = *state;
    limit(w, 0, 0, 2);
    for (int i = 0; i < 5; i++) {
        claim(&w->v[0], 2);
        pass(w, 10);
    }
    assert_int_equal(w->v[0].held, 2);
    limit_shares_set_limits(w->v[0].shares, w->v[0].entry, 0, 0, 0);
    pass(w, 200);
    claim(&w->v[1], 0);
    pass(w, 10);
    assert_true(w->v[1].entry->places > 0);
}

static void a_node_that_joins_anew_has_nothing(void **state)
{
    struct world *w = *state;
    struct party *p = &w->v[0];
    limit(w, 100, 100, 2);
    claim(p, 1);
    pass(w, 10);
    assert_true(p->entry->places > 0);
    p->id.b[1] = 1;
    p->held = 0;
    limit_shares_step(p->shares, both_at(w->now_ms), true);
    assert_int_equal(p->entry->places, 0);
    assert_int_equal(limit_shares_tokens(p->entry), 0);
}

/* ---- tokens ---- */

static void a_burst_is_taken_in_a_few_slices(void **state)
{
    struct world *w = *state;
    limit(w, 10, 100, 0);
    size_t fired = 0;
    int64_t since_ms = w->now_ms;
    while (fired < 100 && w->now_ms < since_ms + 1000) {
        fired += fire(&w->v[0], 1000);
        pass(w, 1);
    }
    assert_int_equal(fired, 100);
    assert_in_range(w->now_ms - since_ms, 0, 50);
    assert_in_range(w->operations, 1, 20);
}

static void tokens_that_nobody_uses_go_to_others(void **state)
{
    struct world *w = *state;
    limit(w, 0.001, 1, 0);
    fire(&w->v[0], 0);
    limit_shares_wait_for_tokens(w->v[0].shares, w->v[0].entry);
    pass(w, 5);
    assert_int_equal(limit_shares_tokens(w->v[0].entry), 1);
    pass(w, 100);
    assert_int_equal(limit_shares_tokens(w->v[0].entry), 0);
    fire(&w->v[1], 1);
    pass(w, 10);
    assert_int_equal(fire(&w->v[1], 1), 1);
}

static void a_fast_rate_is_asked_for_seldom(void **state)
{
    struct world *w = *state;
    limit(w, 1000, 1000, 0);
    size_t fired = 0;
    for (int ms = 0; ms < 2000; ms++) {
        fired += fire(&w->v[ms % NODES], 10);
        pass(w, 1);
    }
    assert_in_range(fired, 2500, 3000); /* the bucket, and what two seconds bring */
    assert_in_range(w->operations, 1, 2 * NODES * 2000 / LIMIT_SHARES_TOKENS_MS);
}

static void a_rate_that_was_raised_is_not_waited_for_as_long_as_the_old_one(void **state)
{
    struct world *w = *state;
    limit(w, 0.001, 1, 0);
    fire(&w->v[0], 2);
    pass(w, 5);
    assert_int_equal(fire(&w->v[0], 2), 1);
    pass(w, 100);
    limit(w, 100, 1, 0);
    size_t fired = 0;
    for (int i = 0; i < 40; i++) {
        fired += fire(&w->v[0], 2);
        pass(w, 1);
    }
    assert_in_range(fired, 1, 4);
}

/* ---- tokens go stale ---- */

/* The party has n tokens in hand, all that there are. */
static void hand_out(struct world *w, struct party *p, int64_t n)
{
    limit(w, 0.001, n, 0);
    p->armed = (size_t)n; /* so that it asks for all, and keeps them */
    limit_shares_want(p->shares, p->entry, both_at(w->now_ms));
    for (int i = 0; i < 20 && limit_shares_tokens(p->entry) < n; i++)
        pass(w, 1);
    assert_int_equal(limit_shares_tokens(p->entry), n);
}

static void a_node_that_was_stopped_uses_no_token_from_before(void **state)
{
    struct world *w = *state;
    struct party *p = &w->v[0];
    hand_out(w, p, 5);
    limit_shares_set_time(p->shares, both_at(w->now_ms + 170));
    assert_int_equal(limit_shares_tokens(p->entry), 5);
    assert_true(limit_shares_take_token(p->shares, p->entry));
    limit_shares_set_time(p->shares, both_at(w->now_ms + 200));
    assert_int_equal(limit_shares_tokens(p->entry), 0);
    assert_int_equal(limit_shares_tokens_left(p->entry), -5);
    assert_false(limit_shares_take_token(p->shares, p->entry));
}

static void stale_tokens_come_back_to_who_needs_them(void **state)
{
    struct world *w = *state;
    hand_out(w, &w->v[0], 5);
    w->now_ms += 5000;
    assert_int_equal(fire(&w->v[0], 5), 0);
    w->v[0].armed = 0;
    w->v[0].entry->waits_tokens = false;
    pass(w, 50);
    size_t fired = 0;
    for (int i = 0; i < 50; i++) {
        fired += fire(&w->v[1], 5);
        pass(w, 1);
    }
    assert_int_equal(fired, 5);
}

static void a_node_that_wakes_asks_for_fresh_tokens_and_gets_as_many(void **state)
{
    struct world *w = *state;
    hand_out(w, &w->v[0], 5);
    w->now_ms += 5000;
    assert_int_equal(fire(&w->v[0], 5), 0);
    int before = w->operations;
    pass(w, 1);
    assert_int_equal(w->operations, before + 1); /* one operation gives five back and takes five */
    assert_int_equal(fire(&w->v[0], 10), 5);
}

static void tokens_that_a_stopped_node_finds_in_an_answer_are_stale(void **state)
{
    struct world *w = *state;
    for (int step_first = 0; step_first < 2; step_first++) {
        struct party *p = &w->v[step_first];
        limit(w, 0.001, 1, 0);
        limit_shares_wait_for_tokens(p->shares, p->entry);
        step(p);
        struct op *op = take(p->pending);
        apply(w, op); /* the store has given the token, and the node is stopped */
        w->now_ms += 5000;
        if (step_first)
            limit_shares_set_time(p->shares, both_at(w->now_ms));
        op->done(op);
        limit_shares_set_time(p->shares, both_at(w->now_ms));
        assert_int_equal(limit_shares_tokens(p->entry), 0);
        assert_false(limit_shares_take_token(p->shares, p->entry));
        p->entry->waits_tokens = false;
        pass(w, 50); /* given back: it is there for the other one */
    }
    limit_shares_wait_for_tokens(w->v[2].shares, w->v[2].entry);
    pass(w, 1);
    assert_int_equal(limit_shares_tokens(w->v[2].entry), 1);
}

static void a_slow_store_gives_tokens_all_the_same(void **state)
{
    struct world *w = *state;
    struct party *p = &w->v[0];
    limit(w, 1, 1, 0);
    limit_shares_wait_for_tokens(p->shares, p->entry);
    step(p);
    struct op *op = take(p->pending);
    for (int i = 0; i < 40; i++) { /* two seconds */
        int64_t wake_ms = limit_shares_step(p->shares, both_at(w->now_ms), true);
        assert_int_equal(wake_ms, w->now_ms + LIMIT_SHARES_LOOK_MS);
        w->now_ms = wake_ms;
    }
    apply(w, op);
    op->done(op);
    limit_shares_set_time(p->shares, both_at(w->now_ms));
    assert_true(limit_shares_take_token(p->shares, p->entry));
}

static void a_token_that_was_not_used_goes_back_to_the_store(void **state)
{
    struct world *w = *state;
    hand_out(w, &w->v[0], 1);
    assert_true(limit_shares_take_token(w->v[0].shares, w->v[0].entry));
    w->v[0].armed = 0;
    w->now_ms += 150; /* a push that failed: how old the token is is not known any more */
    limit_shares_put_back_token(w->v[0].shares, w->v[0].entry);
    assert_int_equal(limit_shares_tokens(w->v[0].entry), 0);
    pass(w, 10);
    assert_int_equal(fire(&w->v[1], 1), 0);
    pass(w, 10);
    assert_int_equal(fire(&w->v[1], 1), 1);
}

static void what_has_started_uses_its_token_though_it_is_stale(void **state)
{
    struct world *w = *state;
    struct party *p = &w->v[0];
    hand_out(w, p, 2);
    w->now_ms += 1000;
    limit_shares_set_time(p->shares, both_at(w->now_ms));
    limit_shares_use_token(p->shares, p->entry);
    limit_shares_use_token(p->shares, p->entry);
    limit_shares_use_token(p->shares, p->entry); /* one more than it had: it owes one */
    p->armed = 0;
    assert_int_equal(limit_shares_tokens_left(p->entry), -1);
    pass(w, 100);
    assert_int_equal(fire(&w->v[1], 2), 0);
    pass(w, 100);
    assert_int_equal(fire(&w->v[1], 2), 0); /* nothing came back */
    limit(w, 10, 2, 0);
    pass(w, 1);
    limit_shares_wait_for_tokens(w->v[1].shares, w->v[1].entry);
    pass(w, 102);
    assert_int_equal(limit_shares_tokens_left(p->entry), 0); /* the next token paid for it */
    assert_int_equal(limit_shares_tokens(w->v[1].entry), 0);
}

/* The task is claimed so slowly that its token is stale when it fires. */
static void a_slow_rate_is_reached_though_each_token_goes_stale_once(void **state)
{
    struct world *w = *state;
    struct party *p = &w->v[0];
    limit(w, 0.1, 1, 0);
    size_t fired = 0;
    while (w->now_ms < NOW + 100000) {
        limit_shares_want(p->shares, p->entry, both_at(w->now_ms));
        if (limit_shares_tokens_left(p->entry) <= 0) {
            limit_shares_wait_for_tokens(p->shares, p->entry);
            pass(w, 5);
            continue;
        }
        p->armed++;
        for (int i = 0; i < 30; i++) { /* 300 ms */
            step(p);
            if (p->pending)
                answer(p);
            w->now_ms += 10;
        }
        limit_shares_set_time(p->shares, both_at(w->now_ms));
        assert_int_equal(limit_shares_tokens(p->entry), 0);
        while (!limit_shares_take_token(p->shares, p->entry))
            pass(w, 2);
        p->armed--;
        fired++;
    }
    assert_in_range(fired, 10, 11); /* at once, and then every ten seconds */
}

/* ---- everything at random ---- */

static void do_something(struct prng *r, struct party *p, size_t *fired)
{
    switch (prng_below(r, 8)) {
    case 0: claim(p, prng_below(r, 4)); break;
    case 1:
        if (p->held) {
            p->held--;
            limit_shares_on_used_less(p->shares, p->entry);
        }
        break;
    case 2: *fired += fire(p, prng_below(r, 6)); break;
    case 3:
        if (p->pending)
            lose(p, prng_below(r, 2));
        break;
    case 4:
    case 5:
        if (p->pending)
            answer(p);
        break;
    default: step(p); break;
    }
}

static void whatever_is_lost_no_limit_is_exceeded(void **state)
{
    struct world *w = *state;
    struct prng r = seeded_prng(__func__);
    limit(w, 50, 20, 5);
    size_t fired = 0, most = 0;
    for (int i = 0; i < 200000; i++) {
        w->now_ms += (int64_t)prng_below(&r, 3);
        do_something(&r, &w->v[prng_below(&r, NODES)], &fired);
        size_t held = 0;
        for (int n = 0; n < NODES; n++)
            held += w->v[n].held;
        most = max_of(most, held);
        assert_true(held <= 5);
        assert_true((double)fired <= 20 + (double)(w->now_ms - NOW) * 50 / 1000 + 1);
    }
    assert_int_equal(most, 5); /* and they are used */
    assert_true((double)fired > (double)(w->now_ms - NOW) * 50 / 1000 / 4);
}

/* ---- stops at random ---- */

enum { RATE = 50, BURST = 20, FIRED_KEPT = 4096, SECOND = 1000, PHASE_MS = 2000 };

/* When tasks fired, to count them in any second. */
struct log {
    int64_t at_ms[FIRED_KEPT];
    size_t n;
};

static void log_fired(struct log *l, size_t n, int64_t now_ms)
{
    while (n-- > 0)
        l->at_ms[l->n++ % FIRED_KEPT] = now_ms;
}

static size_t fired_since(const struct log *l, int64_t since_ms)
{
    size_t n = 0;
    while (n < l->n && n < FIRED_KEPT && l->at_ms[(l->n - 1 - n) % FIRED_KEPT] > since_ms)
        n++;
    return n;
}

/* A node is stopped for up to three seconds; the store goes on with what it was sent. */
static void stop(struct prng *r, struct party *p, int64_t *ret_until_ms)
{
    *ret_until_ms = p->world->now_ms + prng_between(r, LIMIT_SHARES_STALE_MS, 3000);
    if (p->pending)
        apply(p->world, p->pending);
}

static void wake(struct prng *r, struct party *p)
{
    struct op *op = take(p->pending);
    if (op && prng_below(r, 2))
        limit_shares_set_time(p->shares, both_at(p->world->now_ms));
    if (op)
        op->done(op);
}

static void however_nodes_are_stopped_a_rate_holds_in_every_second(void **state)
{
    struct world *w = *state;
    struct prng r = seeded_prng(__func__);
    struct log log = { 0 };
    int64_t stopped_until_ms[NODES] = { 0 };
    int stops = 0;
    limit(w, RATE, BURST, 0);
    for (int i = 0; i < 600000; i++) {
        size_t at = prng_below(&r, NODES);
        struct party *p = &w->v[at];
        bool busy = w->now_ms / PHASE_MS % 2;
        w->now_ms += (int64_t)prng_below(&r, 3);
        if (stopped_until_ms[at] > w->now_ms)
            continue;
        if (stopped_until_ms[at])
            wake(&r, p);
        stopped_until_ms[at] = 0;
        step(p);
        if (p->pending && prng_below(&r, 3))
            answer(p);
        if (prng_below(&r, limit_shares_tokens(p->entry) ? 20 : 500) == 0)
            stop(&r, p, (stops++, &stopped_until_ms[at]));
        else if (busy || prng_below(&r, 50) == 0)
            log_fired(&log, fire(p, busy ? 20 : 1), w->now_ms);
        /* a bucket that was full, what a second brings, and tokens that were taken up to 200 ms before it */
        assert_true(fired_since(&log, w->now_ms - SECOND) <=
                    BURST + RATE * (SECOND + LIMIT_SHARES_STALE_MS) / SECOND + 1);
    }
    for (size_t i = 0; i < NODES; i++)
        if (stopped_until_ms[i])
            wake(&r, &w->v[i]);
    assert_true(stops > 100);
    assert_true((double)log.n > (double)(w->now_ms - NOW) * RATE / 1000 / 4); /* they are busy half of the time */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_limit_holds_for_all_nodes_together),
        TEST(places_that_lie_idle_come_to_who_waits),
        TEST(who_waits_for_places_asks_less_and_less_often),
        TEST(who_has_nothing_to_do_asks_for_nothing),
        TEST(nothing_is_given_back_while_a_claim_is_under_way),
        TEST(places_given_back_are_not_ours_whatever_the_answer),
        TEST(an_answer_that_was_lost_is_asked_for_again),
        TEST(a_limit_that_is_gone_gives_its_places_back),
        TEST(a_node_that_joins_anew_has_nothing),
        TEST(a_burst_is_taken_in_a_few_slices),
        TEST(tokens_that_nobody_uses_go_to_others),
        TEST(a_fast_rate_is_asked_for_seldom),
        TEST(a_rate_that_was_raised_is_not_waited_for_as_long_as_the_old_one),
        TEST(whatever_is_lost_no_limit_is_exceeded),
        TEST(a_node_that_was_stopped_uses_no_token_from_before),
        TEST(stale_tokens_come_back_to_who_needs_them),
        TEST(a_node_that_wakes_asks_for_fresh_tokens_and_gets_as_many),
        TEST(tokens_that_a_stopped_node_finds_in_an_answer_are_stale),
        TEST(a_slow_store_gives_tokens_all_the_same),
        TEST(a_token_that_was_not_used_goes_back_to_the_store),
        TEST(what_has_started_uses_its_token_though_it_is_stale),
        TEST(a_slow_rate_is_reached_though_each_token_goes_stale_once),
        TEST(however_nodes_are_stopped_a_rate_holds_in_every_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
