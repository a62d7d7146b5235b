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
    assert_int_equal(p->entry->tokens, 0);
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
    assert_int_equal(w->v[0].entry->tokens, 1);
    pass(w, 100);
    assert_int_equal(w->v[0].entry->tokens, 0);
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_limit_holds_for_all_nodes_together),
        TEST(places_that_lie_idle_come_to_who_waits),
        TEST(who_has_nothing_to_do_asks_for_nothing),
        TEST(nothing_is_given_back_while_a_claim_is_under_way),
        TEST(places_given_back_are_not_ours_whatever_the_answer),
        TEST(an_answer_that_was_lost_is_asked_for_again),
        TEST(a_limit_that_is_gone_gives_its_places_back),
        TEST(a_node_that_joins_anew_has_nothing),
        TEST(a_burst_is_taken_in_a_few_slices),
        TEST(tokens_that_nobody_uses_go_to_others),
        TEST(a_fast_rate_is_asked_for_seldom),
        TEST(whatever_is_lost_no_limit_is_exceeded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
