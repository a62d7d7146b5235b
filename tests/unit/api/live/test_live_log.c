#include "api/live/live_log.h"
#include "check.h"

static struct live_log all;
static struct live_part parts[25];

static int begin(void **state)
{
    (void)state;
    live_log_init(&all);
    for (size_t i = 0; i < array_count(parts); i++)
        live_part_init(&parts[i]);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_count(parts); i++)
        live_log_drop(&all, &parts[i]);
    assert_int_equal(all.n, 0);
    return 0;
}

static void add(size_t part, size_t count)
{
    for (size_t i = 0; i < count; i++)
        live_log_add(&all, &parts[part], &(struct live_event){ .queue = S("mail"), .text = S("data: {}\n") });
}

/* The numbers of the events after this one: the first, and how many. */
static void assert_since(size_t part, uint64_t number, uint64_t first, size_t count)
{
    size_t n = 0;
    for (const struct live_event *e = live_part_since(&parts[part], number); e; e = live_part_next(&parts[part], e)) {
        assert_true(e->number == first + n++);
        assert_str(e->queue, "mail");
        assert_str(e->text, "data: {}\n");
    }
    assert_int_equal(n, count);
}

static void a_reader_goes_on_where_it_was(void **state)
{
    (void)state;
    assert_true(live_part_has_since(&parts[0], 0));
    assert_since(0, 0, 0, 0);
    add(0, 3);
    assert_true(live_part_has_since(&parts[0], 0) && live_part_has_since(&parts[0], 3));
    assert_since(0, 0, 1, 3);
    assert_since(0, 2, 3, 1);
    assert_since(0, 3, 0, 0);
}

static void a_number_that_was_not_given_is_no_place(void **state)
{
    (void)state;
    add(0, 3);
    assert_false(live_part_has_since(&parts[0], 4));
    assert_false(live_part_has_since(&parts[0], UINT64_MAX));
}

static void a_tenant_keeps_its_latest_events(void **state)
{
    (void)state;
    add(0, LIVE_LOG_TENANT + 10);
    assert_int_equal(parts[0].n, LIVE_LOG_TENANT);
    assert_false(live_part_has_since(&parts[0], 9));
    assert_true(live_part_has_since(&parts[0], 10));
    assert_since(0, 10, 11, LIVE_LOG_TENANT);
}

static void of_all_tenants_the_oldest_events_go_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_count(parts); i++)
        add(i, LIVE_LOG_TENANT);
    assert_int_equal(all.n, LIVE_LOG_MAX);
    assert_int_equal(parts[0].n, 0);
    assert_false(live_part_has_since(&parts[0], LIVE_LOG_TENANT - 1));
    assert_true(live_part_has_since(&parts[0], LIVE_LOG_TENANT)); /* nothing has come since */
    assert_int_equal(parts[5].n, LIVE_LOG_TENANT);
    add(0, 1);
    assert_since(0, LIVE_LOG_TENANT, LIVE_LOG_TENANT + 1, 1);
    assert_int_equal(parts[5].n, LIVE_LOG_TENANT - 1);
}

static void after_a_drop_no_earlier_reader_finds_its_place(void **state)
{
    (void)state;
    add(0, 3);
    add(1, 1);
    live_log_drop(&all, &parts[0]);
    assert_int_equal(all.n, 1);
    assert_false(live_part_has_since(&parts[0], 3));
    add(0, 1);
    assert_false(live_part_has_since(&parts[0], 3));
    assert_true(live_part_has_since(&parts[0], 4));
    assert_since(0, 4, 5, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_reader_goes_on_where_it_was, begin, end),
        cmocka_unit_test_setup_teardown(a_number_that_was_not_given_is_no_place, begin, end),
        cmocka_unit_test_setup_teardown(a_tenant_keeps_its_latest_events, begin, end),
        cmocka_unit_test_setup_teardown(of_all_tenants_the_oldest_events_go_first, begin, end),
        cmocka_unit_test_setup_teardown(after_a_drop_no_earlier_reader_finds_its_place, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
