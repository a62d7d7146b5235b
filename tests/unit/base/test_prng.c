#include "check.h"

#include "seed.h"

/* From the generator's authors: state 1, 2, 3, 4. */
static void reference_stream_comes_out(void **state)
{
    (void)state;
    static const uint64_t expected[] = {
        11520, 0, 1509978240, 1215971899390074240, 1216172134540287360, 607988272756665600, 16172922978634559625u,
    };
    struct prng r = { { 1, 2, 3, 4 } };
    for (size_t i = 0; i < array_count(expected); i++)
        assert_true(prng_u64(&r) == expected[i]);
}

static void seeds_go_through_splitmix64(void **state)
{
    (void)state;
    struct prng r;
    prng_init(&r, 1234567);
    assert_true(r.s[0] == 6457827717110365317u);
    assert_true(r.s[1] == 3203168211198807973u);
    assert_true(r.s[2] == 9817491932198370423u);
    assert_true(r.s[3] == 4593380528125082431u);
    prng_init(&r, 42);
    assert_true(prng_u64(&r) == 1546998764402558742u);
    assert_true(prng_u64(&r) == 6990951692964543102u);
}

static void equal_seeds_give_equal_streams(void **state)
{
    (void)state;
    struct prng a, b, c;
    prng_init(&a, 7);
    prng_init(&b, 7);
    prng_init(&c, 8);
    int same_as_c = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = prng_u64(&a);
        assert_true(x == prng_u64(&b));
        same_as_c += x == prng_u64(&c);
    }
    assert_int_equal(same_as_c, 0);
}

static void below_stays_below_and_reaches_all(void **state)
{
    (void)state;
    struct prng r = seeded_prng("below");
    int seen[10] = { 0 };
    for (int i = 0; i < 100000; i++) {
        uint64_t x = prng_below(&r, 10);
        assert_true(x < 10);
        seen[x]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(seen[i], 9500, 10500); /* more than five standard deviations wide */
    for (int i = 0; i < 100; i++)
        assert_true(prng_below(&r, 1) == 0);
}

/* With a plain modulo by 3/4 of 2^64, the lowest third would occur half of the time. */
static void below_is_fair_to_large_limits(void **state)
{
    (void)state;
    struct prng r = seeded_prng("fair");
    const uint64_t quarter = UINT64_C(1) << 62;
    int low = 0;
    for (int i = 0; i < 30000; i++) {
        uint64_t x = prng_below(&r, 3 * quarter);
        assert_true(x < 3 * quarter);
        low += x < quarter;
    }
    assert_in_range(low, 9500, 10500);
}

static void between_includes_both_ends(void **state)
{
    (void)state;
    struct prng r = seeded_prng("between");
    int seen[5] = { 0 };
    for (int i = 0; i < 1000; i++) {
        int64_t x = prng_between(&r, -2, 2);
        assert_true(x >= -2 && x <= 2);
        seen[x + 2]++;
    }
    for (int i = 0; i < 5; i++)
        assert_true(seen[i] > 0);
    assert_true(prng_between(&r, INT64_MIN, INT64_MIN) == INT64_MIN);
    assert_true(prng_between(&r, INT64_MAX, INT64_MAX) == INT64_MAX);
}

static void between_spans_all_integers(void **state)
{
    (void)state;
    struct prng r = seeded_prng("span"), same = r;
    int negative = 0;
    for (int i = 0; i < 1000; i++) {
        int64_t x = prng_between(&r, INT64_MIN, INT64_MAX);
        assert_true((uint64_t)x == prng_u64(&same) + (UINT64_C(1) << 63));
        negative += x < 0;
    }
    assert_in_range(negative, 400, 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_stream_comes_out),     cmocka_unit_test(seeds_go_through_splitmix64),
        cmocka_unit_test(equal_seeds_give_equal_streams), cmocka_unit_test(below_stays_below_and_reaches_all),
        cmocka_unit_test(below_is_fair_to_large_limits),  cmocka_unit_test(between_includes_both_ends),
        cmocka_unit_test(between_spans_all_integers),
    };
    return cmocka_run_group_tests_name("prng", tests, NULL, NULL);
}
