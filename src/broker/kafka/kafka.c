/* Addresses, settings and topics of Kafka. librdkafka's own log lines are logged at level debug: the errors that
 * matter are returned by a call, and its caller logs them. */
#include "broker/kafka/kafka.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "platform/clock_system.h"

#define SILENT_MS "3000"

/* Settings that an address may not change: an outcome could get lost, or be delivered to two updaters. */
static const char *const reserved_settings[] = {
    "bootstrap.servers",
    "metadata.broker.list",
    "group.id",
    "group.instance.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "partition.assignment.strategy",
    "enable.idempotence",
    "acks",
    "request.required.acks",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "transactional.id",
    "enable.partition.eof",
};

int64_t kafka_now_ms(void)
{
    return clock_steady_ms(clock_system());
}

/* ---- addresses ---- */

/* Decodes percent escapes in place. */
static bool kafka_url_decode(char *text)
{
    size_t n = strlen(text);
    return str_percent_decode((struct str){ text, n }, text, n + 1);
}

/* Whether a topic's name may begin with this. */
static bool kafka_url_is_prefix(const char *s)
{
    return strlen(s) <= KAFKA_PREFIX_MAX && str_is_plain(str_from(s), "._-");
}

static enum err kafka_url_read_parameter(struct kafka_url *u, const char *name, const char *value, struct error *e)
{
    int64_t n;
    if (strcmp(name, "prefix") == 0) {
        if (!kafka_url_is_prefix(value))
            return error_field(e, "prefix", "must be 1 to %d letters, digits, dots, dashes and underscores",
                               KAFKA_PREFIX_MAX);
        u->prefix = value;
        return ERR_OK;
    }
    if (strcmp(name, "partitions") == 0) {
        if (!str_to_i64(str_from(value), 1, KAFKA_PARTITIONS_MAX, &n))
            return error_field(e, "partitions", "must be a number from 1 to %d", KAFKA_PARTITIONS_MAX);
        u->partitions = (int)n;
        return ERR_OK;
    }
    for (size_t i = 0; i < array_count(reserved_settings); i++)
        if (strcmp(name, reserved_settings[i]) == 0)
            return error_field(e, name, "is set by Belfry: remove it from the address");
    if (u->count == KAFKA_SETTINGS_MAX)
        return error_field(e, name, "is one setting too many: %d are allowed", KAFKA_SETTINGS_MAX);
    u->settings[u->count++] = (struct kafka_setting){ name, value };
    return ERR_OK;
}

/* Parses name=value&name=value, in place. */
static enum err kafka_url_read_parameters(struct kafka_url *u, char *at, struct error *e)
{
    while (at && *at) {
        char *end = strchr(at, '&'), *next = end ? end + 1 : NULL,
             *equals = memchr(at, '=', end ? (size_t)(end - at) : strlen(at));
        if (end)
            *end = '\0';
        if (!equals || equals == at)
            return error_field(e, "", "'%.40s' in the address must be name=value", at);
        *equals = '\0';
        if (!kafka_url_decode(at) || !kafka_url_decode(equals + 1))
            return error_field(e, "", "'%.40s' in the address has a broken percent escape", at);
        if (kafka_url_read_parameter(u, at, equals + 1, e))
            return ERR_INVALID;
        at = next;
    }
    return ERR_OK;
}

static enum err kafka_url_read(struct kafka_url *u, struct error *e)
{
    char *brokers = u->memory + strlen("kafka://"), *query = strchr(brokers, '?');
    if (query)
        *query++ = '\0';
    char *slash = strchr(brokers, '/');
    if (slash && slash[1])
        return error_field(e, "", "a Kafka address has no path: kafka://host:9092/?prefix=belfry");
    if (slash)
        *slash = '\0';
    if (strchr(brokers, '@'))
        return error_field(e, "",
                           "a Kafka address has no user in front: give sasl.username and sasl.password as parameters");
    if (!*brokers)
        return error_field(e, "", "a Kafka address needs at least one broker: kafka://host:9092");
    u->brokers = brokers;
    return kafka_url_read_parameters(u, query, e);
}

/* Lets librdkafka check the settings before anything is connected. */
static enum err kafka_url_check_settings(const struct kafka_url *u, struct error *e)
{
    rd_kafka_conf_t *conf;
    static const struct kafka_settings none;
    enum err rc = kafka_conf(u, &none, &conf, e);
    if (rc == ERR_OK)
        rd_kafka_conf_destroy(conf);
    return rc;
}

enum err kafka_url_parse(struct str text, struct kafka_url *ret, struct error *e)
{
    if (!str_starts(text, S("kafka://")) || memchr(text.p, '\0', text.n))
        return error_field(e, "", "a Kafka address begins with kafka://");
    struct kafka_url u = { .memory = xmalloc(text.n + 1), .prefix = "belfry", .partitions = 12 };
    memcpy(u.memory, text.p, text.n);
    u.memory[text.n] = '\0';
    enum err rc = kafka_url_read(&u, e);
    if (rc == ERR_OK)
        rc = kafka_url_check_settings(&u, e);
    if (rc)
        kafka_url_release(&u);
    else
        *ret = u;
    return rc;
}

void kafka_url_release(struct kafka_url *u)
{
    free(u->memory);
    *u = (struct kafka_url){ 0 };
}

/* ---- clients ---- */

static void kafka_on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)rk;
    (void)level;
    log_debug("kafka", kv_cstr("facility", facility), kv_cstr("text", text));
}

static enum err kafka_set_all(rd_kafka_conf_t *conf, const struct kafka_setting *v, size_t n, struct error *e)
{
    char text[256];
    for (size_t i = 0; i < n; i++)
        if (rd_kafka_conf_set(conf, v[i].name, v[i].value, text, sizeof text))
            return error_field(e, v[i].name, "librdkafka refuses it: %s", text);
    return ERR_OK;
}

enum err kafka_conf(const struct kafka_url *u, const struct kafka_settings *s, rd_kafka_conf_t **ret, struct error *e)
{
    /* A connection may break without notice (a firewall, a host that lost power): only a request without a reply
     * shows it. librdkafka's default timeout is 60 s, and all requests on the connection wait that long. */
    const struct kafka_setting always[] = {
        { "bootstrap.servers", u->brokers },
        { "client.id", "belfry" },
        { "socket.keepalive.enable", "true" },
        { "reconnect.backoff.ms", "50" },
        { "reconnect.backoff.max.ms", "2000" },
        { "socket.timeout.ms", SILENT_MS },
        { "socket.connection.setup.timeout.ms", SILENT_MS },
        { "api.version.request.timeout.ms", SILENT_MS },
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, kafka_on_log);
    enum err rc = kafka_set_all(conf, always, array_count(always), e);
    if (rc == ERR_OK)
        rc = kafka_set_all(conf, s->usual, s->usual_count, e);
    if (rc == ERR_OK)
        rc = kafka_set_all(conf, u->settings, u->count, e);
    if (rc == ERR_OK)
        rc = kafka_set_all(conf, s->fixed, s->fixed_count, e);
    if (rc)
        rd_kafka_conf_destroy(conf);
    else
        *ret = conf;
    return rc;
}

enum err kafka_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, rd_kafka_t **ret, struct error *e)
{
    char text[256];
    rd_kafka_t *rk = rd_kafka_new(type, conf, text, sizeof text);
    if (!rk) {
        rd_kafka_conf_destroy(conf);
        return error_set(e, ERR_INVALID, "librdkafka refuses its settings: %s", text);
    }
    *ret = rk;
    return ERR_OK;
}

enum err kafka_unavailable(const struct kafka_url *u, const char *tried, rd_kafka_resp_err_t err, const char *reason,
                           struct error *e)
{
    const char *why = reason && *reason ? reason : rd_kafka_err2str(err);
    return error_set(e, ERR_UNAVAILABLE, "%s with Kafka at %s: %s", tried, u->brokers, why);
}

/* ---- topics ---- */

/* *ret: 0 if the topic is missing or a partition has no leader yet. */
static rd_kafka_resp_err_t kafka_count_partitions(rd_kafka_t *rk, rd_kafka_topic_t *topic, int *ret)
{
    const struct rd_kafka_metadata *m;
    rd_kafka_resp_err_t err = rd_kafka_metadata(rk, 0, topic, &m, KAFKA_CALL_MS);
    *ret = 0;
    if (err)
        return err;
    const struct rd_kafka_metadata_topic *t = m->topic_cnt ? &m->topics[0] : NULL;
    int leaders = 0;
    for (int i = 0; t && i < t->partition_cnt; i++)
        leaders += t->partitions[i].leader >= 0;
    if (t && !t->err && leaders == t->partition_cnt)
        *ret = leaders;
    else if (t && t->err != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        err = t->err;
    rd_kafka_metadata_destroy(m);
    return err == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ? RD_KAFKA_RESP_ERR_NO_ERROR : err;
}

static rd_kafka_resp_err_t kafka_create_result(rd_kafka_event_t *event)
{
    size_t n = 0;
    rd_kafka_resp_err_t err = rd_kafka_event_error(event);
    const rd_kafka_CreateTopics_result_t *result = err ? NULL : rd_kafka_event_CreateTopics_result(event);
    const rd_kafka_topic_result_t **topics = result ? rd_kafka_CreateTopics_result_topics(result, &n) : NULL;
    if (n)
        err = rd_kafka_topic_result_error(topics[0]);
    return err == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS ? RD_KAFKA_RESP_ERR_NO_ERROR : err;
}

/* Creates a topic with the brokers' default replication factor. */
static rd_kafka_resp_err_t kafka_create_topic(rd_kafka_t *rk, const char *name, int partitions)
{
    char text[128];
    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(name, partitions, -1, text, sizeof text);
    if (!topic)
        return RD_KAFKA_RESP_ERR__INVALID_ARG;
    rd_kafka_queue_t *answers = rd_kafka_queue_new(rk);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    (void)rd_kafka_AdminOptions_set_request_timeout(options, KAFKA_CALL_MS, text, sizeof text);
    (void)rd_kafka_AdminOptions_set_operation_timeout(options, KAFKA_CALL_MS, text, sizeof text);
    rd_kafka_CreateTopics(rk, &topic, 1, options, answers);
    rd_kafka_event_t *event = rd_kafka_queue_poll(answers, KAFKA_CALL_MS + 500);
    rd_kafka_resp_err_t err = event ? kafka_create_result(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;
    rd_kafka_event_destroy(event);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_NewTopic_destroy(topic);
    rd_kafka_queue_destroy(answers);
    return err;
}

enum err kafka_topic(rd_kafka_t *rk, const struct kafka_url *u, const char *name, int *ret_partitions, struct error *e)
{
    int64_t end_ms = kafka_now_ms() + KAFKA_CALL_MS;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
    int n = 0;
    rd_kafka_resp_err_t err = kafka_count_partitions(rk, topic, &n);
    if (!err && n == 0)
        err = kafka_create_topic(rk, name, u->partitions);
    while (!err && n == 0 && kafka_now_ms() < end_ms) {
        (void)rd_kafka_poll(rk, 20); /* leaders are being elected */
        err = kafka_count_partitions(rk, topic, &n);
    }
    rd_kafka_topic_destroy(topic);
    if (err || n == 0) {
        char tried[128];
        snprintf(tried, sizeof tried, "topic '%.80s'", name);
        return kafka_unavailable(u, tried, err ? err : RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, NULL, e);
    }
    if (n > KAFKA_PARTITIONS_MAX)
        return error_set(e, ERR_INVALID,
                         "topic '%s' has %d partitions, but may have no more than %d: give another prefix", name, n,
                         KAFKA_PARTITIONS_MAX);
    *ret_partitions = n;
    return ERR_OK;
}
