/* Which URL selects which adapter, and the errors for URLs that select none. */
#include "server/settings/fleet_url.h"

#include <stdio.h>

#include "check.h"
#include "server/settings/options.h"

static enum err read_with(int argc, char **argv, struct fleet_urls *ret, struct error *e)
{
    struct options o;
    options_init(&o, server_options, SERVER_OPTION_COUNT);
    assert_ok(options_parse_flags(&o, argc, argv, e), e);
    enum err rc = fleet_urls_read(&o, ret, e);
    options_release(&o);
    return rc;
}

static enum err read_one(const char *flag, const char *url, struct error *e)
{
    char name[16], value[128], *argv[] = { name, value };
    struct fleet_urls urls = { 0 };
    snprintf(name, sizeof name, "--%s", flag);
    snprintf(value, sizeof value, "%s", url);
    enum err rc = read_with(2, argv, &urls, e);
    fleet_urls_release(&urls);
    return rc;
}

static void each_scheme_serves_for_what_it_can(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bool queue, events, lease;
    } rows[] = {
        { "redis://a", true, true, true },
        { "redis+sentinel://a/m", true, true, true },
        { "redis+unix:///run/redis.sock", true, true, true },
        { "amqp://a", true, true, false },
        { "amqps://a", true, true, false },
        { "kafka://a", false, true, false },
        { "postgres://a", false, false, false },
        { "rediss://a", true, true, true },
        { "rediss+sentinel://a/m", true, true, true },
        { "redis:a", false, false, false },
        { "a", false, false, false },
    };
    struct error e;
    for (size_t i = 0; i < array_count(rows); i++) {
        assert_int_equal(read_one("queue", rows[i].url, &e) == ERR_OK, rows[i].queue);
        assert_int_equal(read_one("events", rows[i].url, &e) == ERR_OK, rows[i].events);
        assert_int_equal(read_one("lease", rows[i].url, &e) == ERR_OK, rows[i].lease);
    }
}

static void a_refusal_names_what_would_do_and_not_the_address(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(read_one("queue", "kafka://ann:s3cret@a", &e), ERR_INVALID);
    assert_string_equal(e.field, "--queue");
    assert_says(&e, "redis://");
    assert_says(&e, " or amqps://");
    assert_null(strstr(e.text, "s3cret"));
    assert_says(&e, "rediss://");
}

static void passwords_are_covered_where_they_stand(void **state)
{
    (void)state;
    char queue[] = "--queue", url[] = "amqp://ann:s3cret@a,b/x", events[] = "--events",
         kafka[] = "kafka://a?sasl.username=ann&sasl.password=s3cret";
    char *argv[] = { queue, url, events, kafka };
    struct fleet_urls urls = { 0 };
    struct error e;
    assert_ok(read_with(4, argv, &urls, &e), &e);
    assert_string_equal(buf_cstr(&urls.queue), "amqp://ann:s3cret@a,b/x");
    assert_string_equal(url, "amqp://ann:******@a,b/x");
    assert_string_equal(kafka, "kafka://a?sasl.username=ann&sasl.password=******");
    fleet_urls_release(&urls);
}

static void a_worker_gets_two_handles_of_its_queue_and_a_node_one(void **state)
{
    (void)state;
    char queue[] = "--queue", url[] = "redis://127.0.0.1:1", events[] = "--events", same[] = "redis://127.0.0.1:1";
    char *argv[] = { queue, url, events, same };
    struct queue_filter all = { .priority_max = PRIORITY_MAX };
    struct fleet_urls urls = { 0 };
    struct fleet f;
    struct error e;
    assert_ok(read_with(4, argv, &urls, &e), &e);
    assert_ok(fleet_open(&(struct fleet_setup){ .urls = &urls, .filter = &all }, &f, &e), &e);
    assert_true(f.wanted[ASYNC_IO_QUEUE] && f.wanted[ASYNC_IO_TAKE] && f.wanted[ASYNC_IO_PUBLISH]);
    assert_false(f.wanted[ASYNC_IO_POLL] || f.wanted[ASYNC_IO_LEASE]);
    fleet_release(&f);
    assert_ok(fleet_open(&(struct fleet_setup){ .urls = &urls, .polls = true }, &f, &e), &e);
    assert_true(f.wanted[ASYNC_IO_POLL] && !f.wanted[ASYNC_IO_TAKE]);
    struct async_io_ports taken = { 0 };
    assert_ok(fleet_take_port(&f, ASYNC_IO_POLL, &taken, &e), &e);
    assert_true(taken.poll && !f.ports.poll);
    events_free(taken.poll);
    fleet_release(&f);
    fleet_urls_release(&urls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_scheme_serves_for_what_it_can),
        cmocka_unit_test(a_refusal_names_what_would_do_and_not_the_address),
        cmocka_unit_test(passwords_are_covered_where_they_stand),
        cmocka_unit_test(a_worker_gets_two_handles_of_its_queue_and_a_node_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
