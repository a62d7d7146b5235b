/* The message runner before real brokers: what arrives there, and what is said when it does not. */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "broker/kafka/kafka.h"
#include "check.h"
#include "platform/clock_system.h"
#include "runner/message/runner_message.h"

#define TASK_ID "01890a5d-ac96-774b-bcce-b302099a8057"
enum { ENOUGH_MS = 30000 };

static struct {
    char redis[256], amqp[256], kafka[256]; /* the servers' addresses */
    char stamp[64];                         /* begins names that nobody else uses */
} servers;

struct world {
    uv_loop_t loop;
    struct runner *runner;
    bool strange; /* loopback is not allowed */
};

struct probe {
    struct run run;
    struct task task;
    char config[1024];
    int done;
    struct outcome outcome;
    char error[300], output[128];
};

/* ---- the world ---- */

static const char *server(const char *name)
{
    const char *url = getenv(name);
    if (!url) {
        fprintf(stderr, "%s names no server: run this by tests/support/with-redis with-rabbitmq with-kafka\n", name);
        exit(2);
    }
    return url;
}

static int world_open(void **state)
{
    struct world *w = xnew(*w);
    uv_loop_init(&w->loop);
    *state = w;
    return 0;
}

static int world_close(void **state)
{
    struct world *w = *state;
    runner_free(w->runner);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    int rc = uv_loop_close(&w->loop);
    free(w);
    return rc;
}
#define message_test(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)

static struct runner *runner(struct world *w)
{
    const struct message_broker brokers[] = {
        { S("cache"), str_from(servers.redis) },     { S("rabbit"), str_from(servers.amqp) },
        { S("log"), str_from(servers.kafka) },       { S("nobody"), S("redis://127.0.0.1:1") },
        { S("no-rabbit"), S("amqp://127.0.0.1:1") }, { S("no-log"), S("kafka://127.0.0.1:1") },
    };
    struct runner_message_setup setup = { .brokers = brokers,
                                          .broker_count = array_count(brokers),
                                          .guard.allow_loopback = !w->strange };
    if (!w->runner)
        w->runner = runner_message_new(&w->loop, clock_system(), &setup);
    return w->runner;
}

static void on_done(struct run *run, const struct outcome *o)
{
    struct probe *p = run->context;
    p->outcome = *o;
    snprintf(p->error, sizeof p->error, STR_FMT, STR_ARG(o->error));
    snprintf(p->output, sizeof p->output, STR_FMT, STR_ARG(o->output));
    p->done++;
}

static void start_task(struct world *w, struct probe *p, int32_t tenant, const char *broker, const char *destination,
                       const char *more)
{
    memset(p, 0, sizeof *p);
    snprintf(p->config, sizeof p->config, "{\"broker\":\"%s\",\"destination\":\"%s\"%s}", broker, destination, more);
    p->task = (struct task){ .target = TARGET_MESSAGE,
                             .state = TASK_RUNNING,
                             .fence = 3,
                             .attempts = 1,
                             .tenant = tenant,
                             .scheduled_ms = 1767225600123,
                             .timeout_ms = ENOUGH_MS,
                             .payload = S("{\"n\": 1}"),
                             .target_config = str_from(p->config) };
    assert_true(uuid_parse(S(TASK_ID), &p->task.id));
    p->run = (struct run){ .task = &p->task, .worker = S("w"), .done = on_done, .context = p };
    runner_start(runner(w), &p->run);
}

static void start(struct world *w, struct probe *p, const char *broker, const char *destination, const char *more)
{
    start_task(w, p, 1, broker, destination, more);
}

static void wait_for(struct world *w, const struct probe *p)
{
    while (!p->done)
        uv_run(&w->loop, UV_RUN_ONCE);
    assert_int_equal(p->done, 1);
}

static void send_message(struct world *w, struct probe *p, const char *broker, const char *destination,
                         const char *more)
{
    start(w, p, broker, destination, more);
    wait_for(w, p);
}

/* To one of many brokers: an idle connection makes way for it. */
static void send_in_turn(struct world *w, struct probe *p, const char *broker)
{
    do
        send_message(w, p, broker, "x", "");
    while (p->outcome.kind == OUTCOME_HELD);
}

static void assert_sent(const struct probe *p)
{
    if (p->outcome.kind != OUTCOME_OK)
        fail_msg("%s: %s", p->config, p->error);
    assert_true(p->outcome.sent && p->outcome.started_us > 0 && p->outcome.completed_us >= p->outcome.started_us);
    assert_int_equal(p->outcome.trace_id.n, 32);
}

static void assert_failed(const struct probe *p, enum failure failure, bool sent, const char *error)
{
    assert_int_equal(p->outcome.kind, OUTCOME_FAILED);
    if (p->outcome.failure != failure || p->outcome.sent != sent || !strstr(p->error, error))
        fail_msg("%s: failure %d, sent %d, '%s'", p->config, (int)p->outcome.failure, p->outcome.sent, p->error);
}

static const char *named(const char *prefix, const char *what, char out[256])
{
    snprintf(out, 256, "%s%s-%s", prefix, servers.stamp, what);
    return out;
}

/* host:port of an address; what is between '@' or "://" and the path. */
static void split(const char *url, char host[64], int *port)
{
    const char *from = strstr(url, "://") + 3, *at = strchr(from, '@');
    assert_int_equal(sscanf(at ? at + 1 : from, "%63[^:]:%d", host, port), 2);
}

/* ---- Redis ---- */

static redisContext *redis(void)
{
    char host[64];
    int port;
    split(servers.redis, host, &port);
    redisContext *r = redisConnect(host, port);
    assert_true(r && !r->err);
    return r;
}

static const char *field(const redisReply *entry, const char *name)
{
    const redisReply *fields = entry->element[1];
    for (size_t i = 0; i + 1 < fields->elements; i += 2)
        if (strcmp(fields->element[i]->str, name) == 0)
            return fields->element[i + 1]->str;
    fail_msg("no field '%s'", name);
    return NULL;
}

static void a_stream_gets_body_key_and_headers(void **state)
{
    struct world *w = *state;
    struct probe p;
    char to[256];
    send_message(w, &p, "cache", named("", "stream", to), ",\"key\":\"k1\",\"headers\":{\"X-Team\":\"a b\"}");
    assert_sent(&p);
    redisContext *r = redis();
    redisReply *all = redisCommand(r, "XRANGE %s - +", to);
    assert_int_equal(all->elements, 1);
    const redisReply *entry = all->element[0];
    assert_string_equal(entry->element[0]->str, p.output);
    assert_string_equal(field(entry, "body"), "{\"n\": 1}");
    assert_string_equal(field(entry, "key"), "k1");
    assert_string_equal(field(entry, "webhook-id"), TASK_ID);
    assert_string_equal(field(entry, "Belfry-Task-Id"), TASK_ID);
    assert_string_equal(field(entry, "Belfry-Attempt"), "2");
    assert_string_equal(field(entry, "Belfry-Fence"), "3");
    assert_string_equal(field(entry, "Belfry-Scheduled-At"), "2026-01-01T00:00:00.123Z");
    assert_string_equal(field(entry, "content-type"), "application/json");
    assert_string_equal(field(entry, "X-Team"), "a b");
    freeReplyObject(all);
    redisFree(r);
}

static void a_list_gets_one_object_with_all_of_it(void **state)
{
    struct world *w = *state;
    struct probe p;
    char to[256];
    send_message(w, &p, "cache", named("list:", "list", to), ",\"body\":\"plain \\\"text\\\"\"");
    assert_sent(&p);
    assert_string_equal(p.output, "length 1");
    redisContext *r = redis();
    redisReply *one = redisCommand(r, "LPOP %s", to + strlen("list:"));
    assert_non_null(
        strstr(one->str, "{\"key\":null,\"headers\":{\"content-type\":\"text/plain; charset=utf-8\",\"webhook-id\":"));
    assert_non_null(strstr(one->str, "},\"body\":\"plain \\\"text\\\"\"}"));
    freeReplyObject(one);
    redisFree(r);
}

static void a_key_of_another_type_refuses_it_for_good_and_no_other(void **state)
{
    struct world *w = *state;
    struct probe bad, good;
    char taken[256], to[256];
    redisContext *r = redis();
    freeReplyObject(redisCommand(r, "SET %s x", named("", "taken", taken)));
    redisFree(r);
    start(w, &bad, "cache", taken, "");
    start(w, &good, "cache", named("", "free", to), "");
    wait_for(w, &bad);
    wait_for(w, &good);
    assert_failed(&bad, FAILURE_REFUSED, false, "WRONGTYPE");
    assert_sent(&good);
}

static void many_at_once_arrive_once_each(void **state)
{
    enum { MANY = 2000 };
    struct world *w = *state;
    struct probe *all = xcalloc(MANY, sizeof *all);
    char to[256];
    named("", "many", to);
    for (int i = 0; i < MANY; i++)
        start(w, &all[i], "cache", to, "");
    for (int i = 0; i < MANY; i++) {
        wait_for(w, &all[i]);
        assert_sent(&all[i]);
    }
    redisContext *r = redis();
    redisReply *n = redisCommand(r, "XLEN %s", to);
    assert_int_equal(n->integer, MANY);
    freeReplyObject(n);
    redisFree(r);
    free(all);
}

/* ---- RabbitMQ ---- */

static amqp_connection_state_t rabbit(void)
{
    char host[64], user[64] = "guest", password[64] = "guest";
    int port;
    split(servers.amqp, host, &port);
    (void)sscanf(servers.amqp, "amqp://%63[^:/@]:%63[^@/]@", user, password);
    amqp_connection_state_t c = amqp_new_connection();
    amqp_socket_t *s = amqp_tcp_socket_new(c);
    assert_int_equal(amqp_socket_open(s, host, port), 0);
    if (amqp_login(c, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, user, password).reply_type != AMQP_RESPONSE_NORMAL)
        assert_int_equal(amqp_login(c, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest").reply_type,
                         AMQP_RESPONSE_NORMAL);
    assert_non_null(amqp_channel_open(c, 1));
    return c;
}

static void rabbit_close(amqp_connection_state_t c)
{
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(c);
}

static void a_queue_gets_body_headers_and_properties(void **state)
{
    struct world *w = *state;
    struct probe p;
    char to[256];
    named("queue:", "queue", to);
    amqp_connection_state_t c = rabbit();
    assert_non_null(amqp_queue_declare(c, 1, amqp_cstring_bytes(to + 6), 0, 0, 0, 1, amqp_empty_table));
    send_message(w, &p, "rabbit", to, ",\"headers\":{\"X-Team\":\"a\"}");
    assert_sent(&p);
    assert_string_equal(p.output, "confirmed");
    assert_int_equal(amqp_basic_get(c, 1, amqp_cstring_bytes(to + 6), 1).reply_type, AMQP_RESPONSE_NORMAL);
    amqp_message_t m;
    assert_int_equal(amqp_read_message(c, 1, &m, 0).reply_type, AMQP_RESPONSE_NORMAL);
    assert_int_equal(m.body.len, 8);
    assert_memory_equal(m.body.bytes, "{\"n\": 1}", 8);
    assert_memory_equal(m.properties.message_id.bytes, TASK_ID, m.properties.message_id.len);
    assert_memory_equal(m.properties.content_type.bytes, "application/json", m.properties.content_type.len);
    assert_int_equal(m.properties.delivery_mode, 2);
    int found = 0;
    for (int i = 0; i < m.properties.headers.num_entries; i++) {
        amqp_bytes_t key = m.properties.headers.entries[i].key;
        found += (key.len == 12 && memcmp(key.bytes, "Belfry-Fence", 12) == 0) ||
                 (key.len == 6 && memcmp(key.bytes, "X-Team", 6) == 0);
    }
    assert_int_equal(found, 2);
    amqp_destroy_message(&m);
    rabbit_close(c);
}

static void what_reaches_no_queue_is_not_sent(void **state)
{
    struct world *w = *state;
    struct probe lost, missing, good;
    char to[256], gone[256];
    amqp_connection_state_t c = rabbit();
    named("queue:", "here", to);
    assert_non_null(amqp_queue_declare(c, 1, amqp_cstring_bytes(to + 6), 0, 0, 0, 1, amqp_empty_table));
    start(w, &lost, "rabbit", "amq.direct", ",\"key\":\"nobody-is-bound-here\"");
    start(w, &good, "rabbit", to, "");
    start(w, &missing, "rabbit", named("", "no-such-exchange", gone), "");
    wait_for(w, &lost);
    wait_for(w, &good);
    wait_for(w, &missing);
    assert_failed(&lost, FAILURE_CONNECT, false, "reached no queue");
    assert_sent(&good);
    assert_failed(&missing, FAILURE_CONNECT, false, "there is no exchange of this name");
    send_message(w, &good, "rabbit", to, "");
    assert_sent(&good);
    rabbit_close(c);
}

/* ---- Kafka ---- */

static rd_kafka_t *consumer(const struct kafka_url *u, const char *topic)
{
    rd_kafka_conf_t *conf;
    rd_kafka_t *rk;
    struct error e = { 0 };
    int n;
    const struct kafka_setting fixed[] = { { "group.id", "belfry-test" }, { "enable.auto.commit", "false" } };
    const struct kafka_settings settings = { KAFKA_FIXED(fixed) };
    assert_ok(kafka_conf(u, &settings, &conf, &e), &e);
    assert_ok(kafka_new(RD_KAFKA_CONSUMER, conf, &rk, &e), &e);
    assert_ok(kafka_topic(rk, u, topic, &n, &e), &e);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(n);
    for (int i = 0; i < n; i++)
        rd_kafka_topic_partition_list_add(all, topic, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    assert_int_equal(rd_kafka_assign(rk, all), 0);
    rd_kafka_topic_partition_list_destroy(all);
    rd_kafka_poll_set_consumer(rk);
    return rk;
}

static void a_topic_gets_key_body_and_headers(void **state)
{
    struct world *w = *state;
    struct probe p;
    struct kafka_url u;
    struct error e = { 0 };
    char to[256];
    named("", "topic", to);
    assert_ok(kafka_url_parse(str_from(servers.kafka), &u, &e), &e);
    rd_kafka_t *rk = consumer(&u, to);
    send_message(w, &p, "log", to, ",\"key\":\"k1\",\"headers\":{\"X-Team\":\"a\"}");
    assert_sent(&p);
    assert_non_null(strstr(p.output, ", offset 0"));
    rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, ENOUGH_MS);
    assert_true(m && !m->err);
    assert_int_equal(m->key_len, 2);
    assert_memory_equal(m->key, "k1", 2);
    assert_int_equal(m->len, 8);
    assert_memory_equal(m->payload, "{\"n\": 1}", 8);
    rd_kafka_headers_t *h;
    const void *value;
    size_t n;
    assert_int_equal(rd_kafka_message_headers(m, &h), 0);
    assert_int_equal(rd_kafka_header_get_last(h, "Belfry-Attempt", &value, &n), 0);
    assert_memory_equal(value, "2", n);
    assert_int_equal(rd_kafka_header_get_last(h, "webhook-id", &value, &n), 0);
    assert_memory_equal(value, TASK_ID, n);
    assert_int_equal(rd_kafka_header_get_last(h, "X-Team", &value, &n), 0);
    rd_kafka_message_destroy(m);
    rd_kafka_destroy(rk);
    kafka_url_release(&u);
}

static void a_topic_that_is_not_there_is_not_made(void **state)
{
    struct world *w = *state;
    struct probe p;
    char to[256];
    const char *mock = getenv("BELFRY_TEST_KAFKA_MOCK");
    if (mock && *mock)
        skip(); /* it makes every topic that it is asked about */
    send_message(w, &p, "log", named("", "no-such-topic", to), "");
    assert_failed(&p, FAILURE_CONNECT, false, "no such topic");
}

/* ---- what is wrong before a broker has a say ---- */

static void a_broker_that_has_no_address_is_named(void **state)
{
    struct world *w = *state;
    struct probe p;
    send_message(w, &p, "nowhere", "x", "");
    assert_failed(&p, FAILURE_REFUSED, false, "broker: no broker 'nowhere' is configured: set brokers.nowhere");
    send_message(w, &p, "http://a", "x", "");
    assert_failed(&p, FAILURE_REFUSED, false, "broker: must be a name, or begin with redis://");
}

static void nobody_there_is_a_failure_to_connect(void **state)
{
    struct world *w = *state;
    struct probe p, q, r;
    start(w, &p, "nobody", "x", "");
    start(w, &q, "no-rabbit", "x", "");
    start(w, &r, "no-log", "x", "");
    wait_for(w, &p);
    wait_for(w, &q);
    wait_for(w, &r);
    assert_failed(&p, FAILURE_CONNECT, false, "could not connect");
    assert_failed(&q, FAILURE_CONNECT, false, "could not connect");
    assert_failed(&r, FAILURE_CONNECT, false, "could not connect");
    send_message(w, &p, "redis://127.0.0.1:1", "x", "");
    assert_failed(&p, FAILURE_CONNECT, false, "could not connect"); /* a stranger learns no more */
}

static void addresses_in_tasks_are_judged(void **state)
{
    struct world *w = *state;
    struct probe p;
    char host[64], url[128];
    int port;
    w->strange = true;
    split(servers.redis, host, &port);
    snprintf(url, sizeof url, "redis://%s:%d", host, port);
    static const char *const blocked[] = {
        "redis://127.0.0.2:1",     "amqp://127.0.0.1:1", "kafka://8.8.8.8:1,127.0.0.1:1",
        "redis://169.254.169.254", "amqp://[::1]:1",     "kafka://10.1.2.3:9092"
    };
    send_message(w, &p, url, "x", "");
    assert_failed(&p, FAILURE_REFUSED, false, GUARD_REFUSED);
    for (size_t i = 0; i < array_count(blocked); i++) {
        send_in_turn(w, &p, blocked[i]);
        assert_failed(&p, FAILURE_REFUSED, false, GUARD_REFUSED);
    }
    static const char *const names[] = {
        "redis://localhost:1", "redis://gone.invalid:1",        "amqp://localhost:1",
        "amqp://gone.invalid", "kafka://8.8.8.8:1,localhost:1", "kafka://gone.invalid"
    };
    for (size_t i = 0; i < array_count(names); i++) { /* internal or missing: a stranger learns no more */
        send_in_turn(w, &p, names[i]);
        assert_failed(&p, FAILURE_CONNECT, false, "could not connect");
    }
    char to[256];
    send_message(w, &p, "cache", named("", "operators", to), ""); /* an operator's may be anywhere */
    assert_sent(&p);
}

/* ---- time ---- */

/* Takes connections, and says nothing. */
static int silent_port(int *ret_fd)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    *ret_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(*ret_fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(*ret_fd, 16), 0);
    assert_int_equal(getsockname(*ret_fd, (struct sockaddr *)&at, &n), 0);
    return ntohs(at.sin_port);
}

static void a_silent_broker_times_out_and_can_be_aborted(void **state)
{
    struct world *w = *state;
    struct probe p, q, late;
    int fd;
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", silent_port(&fd));
    start(w, &p, url, "x", ",\"timeout_ms\":100");
    start(w, &q, url, "x", "");
    wait_for(w, &p);
    assert_int_equal(p.outcome.failure, FAILURE_TIMEOUT);
    assert_string_equal(p.error, "timed out after 100ms");
    start(w, &late, url, "x", "");
    runner_abort(runner(w), &q.run);
    runner_abort(runner(w), &late.run);
    assert_int_equal(q.done, 1);
    assert_int_equal(q.outcome.kind, OUTCOME_CANCELLED);
    assert_int_equal(late.done, 1);
    assert_int_equal(late.outcome.kind, OUTCOME_CANCELLED);
    close(fd);
}

static void start_of(struct world *w, struct probe *p, int32_t tenant, const char *broker)
{
    start_task(w, p, tenant, broker, "x", "");
}

/* Brokers that do not answer hold the threads of one tenant. Its next message waits: it is no attempt. Others' messages
 * go on, also those for named brokers. */
static void a_tenant_has_few_connections(void **state)
{
    enum { MOST = MESSAGE_TENANT_CONNECTIONS };
    struct world *w = *state;
    struct probe silent[MOST], more[3], other;
    int fds[MOST];
    char url[64], to[256];
    for (int i = 0; i < MOST; i++) {
        snprintf(url, sizeof url, "redis://127.0.0.1:%d", silent_port(&fds[i]));
        start_of(w, &silent[i], 1, url);
        assert_int_equal(silent[i].done, 0);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(url, sizeof url, "redis://127.0.0.1:1/%d", i);
        start_of(w, &more[i], 1, url);
        assert_int_equal(more[i].done, 1);
        assert_int_equal(more[i].outcome.kind, OUTCOME_HELD);
        assert_false(more[i].outcome.sent);
        assert_true(more[i].outcome.retry_after_ms > (i ? more[i - 1].outcome.retry_after_ms : 0));
    }
    start_of(w, &other, 2, "redis://127.0.0.1:1");
    wait_for(w, &other);
    assert_failed(&other, FAILURE_CONNECT, false, "could not connect");
    send_message(w, &other, "cache", named("", "besides", to), "");
    assert_sent(&other);
    for (int i = 0; i < MOST; i++) {
        runner_abort(runner(w), &silent[i].run);
        close(fds[i]);
    }
}

/* A connection that is idle makes way at once. */
static void an_idle_connection_makes_way(void **state)
{
    struct world *w = *state;
    struct probe p;
    char url[64];
    for (int i = 0; i < 3 * MESSAGE_TENANT_CONNECTIONS; i++) {
        snprintf(url, sizeof url, "redis://127.0.0.1:1/%d", i % 16);
        send_in_turn(w, &p, url);
        assert_failed(&p, FAILURE_CONNECT, false, "could not connect");
    }
}

int main(void)
{
    snprintf(servers.redis, sizeof servers.redis, "%s", server("BELFRY_TEST_REDIS"));
    snprintf(servers.amqp, sizeof servers.amqp, "%s", server("BELFRY_TEST_RABBITMQ"));
    snprintf(servers.kafka, sizeof servers.kafka, "%s", server("BELFRY_TEST_KAFKA"));
    snprintf(servers.stamp, sizeof servers.stamp, "message-%d", (int)getpid());
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        message_test(a_stream_gets_body_key_and_headers),
        message_test(a_list_gets_one_object_with_all_of_it),
        message_test(a_key_of_another_type_refuses_it_for_good_and_no_other),
        message_test(many_at_once_arrive_once_each),
        message_test(a_queue_gets_body_headers_and_properties),
        message_test(what_reaches_no_queue_is_not_sent),
        message_test(a_topic_gets_key_body_and_headers),
        message_test(a_topic_that_is_not_there_is_not_made),
        message_test(a_broker_that_has_no_address_is_named),
        message_test(nobody_there_is_a_failure_to_connect),
        message_test(addresses_in_tasks_are_judged),
        message_test(a_silent_broker_times_out_and_can_be_aborted),
        message_test(a_tenant_has_few_connections),
        message_test(an_idle_connection_makes_way),
    };
    return cmocka_run_group_tests_name("message_runner", tests, NULL, NULL);
}
