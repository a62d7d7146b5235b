/* core/sharing/breaker_set.c: the breakers of all hosts and tenants, and when a tenant's own breaker opens. */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "core/sharing/breaker.h"
#include "seed.h"

#define NOW 1767225600000LL

static const struct outcome ok = { .kind = OUTCOME_OK, .retry_after_ms = -1 };
static const struct outcome no_answer = { .kind = OUTCOME_FAILED, .failure = FAILURE_CONNECT, .retry_after_ms = -1 };

static struct outcome busy_for(int64_t retry_after_ms)
{
    return (struct outcome){
        .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = 429, .retry_after_ms = retry_after_ms
    };
}

static struct breakers all;

static int open_all(void **state)
{
    (void)state;
    breakers_init(&all, 32, (struct hash_key){ 1, 2 });
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    breakers_release(&all);
    return 0;
}

static struct breakers_answer ask(int32_t tenant, const char *host, int64_t now_ms)
{
    return breakers_ask(&all, tenant, str_from(host), 1000, now_ms);
}

static void tell(int32_t tenant, const char *host, int n, const struct outcome *o, int64_t now_ms)
{
    struct breakers_answer went = { .go = true };
    for (int i = 0; i < n; i++)
        breakers_report(&all, tenant, str_from(host), &went, o, now_ms);
}

static enum breaker_state state_of(int32_t tenant, const char *host, int64_t now_ms)
{
    struct breaker_status s = { .state = BREAKER_CLOSED };
    (void)breakers_status(&all, tenant, str_from(host), now_ms, &s);
    return s.state;
}

/* 21 failures on three hosts, none of which opens its own breaker: the tenant's opens. */
static void fail_on_three_hosts(int32_t tenant, int64_t now_ms)
{
    tell(tenant, "a.example", 7, &no_answer, now_ms);
    tell(tenant, "b.example", 7, &no_answer, now_ms);
    tell(tenant, "c.example", 7, &no_answer, now_ms);
    assert_int_equal(state_of(tenant, "", now_ms), BREAKER_OPEN);
}

/* ---- hosts ---- */

static void a_host_of_one_tenant_is_not_anothers(void **state)
{
    (void)state;
    tell(1, "dead.example", 10, &no_answer, NOW);
    struct breakers_answer a = ask(1, "dead.example", NOW);
    assert_false(a.go || a.by_tenant);
    assert_true(a.until_ms == NOW + 30000);
    assert_true(ask(1, "good.example", NOW).go);
    assert_true(ask(1, "", NOW).go);
    assert_true(ask(2, "dead.example", NOW).go);
}

static void what_calls_no_host_always_goes_and_counts_for_nobody(void **state)
{
    (void)state;
    tell(1, "", 100, &no_answer, NOW);
    assert_int_equal(all.by_key.n, 0);
    fail_on_three_hosts(1, NOW);
    for (int i = 0; i < 100; i++) {
        struct breakers_answer a = ask(1, "", NOW);
        assert_true(a.go && !a.host_trial && !a.tenant_trial);
    }
}

static void a_host_that_is_too_long_has_a_breaker_all_the_same(void **state)
{
    (void)state;
    char host[400];
    memset(host, 'a', sizeof host - 1);
    host[sizeof host - 1] = '\0';
    tell(1, host, 10, &no_answer, NOW);
    assert_false(ask(1, host, NOW).go);
}

/* ---- when a tenant's breaker opens ---- */

static void failures_on_three_hosts_open_it(void **state)
{
    (void)state;
    tell(1, "a.example", 7, &no_answer, NOW);
    tell(1, "b.example", 7, &no_answer, NOW);
    tell(1, "c.example", 5, &no_answer, NOW);
    assert_int_equal(state_of(1, "", NOW), BREAKER_CLOSED); /* 19 calls */
    tell(1, "c.example", 1, &no_answer, NOW);
    struct breakers_answer a = ask(1, "new.example", NOW);
    assert_true(!a.go && a.by_tenant);
    assert_true(a.until_ms == NOW + 60000);
    assert_true(ask(2, "a.example", NOW).go);
    struct breaker_status s;
    assert_true(breakers_status(&all, 1, S(""), NOW + 10000, &s));
    assert_true(s.counts.failures == 20 && s.counts.total == 20 && s.since_ms == NOW);
}

static void one_host_that_fails_holds_nothing_else(void **state)
{
    (void)state;
    for (int i = 0; i < 600; i++) /* for ten minutes */
        tell(1, "dead.example", 5, &no_answer, NOW + i * 1000);
    int64_t now = NOW + 600000;
    assert_int_equal(state_of(1, "", now), BREAKER_CLOSED);
    for (int i = 0; i < 100; i++) {
        assert_true(ask(1, "good.example", now).go);
        assert_true(ask(1, "", now).go);
    }
}

static void two_hosts_that_fail_do_not_open_it(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) { /* 7 a minute: neither opens by itself */
        tell(1, "a.example", 1, &no_answer, NOW + i * 9000);
        tell(1, "b.example", 1, &no_answer, NOW + i * 9000);
    }
    int64_t now = NOW + 60 * 9000;
    assert_int_equal(state_of(1, "a.example", now), BREAKER_CLOSED);
    assert_int_equal(state_of(1, "", now), BREAKER_CLOSED);
    tell(1, "c.example", 1, &no_answer, now); /* a third one does */
    assert_int_equal(state_of(1, "", now), BREAKER_OPEN);
}

static void hosts_whose_own_breakers_opened_do_not_count(void **state)
{
    (void)state;
    static const char *const dead[] = { "d1.example", "d2.example", "d3.example", "d4.example" };
    for (size_t i = 0; i < array_count(dead); i++)
        tell(1, dead[i], 10, &no_answer, NOW);
    tell(1, "a.example", 9, &no_answer, NOW + 2000);
    tell(1, "b.example", 9, &no_answer, NOW + 4000);
    assert_int_equal(state_of(1, "", NOW + 4000), BREAKER_CLOSED); /* two hosts fail without a reason of their own */
    tell(1, "c.example", 1, &no_answer, NOW + 6000);
    assert_int_equal(state_of(1, "", NOW + 6000), BREAKER_CLOSED); /* 19 calls */
    tell(1, "c.example", 1, &no_answer, NOW + 8000);
    struct breaker_status s;
    assert_true(breakers_status(&all, 1, S(""), NOW + 8000, &s));
    assert_true(s.state == BREAKER_OPEN && s.counts.total == 20);
}

static void a_host_that_opened_and_closed_again_does_not_count_for_five_minutes(void **state)
{
    (void)state;
    tell(1, "d.example", 10, &no_answer, NOW);
    assert_true(breakers_close(&all, 1, S("d.example"), NOW + 1000));
    tell(1, "a.example", 9, &no_answer, NOW + 2000);
    tell(1, "b.example", 9, &no_answer, NOW + 2000);
    tell(1, "d.example", 4, &no_answer, NOW + 4000);
    tell(1, "d.example", 1, &no_answer, NOW + 6000);
    assert_int_equal(state_of(1, "d.example", NOW + 6000), BREAKER_CLOSED);
    assert_int_equal(state_of(1, "", NOW + 6000), BREAKER_CLOSED);
    int64_t later = NOW + 300000;
    tell(1, "a.example", 9, &no_answer, later);
    tell(1, "b.example", 9, &no_answer, later);
    tell(1, "d.example", 2, &no_answer, later + 2000);
    assert_int_equal(state_of(1, "", later + 2000), BREAKER_OPEN);
}

static void it_stays_closed_while_a_tenth_succeeds(void **state)
{
    (void)state;
    tell(1, "good.example", 3, &ok, NOW);
    for (int i = 0; i < 9; i++) {
        tell(1, "a.example", 1, &no_answer, NOW + i * 1000);
        tell(1, "b.example", 1, &no_answer, NOW + i * 1000);
        tell(1, "c.example", 1, &no_answer, NOW + i * 1000);
    }
    assert_int_equal(state_of(1, "", NOW + 8000), BREAKER_CLOSED); /* 27 of 30 */
    tell(1, "e.example", 1, &no_answer, NOW + 10000);
    assert_int_equal(state_of(1, "", NOW + 10000), BREAKER_OPEN); /* 28 of 31 */
}

static void a_success_does_not_open_a_tenants_breaker(void **state)
{
    (void)state;
    tell(1, "a.example", 7, &no_answer, NOW);
    tell(1, "b.example", 6, &no_answer, NOW);
    tell(1, "c.example", 6, &no_answer, NOW);
    tell(1, "good.example", 1, &ok, NOW); /* 19 of 20 */
    assert_int_equal(state_of(1, "", NOW), BREAKER_CLOSED);
    tell(1, "c.example", 1, &no_answer, NOW);
    assert_int_equal(state_of(1, "", NOW), BREAKER_OPEN);
}

static void a_host_that_also_succeeds_is_none_that_fails(void **state)
{
    (void)state;
    tell(1, "c.example", 1, &ok, NOW);
    for (int i = 0; i < 9; i++) {
        tell(1, "a.example", 1, &no_answer, NOW + i * 1000);
        tell(1, "b.example", 1, &no_answer, NOW + i * 1000);
        tell(1, "c.example", 1, &no_answer, NOW + i * 1000);
    }
    assert_int_equal(state_of(1, "", NOW + 8000), BREAKER_CLOSED); /* 27 of 28, on two hosts */
}

static void its_hosts_are_looked_at_once_a_second(void **state)
{
    (void)state;
    tell(1, "dead.example", 10, &no_answer, NOW);
    tell(1, "a.example", 9, &no_answer, NOW);
    tell(1, "b.example", 9, &no_answer, NOW); /* its first one is the 20th of the tenant: two hosts count */
    tell(1, "c.example", 2, &no_answer, NOW + 999);
    assert_int_equal(state_of(1, "", NOW + 999), BREAKER_CLOSED);
    tell(1, "c.example", 1, &no_answer, NOW + 1000);
    assert_int_equal(state_of(1, "", NOW + 1000), BREAKER_OPEN);
}

static void failures_of_more_than_five_minutes_ago_have_no_say(void **state)
{
    (void)state;
    tell(1, "a.example", 9, &no_answer, NOW);
    for (int i = 0; i < 3; i++) {
        tell(1, "b.example", 9, &no_answer, NOW + 300000 + i * 65000);
        tell(1, "c.example", 9, &no_answer, NOW + 300000 + i * 65000);
    }
    assert_int_equal(state_of(1, "", NOW + 430000), BREAKER_CLOSED); /* 54, on two hosts */
    tell(1, "a.example", 1, &no_answer, NOW + 432000);
    assert_int_equal(state_of(1, "", NOW + 432000), BREAKER_OPEN);
}

/* ---- what it holds, and how it closes ---- */

static void healthy_hosts_go_on_while_it_is_open(void **state)
{
    (void)state;
    struct outcome not_found = {
        .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = 404, .retry_after_ms = -1
    };
    tell(1, "good.example", 1, &ok, NOW);
    tell(1, "alive.example", 1, &not_found, NOW);
    tell(1, "a.example", 9, &no_answer, NOW + 1000);
    tell(1, "b.example", 9, &no_answer, NOW + 1000);
    tell(1, "c.example", 9, &no_answer, NOW + 1000);
    assert_int_equal(state_of(1, "", NOW + 1000), BREAKER_OPEN);
    for (int i = 0; i < 100; i++) {
        struct breakers_answer a = ask(1, "good.example", NOW + 2000 + i);
        assert_true(a.go && !a.host_trial && !a.tenant_trial);
        assert_true(ask(1, "alive.example", NOW + 2000 + i).go);
        assert_false(ask(1, "a.example", NOW + 2000 + i).go);
    }
    assert_true(ask(1, "good.example", NOW + 59000).go);
    struct breakers_answer trial = ask(1, "a.example", NOW + 61000);
    assert_true(trial.go && trial.tenant_trial);
    assert_true(ask(1, "good.example", NOW + 61000).go); /* nor does it wait for the trial */
}

static void a_host_without_a_success_for_five_minutes_is_held_too(void **state)
{
    (void)state;
    tell(1, "good.example", 1, &ok, NOW);
    fail_on_three_hosts(1, NOW + 280000);
    assert_true(ask(1, "good.example", NOW + 299999).go);
    struct breakers_answer a = ask(1, "good.example", NOW + 300000);
    assert_true(!a.go && a.by_tenant);
}

static void a_trial_that_succeeds_lets_all_go(void **state)
{
    (void)state;
    fail_on_three_hosts(1, NOW);
    assert_false(ask(1, "a.example", NOW + 59999).go);
    struct breakers_answer a = ask(1, "new.example", NOW + 60000);
    assert_true(a.go && a.tenant_trial && !a.host_trial);
    assert_false(ask(1, "a.example", NOW + 60000).go); /* one at a time */
    breakers_report(&all, 1, S("new.example"), &a, &ok, NOW + 60001);
    assert_true(ask(1, "a.example", NOW + 60001).go);
    assert_int_equal(state_of(1, "", NOW + 60001), BREAKER_CLOSED);
}

static void a_trial_that_fails_holds_them_for_another_minute(void **state)
{
    (void)state;
    fail_on_three_hosts(1, NOW);
    for (int i = 1; i <= 5; i++) {
        struct breakers_answer a = ask(1, "a.example", NOW + i * 60000);
        assert_true(a.go && a.tenant_trial);
        breakers_report(&all, 1, S("a.example"), &a, &no_answer, NOW + i * 60000);
        a = ask(1, "b.example", NOW + i * 60000 + 59999);
        assert_true(!a.go && a.by_tenant);
    }
}

static void when_it_has_closed_only_new_failures_open_it(void **state)
{
    (void)state;
    fail_on_three_hosts(1, NOW);
    struct breakers_answer a = ask(1, "d.example", NOW + 60000);
    breakers_report(&all, 1, S("d.example"), &a, &ok, NOW + 60000);
    tell(1, "a.example", 6, &no_answer, NOW + 62000);
    tell(1, "b.example", 6, &no_answer, NOW + 64000);
    tell(1, "dead.example", 9, &no_answer, NOW + 66000); /* with those from before it would be 42 on four hosts */
    assert_int_equal(state_of(1, "", NOW + 66000), BREAKER_OPEN);
    struct breaker_status s;
    assert_true(breakers_status(&all, 1, S(""), NOW + 66000, &s));
    assert_true(s.counts.total >= 20 && s.counts.total <= 22);
}

static void a_success_elsewhere_does_not_close_it(void **state)
{
    (void)state;
    tell(1, "good.example", 1, &ok, NOW - 1000);
    fail_on_three_hosts(1, NOW);
    tell(1, "good.example", 100, &ok, NOW + 1000);
    assert_int_equal(state_of(1, "", NOW + 1000), BREAKER_OPEN);
    assert_false(ask(1, "a.example", NOW + 1000).go);
}

static void a_trial_of_the_host_is_not_spent_while_the_tenant_is_held(void **state)
{
    (void)state;
    fail_on_three_hosts(1, NOW);
    tell(1, "dead.example", 10, &no_answer, NOW + 1000);
    struct breakers_answer a = ask(1, "dead.example", NOW + 1000);
    assert_false(a.go || a.by_tenant); /* both hold the call: the host's time is returned */
    assert_true(a.until_ms == NOW + 31000);
    a = breakers_ask(&all, 1, S("dead.example"), 100000, NOW + 31000);
    assert_true(!a.go && a.by_tenant);
    a = ask(1, "dead.example", NOW + 61000);
    assert_true(a.go && a.host_trial && a.tenant_trial);
    breakers_report(&all, 1, S("dead.example"), &a, &ok, NOW + 61001);
    a = ask(1, "dead.example", NOW + 61001);
    assert_true(a.go && !a.host_trial && !a.tenant_trial);
}

static void a_clock_set_back_lets_no_tenant_wait_longer(void **state)
{
    (void)state;
    int64_t year = 365LL * 86400000;
    tell(1, "good.example", 1, &ok, NOW);
    fail_on_three_hosts(1, NOW);
    (void)ask(1, "a.example", NOW + 10000);
    (void)ask(1, "good.example", NOW + 10000);
    assert_true(ask(1, "good.example", NOW + 10000 - year).go);
    assert_false(ask(1, "a.example", NOW + 10000 - year).go);
    assert_true(ask(1, "a.example", NOW + 60000 - year).tenant_trial);
    tell(1, "x.example", 7, &no_answer, NOW - 2 * year);
    assert_true(all.by_key.n <= 32);
}

/* ---- by hand ---- */

static void a_hand_closes_one(void **state)
{
    (void)state;
    tell(1, "dead.example", 10, &no_answer, NOW);
    assert_false(breakers_close(&all, 1, S("other.example"), NOW));
    assert_false(breakers_close(&all, 2, S(""), NOW));
    assert_true(breakers_close(&all, 1, S("dead.example"), NOW + 1));
    assert_true(ask(1, "dead.example", NOW + 1).go);
    fail_on_three_hosts(2, NOW);
    assert_true(breakers_close(&all, 2, S(""), NOW + 1));
    assert_true(ask(2, "a.example", NOW + 1).go);
    tell(2, "a.example", 1, &no_answer, NOW + 5000);
    tell(2, "a.example", 1, &no_answer, NOW + 7000);
    assert_int_equal(state_of(2, "", NOW + 7000), BREAKER_CLOSED); /* what failed before has no say any more */
    tell(2, "b.example", 9, &no_answer, NOW + 130000);
    tell(2, "c.example", 9, &no_answer, NOW + 132000);
    struct breaker_status s;
    assert_true(breakers_status(&all, 2, S(""), NOW + 132000, &s));
    assert_true(s.state == BREAKER_OPEN && s.counts.total == 20);
}

/* ---- for people ---- */

static void status_is_told_without_making_one(void **state)
{
    (void)state;
    struct breaker_status s;
    struct breaker_view v;
    assert_false(breakers_status(&all, 1, S("a.example"), NOW, &s));
    assert_false(breakers_holds(&all, 1, S("a.example"), NOW, &v));
    assert_int_equal(all.by_key.n, 0);
    tell(1, "a.example", 10, &no_answer, NOW);
    assert_true(breakers_status(&all, 1, S("a.example"), NOW, &s));
    assert_true(s.state == BREAKER_OPEN && s.counts.failures == 10 && s.counts.total == 10 && s.since_ms == NOW);
    assert_true(s.until_ms == NOW + 30000);
    assert_true(breakers_status(&all, 1, S(""), NOW, &s));
    assert_int_equal(s.state, BREAKER_CLOSED);
    assert_int_equal(all.by_key.n, 2);
}

static void it_is_said_which_breaker_holds_a_call(void **state)
{
    (void)state;
    struct breaker_view v;
    tell(1, "good.example", 1, &ok, NOW);
    fail_on_three_hosts(1, NOW);
    tell(1, "dead.example", 10, &no_answer, NOW);
    assert_true(breakers_holds(&all, 1, S("dead.example"), NOW, &v));
    assert_str(v.host, "dead.example");
    assert_true(v.tenant == 1 && v.status.until_ms == NOW + 30000);
    assert_true(breakers_holds(&all, 1, S("new.example"), NOW, &v));
    assert_str(v.host, "");
    assert_true(v.status.until_ms == NOW + 60000 && v.status.counts.failures == 19 && v.status.counts.total == 20);
    assert_false(breakers_holds(&all, 1, S("good.example"), NOW, &v));
    assert_false(breakers_holds(&all, 1, S(""), NOW, &v));
    assert_false(breakers_holds(&all, 2, S("dead.example"), NOW, &v));
    assert_false(breakers_holds(&all, 1, S("a.example"), NOW + 60000, &v)); /* the trial would go */
    assert_true(ask(1, "a.example", NOW + 60000).tenant_trial);             /* and was not spent */
    assert_true(breakers_holds(&all, 1, S("b.example"), NOW + 60000, &v));
}

static void see(void *context, const struct breaker_view *view)
{
    char *text = context;
    size_t n = strlen(text);
    snprintf(text + n, 300 - n, "%d " STR_FMT " %s; ", view->tenant, STR_ARG(view->host),
             breaker_state_name(view->status.state));
}

static void those_that_hold_somebody_are_listed_by_tenant_and_host(void **state)
{
    (void)state;
    char text[300] = "", again[300] = "";
    struct outcome busy = busy_for(5000);
    breakers_each(&all, NOW, see, text);
    assert_string_equal(text, "");
    fail_on_three_hosts(10, NOW);
    tell(9, "z.example", 10, &no_answer, NOW);
    tell(7, "dead.example", 10, &no_answer, NOW);
    tell(7, "busy.example", 1, &busy, NOW);
    tell(8, "good.example", 10, &ok, NOW);
    tell(9, "x.example", 10, &no_answer, NOW);
    tell(10, "a.example", 10, &no_answer, NOW);
    breakers_each(&all, NOW, see, text);
    assert_string_equal(text, "7 busy.example closed; 7 dead.example open; 9 x.example open; 9 z.example open; "
                              "10  open; 10 a.example open; ");
    (void)ask(9, "z.example", NOW); /* a use changes nothing */
    (void)ask(7, "dead.example", NOW);
    breakers_each(&all, NOW, see, again);
    assert_string_equal(text, again);
}

/* ---- a bounded table ---- */

static void they_are_bounded_and_closed_ones_go_first(void **state)
{
    (void)state;
    char host[32];
    tell(1, "dead.example", 10, &no_answer, NOW);
    for (int i = 0; i < 1000; i++) {
        snprintf(host, sizeof host, "h%d.example", i);
        tell(1, host, 1, &ok, NOW);
        assert_true(all.by_key.n <= 32);
    }
    assert_int_equal(all.by_key.n, 32);
    assert_false(ask(1, "dead.example", NOW).go); /* still in the table */
    for (int i = 0; i < 100; i++) {               /* all are open: the least recently used one is evicted */
        snprintf(host, sizeof host, "dead%d.example", i);
        tell(2, host, 10, &no_answer, NOW);
    }
    assert_int_equal(all.by_key.n, 32);
    assert_int_equal(state_of(2, "dead99.example", NOW), BREAKER_OPEN);
    struct breaker_status s;
    assert_false(breakers_status(&all, 2, S("dead0.example"), NOW, &s));
}

static void one_that_is_held_by_retry_after_is_not_forgotten_for_one_that_is_not(void **state)
{
    (void)state;
    char host[32];
    struct outcome busy = busy_for(60000);
    tell(1, "busy.example", 1, &busy, NOW);
    for (int i = 0; i < 100; i++) {
        snprintf(host, sizeof host, "h%d.example", i);
        tell(1, host, 1, &ok, NOW);
    }
    assert_false(ask(1, "busy.example", NOW).go);
}

static void a_tenants_breaker_stays_as_long_as_one_of_its_hosts(void **state)
{
    (void)state;
    char host[32];
    tell(1, "dead.example", 10, &no_answer, NOW);
    for (int i = 0; i < 200; i++) {
        snprintf(host, sizeof host, "h%d.example", i);
        tell(2 + i, host, 10, i < 100 ? &ok : &no_answer, NOW);
        struct breaker_status s;
        if (breakers_status(&all, 1, S("dead.example"), NOW, &s))
            assert_true(breakers_status(&all, 1, S(""), NOW, &s));
    }
}

static void whatever_happens_the_table_holds_together(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    int64_t now = NOW;
    int held_by_tenant = 0, closed = 0;
    for (int i = 0; i < 200000; i++) {
        char host[32];
        int32_t tenant = (int32_t)prng_below(&r, 5);
        bool fails = prng_below(&r, 100) < (now / 400000 % 2 ? 99U : 20U);
        snprintf(host, sizeof host, "h%d.example", (int)prng_below(&r, 1 + prng_below(&r, 12)));
        now += prng_between(&r, 0, 300);
        struct breaker_view v;
        bool held = breakers_holds(&all, tenant, str_from(host), now, &v);
        struct breakers_answer a = ask(tenant, host, now);
        assert_true(a.go != held);
        assert_true(a.go || (a.until_ms > now && a.by_tenant == (v.host.n == 0)));
        assert_true(all.by_key.n <= 32);
        held_by_tenant += a.by_tenant;
        if (a.go)
            breakers_report(&all, tenant, str_from(host), &a, fails ? &no_answer : &ok, now);
        if (prng_below(&r, 1000) == 0)
            closed += breakers_close(&all, tenant, S(""), now);
    }
    assert_true(held_by_tenant > 100 && closed > 10);
}

/* ---- what others are told, and say ---- */

static struct breakers_news news_of(int32_t tenant, const char *host, const struct breakers_answer *went,
                                    const struct outcome *o, int64_t now_ms)
{
    return breakers_report(&all, tenant, str_from(host), went, o, now_ms);
}

static void an_opening_and_a_recovery_are_told_once(void **state)
{
    (void)state;
    struct breakers_answer went = { .go = true };
    for (int i = 0; i < 9; i++)
        assert_int_equal(news_of(1, "a.example", &went, &no_answer, NOW).host.kind, BREAKER_NO_NEWS);
    struct breakers_news n = news_of(1, "a.example", &went, &no_answer, NOW);
    assert_true(n.host.kind == BREAKER_OPENED && n.host.until_ms == NOW + 30000 && !n.host.by_retry_after);
    assert_true(n.host.counts.total == 10 && n.host.counts.failures == 10 && n.tenant.kind == BREAKER_NO_NEWS);
    assert_int_equal(news_of(1, "a.example", &went, &no_answer, NOW + 1).host.kind, BREAKER_NO_NEWS);
    struct breakers_answer trial = ask(1, "a.example", NOW + 30000);
    n = news_of(1, "a.example", &trial, &no_answer, NOW + 30001);
    assert_true(n.host.kind == BREAKER_OPENED && n.host.until_ms == NOW + 60001);
    trial = ask(1, "a.example", NOW + 60001);
    assert_int_equal(news_of(1, "a.example", &trial, &ok, NOW + 60002).host.kind, BREAKER_RECOVERED);
    assert_int_equal(news_of(1, "a.example", &went, &ok, NOW + 60003).host.kind, BREAKER_NO_NEWS);
}

static void the_tenants_own_is_told_too(void **state)
{
    (void)state;
    struct breakers_answer went = { .go = true };
    tell(1, "a.example", 7, &no_answer, NOW);
    tell(1, "b.example", 7, &no_answer, NOW);
    tell(1, "c.example", 5, &no_answer, NOW);
    struct breakers_news n = news_of(1, "c.example", &went, &no_answer, NOW);
    assert_true(n.tenant.kind == BREAKER_OPENED && n.tenant.until_ms == NOW + 60000 && n.tenant.counts.total == 20);
    assert_int_equal(n.host.kind, BREAKER_NO_NEWS);
}

static void a_retry_after_is_told_as_an_opening_that_ends_by_itself(void **state)
{
    (void)state;
    struct breakers_answer went = { .go = true };
    struct outcome busy = busy_for(7000);
    struct breakers_news n = news_of(1, "a.example", &went, &busy, NOW);
    assert_true(n.host.kind == BREAKER_OPENED && n.host.by_retry_after && n.host.until_ms == NOW + 7000);
    went = ask(1, "a.example", NOW + 7000);
    assert_true(went.go && !went.host_trial);
    assert_int_equal(news_of(1, "a.example", &went, &ok, NOW + 7001).host.kind, BREAKER_RECOVERED);
}

static void what_others_opened_is_open_here_until_then_or_until_it_is_closed(void **state)
{
    (void)state;
    struct breaker_counts counts = { 20, 15 };
    struct breaker_status s;
    breakers_restore(&all, 1, S("a.example"), NOW + 30000, counts, NOW);
    assert_true(breakers_status(&all, 1, S("a.example"), NOW, &s));
    assert_true(s.state == BREAKER_OPEN && s.until_ms == NOW + 30000 && s.counts.total == 20);
    assert_false(ask(1, "a.example", NOW + 29999).go);
    assert_true(ask(2, "a.example", NOW).go && ask(1, "b.example", NOW).go);
    breakers_restore(&all, 1, S("a.example"), NOW + 30000, counts, NOW + 30000); /* told again: nothing new */
    struct breakers_answer trial = ask(1, "a.example", NOW + 30000);
    assert_true(trial.go && trial.host_trial);
    breakers_restore(&all, 1, S("a.example"), NOW + 65000, counts, NOW + 30001); /* another node's trial failed */
    assert_false(ask(1, "a.example", NOW + 64999).go);
    assert_true(breakers_close(&all, 1, S("a.example"), NOW + 40000));
    assert_true(ask(1, "a.example", NOW + 40000).go);
    breakers_restore(&all, 1, S("old.example"), NOW - 5000, counts, NOW); /* its time is over */
    assert_true(ask(1, "old.example", NOW).host_trial);
}

static void what_others_know_of_a_tenant_holds_no_host_that_has_not_failed_here(void **state)
{
    (void)state;
    struct breaker_view view;
    breakers_restore(&all, 1, S(""), NOW + 60000, (struct breaker_counts){ 20, 20 }, NOW);
    assert_false(breakers_holds(&all, 1, S("good.example"), NOW, &view));
    assert_true(ask(1, "good.example", NOW).go && ask(1, "bad.example", NOW).go);
    tell(1, "bad.example", 1, &no_answer, NOW);
    struct breakers_answer a = ask(1, "bad.example", NOW + 1);
    assert_true(!a.go && a.by_tenant);
    assert_true(breakers_holds(&all, 1, S("bad.example"), NOW + 1, &view) && !view.host.n);
    assert_true(ask(1, "good.example", NOW + 1).go);
}

/* After a restart: no host has failed here, so none is held, and no call is the trial. */
static void a_tenants_breaker_from_before_closes_by_any_success_after_its_time(void **state)
{
    (void)state;
    struct breaker_status s;
    breakers_restore(&all, 1, S(""), NOW + 60000, (struct breaker_counts){ 20, 20 }, NOW);
    tell(1, "a.example", 1, &ok, NOW + 59000);
    assert_true(breakers_status(&all, 1, S(""), NOW + 59000, &s) && s.state == BREAKER_OPEN);
    tell(1, "b.example", 1, &no_answer, NOW + 61000);
    tell(1, "a.example", 1, &ok, NOW + 63000); /* it says nothing of the host that has failed */
    assert_true(breakers_status(&all, 1, S(""), NOW + 63000, &s) && s.state == BREAKER_HALF_OPEN);
    breakers_restore(&all, 2, S(""), NOW + 60000, (struct breaker_counts){ 20, 20 }, NOW);
    tell(2, "a.example", 1, &ok, NOW + 61000);
    assert_true(breakers_status(&all, 2, S(""), NOW + 61000, &s) && s.state == BREAKER_CLOSED);
}

static void a_trial_that_others_send_goes_before_its_time_one_at_a_time(void **state)
{
    (void)state;
    tell(1, "a.example", 10, &no_answer, NOW);
    breakers_allow_trial(&all, 1, S("a.example"), NOW + 1000);
    breakers_allow_trial(&all, 1, S("unknown.example"), NOW + 1000);
    struct breakers_answer trial = ask(1, "a.example", NOW + 1000);
    assert_true(trial.go && trial.host_trial);
    breakers_allow_trial(&all, 1, S("a.example"), NOW + 1001);
    assert_false(ask(1, "a.example", NOW + 1001).go);
    breakers_report(&all, 1, S("a.example"), &trial, &ok, NOW + 1002);
    assert_int_equal(state_of(1, "a.example", NOW + 1002), BREAKER_CLOSED);
}

int main(void)
{
#define set_test(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)
    const struct CMUnitTest tests[] = {
        set_test(a_host_of_one_tenant_is_not_anothers),
        set_test(what_calls_no_host_always_goes_and_counts_for_nobody),
        set_test(a_host_that_is_too_long_has_a_breaker_all_the_same),
        set_test(failures_on_three_hosts_open_it),
        set_test(one_host_that_fails_holds_nothing_else),
        set_test(two_hosts_that_fail_do_not_open_it),
        set_test(hosts_whose_own_breakers_opened_do_not_count),
        set_test(a_host_that_opened_and_closed_again_does_not_count_for_five_minutes),
        set_test(it_stays_closed_while_a_tenth_succeeds),
        set_test(a_success_does_not_open_a_tenants_breaker),
        set_test(a_host_that_also_succeeds_is_none_that_fails),
        set_test(its_hosts_are_looked_at_once_a_second),
        set_test(failures_of_more_than_five_minutes_ago_have_no_say),
        set_test(healthy_hosts_go_on_while_it_is_open),
        set_test(a_host_without_a_success_for_five_minutes_is_held_too),
        set_test(a_trial_that_succeeds_lets_all_go),
        set_test(a_trial_that_fails_holds_them_for_another_minute),
        set_test(when_it_has_closed_only_new_failures_open_it),
        set_test(a_success_elsewhere_does_not_close_it),
        set_test(a_trial_of_the_host_is_not_spent_while_the_tenant_is_held),
        set_test(a_clock_set_back_lets_no_tenant_wait_longer),
        set_test(a_hand_closes_one),
        set_test(status_is_told_without_making_one),
        set_test(it_is_said_which_breaker_holds_a_call),
        set_test(those_that_hold_somebody_are_listed_by_tenant_and_host),
        set_test(they_are_bounded_and_closed_ones_go_first),
        set_test(one_that_is_held_by_retry_after_is_not_forgotten_for_one_that_is_not),
        set_test(a_tenants_breaker_stays_as_long_as_one_of_its_hosts),
        set_test(an_opening_and_a_recovery_are_told_once),
        set_test(the_tenants_own_is_told_too),
        set_test(a_retry_after_is_told_as_an_opening_that_ends_by_itself),
        set_test(what_others_opened_is_open_here_until_then_or_until_it_is_closed),
        set_test(what_others_know_of_a_tenant_holds_no_host_that_has_not_failed_here),
        set_test(a_tenants_breaker_from_before_closes_by_any_success_after_its_time),
        set_test(a_trial_that_others_send_goes_before_its_time_one_at_a_time),
        set_test(whatever_happens_the_table_holds_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
