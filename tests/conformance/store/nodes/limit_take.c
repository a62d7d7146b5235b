/* OP_LIMIT_TAKE: buckets and places that all nodes have together. */
#include "store_nodes.h"

enum { HOUR_MS = 60 * 60 * 1000 };

static struct share ask_at(struct world *w, struct uuid node, struct share share, int64_t now_ms)
{
    share.key = share.key.n ? share.key : S("queue/1/mail");
    struct op_limit_take op = { .op.kind = OP_LIMIT_TAKE, .node = node, .v = &share, .n = 1, .now_ms = now_ms };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return share;
}

/* Of a bucket that fills by ten a second and holds twenty. */
static struct share tokens_at(struct world *w, struct uuid node, int64_t want, int64_t give_back, int64_t now_ms)
{
    return ask_at(
        w, node, (struct share){ .rate = 10, .burst = 20, .want_tokens = want, .give_back_tokens = give_back }, now_ms);
}

static int64_t places(struct world *w, struct uuid node, int64_t concurrency, int64_t want)
{
    return ask_at(w, node, (struct share){ .concurrency = concurrency, .want_places = want }, NOW).ret_places;
}

static struct uuid some_node(struct world *w)
{
    struct uuid node = fresh_id(w);
    beat(w, node);
    return node;
}

/* ---- tokens ---- */

static void a_bucket_begins_full_and_is_one_for_all_nodes(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w), b = some_node(w);
    struct share first = tokens_at(w, a, 15, 0, NOW), second = tokens_at(w, b, 15, 0, NOW);
    assert_int_equal(first.ret_tokens, 15);
    assert_int_equal(first.ret_next_ms, NOW);
    assert_int_equal(second.ret_tokens, 5);
    assert_int_equal(second.ret_next_ms, NOW + 100);
    assert_int_equal(tokens_at(w, a, 5, 0, NOW + 99).ret_tokens, 0);
    assert_int_equal(tokens_at(w, b, 5, 0, NOW + 250).ret_tokens, 2);
}

static void a_bucket_fills_up_to_its_burst(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w);
    assert_int_equal(tokens_at(w, a, 20, 0, NOW).ret_tokens, 20);
    assert_int_equal(tokens_at(w, a, 100, 0, NOW + HOUR_MS).ret_tokens, 20);
}

static void what_was_not_used_is_there_for_the_next(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w), b = some_node(w);
    assert_int_equal(tokens_at(w, a, 20, 0, NOW).ret_tokens, 20);
    assert_int_equal(tokens_at(w, a, 0, 7, NOW).ret_tokens, 0);
    assert_int_equal(tokens_at(w, b, 20, 0, NOW).ret_tokens, 7);
    assert_int_equal(tokens_at(w, b, 5, 3, NOW).ret_tokens, 3); /* its own too, in the same breath */
}

static void a_bucket_takes_other_limits_and_keeps_what_is_in_it(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w);
    assert_int_equal(tokens_at(w, a, 12, 0, NOW).ret_tokens, 12);
    struct share wider = { .rate = 1000, .burst = 100, .want_tokens = 50 };
    assert_int_equal(ask_at(w, a, wider, NOW).ret_tokens, 8);
    assert_int_equal(ask_at(w, a, wider, NOW + 50).ret_tokens, 50);
    struct share narrow = { .rate = 1000, .burst = 3, .want_tokens = 50 };
    assert_int_equal(ask_at(w, a, narrow, NOW + 1000).ret_tokens, 3);
}

static void without_a_rate_there_are_no_tokens_and_the_bucket_stays(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w);
    assert_int_equal(tokens_at(w, a, 20, 0, NOW).ret_tokens, 20);
    struct share none = ask_at(w, a, (struct share){ .want_tokens = 5, .concurrency = 1 }, NOW);
    assert_int_equal(none.ret_tokens, 0);
    assert_int_equal(none.ret_next_ms, NOW);
    assert_int_equal(tokens_at(w, a, 5, 0, NOW).ret_tokens, 0);
}

static void slow_rates_are_exact_over_many_small_steps(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w);
    struct share slow = { .rate = 1.0 / 3, .burst = 1, .want_tokens = 1 };
    int64_t got = 0;
    for (int i = 0; i <= 120; i++) /* a minute */
        got += ask_at(w, a, slow, NOW + (int64_t)i * 500).ret_tokens;
    assert_int_equal(got, 21); /* the first at once, then one in three seconds */
}

/* ---- places ---- */

static void all_nodes_together_hold_no_more_places_than_there_are(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w), b = some_node(w), c = some_node(w);
    assert_int_equal(places(w, a, 10, 6), 6);
    assert_int_equal(places(w, b, 10, 6), 4);
    assert_int_equal(places(w, c, 10, 6), 0);
    assert_int_equal(places(w, a, 10, 2), 2); /* gives four back */
    assert_int_equal(places(w, c, 10, 6), 4);
    assert_int_equal(places(w, b, 10, 6), 4); /* what it held it keeps */
    assert_int_equal(places(w, a, 10, 0), 0);
    assert_int_equal(places(w, b, 10, 6), 6);
}

static void a_limit_that_became_smaller_takes_from_nobody(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w), b = some_node(w);
    assert_int_equal(places(w, a, 10, 6), 6);
    assert_int_equal(places(w, b, 10, 4), 4);
    assert_int_equal(places(w, a, 5, 6), 6);
    assert_int_equal(places(w, b, 5, 9), 4);
    assert_int_equal(places(w, a, 5, 0), 0);
    assert_int_equal(places(w, b, 5, 9), 5);
}

static void without_a_limit_a_nodes_places_are_given_up(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w), b = some_node(w);
    assert_int_equal(places(w, a, 5, 5), 5);
    assert_int_equal(places(w, a, 0, 5), 0);
    assert_int_equal(places(w, b, 5, 5), 5);
}

static void places_of_who_died_or_left_are_free(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w), b = some_node(w), c = some_node(w), d = some_node(w);
    assert_int_equal(places(w, a, 6, 3), 3);
    assert_int_equal(places(w, b, 6, 2), 2);
    assert_int_equal(places(w, c, 6, 6), 1);
    assert_true(bury(w, a, 1));
    assert_int_equal(places(w, c, 6, 6), 4);
    struct op_heartbeat leave = { .node.id = b, .leave = true };
    assert_ok(beat_with(w, &leave), &leave.op.error);
    assert_int_equal(places(w, c, 6, 6), 6);
    struct op_heartbeat alone = { .node.id = d, .alone = true };
    assert_ok(beat_with(w, &alone), &alone.op.error);
    assert_int_equal(places(w, d, 6, 9), 6);
}

/* ---- who gets nothing ---- */

static void who_is_dead_or_unknown_gets_nothing_and_changes_nothing(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w), dead = some_node(w);
    struct share both = { .rate = 10, .burst = 20, .want_tokens = 20, .concurrency = 5, .want_places = 5 };
    assert_int_equal(ask_at(w, a, both, NOW).ret_tokens, 20);
    assert_int_equal(places(w, a, 5, 0), 0);
    assert_true(bury(w, dead, 1));
    const struct uuid nobody[] = { dead, fresh_id(w) };
    for (size_t i = 0; i < array_count(nobody); i++) {
        both.give_back_tokens = 9;
        struct share got = ask_at(w, nobody[i], both, NOW);
        assert_int_equal(got.ret_tokens, 0);
        assert_int_equal(got.ret_places, 0);
        assert_true(got.ret_next_ms == INT64_MAX);
        both.want_tokens = 0;
        assert_int_equal(ask_at(w, nobody[i], both, NOW).ret_next_ms, NOW);
        both.want_tokens = 20;
    }
    both.give_back_tokens = 0;
    struct share got = ask_at(w, a, both, NOW);
    assert_int_equal(got.ret_tokens, 0); /* nothing was given back */
    assert_int_equal(got.ret_places, 5); /* and no place is taken */
}

/* ---- many ---- */

static void each_key_has_a_limit_of_its_own(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w), b = some_node(w);
    char long_key[SHARE_KEY_MAX];
    memset(long_key, 'k', sizeof long_key);
    struct share v[] = {
        { .key = S("z"), .rate = 1, .burst = 3, .want_tokens = 2 },
        { .key = { long_key, sizeof long_key }, .concurrency = 2, .want_places = 2 },
        { .key = S("a"), .rate = 1, .burst = 1, .want_tokens = 2, .concurrency = 1, .want_places = 1 },
    };
    struct op_limit_take op = { .op.kind = OP_LIMIT_TAKE, .node = a, .v = v, .n = array_count(v), .now_ms = NOW };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(v[0].ret_tokens == 2 && v[0].ret_places == 0);
    assert_true(v[1].ret_tokens == 0 && v[1].ret_places == 2);
    assert_true(v[2].ret_tokens == 1 && v[2].ret_places == 1 && v[2].ret_next_ms == NOW + 1000);
    op.op.kind = OP_LIMIT_TAKE;
    op.node = b;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(v[0].ret_tokens == 1 && v[1].ret_places == 0 && v[2].ret_tokens == 0 && v[2].ret_places == 0);
}

static void shares_of_one_batch_see_each_other(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w), b = fresh_id(w);
    struct share mine = { .key = S("k"), .concurrency = 3, .want_places = 2 }, theirs = mine, again = mine;
    again.want_places = 0;
    struct op_limit_take first = { .op.kind = OP_LIMIT_TAKE, .node = a, .v = &mine, .n = 1, .now_ms = NOW };
    struct op_heartbeat join = { .op.kind = OP_HEARTBEAT, .node.id = b, .now_ms = NOW };
    struct op_limit_take second = { .op.kind = OP_LIMIT_TAKE, .node = b, .v = &theirs, .n = 1, .now_ms = NOW };
    struct op_limit_take third = { .op.kind = OP_LIMIT_TAKE, .node = a, .v = &again, .n = 1, .now_ms = NOW };
    world_apply_all(w, (struct op *[]){ &first.op, &join.op, &second.op, &third.op }, 4);
    assert_int_equal(mine.ret_places, 2);
    assert_int_equal(theirs.ret_places, 1);
    assert_int_equal(again.ret_places, 0);
    theirs.want_places = 3;
    struct op_limit_take then = { .op.kind = OP_LIMIT_TAKE, .node = b, .v = &theirs, .n = 1, .now_ms = NOW };
    assert_ok(world_apply(w, &then.op), &then.op.error);
    assert_int_equal(theirs.ret_places, 3);
}

/* ---- what is forgotten ---- */

static size_t forget_at(struct world *w, int64_t now_ms)
{
    struct op_purge op = { .op.kind = OP_PURGE, .now_ms = now_ms, .max = 100 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret_purged;
}

static void a_limit_that_nobody_asks_for_is_forgotten(void **state)
{
    struct world *w = *state;
    struct uuid a = some_node(w);
    struct share slow = { .key = S("slow"), .rate = 0.0001, .burst = 1, .want_tokens = 1 };
    assert_int_equal(ask_at(w, a, slow, NOW).ret_tokens, 1);
    assert_int_equal(
        ask_at(w, a, (struct share){ .key = S("held"), .concurrency = 5, .want_places = 1 }, NOW).ret_places, 1);
    assert_int_equal(tokens_at(w, a, 20, 0, NOW).ret_tokens, 20);
    assert_int_equal(forget_at(w, NOW + NODE_KEPT_MS), 0);
    assert_int_equal(forget_at(w, NOW + NODE_KEPT_MS + 1), 1); /* the one that is full again and has no place taken */
    assert_int_equal(ask_at(w, a, slow, NOW + NODE_KEPT_MS + 1).ret_tokens, 0);
    assert_int_equal(ask_at(w, a, (struct share){ .key = S("held"), .concurrency = 5 }, NOW).ret_places, 0);
    assert_int_equal(forget_at(w, NOW + NODE_KEPT_MS + 1), 1);
    assert_int_equal(forget_at(w, NOW + 4 * NODE_KEPT_MS), 1); /* slow is full after 10,000 seconds */
}

static const struct CMUnitTest tests[] = {
    store_test(a_bucket_begins_full_and_is_one_for_all_nodes),
    store_test(a_bucket_fills_up_to_its_burst),
    store_test(what_was_not_used_is_there_for_the_next),
    store_test(a_bucket_takes_other_limits_and_keeps_what_is_in_it),
    store_test(without_a_rate_there_are_no_tokens_and_the_bucket_stays),
    store_test(slow_rates_are_exact_over_many_small_steps),
    store_test(all_nodes_together_hold_no_more_places_than_there_are),
    store_test(a_limit_that_became_smaller_takes_from_nobody),
    store_test(without_a_limit_a_nodes_places_are_given_up),
    store_test(places_of_who_died_or_left_are_free),
    store_test(who_is_dead_or_unknown_gets_nothing_and_changes_nothing),
    store_test(each_key_has_a_limit_of_its_own),
    store_test(shares_of_one_batch_see_each_other),
    store_test(a_limit_that_nobody_asks_for_is_forgotten),
};
const struct test_list share_tests = { tests, array_count(tests) };
