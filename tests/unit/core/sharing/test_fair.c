/* core/sharing/fair: how the free slots are shared among lines. */
#include "core/sharing/fair.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "seed.h"

enum { NOW = 1700000000, LINES_MAX = 1000, CAPS_MAX = 8 * FAIR_CAPS };

/* Lanes with a backlog each, and the loop of a scheduler: share, claim, account. */
struct world {
    struct fair *fair;
    struct fair_line lines[LINES_MAX];
    int64_t pool_of[LINES_MAX];
    int32_t tenant_of[LINES_MAX];
    enum priority_class class_of[LINES_MAX];
    char names[LINES_MAX][16];
    int64_t backlog[LINES_MAX], got[LINES_MAX], weight[LINES_MAX], due_ms[LINES_MAX];
    int caps_of[LINES_MAX][FAIR_CAPS];
    int64_t caps[CAPS_MAX], cap_now[CAPS_MAX];
    size_t n, cap_count, room_caps;
    int64_t now_ms;
    struct fair_ask asks[LINES_MAX];
    struct fair_round round;
};

static int open_world(void **state)
{
    struct world *w = xnew(*w);
    w->fair = fair_new();
    w->now_ms = NOW;
    *state = w;
    return 0;
}

static int close_world(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < w->n; i++)
        fair_remove(w->fair, &w->lines[i]);
    fair_free(w->fair);
    free(w);
    return 0;
}
#define fair_test(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

static size_t add_to(struct world *w, int64_t pool, int32_t tenant, const char *queue, enum priority_class class_,
                     int64_t backlog)
{
    size_t i = w->n++;
    assert_true(i < LINES_MAX);
    snprintf(w->names[i], sizeof w->names[i], "%s", queue);
    fair_add(w->fair, &w->lines[i], (struct fair_key){ pool, tenant }, str_from(w->names[i]), class_, (int64_t)i);
    w->pool_of[i] = pool;
    w->tenant_of[i] = tenant;
    w->class_of[i] = class_;
    w->backlog[i] = backlog;
    w->weight[i] = 100;
    w->due_ms[i] = w->now_ms;
    memset(w->caps_of[i], -1, sizeof w->caps_of[i]);
    return i;
}

static size_t add(struct world *w, int32_t tenant, const char *queue, enum priority_class class_, int64_t backlog)
{
    return add_to(w, 0, tenant, queue, class_, backlog);
}

static struct fair_ask ask_of(struct world *w, size_t i)
{
    struct fair_ask a = FAIR_ASK;
    a.line = &w->lines[i];
    a.weight = w->weight[i];
    a.next_due_ms = w->backlog[i] ? w->due_ms[i] : INT64_MAX;
    memcpy(a.caps, w->caps_of[i], sizeof a.caps);
    return a;
}

static void share(struct world *w, size_t room)
{
    for (size_t i = 0; i < w->n; i++)
        w->asks[i] = ask_of(w, i);
    memcpy(w->cap_now, w->caps, sizeof w->caps);
    w->round = (struct fair_round){ .asks = w->asks,
                                    .n = w->n,
                                    .caps = w->cap_now,
                                    .cap_count = w->cap_count,
                                    .room_caps = w->room_caps,
                                    .room = room,
                                    .now_ms = w->now_ms,
                                    .until_ms = w->now_ms };
    fair_share(w->fair, &w->round);
}

static size_t quotas(const struct world *w)
{
    size_t sum = 0;
    for (size_t i = 0; i < w->n; i++)
        sum += w->asks[i].quota;
    return sum;
}

static void claim(struct world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct fair_ask *a = &w->asks[i];
        a->taken = (size_t)min_of((int64_t)a->quota, w->backlog[i]);
        w->backlog[i] -= (int64_t)a->taken;
        w->got[i] += (int64_t)a->taken;
        a->next_due_ms = w->backlog[i] ? w->due_ms[i] : INT64_MAX;
    }
    fair_took(w->fair, &w->round);
}

static void run(struct world *w, size_t rounds, size_t room)
{
    for (size_t i = 0; i < rounds; i++) {
        share(w, room);
        claim(w);
    }
}

static void assert_near(int64_t value, int64_t expected, int64_t tolerance)
{
    if (value < expected - tolerance || value > expected + tolerance)
        fail_msg("%lld is not within %lld of %lld", (long long)value, (long long)tolerance, (long long)expected);
}

enum { PLENTY = 1 << 30 };

/* ---- one line, no line ---- */

static void one_line_gets_all_there_is(void **state)
{
    struct world *w = *state;
    add(w, 1, "a", CLASS_LOW, PLENTY);
    run(w, 1, 2000);
    assert_int_equal(w->got[0], 2000);
}

static void nobody_to_share_is_no_trouble(void **state)
{
    struct world *w = *state;
    share(w, 100);
    claim(w);
    add(w, 1, "a", CLASS_LOW, 0);
    share(w, 100);
    assert_int_equal(quotas(w), 0);
    assert_false(w->asks[0].open || w->asks[0].capped);
    claim(w);
    fair_free(NULL);
}

static void no_room_gives_nothing(void **state)
{
    struct world *w = *state;
    add(w, 1, "a", CLASS_LOW, PLENTY);
    share(w, 0);
    assert_int_equal(quotas(w), 0);
    claim(w);
}

/* ---- shares ---- */

static void classes_share_sixty_thirty_ten(void **state)
{
    struct world *w = *state;
    add(w, 1, "a", CLASS_HIGH, PLENTY);
    add(w, 1, "a", CLASS_NORMAL, PLENTY);
    add(w, 1, "a", CLASS_LOW, PLENTY);
    run(w, 10, 1000);
    assert_near(w->got[0], 6000, 50);
    assert_near(w->got[1], 3000, 50);
    assert_near(w->got[2], 1000, 50);
}

static void shares_hold_also_when_there_is_room_for_one_at_a_time(void **state)
{
    struct world *w = *state;
    add(w, 1, "a", CLASS_HIGH, PLENTY);
    add(w, 1, "a", CLASS_NORMAL, PLENTY);
    add(w, 1, "a", CLASS_LOW, PLENTY);
    run(w, 1000, 1);
    assert_near(w->got[0], 600, 2);
    assert_near(w->got[1], 300, 2);
    assert_near(w->got[2], 100, 2);
}

static void tenants_of_a_class_share_evenly_however_many_lines_they_have(void **state)
{
    struct world *w = *state;
    char name[16];
    size_t alone = add(w, 1, "only", CLASS_NORMAL, PLENTY);
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "q%d", i);
        add(w, 2, name, CLASS_NORMAL, PLENTY);
    }
    run(w, 20, 500);
    assert_near(w->got[alone], 5000, 20);
}

static void queues_of_a_tenant_share_by_weight(void **state)
{
    struct world *w = *state;
    size_t a = add(w, 1, "a", CLASS_NORMAL, PLENTY), b = add(w, 1, "b", CLASS_NORMAL, PLENTY);
    w->weight[a] = 1000, w->weight[b] = 250;
    run(w, 100, 50);
    assert_near(w->got[a], 4000, 10);
    assert_near(w->got[b], 1000, 10);
}

static void who_has_less_than_its_part_leaves_the_rest_to_others(void **state)
{
    struct world *w = *state;
    size_t small = add(w, 1, "a", CLASS_HIGH, 30), large = add(w, 1, "a", CLASS_LOW, PLENTY);
    run(w, 4, 100);
    assert_int_equal(w->got[small], 30);
    assert_true(w->got[large] >= 300);
}

static void only_what_was_taken_counts(void **state)
{
    struct world *w = *state;
    size_t a = add(w, 1, "a", CLASS_NORMAL, PLENTY), b = add(w, 2, "b", CLASS_NORMAL, PLENTY);
    for (int i = 0; i < 100; i++) { /* a claim that failed: fair_took is not called */
        share(w, 10);
        assert_int_equal(quotas(w), 10);
    }
    for (int i = 0; i < 10; i++) { /* claims that the limit of bytes always cuts off before b */
        share(w, 100);
        w->asks[b].taken = 0;
        w->asks[a].taken = w->asks[a].quota;
        w->got[a] += (int64_t)w->asks[a].taken;
        fair_took(w->fair, &w->round);
    }
    assert_true(w->got[a] <= 100); /* a had its share: from then on it is b's turn */
    share(w, 100);
    assert_int_equal(w->asks[b].quota, 100);
}

/* ---- idle and capped time is not saved up ---- */

static void idle_time_is_not_saved_up(void **state)
{
    struct world *w = *state;
    size_t busy = add(w, 1, "a", CLASS_NORMAL, PLENTY), idle = add(w, 2, "b", CLASS_NORMAL, 0);
    run(w, 100, 100);
    w->backlog[idle] = PLENTY;
    int64_t before = w->got[busy];
    run(w, 10, 100);
    assert_near(w->got[busy] - before, 500, 60);
    assert_near(w->got[idle], 500, 60);
}

static void one_that_comes_after_all_others_have_gone_owes_and_is_owed_nothing(void **state)
{
    struct world *w = *state;
    size_t a = add(w, 1, "a", CLASS_NORMAL, 1000), b = add(w, 2, "b", CLASS_NORMAL, 0);
    run(w, 11, 100);
    assert_int_equal(w->got[a], 1000);
    w->backlog[a] = w->backlog[b] = PLENTY;
    run(w, 1, 100);
    assert_near(w->got[a], 1050, 5);
    assert_near(w->got[b], 50, 5);
}

static void time_at_a_cap_is_not_saved_up(void **state)
{
    struct world *w = *state;
    size_t capped = add(w, 1, "a", CLASS_NORMAL, PLENTY), other = add(w, 2, "b", CLASS_NORMAL, PLENTY);
    w->caps[0] = 1;
    w->cap_count = 1;
    w->caps_of[capped][0] = 0;
    run(w, 100, 100);
    assert_int_equal(w->got[capped], 100);
    assert_int_equal(w->got[other], 9900);
    w->caps[0] = PLENTY;
    run(w, 10, 100);
    assert_near(w->got[capped], 600, 60);
    assert_near(w->got[other], 10400, 60);
}

static void a_fresh_one_comes_at_once_behind_a_large_backlog(void **state)
{
    struct world *w = *state;
    add(w, 1, "a", CLASS_LOW, 500000);
    run(w, 200, 10);
    size_t fresh = add(w, 2, "b", CLASS_LOW, 1);
    run(w, 1, 2);
    assert_int_equal(w->got[fresh], 1);
    size_t urgent = add(w, 1, "a", CLASS_HIGH, 1);
    run(w, 1, 1);
    assert_int_equal(w->got[urgent], 1);
}

/* ---- caps ---- */

static void a_cap_holds_for_all_lines_that_share_it(void **state)
{
    struct world *w = *state;
    size_t a = add(w, 1, "a", CLASS_HIGH, PLENTY), b = add(w, 1, "a", CLASS_LOW, PLENTY),
           c = add(w, 1, "c", CLASS_LOW, PLENTY), d = add(w, 2, "d", CLASS_LOW, PLENTY);
    w->cap_count = 2;
    w->caps[0] = 7;  /* queue a */
    w->caps[1] = 10; /* tenant 1 */
    w->caps_of[a][0] = w->caps_of[b][3] = 0;
    w->caps_of[a][1] = w->caps_of[b][1] = w->caps_of[c][1] = 1;
    share(w, 100);
    assert_int_equal(w->asks[a].quota + w->asks[b].quota, 7);
    assert_int_equal(w->asks[c].quota, 3);
    assert_int_equal(w->asks[d].quota, 90);
    assert_true(w->asks[a].capped && w->asks[b].capped && w->asks[c].capped && !w->asks[d].capped);
    claim(w);
}

static void a_cap_that_is_used_up_keeps_a_line_out(void **state)
{
    struct world *w = *state;
    size_t a = add(w, 1, "a", CLASS_HIGH, PLENTY), b = add(w, 1, "b", CLASS_HIGH, PLENTY);
    w->cap_count = 2;
    w->caps[0] = -5;
    w->caps[1] = 0;
    w->caps_of[a][2] = 0;
    w->caps_of[b][0] = 1;
    share(w, 100);
    assert_int_equal(quotas(w), 0);
    assert_true(w->asks[a].capped && w->asks[b].capped && !w->asks[a].open);
    assert_true(w->cap_now[0] == -5);
    claim(w);
}

/* ---- ageing ---- */

static void a_level_is_gained_every_ten_minutes(void **state)
{
    (void)state;
    enum { MINUTE = 60000 };
    assert_int_equal(fair_class(CLASS_LOW, -1, 39 * MINUTE), CLASS_LOW);
    assert_int_equal(fair_class(CLASS_LOW, -1, 40 * MINUTE), CLASS_NORMAL);
    assert_int_equal(fair_class(CLASS_LOW, -1, 69 * MINUTE), CLASS_NORMAL);
    assert_int_equal(fair_class(CLASS_LOW, -1, 70 * MINUTE), CLASS_HIGH);
    assert_int_equal(fair_class(CLASS_LOW, 3, 10 * MINUTE - 1), CLASS_LOW);
    assert_int_equal(fair_class(CLASS_LOW, 3, 10 * MINUTE), CLASS_NORMAL);
    assert_int_equal(fair_class(CLASS_NORMAL, -1, 29 * MINUTE), CLASS_NORMAL);
    assert_int_equal(fair_class(CLASS_NORMAL, -1, 30 * MINUTE), CLASS_HIGH);
    assert_int_equal(fair_class(CLASS_HIGH, -1, 0), CLASS_HIGH);
    assert_int_equal(fair_class(CLASS_HIGH, 9, INT64_MAX), CLASS_HIGH);
    assert_int_equal(fair_class(CLASS_LOW, 0, INT64_MAX), CLASS_HIGH);
    assert_int_equal(fair_class(CLASS_LOW, 0, -50 * MINUTE), CLASS_LOW); /* due in a moment, or the clock went back */
}

static void a_low_line_that_waited_long_counts_as_normal_and_then_as_high(void **state)
{
    struct world *w = *state;
    size_t old = add(w, 1, "a", CLASS_LOW, PLENTY), high = add(w, 2, "b", CLASS_HIGH, PLENTY);
    run(w, 10, 70);
    assert_near(w->got[old], 100, 10);
    w->due_ms[old] = w->now_ms - 4 * AGEING_MS;
    int64_t before = w->got[old];
    run(w, 10, 90);
    assert_int_equal(w->asks[old].counted, CLASS_NORMAL);
    assert_near(w->got[old] - before, 300, 30);
    w->due_ms[old] = w->now_ms - 7 * AGEING_MS;
    before = w->got[old];
    run(w, 10, 90);
    assert_int_equal(w->asks[old].counted, CLASS_HIGH);
    assert_near(w->got[old] - before, 450, 30);
    w->due_ms[old] = w->now_ms; /* it caught up, and counts in its own class again */
    before = w->got[old];
    run(w, 10, 70);
    assert_int_equal(w->asks[old].counted, CLASS_LOW);
    assert_near(w->got[old] - before, 100, 10);
    assert_true(w->got[high] > 0);
}

static void an_aged_line_shares_with_its_own_queues_urgent_ones(void **state)
{
    struct world *w = *state;
    size_t old = add(w, 1, "a", CLASS_LOW, PLENTY), high = add(w, 1, "a", CLASS_HIGH, PLENTY);
    w->due_ms[old] = w->now_ms - 7 * AGEING_MS;
    run(w, 1, 1);
    assert_int_equal(w->got[high], 1); /* among equals the line of the higher class comes first */
    run(w, 99, 1);
    assert_near(w->got[old], 50, 1);
    assert_near(w->got[high], 50, 1);
}

static void what_it_got_in_one_class_is_not_held_against_it_in_another(void **state)
{
    struct world *w = *state;
    size_t old = add(w, 1, "a", CLASS_LOW, PLENTY), normal = add(w, 1, "b", CLASS_NORMAL, 0);
    run(w, 100, 1000);
    w->due_ms[old] = w->now_ms - 4 * AGEING_MS;
    w->backlog[normal] = PLENTY;
    int64_t before = w->got[old];
    run(w, 10, 100);
    assert_near(w->got[old] - before, 500, 10);
}

/* ---- properties ---- */

static void make_random_lines(struct world *w, struct prng *r, size_t n, int64_t pools)
{
    char name[16];
    w->cap_count = CAPS_MAX;
    for (size_t i = 0; i < w->cap_count; i++)
        w->caps[i] = prng_between(r, -2, 60);
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "q%zu", i);
        size_t at = add_to(w, prng_between(r, 1, pools), (int32_t)prng_between(r, 1, 12), name,
                           (enum priority_class)prng_below(r, 3), prng_below(r, 4) ? prng_between(r, 1, 5000) : 0);
        w->weight[at] = prng_between(r, 1, 1000);
        w->due_ms[at] = w->now_ms - prng_between(r, 0, 80) * 60000;
        for (size_t c = 0; c < FAIR_CAPS; c++)
            w->caps_of[at][c] = prng_below(r, 4) ? -1 : (int)((prng_below(r, CAPS_MAX) * FAIR_CAPS + c) % CAPS_MAX);
    }
}

static void remove_all(struct world *w)
{
    for (size_t i = 0; i < w->n; i++)
        fair_remove(w->fair, &w->lines[i]);
    w->n = 0;
    memset(w->got, 0, sizeof w->got);
}

static void check_round(const struct world *w, size_t room)
{
    int64_t used[CAPS_MAX] = { 0 };
    bool all_capped = true;
    for (size_t i = 0; i < w->n; i++) {
        const struct fair_ask *a = &w->asks[i];
        bool due = w->backlog[i] > 0;
        assert_true(due || (a->quota == 0 && !a->open));
        all_capped &= !due || a->capped;
        for (size_t c = 0; c < FAIR_CAPS; c++)
            if (a->caps[c] >= 0)
                used[a->caps[c]] += (int64_t)a->quota;
    }
    for (size_t c = 0; c < w->cap_count; c++) {
        assert_true(used[c] <= max_of(w->caps[c], (int64_t)0));
        assert_true(w->cap_now[c] == w->caps[c] - used[c]);
    }
    assert_true(quotas(w) <= room);
    assert_true(quotas(w) == room || all_capped); /* no room is left over while a line could take it */
}

static void room_and_caps_hold_and_nothing_is_wasted(void **state)
{
    struct world *w = *state;
    struct prng r = seeded_prng(__func__);
    for (int i = 0; i < 60; i++) {
        make_random_lines(w, &r, (size_t)prng_between(&r, 1, 60), 3);
        for (int k = 0; k < 30; k++) {
            size_t room = (size_t)prng_between(&r, 1, prng_below(&r, 2) ? 5 : 3000);
            share(w, room);
            check_round(w, room);
            claim(w);
            w->backlog[prng_below(&r, w->n)] += prng_between(&r, 0, 500);
        }
        remove_all(w);
    }
}

static void nobody_starves(void **state)
{
    struct world *w = *state;
    struct prng r = seeded_prng(__func__);
    for (int i = 0; i < 10; i++) {
        make_random_lines(w, &r, 60, 3);
        for (size_t k = 0; k < w->n; k++) {
            w->weight[k] = prng_between(&r, 50, 200);
            w->backlog[k] = PLENTY;
        }
        for (size_t c = 0; c < w->cap_count; c++)
            w->caps[c] = prng_between(&r, 60, 100);
        run(w, 4000, 3);
        for (size_t k = 0; k < w->n; k++)
            assert_true(w->got[k] > 0);
        remove_all(w);
    }
}

/* What each line should get in the long run, by the definition of the shares. */
static double part_of(const struct world *w, size_t i)
{
    double classes = 0, tenants = 0, weights = 0;
    bool seen_class[3] = { 0 }, seen_tenant[32] = { 0 };
    static const double shares[] = { [CLASS_LOW] = 10, [CLASS_NORMAL] = 30, [CLASS_HIGH] = 60 };
    for (size_t k = 0; k < w->n; k++) {
        classes += seen_class[w->class_of[k]] ? 0 : shares[w->class_of[k]];
        seen_class[w->class_of[k]] = true;
        if (w->class_of[k] != w->class_of[i])
            continue;
        tenants += seen_tenant[w->tenant_of[k]] ? 0 : 1;
        seen_tenant[w->tenant_of[k]] = true;
        weights += w->tenant_of[k] == w->tenant_of[i] ? (double)w->weight[k] : 0;
    }
    return shares[w->class_of[i]] / classes / tenants * (double)w->weight[i] / weights;
}

static void shares_converge_to_what_they_should_be(void **state)
{
    struct world *w = *state;
    struct prng r = seeded_prng(__func__);
    for (int i = 0; i < 10; i++) {
        make_random_lines(w, &r, 30, 1);
        for (size_t k = 0; k < w->n; k++) {
            w->backlog[k] = PLENTY;
            w->due_ms[k] = w->now_ms;
            memset(w->caps_of[k], -1, sizeof w->caps_of[k]);
        }
        int64_t total = 0;
        while (total < 400000) {
            size_t room = (size_t)prng_between(&r, 1, 2000);
            share(w, room);
            claim(w);
            total += (int64_t)room;
        }
        for (size_t k = 0; k < w->n; k++)
            assert_near(w->got[k], (int64_t)(part_of(w, k) * (double)total), 20 + total / 2000);
        remove_all(w);
    }
}

/* What a class may take of the room is no limit of a tenant: who waits for it is owed its turn. */
static void a_part_of_the_room_that_is_used_up_costs_nobody_its_turn(void **state)
{
    struct world *w = *state;
    for (int32_t tenant = 1; tenant <= 3; tenant++)
        w->caps_of[add(w, tenant, "a", CLASS_LOW, PLENTY)][0] = 0;
    w->caps[0] = 1;
    w->cap_count = w->room_caps = 1;
    run(w, 99, 5);
    for (size_t i = 0; i < w->n; i++)
        assert_int_equal(w->got[i], 33);
}

static void lines_of_a_queue_share_what_the_queue_gets(void **state)
{
    struct world *w = *state;
    size_t main = add(w, 1, "a", CLASS_LOW, PLENTY), aside = add(w, 1, "a", CLASS_LOW, PLENTY),
           other = add(w, 1, "b", CLASS_LOW, PLENTY);
    run(w, 100, 4);
    assert_near(w->got[main], 100, 2);
    assert_near(w->got[aside], 100, 2);
    assert_near(w->got[other], 200, 2);
}

/* A cap that is a part of the room, for all lines of a pool. */
static int pool_of_size(struct world *w, int64_t slots)
{
    w->caps[w->cap_count] = slots;
    w->room_caps = w->cap_count + 1;
    return (int)w->cap_count++;
}

static void what_a_tenant_got_in_one_pool_is_not_held_against_it_in_another(void **state)
{
    struct world *w = *state;
    int large = pool_of_size(w, 1000), small = pool_of_size(w, 1);
    size_t busy = add_to(w, 1, 1, "a", CLASS_LOW, PLENTY), here = add_to(w, 2, 1, "a", CLASS_LOW, PLENTY),
           other = add_to(w, 2, 2, "a", CLASS_LOW, PLENTY);
    w->caps_of[busy][0] = large;
    w->caps_of[here][0] = w->caps_of[other][0] = small;
    run(w, 100, 1001);
    assert_int_equal(w->got[busy], 100000);
    assert_near(w->got[here], 50, 1);
    assert_near(w->got[other], 50, 1);
}

static void a_pool_without_a_free_slot_costs_another_nothing(void **state)
{
    struct world *w = *state;
    int full = pool_of_size(w, 0), free_one = pool_of_size(w, 10);
    size_t stuck = add_to(w, 1, 1, "a", CLASS_HIGH, PLENTY), goes = add_to(w, 2, 1, "a", CLASS_LOW, PLENTY);
    w->caps_of[stuck][0] = full;
    w->caps_of[goes][0] = free_one;
    run(w, 10, 10);
    assert_int_equal(w->got[stuck], 0);
    assert_int_equal(w->got[goes], 100);
}

static void pools_share_what_one_claim_can_carry(void **state)
{
    struct world *w = *state;
    size_t one = add_to(w, 1, 1, "a", CLASS_HIGH, PLENTY), two = add_to(w, 2, 1, "a", CLASS_LOW, PLENTY);
    run(w, 100, 10);
    assert_near(w->got[one], 500, 5);
    assert_near(w->got[two], 500, 5);
}

static void the_order_of_the_asks_changes_nothing(void **state)
{
    struct world *w = *state, *other = xnew(*other);
    struct prng r = seeded_prng(__func__);
    other->fair = fair_new();
    other->now_ms = NOW;
    make_random_lines(w, &r, 80, 3);
    for (size_t i = w->n; i-- > 0;) {
        size_t at = add_to(other, w->pool_of[i], w->tenant_of[i], w->names[i], w->class_of[i], w->backlog[i]);
        other->weight[at] = w->weight[i];
        other->due_ms[at] = w->due_ms[i];
        memcpy(other->caps_of[at], w->caps_of[i], sizeof other->caps_of[at]);
    }
    memcpy(other->caps, w->caps, sizeof w->caps);
    other->cap_count = w->cap_count;
    for (int k = 0; k < 200; k++) {
        size_t room = (size_t)prng_between(&r, 1, 500);
        share(w, room);
        share(other, room);
        for (size_t i = 0; i < w->n; i++)
            assert_int_equal(w->asks[i].quota, other->asks[w->n - 1 - i].quota);
        claim(w);
        claim(other);
    }
    void *done = other;
    close_world(&done);
}

static void equal_lines_are_told_apart_by_their_names(void **state)
{
    struct world *w = *state;
    add(w, 1, "ab", CLASS_LOW, PLENTY);
    size_t a = add(w, 1, "a", CLASS_LOW, PLENTY), none = add(w, 1, "", CLASS_LOW, PLENTY);
    run(w, 1, 1);
    assert_int_equal(w->got[none], 1);
    run(w, 1, 1);
    assert_int_equal(w->got[a], 1);
}

static void a_thousand_lines_are_shared_among_in_one_round(void **state)
{
    struct world *w = *state;
    char name[16];
    for (int i = 0; i < LINES_MAX; i++) {
        snprintf(name, sizeof name, "q%d", i / 100);
        add(w, i % 100, name, CLASS_NORMAL, PLENTY);
    }
    run(w, 1, 2000);
    for (int i = 0; i < LINES_MAX; i++)
        assert_int_equal(w->got[i], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fair_test(one_line_gets_all_there_is),
        fair_test(nobody_to_share_is_no_trouble),
        fair_test(no_room_gives_nothing),
        fair_test(classes_share_sixty_thirty_ten),
        fair_test(shares_hold_also_when_there_is_room_for_one_at_a_time),
        fair_test(tenants_of_a_class_share_evenly_however_many_lines_they_have),
        fair_test(queues_of_a_tenant_share_by_weight),
        fair_test(who_has_less_than_its_part_leaves_the_rest_to_others),
        fair_test(only_what_was_taken_counts),
        fair_test(idle_time_is_not_saved_up),
        fair_test(one_that_comes_after_all_others_have_gone_owes_and_is_owed_nothing),
        fair_test(time_at_a_cap_is_not_saved_up),
        fair_test(a_fresh_one_comes_at_once_behind_a_large_backlog),
        fair_test(a_cap_holds_for_all_lines_that_share_it),
        fair_test(a_cap_that_is_used_up_keeps_a_line_out),
        fair_test(a_level_is_gained_every_ten_minutes),
        fair_test(a_low_line_that_waited_long_counts_as_normal_and_then_as_high),
        fair_test(an_aged_line_shares_with_its_own_queues_urgent_ones),
        fair_test(what_it_got_in_one_class_is_not_held_against_it_in_another),
        fair_test(room_and_caps_hold_and_nothing_is_wasted),
        fair_test(nobody_starves),
        fair_test(shares_converge_to_what_they_should_be),
        fair_test(a_part_of_the_room_that_is_used_up_costs_nobody_its_turn),
        fair_test(lines_of_a_queue_share_what_the_queue_gets),
        fair_test(what_a_tenant_got_in_one_pool_is_not_held_against_it_in_another),
        fair_test(a_pool_without_a_free_slot_costs_another_nothing),
        fair_test(pools_share_what_one_claim_can_carry),
        fair_test(the_order_of_the_asks_changes_nothing),
        fair_test(equal_lines_are_told_apart_by_their_names),
        fair_test(a_thousand_lines_are_shared_among_in_one_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
