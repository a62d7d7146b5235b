/* Tests of events on Kafka only: brokers that stop, partitions that move, acks out of order, foreign records. */
#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <unistd.h>

#include "events/kafka/events_kafka.h"
#include "events_world.h"

/* ---- the broker ---- */

static bool is_mock(void)
{
    const char *mock = getenv("BELFRY_TEST_KAFKA_MOCK");
    return mock && *mock;
}

static void tell_keeper(int signal)
{
    assert_int_equal(kill((pid_t)atol(getenv("BELFRY_TEST_KAFKA_KEEPER")), signal), 0);
}

static enum err try_publish(struct world *w, int64_t fence, struct error *e)
{
    struct event event = event_of(w, w->task, fence);
    return events_publish(w->publisher, &event, 1, e);
}

static void a_broker_that_restarts_loses_nothing(void **state)
{
    needs(!is_mock()); /* a mock would lose all data */
    struct world *w = *state;
    publish_fences(w, 1, 3);
    struct event_list got = poll_exactly(w, 0, 2);
    ack(w, 0, &got.v[0]);
    tell_keeper(SIGUSR1);
    struct error e = { 0 };
    int64_t start_ms = monotonic_ms(), fence = 4;
    while (try_publish(w, fence, &e) == ERR_OK) /* until the broker has stopped */
        fence++;
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_says(&e, "with Kafka at 127.0.0.1:");
    start_ms = monotonic_ms();
    assert_int_equal(try_publish(w, fence, &e), ERR_UNAVAILABLE);
    assert_true(monotonic_ms() - start_ms < 1500); /* known to be down: calls do not wait for their whole timeout */
    tell_keeper(SIGUSR2);
    start_ms = monotonic_ms();
    while (try_publish(w, fence, &e))
        assert_true(monotonic_ms() - start_ms < 60000);
    /* A failed publish may have reached the broker and then comes twice; nothing is missing, and the order is kept. */
    bool seen[1000] = { [2] = true };
    for (int64_t next = 3; next <= fence;) {
        struct event_list more = { 0 };
        if (events_poll(w->updaters[0], 10, 100, &w->arena, &more, &e))
            more.n = 0;
        for (size_t i = 0; i < more.n; i++) {
            int64_t f = more.v[i].task.fence;
            assert_true(f == next || (f < 1000 && seen[f]));
            next = max_of(next, f + 1);
            seen[f] = true;
            ack(w, 0, &more.v[i]);
        }
        assert_true(monotonic_ms() - start_ms < 60000);
    }
    ack(w, 0, &got.v[1]);
    struct events_barrier m = mark(w);
    wait_passed(w, &m);
}

/* ---- partitions that move ---- */

enum { MANY = 4000, BEFORE = 100, BATCH = 10 };

struct seen {
    int times[MANY + 1];
    int holder[MANY + 1];
    int64_t count;
};

static void publish_many(struct world *w, int64_t from, int64_t to)
{
    for (int64_t i = from; i <= to; i++) {
        struct event event = event_of(w, uuid_next(&w->ids, NOW), i);
        publish(w, &event, 1);
    }
}

static void note(struct seen *s, const struct event_list *l, int updater)
{
    for (size_t i = 0; i < l->n; i++) {
        int64_t f = l->v[i].task.fence;
        s->count += s->times[f]++ == 0;
        s->holder[f] = updater;
    }
}

static void ack_all(struct world *w, int updater, const struct event_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        ack(w, updater, &l->v[i]);
}

/* Two updaters poll and acknowledge until all events have come. Returns how many the second one got. */
static int64_t share(struct world *w, struct seen *s, int64_t all)
{
    int64_t end_ms = monotonic_ms() + ENOUGH_MS, second = 0;
    for (int turn = 0; s->count < all; turn = !turn) {
        struct event_list l = poll_once(w, turn, 10, 20);
        note(s, &l, turn);
        ack_all(w, turn, &l);
        second += turn ? (int64_t)l.n : 0;
        if (monotonic_ms() > end_ms)
            fail_msg("%lld of %lld came", (long long)s->count, (long long)all);
    }
    return second;
}

static void a_second_updater_takes_its_share_and_nothing_comes_twice(void **state)
{
    struct world *w = *state;
    struct seen s = { 0 };
    publish_many(w, 1, BEFORE);
    struct event_list held = poll_exactly(w, 0, 20); /* polled before the other joined, acknowledged after */
    note(&s, &held, 0);
    open_updater(w, 1);
    for (int i = 0; i < 10; i++) {
        struct event_list other = poll_once(w, 1, 10, 50), own = poll_once(w, 0, 1, 50);
        note(&s, &other, 1);
        note(&s, &own, 0);
        ack_all(w, 1, &other);
        ack_all(w, 0, &own);
    }
    ack_all(w, 0, &held);
    share(w, &s, BEFORE);
    /* The group reassigns partitions when the second updater joins: from then on both get some. */
    int64_t second = 0, last = BEFORE;
    for (; second < 3 * BATCH && last < MANY; last += BATCH) {
        publish_many(w, last + 1, last + BATCH);
        second += share(w, &s, last + BATCH);
    }
    assert_true(second >= 3 * BATCH);
    /* a mock does not wait for a member that gives up partitions */
    for (int64_t i = 1; i <= last; i++)
        assert_true(s.times[i] == 1 || (is_mock() && s.times[i] > 1));
}

static void an_ack_after_the_partition_has_gone_changes_nothing(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 2);
    struct event_list got = poll_exactly(w, 0, 2);
    struct events_barrier m = mark(w);
    updater_dies(w, 0);
    open_updater(w, 0);
    open_updater(w, 1);
    struct event_list again = { 0 };
    int holder = 0;
    for (int64_t end_ms = monotonic_ms() + ENOUGH_MS; again.n < 2; holder = !holder) {
        again = poll_once(w, holder, 2, 50);
        assert_true(monotonic_ms() < end_ms);
        if (again.n)
            break;
    }
    ack(w, !holder, &got.v[0]); /* by the updater that does not own it */
    ack(w, !holder, &got.v[1]);
    assert_false(passed(w, &m));
    struct event_list rest = again.n < 2 ? poll_exactly(w, holder, 2 - again.n) : (struct event_list){ 0 };
    ack_all(w, holder, &again);
    ack_all(w, holder, &rest);
    wait_passed(w, &m);
}

static void acks_out_of_order_count_once_the_first_has_come(void **state)
{
    struct world *w = *state;
    publish_fences(w, 1, 5);
    struct event_list got = poll_exactly(w, 0, 5);
    struct events_barrier m = mark(w);
    for (size_t i = 5; i-- > 1;)
        ack(w, 0, &got.v[i]);
    assert_false(passed(w, &m));
    updater_dies(w, 0); /* all but the first were acknowledged, and come again because they are behind it */
    open_updater(w, 0);
    struct event_list again = poll_exactly(w, 0, 5);
    assert_fences(&again, 1, 5);
    ack(w, 0, &again.v[1]);
    ack(w, 0, &again.v[0]);
    updater_dies(w, 0);
    open_updater(w, 0);
    again = poll_exactly(w, 0, 3);
    assert_fences(&again, 3, 5);
    ack_all(w, 0, &again);
    wait_passed(w, &m);
}

/* ---- foreign records ---- */

static void produce(struct world *w, const char *key, const char *text)
{
    char topic[EVENTS_PREFIX + 16], servers[256], why[256];
    const char *url = getenv("BELFRY_TEST_KAFKA") + strlen("kafka://");
    snprintf(topic, sizeof topic, "%s.events", w->prefix);
    snprintf(servers, sizeof servers, "%.*s", (int)strcspn(url, "/"), url);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    assert_int_equal(rd_kafka_conf_set(conf, "bootstrap.servers", servers, why, sizeof why), RD_KAFKA_CONF_OK);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    assert_non_null(rk);
    char *name = xstrdup(key), *copy = xstrdup(text); /* the macros of librdkafka take no const */
    assert_int_equal(rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(name, strlen(name)),
                                       RD_KAFKA_V_VALUE(copy, strlen(copy)), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                       RD_KAFKA_V_END),
                     0);
    free(name);
    free(copy);
    assert_int_equal(rd_kafka_flush(rk, ENOUGH_MS), 0);
    rd_kafka_destroy(rk);
}

static void what_can_not_be_read_is_passed_over_for_good(void **state)
{
    struct world *w = *state;
    char key[UUID_TEXT + 1];
    uuid_format(w->task, key);
    publish_fences(w, 1, 1);
    produce(w, key, "hello");
    produce(w, key, "{\"v\":2,\"event\":\"LATER\"}");
    produce(w, key, "");
    publish_fences(w, 2, 2);
    struct events_barrier m = mark(w);
    struct event_list got = poll_exactly(w, 0, 2);
    assert_fences(&got, 1, 2);
    ack_all(w, 0, &got);
    wait_passed(w, &m);
    produce(w, key, "the last one");
    m = mark(w);
    int64_t end_ms = monotonic_ms() + ENOUGH_MS;
    while (!passed(w, &m)) {
        poll_none(w, 0);
        assert_true(monotonic_ms() < end_ms);
    }
}

/* ---- addresses ---- */

static void an_address_that_is_wrong_is_refused_in_plain_words(void **state)
{
    (void)state;
    static const struct {
        const char *url, *field, *says;
    } rows[] = {
        { "redis://a", "", "begins with kafka://" },
        { "kafka://", "", "at least one broker" },
        { "kafka:///?prefix=x", "", "at least one broker" },
        { "kafka://a/b", "", "has no path" },
        { "kafka://me:secret@a", "", "sasl.username" },
        { "kafka://a/?prefix=a%20b", "prefix", "letters, digits" },
        { "kafka://a/?prefix=", "prefix", "letters, digits" },
        { "kafka://a/?partitions=0", "partitions", "from 1 to 63" },
        { "kafka://a/?partitions", "", "must be name=value" },
        { "kafka://a/?client.id=%4", "", "broken percent escape" },
        { "kafka://a/?acks=1", "acks", "is set by Belfry" },
        { "kafka://a/?no.such.thing=1", "no.such.thing", "No such configuration property" },
        { "kafka://a/?security.protocol=magic", "security.protocol", "Invalid value" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct events *ev;
        struct error e = { 0 };
        assert_int_equal(events_kafka_open(str_from(rows[i].url), &ev, &e), ERR_INVALID);
        assert_string_equal(e.field, rows[i].field);
        assert_says(&e, rows[i].says);
    }
    struct events *ev;
    struct error e = { 0 };
    assert_ok(
        events_kafka_open(S("kafka://a:1,b:2/?prefix=x.y&partitions=3&security.protocol=sasl_ssl&sasl.password=%26%3d"),
                          &ev, &e),
        &e);
    events_free(ev);
}

static void nobody_there_is_said_so_and_soon(void **state)
{
    (void)state;
    struct events *ev;
    struct error e = { 0 };
    assert_ok(events_kafka_open(S("kafka://127.0.0.1:1/"), &ev, &e), &e);
    struct event event = { .kind = EVENT_WORKER, .worker = { .id = { { 1 } } } };
    int64_t start_ms = monotonic_ms();
    assert_int_equal(events_publish(ev, &event, 1, &e), ERR_UNAVAILABLE);
    assert_says(&e, "with Kafka at 127.0.0.1:1: ");
    assert_true(monotonic_ms() - start_ms < 6000);
    events_free(ev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        events_test(a_second_updater_takes_its_share_and_nothing_comes_twice),
        events_test(an_ack_after_the_partition_has_gone_changes_nothing),
        events_test(acks_out_of_order_count_once_the_first_has_come),
        events_test(what_can_not_be_read_is_passed_over_for_good),
        cmocka_unit_test(an_address_that_is_wrong_is_refused_in_plain_words),
        cmocka_unit_test(nobody_there_is_said_so_and_soon),
        events_test(a_broker_that_restarts_loses_nothing),
    };
    char name[] = "kafka", *arguments[] = { name, name };
    adapter_under_test = events_adapter_of(2, arguments);
    return cmocka_run_group_tests_name("kafka", tests, NULL, NULL);
}
