/* core/sharing/breaker.c: one breaker, its states and its window. The table of all: test_breaker_set.c. */
#include "core/sharing/breaker.h"

#include "check.h"
#include "seed.h"

#define NOW 1767225600000LL

static const struct outcome ok = { .kind = OUTCOME_OK, .retry_after_ms = -1 };
static const struct outcome no_answer = { .kind = OUTCOME_FAILED, .failure = FAILURE_CONNECT, .retry_after_ms = -1 };
static const struct outcome returned = { .kind = OUTCOME_RETURNED, .retry_after_ms = -1 };

static struct outcome http(int status, int64_t retry_after_ms)
{
    return (struct outcome){
        .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = status, .retry_after_ms = retry_after_ms
    };
}

static struct breaker breaker_for(const struct breaker_rules *rules)
{
    struct breaker b;
    breaker_init(&b, rules, NOW);
    return b;
}

static void report(struct breaker *b, int n, const struct outcome *o, int64_t now_ms)
{
    for (int i = 0; i < n; i++)
        breaker_report(b, false, o, now_ms);
}

static struct breaker opened(void)
{
    struct breaker b = breaker_for(&breaker_host);
    report(&b, 10, &no_answer, NOW);
    assert_int_equal(b.state, BREAKER_OPEN);
    return b;
}

/* ---- opening ---- */

static void more_than_half_of_ten_within_a_minute_open_it(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    report(&b, 9, &no_answer, NOW);
    assert_true(breaker_ask(&b, 1000, NOW).go);
    report(&b, 1, &no_answer, NOW + 59000);
    assert_int_equal(b.state, BREAKER_OPEN);
    struct breaker_answer a = breaker_ask(&b, 1000, NOW + 59000);
    assert_false(a.go || a.trial);
    assert_true(a.until_ms == NOW + 59000 + 30000);
}

static void half_of_them_do_not(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    report(&b, 50, &ok, NOW);
    report(&b, 50, &no_answer, NOW);
    assert_int_equal(b.state, BREAKER_CLOSED);
    report(&b, 1, &no_answer, NOW);
    assert_int_equal(b.state, BREAKER_OPEN);
}

static void what_is_older_than_the_window_has_no_say(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    report(&b, 9, &no_answer, NOW);
    assert_int_equal(breaker_status(&b, NOW + 30000).counts.failures, 9);
    report(&b, 9, &no_answer, NOW + 60000);
    assert_int_equal(b.state, BREAKER_CLOSED);
    assert_int_equal(breaker_status(&b, NOW + 60000).counts.total, 9);
    assert_int_equal(breaker_status(&b, NOW + 10 * 60000).counts.total, 0);
}

static void the_window_slides(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    for (int i = 0; i < 300; i++) { /* one call every ten seconds: never ten in a minute */
        breaker_report(&b, false, &no_answer, NOW + i * 10000LL);
        assert_true(breaker_status(&b, NOW + i * 10000LL).counts.total <= 7);
    }
    assert_int_equal(b.state, BREAKER_CLOSED);
}

static void a_success_never_opens_it(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    report(&b, 6, &no_answer, NOW);
    report(&b, 4, &ok, NOW); /* the 10th outcome: 6 of 10 failed */
    assert_int_equal(b.state, BREAKER_CLOSED);
    assert_true(breaker_ask(&b, 1000, NOW).go);
    report(&b, 1, &ok, NOW);
    assert_int_equal(b.state, BREAKER_CLOSED);
    report(&b, 1, &no_answer, NOW); /* 7 of 12 */
    assert_int_equal(b.state, BREAKER_OPEN);
}

static void an_answer_that_is_no_failure_never_opens_it(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    struct outcome not_found = http(404, -1);
    report(&b, 9, &no_answer, NOW);
    report(&b, 1, &not_found, NOW);
    assert_int_equal(b.state, BREAKER_CLOSED);
    report(&b, 1, &returned, NOW);
    assert_int_equal(b.state, BREAKER_CLOSED);
}

static void it_shows_the_counts_that_opened_it_until_it_closes(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    report(&b, 4, &ok, NOW);
    report(&b, 6, &no_answer, NOW);
    assert_int_equal(b.state, BREAKER_OPEN);
    report(&b, 50, &ok, NOW + 1); /* they went before it opened */
    for (int64_t at = NOW; at < NOW + 600000; at += 60000) {
        struct breaker_status s = breaker_status(&b, at);
        assert_true(s.state != BREAKER_CLOSED && s.counts.failures == 6 && s.counts.total == 10);
        if (breaker_ask(&b, 1000, at).trial)
            breaker_report(&b, true, &no_answer, at);
    }
    assert_true(breaker_ask(&b, 1000, NOW + 600000).trial);
    breaker_report(&b, true, &ok, NOW + 600000);
    report(&b, 1, &no_answer, NOW + 600000);
    struct breaker_status s = breaker_status(&b, NOW + 600000);
    assert_true(s.state == BREAKER_CLOSED && s.counts.failures == 1 && s.counts.total == 1);
}

static void one_with_a_minimum_of_hosts_does_not_open_by_itself(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_tenant);
    report(&b, 1000, &no_answer, NOW);
    assert_int_equal(b.state, BREAKER_CLOSED);
    assert_true(breaker_is_exceeded(&breaker_tenant, b.window.sum));
}

static void nine_of_ten_are_not_too_many_for_a_tenant(void **state)
{
    (void)state;
    assert_false(breaker_is_exceeded(&breaker_tenant, (struct breaker_counts){ .total = 100, .failures = 90 }));
    assert_true(breaker_is_exceeded(&breaker_tenant, (struct breaker_counts){ .total = 100, .failures = 91 }));
    assert_false(breaker_is_exceeded(&breaker_tenant, (struct breaker_counts){ .total = 19, .failures = 19 }));
    assert_true(breaker_is_exceeded(&breaker_tenant, (struct breaker_counts){ .total = 20, .failures = 20 }));
}

/* ---- trials ---- */

static void one_trial_at_a_time_goes_when_its_time_is_over(void **state)
{
    (void)state;
    struct breaker b = opened();
    assert_false(breaker_ask(&b, 1000, NOW + 29999).go);
    assert_true(breaker_would_go(&b, NOW + 30000));
    assert_true(breaker_would_go(&b, NOW + 30000)); /* breaker_would_go changes nothing */
    struct breaker_answer a = breaker_ask(&b, 1000, NOW + 30000);
    assert_true(a.go && a.trial);
    assert_int_equal(b.state, BREAKER_HALF_OPEN);
    assert_false(breaker_would_go(&b, NOW + 30001));
    a = breaker_ask(&b, 1000, NOW + 30001);
    assert_false(a.go);
    assert_true(a.until_ms == NOW + 31001);
}

static void a_trial_that_succeeds_closes_it(void **state)
{
    (void)state;
    struct breaker b = opened();
    assert_true(breaker_ask(&b, 1000, NOW + 30000).trial);
    breaker_report(&b, true, &ok, NOW + 30100);
    assert_int_equal(b.state, BREAKER_CLOSED);
    struct breaker_status s = breaker_status(&b, NOW + 30100);
    assert_true(s.since_ms == NOW + 30100 && s.until_ms == 0 && s.counts.total == 0 && s.counts.failures == 0 &&
                s.held == 0);
    struct breaker_answer a = breaker_ask(&b, 1000, NOW + 30100);
    assert_true(a.go && !a.trial);
    report(&b, 9, &no_answer, NOW + 30100); /* outcomes from before the trial no longer count */
    assert_int_equal(b.state, BREAKER_CLOSED);
}

static void a_trial_that_fails_opens_it_again(void **state)
{
    (void)state;
    struct breaker b = opened();
    for (int64_t at = NOW + 30000, i = 0; i < 5; i++, at += 30500) {
        assert_true(breaker_ask(&b, 1000, at).trial);
        breaker_report(&b, true, &no_answer, at + 500);
        assert_int_equal(b.state, BREAKER_OPEN);
        assert_true(b.until_ms == at + 500 + 30000);
    }
}

static void a_tenant_goes_on_with_one_a_minute_until_one_succeeds(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_tenant);
    breaker_open(&b, (struct breaker_counts){ .total = 20, .failures = 20 }, NOW);
    for (int i = 1; i <= 5; i++) {
        int went = 0;
        for (int64_t at = NOW + (i - 1) * 60000; at < NOW + i * 60000; at += 100)
            went += breaker_ask(&b, 1000, at).go;
        assert_int_equal(went, 0);
        assert_true(breaker_ask(&b, 1000, NOW + i * 60000).trial);
        breaker_report(&b, true, i < 5 ? &no_answer : &ok, NOW + i * 60000);
    }
    assert_int_equal(b.state, BREAKER_CLOSED);
}

static void a_trial_that_never_called_makes_way_for_the_next(void **state)
{
    (void)state;
    struct breaker b = opened();
    assert_true(breaker_ask(&b, 1000, NOW + 30000).trial);
    breaker_report(&b, true, &returned, NOW + 30010);
    assert_int_equal(b.state, BREAKER_HALF_OPEN);
    assert_true(breaker_ask(&b, 1000, NOW + 30010).trial);
}

static void a_trial_that_nobody_reports_is_forgotten(void **state)
{
    (void)state;
    struct breaker b = opened();
    assert_true(breaker_ask(&b, 5000, NOW + 30000).trial);
    assert_false(breaker_ask(&b, 5000, NOW + 30000 + 5000 + BREAKER_TRIAL_GRACE_MS - 1).go);
    assert_true(breaker_ask(&b, 5000, NOW + 30000 + 5000 + BREAKER_TRIAL_GRACE_MS).trial);
}

static void what_went_before_it_opened_has_no_say_afterwards(void **state)
{
    (void)state;
    struct breaker b = opened();
    report(&b, 100, &ok, NOW + 10);
    assert_int_equal(b.state, BREAKER_OPEN);
    report(&b, 100, &no_answer, NOW + 20);
    assert_true(b.until_ms == NOW + 30000);
    assert_true(breaker_ask(&b, 1000, NOW + 30000).trial);
    report(&b, 100, &ok, NOW + 30001);
    report(&b, 100, &no_answer, NOW + 30001);
    assert_int_equal(b.state, BREAKER_HALF_OPEN);
    assert_false(breaker_would_go(&b, NOW + 30002));
}

/* ---- by hand ---- */

static void one_that_is_closed_by_hand_lets_calls_go_and_counts_anew(void **state)
{
    (void)state;
    struct breaker b = opened();
    (void)breaker_ask(&b, 1000, NOW + 1);
    breaker_close(&b, NOW + 2);
    struct breaker_status s = breaker_status(&b, NOW + 2);
    assert_true(s.state == BREAKER_CLOSED && s.since_ms == NOW + 2 && s.until_ms == 0 && s.held == 0);
    report(&b, 9, &no_answer, NOW + 3);
    assert_int_equal(b.state, BREAKER_CLOSED);
    report(&b, 1, &no_answer, NOW + 3);
    assert_int_equal(b.state, BREAKER_OPEN);
}

static void a_trial_that_ends_after_the_hand_is_a_call_like_any_other(void **state)
{
    (void)state;
    struct breaker b = opened();
    assert_true(breaker_ask(&b, 1000, NOW + 30000).trial);
    breaker_close(&b, NOW + 30001);
    assert_true(breaker_ask(&b, 1000, NOW + 30001).go);
    breaker_report(&b, true, &no_answer, NOW + 30002);
    assert_int_equal(b.state, BREAKER_CLOSED);
    assert_int_equal(breaker_status(&b, NOW + 30002).counts.failures, 1);
}

static void closing_by_hand_ends_a_wait_by_retry_after(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    struct outcome o = http(429, 60000);
    breaker_report(&b, false, &o, NOW);
    assert_false(breaker_would_go(&b, NOW));
    breaker_close(&b, NOW);
    assert_true(breaker_would_go(&b, NOW));
}

/* ---- times of held calls ---- */

static void each_that_is_held_gets_a_time_of_its_own(void **state)
{
    (void)state;
    struct breaker b = opened();
    for (int i = 0; i < 100000; i++) {
        struct breaker_answer a = breaker_ask(&b, 1000, NOW + i / 10);
        assert_false(a.go);
        assert_true(a.until_ms == NOW + 30000 + i);
    }
    assert_int_equal(breaker_status(&b, NOW + 10000).held, 100000);
}

static void those_who_come_back_go_behind_those_who_still_wait(void **state)
{
    (void)state;
    struct breaker b = opened();
    for (int i = 0; i < 1000; i++)
        (void)breaker_ask(&b, 1000, NOW);
    assert_true(breaker_ask(&b, 1000, NOW + 30000).trial);
    breaker_report(&b, true, &no_answer, NOW + 30000); /* open until + 60 s */
    assert_true(breaker_ask(&b, 1000, NOW + 30001).until_ms == NOW + 60000);
    assert_true(breaker_ask(&b, 1000, NOW + 30001).until_ms == NOW + 60001);
    b = opened();
    for (int i = 0; i < 50000; i++)
        (void)breaker_ask(&b, 1000, NOW);
    assert_true(breaker_ask(&b, 1000, NOW + 30000).trial);
    breaker_report(&b, true, &no_answer, NOW + 30000);
    assert_true(breaker_ask(&b, 1000, NOW + 30001).until_ms == NOW + 80000); /* after the other 50,000 */
}

static void nobody_is_held_longer_than_the_spread(void **state)
{
    (void)state;
    struct breaker b = opened();
    for (int i = 0; i < BREAKER_SPREAD_MAX_MS; i++)
        (void)breaker_ask(&b, 1000, NOW);
    assert_true(b.last_given_ms == NOW + 30000 + BREAKER_SPREAD_MAX_MS - 1);
    assert_true(breaker_ask(&b, 1000, NOW).until_ms == NOW + 30000); /* the times start at the beginning again */
}

/* ---- Retry-After ---- */

static void retry_after_of_one_holds_the_others(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    struct outcome o = http(429, 5000);
    breaker_report(&b, false, &o, NOW);
    struct breaker_status s = breaker_status(&b, NOW);
    assert_true(s.state == BREAKER_CLOSED && s.held_by_retry_after && s.until_ms == NOW + 5000);
    assert_true(breaker_ask(&b, 1000, NOW).until_ms == NOW + 5000);
    assert_true(breaker_ask(&b, 1000, NOW + 1).until_ms == NOW + 5001);
    o.retry_after_ms = 1000; /* the longer Retry-After holds */
    breaker_report(&b, false, &o, NOW + 2);
    assert_false(breaker_would_go(&b, NOW + 4999));
    struct breaker_answer a = breaker_ask(&b, 1000, NOW + 5000);
    assert_true(a.go && !a.trial);
    assert_false(breaker_status(&b, NOW + 5000).held_by_retry_after);
}

static void retry_after_holds_nobody_for_more_than_an_hour(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    struct outcome o = http(503, 86400000);
    breaker_report(&b, false, &o, NOW);
    assert_true(breaker_ask(&b, 1000, NOW).until_ms == NOW + 3600000);
}

static void retry_after_of_what_is_no_failure_of_the_host_or_not_a_hosts_holds_nobody(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    struct outcome gone = http(404, 5000), now = http(503, 0);
    breaker_report(&b, false, &gone, NOW);
    breaker_report(&b, false, &now, NOW);
    assert_true(breaker_would_go(&b, NOW));
    b = breaker_for(&breaker_tenant);
    struct outcome busy = http(429, 5000);
    breaker_report(&b, false, &busy, NOW);
    assert_true(breaker_would_go(&b, NOW));
}

static void retry_after_also_puts_off_the_trial(void **state)
{
    (void)state;
    struct breaker b = breaker_for(&breaker_host);
    struct outcome o = http(503, 120000);
    report(&b, 10, &o, NOW);
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_true(breaker_status(&b, NOW).until_ms == NOW + 120000);
    assert_false(breaker_ask(&b, 1000, NOW + 119999).go);
    assert_true(breaker_ask(&b, 1000, NOW + 120000).trial);
}

/* ---- outcomes that count ---- */

static void what_is_a_failure_of_the_host(void **state)
{
    (void)state;
    static const struct {
        struct outcome o;
        enum breaker_sign sign;
    } rows[] = {
        { { .kind = OUTCOME_OK }, BREAKER_ALIVE },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_CONNECT }, BREAKER_FAILURE },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_TLS }, BREAKER_FAILURE },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_TIMEOUT }, BREAKER_FAILURE },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_NETWORK }, BREAKER_FAILURE },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = 500 }, BREAKER_FAILURE },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = 503 }, BREAKER_FAILURE },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = 429 }, BREAKER_FAILURE },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = 404 }, BREAKER_ALIVE },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = 408 }, BREAKER_ALIVE },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = 301 }, BREAKER_ALIVE },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_REFUSED }, BREAKER_NOTHING },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_INTERNAL }, BREAKER_NOTHING },
        { { .kind = OUTCOME_FAILED, .failure = FAILURE_NONE }, BREAKER_NOTHING },
        { { .kind = OUTCOME_CANCELLED, .failure = FAILURE_CONNECT }, BREAKER_NOTHING },
        { { .kind = OUTCOME_LOST }, BREAKER_NOTHING },
        { { .kind = OUTCOME_RETURNED }, BREAKER_NOTHING },
        { { .kind = OUTCOME_HELD }, BREAKER_NOTHING },
        { { .kind = OUTCOME_EXPIRED }, BREAKER_NOTHING },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        assert_int_equal(breaker_sign_of(&rows[i].o), rows[i].sign);
    struct breaker b = breaker_for(&breaker_host);
    report(&b, 100, &returned, NOW);
    assert_int_equal(breaker_status(&b, NOW).counts.total, 0);
}

static void states_have_names(void **state)
{
    (void)state;
    assert_string_equal(breaker_state_name(BREAKER_CLOSED), "closed");
    assert_string_equal(breaker_state_name(BREAKER_OPEN), "open");
    assert_string_equal(breaker_state_name(BREAKER_HALF_OPEN), "half-open");
}

/* ---- clock changes ---- */

static void a_clock_set_back_makes_nobody_wait_longer(void **state)
{
    (void)state;
    struct breaker b = opened();
    (void)breaker_ask(&b, 1000, NOW + 10000);
    int64_t year = 365LL * 86400000;
    assert_true(breaker_ask(&b, 1000, NOW + 10000 - year).until_ms == NOW + 30000 - year + 1);
    assert_true(breaker_ask(&b, 1000, NOW + 30000 - year).trial);
    breaker_report(&b, true, &ok, NOW - 2 * year);
    assert_true(breaker_ask(&b, 1000, NOW - 2 * year).go);
    report(&b, 9, &no_answer, NOW - 2 * year);
    assert_int_equal(breaker_status(&b, NOW - 3 * year).counts.total, 0); /* the window is cleared */
}

static void times_to_and_fro_shorten_no_wait(void **state)
{
    (void)state;
    struct breaker b = opened();
    for (int i = 0; i < 10000; i++) {
        (void)breaker_status(&b, NOW + 20);
        (void)breaker_status(&b, NOW);
    }
    assert_true(b.until_ms == NOW + 30000);
}

static void no_trial_is_lost_and_no_two_run_at_once_whatever_happens(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    struct breaker b = breaker_for(&breaker_host);
    int64_t now = NOW;
    int trials = 0, closed = 0, last = BREAKER_CLOSED;
    for (int i = 0; i < 200000; i++) {
        now += prng_between(&r, 0, 200);
        bool dead = now / 600000 % 2;
        if (trials && prng_below(&r, 3) == 0) {
            breaker_report(&b, true, prng_below(&r, 5) == 0 ? &returned : dead ? &no_answer : &ok, now);
            trials = 0;
        }
        struct breaker_answer a = breaker_ask(&b, 100000, now);
        trials += a.trial;
        assert_true(trials <= 1);
        assert_true(a.go || a.until_ms > now);
        if (a.go && !a.trial)
            breaker_report(&b, false, dead ? &no_answer : &ok, now);
        closed += last != BREAKER_CLOSED && b.state == BREAKER_CLOSED;
        last = (int)b.state;
    }
    assert_true(closed > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_than_half_of_ten_within_a_minute_open_it),
        cmocka_unit_test(half_of_them_do_not),
        cmocka_unit_test(what_is_older_than_the_window_has_no_say),
        cmocka_unit_test(the_window_slides),
        cmocka_unit_test(a_success_never_opens_it),
        cmocka_unit_test(an_answer_that_is_no_failure_never_opens_it),
        cmocka_unit_test(it_shows_the_counts_that_opened_it_until_it_closes),
        cmocka_unit_test(one_with_a_minimum_of_hosts_does_not_open_by_itself),
        cmocka_unit_test(nine_of_ten_are_not_too_many_for_a_tenant),
        cmocka_unit_test(one_trial_at_a_time_goes_when_its_time_is_over),
        cmocka_unit_test(a_trial_that_succeeds_closes_it),
        cmocka_unit_test(a_trial_that_fails_opens_it_again),
        cmocka_unit_test(a_tenant_goes_on_with_one_a_minute_until_one_succeeds),
        cmocka_unit_test(a_trial_that_never_called_makes_way_for_the_next),
        cmocka_unit_test(a_trial_that_nobody_reports_is_forgotten),
        cmocka_unit_test(what_went_before_it_opened_has_no_say_afterwards),
        cmocka_unit_test(one_that_is_closed_by_hand_lets_calls_go_and_counts_anew),
        cmocka_unit_test(a_trial_that_ends_after_the_hand_is_a_call_like_any_other),
        cmocka_unit_test(closing_by_hand_ends_a_wait_by_retry_after),
        cmocka_unit_test(each_that_is_held_gets_a_time_of_its_own),
        cmocka_unit_test(those_who_come_back_go_behind_those_who_still_wait),
        cmocka_unit_test(nobody_is_held_longer_than_the_spread),
        cmocka_unit_test(retry_after_of_one_holds_the_others),
        cmocka_unit_test(retry_after_holds_nobody_for_more_than_an_hour),
        cmocka_unit_test(retry_after_of_what_is_no_failure_of_the_host_or_not_a_hosts_holds_nobody),
        cmocka_unit_test(retry_after_also_puts_off_the_trial),
        cmocka_unit_test(what_is_a_failure_of_the_host),
        cmocka_unit_test(states_have_names),
        cmocka_unit_test(a_clock_set_back_makes_nobody_wait_longer),
        cmocka_unit_test(times_to_and_fro_shorten_no_wait),
        cmocka_unit_test(no_trial_is_lost_and_no_two_run_at_once_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
