#include "check.h"

#include <stdio.h>

#include "core/task/sampler.h"

#define NOW 1772532000000LL

static struct trace own_trace(uint64_t part)
{
    struct trace t = { .sampled = true };
    snprintf(t.id, sizeof t.id, "4bf92f3577b34da6a3c%013llx", (unsigned long long)part);
    return t;
}

static struct trace of_caller(bool sampled)
{
    struct trace t = own_trace(1);
    t.sampled = sampled;
    memcpy(t.span, "00f067aa0ba902b7", sizeof t.span);
    return t;
}

static void own_traces_are_chosen_by_their_id(void **state)
{
    (void)state;
    struct sampler none, some, all;
    sampler_init(&none, 0, NOW);
    sampler_init(&some, 0.25, NOW);
    sampler_init(&all, 1, NOW);
    struct trace lowest = own_trace(0), below = own_trace((1ull << 50) - 1), at = own_trace(1ull << 50);
    struct trace highest = own_trace((1ull << 52) - 1);
    assert_true(sampler_is_fixed(&at));
    assert_false(sampler_wants(&none, &lowest, NOW));
    assert_true(sampler_wants(&some, &lowest, NOW) && sampler_wants(&some, &below, NOW));
    assert_false(sampler_wants(&some, &at, NOW) || sampler_wants(&some, &highest, NOW));
    assert_true(sampler_wants(&all, &highest, NOW));
}

static void derived_ids_are_spread_evenly(void **state)
{
    (void)state;
    struct sampler s;
    int wanted = 0;
    sampler_init(&s, 0.1, NOW);
    for (int i = 0; i < 10000; i++) {
        struct uuid id = { { 0 } };
        memcpy(id.b, &i, sizeof i);
        struct trace t = trace_new(id);
        bool is_wanted = sampler_wants(&s, &t, NOW);
        assert_true(sampler_wants_new(&s, id) == is_wanted);
        wanted += is_wanted;
    }
    assert_in_range(wanted, 850, 1150);
}

static void callers_decide_for_their_traces_up_to_a_limit(void **state)
{
    (void)state;
    struct sampler s;
    sampler_init(&s, 1, NOW);
    struct trace yes = of_caller(true), no = of_caller(false);
    int wanted = 0;
    assert_false(sampler_wants(&s, &no, NOW));
    assert_true(sampler_is_fixed(&no) && !sampler_is_fixed(&yes));
    for (int i = 0; i < 2 * SAMPLED_BY_CALLERS; i++)
        wanted += sampler_wants(&s, &yes, NOW);
    assert_int_equal(wanted, SAMPLED_BY_CALLERS);
    struct trace own = own_trace(0);
    assert_true(sampler_wants(&s, &own, NOW)); /* the limit is not for them */
    assert_true(sampler_wants(&s, &yes, NOW + 1000));
}

static void failures_have_a_limit(void **state)
{
    (void)state;
    struct sampler s;
    int wanted = 0;
    sampler_init(&s, 0, NOW);
    for (int i = 0; i < 2 * SAMPLED_FAILURES; i++)
        wanted += sampler_wants_failure(&s, NOW);
    assert_int_equal(wanted, SAMPLED_FAILURES);
    assert_true(sampler_wants_failure(&s, NOW + 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_traces_are_chosen_by_their_id),
        cmocka_unit_test(derived_ids_are_spread_evenly),
        cmocka_unit_test(callers_decide_for_their_traces_up_to_a_limit),
        cmocka_unit_test(failures_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
