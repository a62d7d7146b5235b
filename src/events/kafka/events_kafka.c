/* Publishes events, and reads how far the group is (barriers).
 *
 * A publish waits for the delivery report of each of its records. Reports carry the number of their call: a report
 * that comes after its call gave up is ignored. While the brokers are known to be down, a call only checks whether
 * they are back. */
#include "events/kafka/internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "port/event_message.h"

enum { PING_MS = 250, REPORT_MS = 500 /* extra time of a report beyond the record's own timeout */ };

static void events_kafka_on_error(rd_kafka_t *rk, int err, const char *reason, void *context)
{
    struct events_kafka *k = context;
    (void)rk;
    snprintf(k->reason, sizeof k->reason, "%s", reason);
    if (err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        k->is_down = true;
}

void events_kafka_set_error_cb(struct events_kafka *k, rd_kafka_conf_t *conf)
{
    rd_kafka_conf_set_opaque(conf, k);
    rd_kafka_conf_set_error_cb(conf, events_kafka_on_error);
}

/* ---- the topic ---- */

static enum err events_kafka_open_offsets_client(struct events_kafka *k, struct error *e)
{
    const struct kafka_setting usual[] = { { "allow.auto.create.topics", "false" } };
    const struct kafka_setting fixed[] = { { "group.id", k->group }, { "enable.auto.commit", "false" } };
    const struct kafka_settings settings = { KAFKA_USUAL(usual), KAFKA_FIXED(fixed) };
    rd_kafka_conf_t *conf;
    if (k->offsets_client)
        return ERR_OK;
    enum err rc = kafka_conf(&k->url, &settings, &conf, e);
    if (rc)
        return rc;
    events_kafka_set_error_cb(k, conf);
    return kafka_new(RD_KAFKA_CONSUMER, conf, &k->offsets_client, e);
}

enum err events_kafka_ensure_topic(struct events_kafka *k, struct error *e)
{
    if (k->partition_count)
        return ERR_OK;
    enum err rc = events_kafka_open_offsets_client(k, e);
    return rc ? rc : kafka_topic(k->offsets_client, &k->url, k->topic, &k->partition_count, e);
}

/* ---- publishing ---- */

/* The opaque value of the records of the current call. */
static void *events_kafka_token(struct producer *p)
{
    return &p->tokens[p->call % array_count(p->tokens)];
}

static void events_kafka_on_report(rd_kafka_t *rk, const rd_kafka_message_t *m, void *context)
{
    struct producer *p = &((struct events_kafka *)context)->producer;
    (void)rk;
    if (m->_private != events_kafka_token(p))
        return;
    assert(p->awaited > 0);
    p->awaited--;
    if (m->err)
        p->failed = m->err;
}

static enum err events_kafka_open_producer(struct events_kafka *k, struct error *e)
{
    static const struct kafka_setting usual[] = { { "linger.ms", "0" } };
    static const struct kafka_setting fixed[] = {
        { "enable.idempotence", "true" },
        { "acks", "all" },
        { "message.timeout.ms", "2000" },
    };
    static const struct kafka_settings settings = { KAFKA_USUAL(usual), KAFKA_FIXED(fixed) };
    rd_kafka_conf_t *conf;
    if (k->producer.rk)
        return ERR_OK;
    enum err rc = kafka_conf(&k->url, &settings, &conf, e);
    if (rc)
        return rc;
    events_kafka_set_error_cb(k, conf);
    rd_kafka_conf_set_dr_msg_cb(conf, events_kafka_on_report);
    return kafka_new(RD_KAFKA_PRODUCER, conf, &k->producer.rk, e);
}

/* Destroys the producer, with reports that no call awaits. */
static void events_kafka_drop_producer(struct events_kafka *k)
{
    if (!k->producer.rk)
        return;
    k->producer.call++;
    (void)rd_kafka_purge(k->producer.rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_destroy(k->producer.rk);
    k->producer.rk = NULL;
}

static rd_kafka_resp_err_t events_kafka_send_one(struct events_kafka *k, struct buf *text, const struct event *event)
{
    struct jw w;
    char key[UUID_TEXT + 1];
    buf_reset(text);
    jw_init(&w, text);
    event_write(&w, event);
    uuid_format(event->kind == EVENT_WORKER ? event->worker.id : event->task.id, key);
    if (text->full)
        return RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    struct producer *p = &k->producer;
    for (;;) {
        rd_kafka_resp_err_t err = rd_kafka_producev(
            p->rk, RD_KAFKA_V_TOPIC(k->topic), RD_KAFKA_V_KEY(key, UUID_TEXT), RD_KAFKA_V_VALUE(text->p, text->n),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE(events_kafka_token(p)), RD_KAFKA_V_END);
        if (err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            return err;
        (void)rd_kafka_poll(p->rk, 10); /* reports make room in the producer's queue */
    }
}

static void events_kafka_send_all(struct events_kafka *k, const struct event *v, size_t n)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, EVENT_TEXT_MAX);
    for (size_t i = 0; i < n && !k->producer.failed; i++) {
        k->producer.awaited++;
        rd_kafka_resp_err_t err = events_kafka_send_one(k, &text, &v[i]);
        if (err) {
            k->producer.awaited--;
            k->producer.failed = err;
        }
    }
}

static void events_kafka_await_reports(struct events_kafka *k)
{
    struct producer *p = &k->producer;
    int64_t end_ms = kafka_now_ms() + KAFKA_CALL_MS + REPORT_MS, left_ms;
    while (p->awaited && (left_ms = end_ms - kafka_now_ms()) > 0)
        (void)rd_kafka_poll(p->rk, (int)left_ms);
    if (p->awaited && !p->failed)
        p->failed = RD_KAFKA_RESP_ERR__TIMED_OUT;
}

static enum err events_kafka_ping(struct events_kafka *k, struct error *e)
{
    const struct rd_kafka_metadata *m;
    struct producer *p = &k->producer;
    (void)rd_kafka_poll(p->rk, 0);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(p->rk, k->topic, NULL);
    rd_kafka_resp_err_t err = rd_kafka_metadata(p->rk, 0, topic, &m, PING_MS);
    rd_kafka_topic_destroy(topic);
    if (err)
        return kafka_unavailable(&k->url, "publishing", err, k->reason, e);
    rd_kafka_metadata_destroy(m);
    p->is_down = false;
    return ERR_OK;
}

static enum err events_kafka_publish_failed(struct events_kafka *k, struct error *e)
{
    rd_kafka_resp_err_t err = k->producer.failed;
    bool too_large = err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    if (too_large)
        return error_set(e, ERR_LIMIT,
                         "an event is larger than Kafka takes: raise message.max.bytes there and in the address");
    k->producer.is_down = true;
    /* the sequence numbers of the idempotent producer are broken: a new producer starts new ones */
    if (err == RD_KAFKA_RESP_ERR__FATAL || rd_kafka_fatal_error(k->producer.rk, NULL, 0))
        events_kafka_drop_producer(k);
    if (err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC)
        k->partition_count = 0; /* the topic was deleted */
    bool late = err == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT || err == RD_KAFKA_RESP_ERR__TIMED_OUT;
    return kafka_unavailable(&k->url, "publishing", err, late ? k->reason : NULL, e);
}

static enum err events_kafka_publish(struct events *ev, const struct event *v, size_t n, struct error *e)
{
    struct events_kafka *k = events_kafka_of(ev);
    struct producer *p = &k->producer;
    enum err rc = events_kafka_ensure_topic(k, e);
    if (rc == ERR_OK)
        rc = events_kafka_open_producer(k, e);
    if (rc == ERR_OK && p->is_down)
        rc = events_kafka_ping(k, e);
    if (rc)
        return rc;
    p->call++;
    p->awaited = 0;
    p->failed = RD_KAFKA_RESP_ERR_NO_ERROR;
    k->reason[0] = '\0';
    events_kafka_send_all(k, v, n);
    events_kafka_await_reports(k);
    return p->failed ? events_kafka_publish_failed(k, e) : ERR_OK;
}

/* ---- barriers ---- */

struct kafka_position {
    int64_t count;
    int64_t ends[KAFKA_PARTITIONS_MAX];
};
_Static_assert(sizeof(struct kafka_position) <= sizeof(struct events_barrier), "a mark has a place for each partition");

static rd_kafka_topic_partition_list_t *events_kafka_all_partitions(const struct events_kafka *k, int count)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(count);
    for (int i = 0; i < count; i++)
        rd_kafka_topic_partition_list_add(list, k->topic, i)->offset = RD_KAFKA_OFFSET_END;
    return list;
}

static rd_kafka_resp_err_t events_kafka_first_error(rd_kafka_resp_err_t err,
                                                    const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; !err && i < list->cnt; i++)
        err = list->elems[i].err;
    return err;
}

/* Errors of a new topic or of a change of leaders: retried. */
static bool events_kafka_is_temporary(rd_kafka_resp_err_t err)
{
    return err == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION || err == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
           err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || err == RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE;
}

/* The end of each partition: the offset for the time "latest", which is written as -1. */
static rd_kafka_resp_err_t events_kafka_read_ends(struct events_kafka *k, struct kafka_position *ret)
{
    rd_kafka_topic_partition_list_t *list = events_kafka_all_partitions(k, k->partition_count);
    rd_kafka_resp_err_t err =
        events_kafka_first_error(rd_kafka_offsets_for_times(k->offsets_client, list, KAFKA_CALL_MS), list);
    ret->count = k->partition_count;
    for (int i = 0; i < list->cnt; i++)
        ret->ends[list->elems[i].partition] = list->elems[i].offset;
    rd_kafka_topic_partition_list_destroy(list);
    return err;
}

static enum err events_kafka_barrier(struct events *ev, struct events_barrier *ret, struct error *e)
{
    struct events_kafka *k = events_kafka_of(ev);
    enum err rc = events_kafka_ensure_topic(k, e);
    if (rc)
        return rc;
    int64_t end_ms = kafka_now_ms() + KAFKA_CALL_MS;
    struct kafka_position m = { 0 };
    rd_kafka_resp_err_t err;
    while ((err = events_kafka_read_ends(k, &m)) && events_kafka_is_temporary(err) && kafka_now_ms() < end_ms)
        (void)rd_kafka_poll(k->offsets_client, 20);
    if (err)
        return kafka_unavailable(&k->url, "asking where the events end", err, k->reason, e);
    memset(ret, 0, sizeof *ret);
    memcpy(ret->bytes, &m, sizeof m);
    return ERR_OK;
}

/* If the group has never committed in a partition, the barrier is passed if no record exists before it. */
static rd_kafka_resp_err_t events_kafka_is_empty_before(struct events_kafka *k, int partition, int64_t end, bool *ret)
{
    int64_t low = 0, high = 0;
    rd_kafka_resp_err_t err =
        end > 0 ? rd_kafka_query_watermark_offsets(k->offsets_client, k->topic, partition, &low, &high, KAFKA_CALL_MS)
                : 0;
    *ret = end <= low;
    return err;
}

static enum err events_kafka_barrier_passed(struct events *ev, const struct events_barrier *at, bool *ret,
                                            struct error *e)
{
    struct events_kafka *k = events_kafka_of(ev);
    struct kafka_position m;
    enum err rc = events_kafka_ensure_topic(k, e);
    if (rc)
        return rc;
    memcpy(&m, at->bytes, sizeof m);
    assert(m.count > 0 && m.count <= KAFKA_PARTITIONS_MAX);
    rd_kafka_topic_partition_list_t *list = events_kafka_all_partitions(k, (int)m.count);
    rd_kafka_resp_err_t err =
        events_kafka_first_error(rd_kafka_committed(k->offsets_client, list, KAFKA_CALL_MS), list);
    bool all = true;
    for (int i = 0; !err && all && i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *one = &list->elems[i];
        if (one->offset >= 0)
            all = one->offset >= m.ends[one->partition];
        else
            err = events_kafka_is_empty_before(k, one->partition, m.ends[one->partition], &all);
    }
    rd_kafka_topic_partition_list_destroy(list);
    if (err)
        return kafka_unavailable(&k->url, "asking how far the updaters are", err, k->reason, e);
    *ret = all;
    return ERR_OK;
}

/* ---- the port ---- */

static void events_kafka_free(struct events *ev)
{
    struct events_kafka *k = events_kafka_of(ev);
    events_kafka_close_consumer(k);
    events_kafka_drop_producer(k);
    if (k->offsets_client)
        rd_kafka_destroy_flags(k->offsets_client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    kafka_url_release(&k->url);
    free(k);
}

static const struct events_ops ops = {
    .publish = events_kafka_publish,
    .poll = events_kafka_poll,
    .ack = events_kafka_ack,
    .reset = events_kafka_reset,
    .barrier = events_kafka_barrier,
    .barrier_passed = events_kafka_barrier_passed,
    .depth = events_kafka_depth,
    .free = events_kafka_free,
};

enum err events_kafka_open(struct str url, struct events **ret, struct error *e)
{
    struct events_kafka *k = xnew(*k);
    enum err rc = kafka_url_parse(url, &k->url, e);
    if (rc) {
        free(k);
        return rc;
    }
    k->base.ops = &ops;
    snprintf(k->topic, sizeof k->topic, "%s.events", k->url.prefix);
    snprintf(k->group, sizeof k->group, "%s.updaters", k->url.prefix);
    for (int i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        list_init(&k->consumer.partitions[i].records);
    *ret = &k->base;
    return ERR_OK;
}
