/* Each message gets its own delivery report: stored, surely not stored, or unknown. Topics are not created
 * automatically, so a misspelled topic is an error. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "broker/kafka/kafka.h"
#include "runner/message/internal.h"

enum { REPORTS_MS = 8000 }; /* longer than message.timeout.ms, so every message has its report by then */

struct message_sender_kafka {
    struct message_sender base;
    struct kafka_url url;
    struct peer_check *check;
    rd_kafka_t *rk;
    size_t awaited;
    char reason[256]; /* the last error that librdkafka reported */
};

/* librdkafka connects to the addresses that brokers advertise: each is checked. */
static int message_kafka_on_connect(int fd, const struct sockaddr *to, int n, const char *id, void *context)
{
    struct message_sender_kafka *s = context;
    (void)id;
    if (s->check->guard && !guard_allows(s->check->guard, to)) {
        __atomic_store_n(&s->check->blocked, true, __ATOMIC_RELAXED); /* this is a thread of librdkafka */
        return EACCES;
    }
    return connect(fd, to, (socklen_t)n) == 0 || errno == EINPROGRESS ? 0 : errno;
}

static void message_kafka_on_error(rd_kafka_t *rk, int err, const char *reason, void *context)
{
    struct message_sender_kafka *s = context;
    (void)rk;
    (void)err;
    snprintf(s->reason, sizeof s->reason, "%s", reason);
}

static void message_kafka_set_failure(struct message_sender_kafka *s, struct message_in_flight *msg,
                                      const rd_kafka_message_t *m)
{
    bool sent = rd_kafka_message_status(m) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
    bool late = m->err == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT;
    switch (m->err) {
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
        message_set_failed(msg, FAILURE_CONNECT, false, "Kafka has no such topic");
        break;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        message_set_failed(msg, FAILURE_REFUSED, false, rd_kafka_err2str(m->err));
        break;
    default: message_set_lost(msg, s->check, sent, late && s->reason[0] ? s->reason : rd_kafka_err2str(m->err));
    }
}

static void message_kafka_on_report(rd_kafka_t *rk, const rd_kafka_message_t *m, void *context)
{
    struct message_sender_kafka *s = context;
    struct message_in_flight *msg = m->_private;
    (void)rk;
    s->awaited--;
    if (m->err) {
        message_kafka_set_failure(s, msg, m);
        return;
    }
    msg->failure = FAILURE_NONE;
    snprintf(msg->output, sizeof msg->output, "partition %d, offset %lld", (int)m->partition, (long long)m->offset);
}

static rd_kafka_headers_t *message_kafka_headers(const struct message_in_flight *msg)
{
    rd_kafka_headers_t *h = rd_kafka_headers_new(msg->header_count);
    for (size_t i = 0; i < msg->header_count; i++)
        (void)rd_kafka_header_add(h, msg->headers[i].name.p, (ssize_t)msg->headers[i].name.n, msg->headers[i].value.p,
                                  (ssize_t)msg->headers[i].value.n);
    return h;
}

static void message_kafka_produce(struct message_sender_kafka *s, struct message_in_flight *msg)
{
    const struct message_target *l = &msg->target;
    rd_kafka_headers_t *headers = message_kafka_headers(msg);
    union {
        const char *in;
        void *out;
    } body = { l->content.body.p }, key = { l->key.p }; /* librdkafka copies them */
    rd_kafka_resp_err_t err = rd_kafka_producev(
        s->rk, RD_KAFKA_V_TOPIC(l->destination.p), RD_KAFKA_V_KEY(l->key.n ? key.out : NULL, l->key.n),
        RD_KAFKA_V_VALUE(body.out, l->content.body.n), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(msg), RD_KAFKA_V_END);
    if (!err) {
        s->awaited++;
        return;
    }
    rd_kafka_headers_destroy(headers);
    message_kafka_set_failure(s, msg, &(rd_kafka_message_t){ .err = err });
}

static void message_kafka_drop_producer(struct message_sender_kafka *s)
{
    if (s->rk)
        rd_kafka_destroy(s->rk);
    s->rk = NULL;
}

static enum err message_kafka_ensure_producer(struct message_sender_kafka *s, struct error *e)
{
    static const struct kafka_setting usual[] = { { "linger.ms", "0" },
                                                  { "topic.metadata.propagation.max.ms", "1000" } };
    static const struct kafka_setting fixed[] = {
        { "enable.idempotence", "true" },
        { "acks", "all" },
        { "message.timeout.ms", "5000" },
    };
    static const struct kafka_settings settings = { KAFKA_USUAL(usual), KAFKA_FIXED(fixed) };
    rd_kafka_conf_t *conf;
    if (s->rk)
        return ERR_OK;
    enum err rc = kafka_conf(&s->url, &settings, &conf, e);
    if (rc)
        return rc;
    rd_kafka_conf_set_opaque(conf, s);
    rd_kafka_conf_set_error_cb(conf, message_kafka_on_error);
    rd_kafka_conf_set_dr_msg_cb(conf, message_kafka_on_report);
    rd_kafka_conf_set_connect_cb(conf, message_kafka_on_connect);
    return kafka_new(RD_KAFKA_PRODUCER, conf, &s->rk, e);
}

static void message_kafka_deliver(struct message_sender *base, struct message_in_flight **v, size_t n)
{
    struct message_sender_kafka *s = container_of(base, struct message_sender_kafka, base);
    struct error e = { 0 };
    s->reason[0] = '\0';
    if (message_kafka_ensure_producer(s, &e)) {
        message_tell_detail(s->check, e.text);
        for (size_t i = 0; i < n; i++)
            message_set_failed(v[i], FAILURE_REFUSED, false, "the broker's settings are wrong");
        return;
    }
    for (size_t i = 0; i < n; i++)
        message_kafka_produce(s, v[i]);
    int64_t end_ms = kafka_now_ms() + REPORTS_MS, left_ms;
    while (s->awaited && (left_ms = end_ms - kafka_now_ms()) > 0)
        (void)rd_kafka_poll(s->rk, (int)left_ms);
    /* Purges the messages that have no report yet, so that no report arrives later for a message that was freed. */
    if (s->awaited || rd_kafka_fatal_error(s->rk, NULL, 0)) {
        (void)rd_kafka_purge(s->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        while (s->awaited)
            (void)rd_kafka_poll(s->rk, 100);
        message_kafka_drop_producer(s);
    }
}

static void message_kafka_free(struct message_sender *base)
{
    struct message_sender_kafka *s = container_of(base, struct message_sender_kafka, base);
    message_kafka_drop_producer(s);
    kafka_url_release(&s->url);
    free(s);
}

static const struct message_sender_ops message_kafka_ops = { message_kafka_deliver, message_kafka_free };

enum err message_sender_kafka_new(struct str url, struct peer_check *check, struct message_sender **ret,
                                  struct error *e)
{
    struct message_sender_kafka *s = xnew(*s);
    s->base.ops = &message_kafka_ops;
    s->check = check;
    enum err rc = kafka_url_parse(url, &s->url, e);
    if (rc) {
        free(s);
        return rc;
    }
    *ret = &s->base;
    return ERR_OK;
}
