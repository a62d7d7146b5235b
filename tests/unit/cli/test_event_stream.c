#include "cli/event_stream.h"

#include "check.h"

static struct event_stream stream;
static struct buf heard;
static size_t wanted;

static bool on_event(void *context, struct str name, struct str data)
{
    (void)context;
    buf_printf(&heard, "[" STR_FMT "|" STR_FMT "]", STR_ARG(name), STR_ARG(data));
    return --wanted > 0;
}

static int begin(void **state)
{
    (void)state;
    event_stream_init(&stream);
    stream.on_event = on_event;
    buf_init(&heard, 1 << 16);
    wanted = SIZE_MAX;
    return 0;
}

static int end(void **state)
{
    (void)state;
    event_stream_release(&stream);
    buf_release(&heard);
    return 0;
}

static const char all[] =
    "retry: 2000\nid: n.1\n\n: a comment\nevent: task\ndata: {\"a\":1}\nid: n.2\n\nevent:counts\r\n"
    "data:1\r\ndata: 2\r\n\r\ndata\n\nunknown: x\n\nevent: half\ndata: lost\n";

static void events_come_whole_however_the_bytes_come(void **state)
{
    (void)state;
    for (size_t step = 1; step < sizeof all; step++) {
        buf_reset(&heard);
        event_stream_begin(&stream);
        for (size_t at = 0; at < sizeof all - 1; at += step)
            assert_true(event_stream_feed(&stream, str_sub(str_from(all), at, min_of(at + step, sizeof all - 1))));
        assert_str(buf_str(&heard), "[task|{\"a\":1}][counts|1\n2][message|]");
        assert_str(buf_str(&stream.last_id), "n.2");
        assert_true(stream.retry_ms == 2000);
    }
}

static void a_new_connection_drops_half_an_event_and_keeps_the_id(void **state)
{
    (void)state;
    assert_true(event_stream_feed(&stream, S("id: 7\ndata: x\n\nid: 8\nevent: end\ndata: y\nda")));
    event_stream_begin(&stream);
    assert_true(event_stream_feed(&stream, S("data: z\n\n")));
    assert_str(buf_str(&heard), "[message|x][message|z]");
    assert_str(buf_str(&stream.last_id), "7");
}

static void the_reader_may_stop(void **state)
{
    (void)state;
    wanted = 2;
    assert_false(event_stream_feed(&stream, S("data: 1\n\ndata: 2\n\ndata: 3\n\n")));
    assert_str(buf_str(&heard), "[message|1][message|2]");
    assert_true(stream.is_stopped);
}

static void a_line_without_end_is_refused(void **state)
{
    (void)state;
    static char much[1 << 16];
    bool more = true;
    memset(much, 'x', sizeof much);
    for (int i = 0; more && i < 100; i++)
        more = event_stream_feed(&stream, (struct str){ much, sizeof much });
    assert_false(more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_come_whole_however_the_bytes_come, begin, end),
        cmocka_unit_test_setup_teardown(a_new_connection_drops_half_an_event_and_keeps_the_id, begin, end),
        cmocka_unit_test_setup_teardown(the_reader_may_stop, begin, end),
        cmocka_unit_test_setup_teardown(a_line_without_end_is_refused, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
