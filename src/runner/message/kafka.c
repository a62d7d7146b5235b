/* Each message has a report of its own, which says whether it is on the topic, surely not, or perhaps. A topic must be there: a typo makes
 * none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "broker/kafka/kafka.h"
#include "runner/message/internal.h"

enum { REPORTS_MS = 8000 }; /* a record's own time, and a little more: then each has its report */

struct sender_kafka {
    struct sender base;
    struct kafka_url url;
    struct judge *judge;
    rd_kafka_t *rk;
    size_t awaited;
    char reason[256]; /* the last complaint of librdkafka's */
};

/* librdkafka connects to whatever address a broker says it has: each is judged. */
static int connect_judged(int fd, const struct sockaddr *to, int n, const char *id, void *context)
{
    struct sender_kafka *s = context;
    (void)id;
    if (s->judge->guard && !guard_allows(s->judge->guard, to)) {
        __atomic_store_n(&s->judge->blocked, true, __ATOMIC_RELAXED); /* from a thread of librdkafka's */
        return EACCES;
    }
    return connect(fd, to, (socklen_t)n) == 0 || errno == EINPROGRESS ? 0 : errno;
}

static void on_error(rd_kafka_t *rk, int err, const char *reason, void *context)
{
    struct sender_kafka *s = context;
    (void)rk;
    (void)err;
    snprintf(s->reason, sizeof s->reason, "%s", reason);
}

static void note_failure(struct sender_kafka *s, struct post *p, const rd_kafka_message_t *m)
{
    bool sent = rd_kafka_message_status(m) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
    bool late = m->err == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT;
    switch (m->err) {
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC: post_failed(p, FAILURE_CONNECT, false, "Kafka has no such topic"); break;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        post_failed(p, FAILURE_REFUSED, false, rd_kafka_err2str(m->err));
        break;
    default: post_lost(p, s->judge, sent, late && s->reason[0] ? s->reason : rd_kafka_err2str(m->err));
    }
}

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *m, void *context)
{
    struct sender_kafka *s = context;
    struct post *p = m->_private;
    (void)rk;
    s->awaited--;
    if (m->err) {
        note_failure(s, p, m);
        return;
    }
    p->failure = FAILURE_NONE;
    snprintf(p->output, sizeof p->output, "partition %d, offset %lld", (int)m->partition, (long long)m->offset);
}

static rd_kafka_headers_t *headers_of(const struct post *p)
{
    rd_kafka_headers_t *h = rd_kafka_headers_new(p->header_count);
    for (size_t i = 0; i < p->header_count; i++)
        (void)rd_kafka_header_add(h, p->headers[i].name.p, (ssize_t)p->headers[i].name.n, p->headers[i].value.p,
                                  (ssize_t)p->headers[i].value.n);
    return h;
}

static void produce(struct sender_kafka *s, struct post *p)
{
    const struct message_target *l = &p->letter;
    rd_kafka_headers_t *headers = headers_of(p);
    union {
        const char *in;
        void *out;
    } body = { l->content.body.p }, key = { l->key.p }; /* copied, and not written to */
    rd_kafka_resp_err_t err = rd_kafka_producev(
        s->rk, RD_KAFKA_V_TOPIC(l->destination.p), RD_KAFKA_V_KEY(l->key.n ? key.out : NULL, l->key.n),
        RD_KAFKA_V_VALUE(body.out, l->content.body.n), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(p), RD_KAFKA_V_END);
    if (!err) {
        s->awaited++;
        return;
    }
    rd_kafka_headers_destroy(headers);
    note_failure(s, p, &(rd_kafka_message_t){ .err = err });
}

static void drop(struct sender_kafka *s)
{
    if (s->rk)
        rd_kafka_destroy(s->rk);
    s->rk = NULL;
}

static enum err have_producer(struct sender_kafka *s, struct error *e)
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
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_conf_set_connect_cb(conf, connect_judged);
    return kafka_new(RD_KAFKA_PRODUCER, conf, &s->rk, e);
}

static void deliver(struct sender *base, struct post **v, size_t n)
{
    struct sender_kafka *s = container_of(base, struct sender_kafka, base);
    struct error e = { 0 };
    s->reason[0] = '\0';
    if (have_producer(s, &e)) {
        for (size_t i = 0; i < n; i++)
            post_failed(v[i], FAILURE_REFUSED, false, e.text);
        return;
    }
    for (size_t i = 0; i < n; i++)
        produce(s, v[i]);
    int64_t end_ms = kafka_now_ms() + REPORTS_MS, left_ms;
    while (s->awaited && (left_ms = end_ms - kafka_now_ms()) > 0)
        (void)rd_kafka_poll(s->rk, (int)left_ms);
    /* Whatever is left is told of now, and no report comes later for a post that is gone. */
    if (s->awaited || rd_kafka_fatal_error(s->rk, NULL, 0)) {
        (void)rd_kafka_purge(s->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        while (s->awaited)
            (void)rd_kafka_poll(s->rk, 100);
        drop(s);
    }
}

static void release(struct sender *base)
{
    struct sender_kafka *s = container_of(base, struct sender_kafka, base);
    drop(s);
    kafka_url_release(&s->url);
    free(s);
}

static const struct sender_ops ops = { deliver, release };

enum err sender_kafka_new(struct str url, struct judge *j, struct sender **ret, struct error *e)
{
    struct sender_kafka *s = xnew(*s);
    s->base.ops = &ops;
    s->judge = j;
    enum err rc = kafka_url_parse(url, &s->url, e);
    if (rc) {
        free(s);
        return rc;
    }
    *ret = &s->base;
    return ERR_OK;
}
