/* core/sharing/queue_rules: the limits and the pause of a queue. */
#include "core/sharing/queue_rules.h"

#include "check_with_arena.h"

#define NOW 1767225600000LL

static struct queue_rules must_read(struct str doc)
{
    struct queue_rules r;
    struct error e;
    assert_ok(queue_rules_read(doc, &arena, &r, &e), &e);
    return r;
}

static void write(struct buf *b, const struct queue_rules *r)
{
    struct jw w;
    buf_init(b, 4096);
    jw_init(&w, b);
    jw_object(&w);
    queue_rules_write(&w, r);
    jw_object_end(&w);
}

static void nothing_said_is_no_limit(void **state)
{
    (void)state;
    struct queue_rules d = QUEUE_RULES_DEFAULT;
    static const char *const docs[] = { "{}", "{\"max_dispatches_per_second\": null, \"max_burst\": null, "
                                              "\"max_concurrent\": 0, \"weight\": null, \"paused\": null}" };
    for (size_t i = 0; i < array_count(docs); i++) {
        struct queue_rules r = must_read(str_from(docs[i]));
        assert_true(r.rate == d.rate && r.burst == 0 && r.concurrent == 0 && r.weight == 100 && !r.paused);
        assert_true(r.paused_ms == 0 && r.paused_until_ms == 0 && r.resumed_ms == 0);
        assert_int_equal(r.paused_by.n + r.paused_reason.n, 0);
        assert_true(queue_ramp_rate(&r, NOW) == 0);
    }
}

static void a_document_comes_back_as_it_was_written(void **state)
{
    (void)state;
    struct queue_rules r = { .rate = 2.5,
                             .burst = 7,
                             .concurrent = 3,
                             .weight = 250,
                             .paused = true,
                             .paused_by = S("ops \"night\""),
                             .paused_reason = S("migration"),
                             .paused_ms = NOW,
                             .paused_until_ms = NOW + 3600000,
                             .resumed_ms = NOW - 5 };
    cleanup_with(buf_release) struct buf b;
    write(&b, &r);
    assert_str(buf_str(&b), "{\"max_dispatches_per_second\":2.5,\"max_burst\":7,\"max_concurrent\":3,\"weight\":250,"
                            "\"paused\":{\"by\":\"ops \\\"night\\\"\",\"reason\":\"migration\","
                            "\"since\":\"2026-01-01T00:00:00.000Z\",\"until\":\"2026-01-01T01:00:00.000Z\"},"
                            "\"resumed_at\":\"2025-12-31T23:59:59.995Z\"}");
    struct queue_rules back = must_read(buf_str(&b));
    assert_true(back.rate == 2.5 && back.burst == 7 && back.concurrent == 3 && back.weight == 250 && back.paused);
    assert_true(back.paused_ms == NOW && back.paused_until_ms == NOW + 3600000 && back.resumed_ms == NOW - 5);
    assert_str(back.paused_by, "ops \"night\"");
    assert_str(back.paused_reason, "migration");
}

static void no_limits_are_written_as_null(void **state)
{
    (void)state;
    struct queue_rules r = QUEUE_RULES_DEFAULT;
    cleanup_with(buf_release) struct buf b;
    write(&b, &r);
    assert_str(buf_str(&b), "{\"max_dispatches_per_second\":null,\"max_burst\":null,\"max_concurrent\":null,"
                            "\"weight\":100,\"paused\":null,\"resumed_at\":null}");
    (void)must_read(buf_str(&b));
}

static void a_rate_without_a_burst_allows_what_a_second_brings(void **state)
{
    (void)state;
    assert_int_equal(must_read(S("{\"max_dispatches_per_second\": 20.9}")).burst, 20);
    assert_int_equal(must_read(S("{\"max_dispatches_per_second\": 0.1}")).burst, 1);
    assert_int_equal(must_read(S("{\"max_dispatches_per_second\": 20, \"max_burst\": 5}")).burst, 5);
}

static void errors_name_the_field(void **state)
{
    (void)state;
    static const struct {
        const char *doc, *field;
    } rows[] = {
        { "{\"max_dispatches_per_second\": -1}", "max_dispatches_per_second" },
        { "{\"max_dispatches_per_second\": 1e7}", "max_dispatches_per_second" },
        { "{\"max_burst\": -1}", "max_burst" },
        { "{\"max_concurrent\": 1.5}", "max_concurrent" },
        { "{\"weight\": 0}", "weight" },
        { "{\"weight\": 1001}", "weight" },
        { "{\"paused\": true}", "paused" },
        { "{\"paused\": {}}", "paused.since" },
        { "{\"paused\": {\"since\": \"now\"}}", "paused.since" },
        { "{\"resumed_at\": 5}", "resumed_at" },
        { "{\"wieght\": 5}", "wieght" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct queue_rules r;
        struct error e;
        assert_int_equal(queue_rules_read(str_from(rows[i].doc), &arena, &r, &e), ERR_INVALID);
        assert_string_equal(e.field, rows[i].field);
    }
    struct queue_rules r;
    assert_int_equal(queue_rules_read(S("no json"), &arena, &r, NULL), ERR_INVALID);
}

static void a_pause_ends_at_its_time(void **state)
{
    (void)state;
    struct queue_rules r = { .paused = true };
    assert_true(queue_is_paused(&r, NOW));
    r.paused_until_ms = NOW;
    assert_true(queue_is_paused(&r, NOW - 1));
    assert_false(queue_is_paused(&r, NOW));
    r.paused = false;
    assert_false(queue_is_paused(&r, NOW - 1));
}

static void a_resumed_queue_doubles_each_second_for_ten(void **state)
{
    (void)state;
    struct queue_rules r = { .resumed_ms = NOW };
    assert_true(queue_ramp_rate(&r, NOW) == 50);
    assert_true(queue_ramp_rate(&r, NOW + 999) == 50);
    assert_true(queue_ramp_rate(&r, NOW + 1000) == 100);
    assert_true(queue_ramp_rate(&r, NOW + 9999) == 25600);
    assert_true(queue_ramp_rate(&r, NOW + 10000) == 0);
    assert_true(queue_ramp_rate(&r, NOW - 1) == 50); /* a clock that is a little behind */
    assert_true(queue_ramp_rate(&r, NOW - 86400000) == 0);
}

static void a_pause_that_ended_by_itself_ramps_up_too(void **state)
{
    (void)state;
    struct queue_rules r = { .paused = true, .paused_until_ms = NOW, .resumed_ms = NOW - 1000000 };
    assert_true(queue_ramp_rate(&r, NOW + 2500) == 200);
    assert_true(queue_ramp_rate(&r, NOW + 10000) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_said_is_no_limit),
        cmocka_unit_test(a_document_comes_back_as_it_was_written),
        cmocka_unit_test(no_limits_are_written_as_null),
        cmocka_unit_test(a_rate_without_a_burst_allows_what_a_second_brings),
        cmocka_unit_test(errors_name_the_field),
        cmocka_unit_test(a_pause_ends_at_its_time),
        cmocka_unit_test(a_resumed_queue_doubles_each_second_for_ten),
        cmocka_unit_test(a_pause_that_ended_by_itself_ramps_up_too),
    };
    return cmocka_run_group_tests(tests, arena_set_up, arena_tear_down);
}
