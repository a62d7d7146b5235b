#include "check.h"

#include "base/uuid.h"

static const int64_t now_ms = 1770710400000; /* 2026-02-10T08:00:00Z */

static struct uuid_gen generator(void)
{
    struct uuid_gen g;
    uuid_gen_init(&g, 1);
    return g;
}

static void assert_is_v7(struct uuid u)
{
    assert_int_equal(u.b[6] >> 4, 7);
    assert_int_equal(u.b[8] >> 6, 2);
}

static void ids_carry_time_version_and_variant(void **state)
{
    (void)state;
    struct uuid_gen g = generator();
    struct uuid u = uuid_next(&g, now_ms);
    assert_is_v7(u);
    assert_int_equal(uuid_time_ms(u), now_ms);
    u = uuid_next(&g, (INT64_C(1) << 48) - 1);
    assert_is_v7(u);
    assert_int_equal(uuid_time_ms(u), (INT64_C(1) << 48) - 1);
}

static void ids_rise_within_a_millisecond(void **state)
{
    (void)state;
    struct uuid_gen g = generator();
    struct uuid last = uuid_next(&g, now_ms);
    for (int i = 0; i < 50000; i++) {
        struct uuid u = uuid_next(&g, now_ms);
        assert_true(uuid_cmp(last, u) < 0);
        assert_int_equal(uuid_time_ms(u), now_ms);
        last = u;
    }
}

static void ids_rise_when_the_clock_steps_back(void **state)
{
    (void)state;
    struct uuid_gen g = generator();
    struct uuid last = uuid_next(&g, now_ms);
    static const int64_t clock_ms[] = { -1, -3600000, -now_ms, -now_ms - 5, 0, 1, 0, 2 };
    static const int64_t expected_ms[] = { 0, 0, 0, 0, 0, 1, 1, 2 };
    for (size_t i = 0; i < array_count(clock_ms); i++) {
        struct uuid u = uuid_next(&g, now_ms + clock_ms[i]);
        assert_true(uuid_cmp(last, u) < 0);
        assert_int_equal(uuid_time_ms(u), now_ms + expected_ms[i]);
        last = u;
    }
}

static void ids_of_1970_rise_too(void **state)
{
    (void)state;
    struct uuid_gen g = generator();
    struct uuid last = uuid_next(&g, 0);
    for (int i = 0; i < 100; i++) {
        struct uuid u = uuid_next(&g, i / 10);
        assert_true(uuid_cmp(last, u) < 0);
        assert_int_equal(uuid_time_ms(u), i / 10);
        last = u;
    }
}

static void a_full_counter_goes_on_in_the_next_millisecond(void **state)
{
    (void)state;
    struct uuid_gen g = generator();
    struct uuid last = uuid_next(&g, now_ms);
    g.counter = (1 << 26) - 3;
    static const int64_t expected_ms[] = { 0, 0, 1, 1 };
    for (size_t i = 0; i < array_count(expected_ms); i++) {
        struct uuid u = uuid_next(&g, now_ms);
        assert_true(uuid_cmp(last, u) < 0);
        assert_int_equal(uuid_time_ms(u), now_ms + expected_ms[i]);
        assert_is_v7(u);
        last = u;
    }
    assert_true(g.counter < 1 << 26);
    struct uuid u = uuid_next(&g, now_ms + 1); /* the clock has caught up: the counter continues */
    assert_true(uuid_cmp(last, u) < 0);
    assert_int_equal(uuid_time_ms(u), now_ms + 1);
}

/* The counter's upper 12 bits follow the version, its lower 14 bits follow the variant. */
static void the_counter_stands_behind_the_time(void **state)
{
    (void)state;
    struct uuid_gen g = generator();
    (void)uuid_next(&g, now_ms);
    g.counter = 0x2abcdef - 1;
    struct uuid u = uuid_next(&g, now_ms);
    uint32_t a = (u.b[6] & 0xfu) << 8 | u.b[7];
    uint32_t b = (u.b[8] & 0x3fu) << 8 | u.b[9];
    assert_int_equal(a << 14 | b, 0x2abcdef);
}

static void a_new_millisecond_leaves_room_in_the_counter(void **state)
{
    (void)state;
    struct uuid_gen g = generator();
    uint32_t most = 0;
    for (int i = 0; i < 1000; i++) {
        (void)uuid_next(&g, now_ms + i);
        assert_true(g.counter < 1 << 25);
        most = max_of(most, g.counter);
    }
    assert_true(most > 1 << 24);
}

static void generators_of_different_seeds_differ(void **state)
{
    (void)state;
    struct uuid_gen a, b, c;
    uuid_gen_init(&a, 1);
    uuid_gen_init(&b, 2);
    uuid_gen_init(&c, 1);
    struct uuid u = uuid_next(&a, now_ms);
    assert_false(uuid_eq(u, uuid_next(&b, now_ms)));
    assert_true(uuid_eq(u, uuid_next(&c, now_ms)));
    assert_false(uuid_eq(u, uuid_next(&a, now_ms)));
}

/* Stored occurrence ids depend on these: the last 62 bits are the hash with HASH_STABLE, 12 bits are the hash with the
 * second half of that key inverted. */
static void derived_ids_never_change(void **state)
{
    (void)state;
    char text[UUID_TEXT + 1];
    uuid_format(uuid_derived(now_ms, S("nightly-report")), text);
    assert_string_equal(text, "019c4690-7c00-7a44-815c-50bd804ecfab");
}

static void derived_ids_depend_on_time_and_bytes(void **state)
{
    (void)state;
    struct uuid u = uuid_derived(now_ms, S("a"));
    assert_is_v7(u);
    assert_int_equal(uuid_time_ms(u), now_ms);
    assert_true(uuid_eq(u, uuid_derived(now_ms, S("a"))));
    assert_false(uuid_eq(u, uuid_derived(now_ms, S("b"))));
    assert_true(uuid_cmp(u, uuid_derived(now_ms + 1, S("a"))) < 0);
}

static void derived_times_beyond_the_48_bits_are_clamped(void **state)
{
    (void)state;
    assert_int_equal(uuid_time_ms(uuid_derived(-1, S("a"))), 0);
    assert_int_equal(uuid_time_ms(uuid_derived(INT64_MIN, S("a"))), 0);
    assert_int_equal(uuid_time_ms(uuid_derived(INT64_MAX, S("a"))), (INT64_C(1) << 48) - 1);
}

/* Ids of steps depend on these: 48 bits are those of the derived id, 26 are the rank. */
static void ranked_ids_never_change_and_sort_by_rank(void **state)
{
    (void)state;
    struct uuid of = uuid_derived(now_ms, S("run")), last = uuid_floor(now_ms);
    static const uint32_t ranks[] = { 0, 1, 16383, 16384, (1 << UUID_RANK_BITS) - 1 };
    for (size_t i = 0; i < array_count(ranks); i++) {
        struct uuid u = uuid_derived_ranked(now_ms, ranks[i], of, (int64_t)i),
                    plain = uuid_derived_from(now_ms, of, (int64_t)i);
        assert_is_v7(u);
        assert_int_equal(uuid_time_ms(u), now_ms);
        assert_true(uuid_cmp(last, u) < 0);
        assert_memory_equal(u.b + 10, plain.b + 10, 6);
        last = u;
    }
    assert_true(uuid_cmp(last, uuid_floor(now_ms + 1)) < 0);
    char text[UUID_TEXT + 1];
    uuid_format(uuid_derived_ranked(now_ms, 16385, of, 7), text);
    assert_string_equal(text, "019c4690-7c00-7001-8001-af614db455ba");
}

static void text_goes_there_and_back(void **state)
{
    (void)state;
    static const char lower[] = "019c47b4-f600-7abc-8def-0123456789af";
    struct uuid u, same;
    char text[UUID_TEXT + 1];
    assert_true(uuid_parse(str_from(lower), &u));
    assert_int_equal(u.b[0], 0x01);
    assert_int_equal(u.b[5], 0x00);
    assert_int_equal(u.b[15], 0xaf);
    uuid_format(u, text);
    assert_string_equal(text, lower);
    assert_true(uuid_parse(S("019C47B4-F600-7ABC-8DEF-0123456789AF"), &same));
    assert_true(uuid_eq(u, same));
}

static void other_texts_are_refused_and_leave_ret_alone(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "019c47b4-f600-7abc-8def-0123456789a",
        "019c47b4-f600-7abc-8def-0123456789aff",
        "019c47b4f6007abc8def0123456789af",
        "019c47b4-f600-7abc-8def-0123456789ag",
        "019c47b4-f600-7abc-8def-0123456789a/",
        "019c47b4-f600-7abc-8def-0123456789a:",
        "019c47b4-f600-7abc-8def-0123456789a`",
        "019c47b4-f600-7abc-8def-0123456789a@",
        "019c47b4+f600-7abc-8def-0123456789af",
        "019c47b4-f600-7abc-8def00123456789af",
        "{19c47b4-f600-7abc-8def-0123456789a}",
    };
    struct uuid u = { { 9 } };
    for (size_t i = 0; i < array_count(rows); i++)
        assert_false(uuid_parse(str_from(rows[i]), &u));
    assert_true(uuid_eq(u, (struct uuid){ { 9 } }));
}

static void only_nil_is_nil(void **state)
{
    (void)state;
    assert_true(uuid_is_nil((struct uuid){ { 0 } }));
    for (int i = 0; i < 16; i++) {
        struct uuid u = { { 0 } };
        u.b[i] = 1;
        assert_false(uuid_is_nil(u));
    }
}

static void a_beginning_is_a_range_of_ids(void **state)
{
    (void)state;
    static const struct {
        const char *text, *lowest, *highest;
    } rows[] = {
        { "0", "00000000-0000-0000-0000-000000000000", "0fffffff-ffff-ffff-ffff-ffffffffffff" },
        { "019C3f2e-7", "019c3f2e-7000-0000-0000-000000000000", "019c3f2e-7fff-ffff-ffff-ffffffffffff" },
        { "019c3f2e-", "019c3f2e-0000-0000-0000-000000000000", "019c3f2e-ffff-ffff-ffff-ffffffffffff" },
        { "019c3f2e-7a40-7000-8000-000000000001", "019c3f2e-7a40-7000-8000-000000000001",
          "019c3f2e-7a40-7000-8000-000000000001" },
        { "", NULL, NULL },
        { "019c3f2e7", NULL, NULL },
        { "019-", NULL, NULL },
        { "g", NULL, NULL },
        { "019c3f2e-7a40-7000-8000-0000000000012", NULL, NULL },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct uuid lowest, highest;
        char text[UUID_TEXT + 1];
        assert_int_equal(uuid_parse_prefix(str_from(rows[i].text), &lowest, &highest), rows[i].lowest != NULL);
        if (!rows[i].lowest)
            continue;
        uuid_format(lowest, text);
        assert_string_equal(text, rows[i].lowest);
        uuid_format(highest, text);
        assert_string_equal(text, rows[i].highest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beginning_is_a_range_of_ids),
        cmocka_unit_test(ids_carry_time_version_and_variant),
        cmocka_unit_test(ids_rise_within_a_millisecond),
        cmocka_unit_test(ids_rise_when_the_clock_steps_back),
        cmocka_unit_test(ids_of_1970_rise_too),
        cmocka_unit_test(a_full_counter_goes_on_in_the_next_millisecond),
        cmocka_unit_test(the_counter_stands_behind_the_time),
        cmocka_unit_test(a_new_millisecond_leaves_room_in_the_counter),
        cmocka_unit_test(generators_of_different_seeds_differ),
        cmocka_unit_test(derived_ids_never_change),
        cmocka_unit_test(derived_ids_depend_on_time_and_bytes),
        cmocka_unit_test(derived_times_beyond_the_48_bits_are_clamped),
        cmocka_unit_test(ranked_ids_never_change_and_sort_by_rank),
        cmocka_unit_test(text_goes_there_and_back),
        cmocka_unit_test(other_texts_are_refused_and_leave_ret_alone),
        cmocka_unit_test(only_nil_is_nil),
    };
    return cmocka_run_group_tests_name("uuid", tests, NULL, NULL);
}
