/* Polls events, as a member of the consumer group.
 *
 * A record is kept here from its fetch until all records before it in its partition are acknowledged; then the
 * committed offset moves over it. So a reset needs no broker, and acks may come in any order.
 *
 * If the group revokes a partition (another updater joined), no new records of it are polled. The partition is given
 * up when all polled records are acknowledged, which usually takes a moment: then no event comes twice. After
 * REVOKE_MS it is given up anyway; the unacknowledged events come again, to the next owner. A partition that was
 * lost (this member was too slow for the group) is gone at once, and acks of its events change nothing.
 *
 * All partitions are reassigned whenever a member joins or leaves (range, an eager strategy): a short pause, a few
 * times a day. An incremental strategy (cooperative-sticky) would avoid the pause, but librdkafka 2.0, which Debian
 * 12 has, fails an assertion (rd_kafka_sticky_assignor_state_destroy) if members join while others give up
 * partitions. The code below supports both protocols. */
#include "events/kafka/internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "port/event_message.h"

enum { REVOKE_MS = 5000, OFFSET_BITS = 48 };

/* ---- records ---- */

static uint64_t events_kafka_sequence(int partition, int64_t offset)
{
    return (uint64_t)(partition + 1) << OFFSET_BITS | (uint64_t)offset;
}

static void events_kafka_drop_record(struct record *r)
{
    list_remove(&r->link);
    free(r);
}

static void events_kafka_clear_partition(struct partition *p, bool ours)
{
    list_each (&p->records, link)
        events_kafka_drop_record(container_of(link, struct record, link));
    p->front = p->committed = -1;
    p->ours = ours;
    p->revoking = false;
}

static void events_kafka_add_record(struct consumer *c, const rd_kafka_message_t *m)
{
    struct partition *p = m->partition < KAFKA_PARTITIONS_MAX ? &c->partitions[m->partition] : NULL;
    if (!p || !p->ours || p->revoking)
        return; /* the next owner of the partition fetches it */
    struct record *r = xmalloc(sizeof *r + m->len);
    *r = (struct record){ .offset = m->offset, .n = m->len };
    if (m->len)
        memcpy(r->text, m->payload, m->len);
    list_push(&p->records, &r->link);
    c->waiting++;
}

/* Moves `front` over the acknowledged records at the start of a partition. */
static void events_kafka_move_front(struct partition *p)
{
    while (!list_empty(&p->records)) {
        struct record *r = container_of(p->records.next, struct record, link);
        if (!r->acked)
            return;
        p->front = r->offset + 1;
        events_kafka_drop_record(r);
    }
}

static struct record *events_kafka_find_record(struct partition *p, int64_t offset)
{
    list_each (&p->records, link) {
        struct record *r = container_of(link, struct record, link);
        if (r->offset == offset)
            return r;
    }
    return NULL;
}

static void events_kafka_mark_acked(struct consumer *c, uint64_t sequence)
{
    uint64_t partition = (sequence >> OFFSET_BITS) - 1;
    int64_t offset = (int64_t)(sequence & (((uint64_t)1 << OFFSET_BITS) - 1));
    struct partition *p = partition < KAFKA_PARTITIONS_MAX ? &c->partitions[partition] : NULL;
    struct record *r = p ? events_kafka_find_record(p, offset) : NULL;
    if (!r || r->acked)
        return; /* acknowledged before, or the partition has another owner */
    c->waiting -= !r->polled;
    r->acked = r->polled = true;
    events_kafka_move_front(p);
}

static bool events_kafka_is_unacked(const struct record *r)
{
    return r->polled && !r->acked;
}

static bool events_kafka_has_unacked(struct partition *p)
{
    list_each (&p->records, link)
        if (events_kafka_is_unacked(container_of(link, struct record, link)))
            return true;
    return false;
}

/* ---- commits ---- */

static bool events_kafka_is_not_member(rd_kafka_resp_err_t err)
{
    return err == RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION || err == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID ||
           err == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS || err == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID;
}

static void events_kafka_on_commit(rd_kafka_t *rk, rd_kafka_resp_err_t err, rd_kafka_topic_partition_list_t *offsets,
                                   void *context)
{
    struct consumer *c = &((struct events_kafka *)context)->consumer;
    (void)rk;
    c->commit_open = false;
    c->commit_error = err;
    for (int i = 0; offsets && i < offsets->cnt; i++) {
        const rd_kafka_topic_partition_t *one = &offsets->elems[i];
        if (err || one->err)
            c->commit_error = err ? err : one->err;
        else if (one->partition < KAFKA_PARTITIONS_MAX && c->partitions[one->partition].ours)
            c->partitions[one->partition].committed = one->offset;
    }
}

static void events_kafka_begin_commit(struct events_kafka *k)
{
    struct consumer *c = &k->consumer;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(k->partition_count);
    for (int i = 0; i < k->partition_count; i++)
        if (c->partitions[i].ours && c->partitions[i].front > c->partitions[i].committed)
            rd_kafka_topic_partition_list_add(list, k->topic, i)->offset = c->partitions[i].front;
    if (list->cnt) {
        c->commit_error = rd_kafka_commit_queue(c->rk, list, c->commits, events_kafka_on_commit, k);
        c->commit_open = !c->commit_error;
    }
    rd_kafka_topic_partition_list_destroy(list);
}

static void events_kafka_await_commit(struct consumer *c, int64_t end_ms)
{
    int64_t left_ms = max_of(end_ms - kafka_now_ms(), (int64_t)0);
    while (c->commit_open && rd_kafka_queue_poll_callback(c->commits, (int)left_ms) > 0)
        left_ms = max_of(end_ms - kafka_now_ms(), (int64_t)0);
}

/* Commits the acknowledged offsets. One commit at a time; waits at most wait_ms. */
static void events_kafka_commit(struct events_kafka *k, int64_t wait_ms)
{
    struct consumer *c = &k->consumer;
    int64_t end_ms = kafka_now_ms() + wait_ms;
    events_kafka_await_commit(c, end_ms);
    if (c->commit_open)
        return;
    c->commit_error = RD_KAFKA_RESP_ERR_NO_ERROR;
    events_kafka_begin_commit(k);
    events_kafka_await_commit(c, end_ms);
}

/* ---- rebalancing ---- */

static bool events_kafka_is_cooperative(rd_kafka_t *rk)
{
    const char *protocol = rd_kafka_rebalance_protocol(rk);
    return protocol && strcmp(protocol, "COOPERATIVE") == 0;
}

/* If the assignment fails, the group's next rebalance repeats it. */
static void events_kafka_log_rebalance_error(rd_kafka_t *rk, rd_kafka_error_t *error)
{
    (void)rk;
    if (error)
        log_warn("kafka_rebalance_failed", kv_cstr("error", rd_kafka_error_string(error)));
    rd_kafka_error_destroy(error);
}

static void events_kafka_count_waiting(struct consumer *c)
{
    c->waiting = 0;
    for (int i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        list_each (&c->partitions[i].records, link)
            c->waiting += !container_of(link, struct record, link)->polled;
}

/* NULL for a partition beyond KAFKA_PARTITIONS_MAX: someone enlarged the topic. This version leaves it unread. */
static struct partition *events_kafka_partition_at(struct consumer *c, const rd_kafka_topic_partition_list_t *list,
                                                   int i)
{
    int32_t at = list->elems[i].partition;
    return at >= 0 && at < KAFKA_PARTITIONS_MAX ? &c->partitions[at] : NULL;
}

static void events_kafka_clear_all(struct consumer *c, const rd_kafka_topic_partition_list_t *list, bool ours)
{
    for (int i = 0; i < list->cnt; i++)
        if (events_kafka_partition_at(c, list, i))
            events_kafka_clear_partition(events_kafka_partition_at(c, list, i), ours);
    events_kafka_count_waiting(c);
}

static void events_kafka_assign(struct events_kafka *k, const rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_t *rk = k->consumer.rk;
    events_kafka_clear_all(&k->consumer, list, true);
    if (events_kafka_is_cooperative(rk))
        events_kafka_log_rebalance_error(rk, rd_kafka_incremental_assign(rk, list));
    else
        (void)rd_kafka_assign(rk, list);
}

static void events_kafka_unassign(struct events_kafka *k, const rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_t *rk = k->consumer.rk;
    events_kafka_clear_all(&k->consumer, list, false);
    if (events_kafka_is_cooperative(rk))
        events_kafka_log_rebalance_error(rk, rd_kafka_incremental_unassign(rk, list));
    else
        (void)rd_kafka_assign(rk, NULL);
}

/* Drops the records that were not polled: only polled ones are waited for. */
static void events_kafka_begin_revoke(struct events_kafka *k, const rd_kafka_topic_partition_list_t *list)
{
    struct consumer *c = &k->consumer;
    assert(!c->revoked);
    c->revoked = rd_kafka_topic_partition_list_copy(list);
    c->revoke_end_ms = kafka_now_ms() + REVOKE_MS;
    for (int i = 0; i < list->cnt; i++) {
        struct partition *p = events_kafka_partition_at(c, list, i);
        if (!p)
            continue;
        p->revoking = true;
        list_each (&p->records, link)
            if (!container_of(link, struct record, link)->polled)
                events_kafka_drop_record(container_of(link, struct record, link));
    }
    events_kafka_count_waiting(c);
}

static void events_kafka_end_revoke(struct events_kafka *k)
{
    struct consumer *c = &k->consumer;
    rd_kafka_topic_partition_list_t *list = c->revoked;
    c->revoked = NULL;
    events_kafka_unassign(k, list);
    rd_kafka_topic_partition_list_destroy(list);
}

/* Gives up revoked partitions if all polled records are acknowledged, or the time is over. */
static void events_kafka_continue_revoke(struct events_kafka *k)
{
    struct consumer *c = &k->consumer;
    if (!c->revoked)
        return;
    bool over = kafka_now_ms() >= c->revoke_end_ms || rd_kafka_assignment_lost(c->rk);
    for (int i = 0; !over && i < c->revoked->cnt; i++)
        if (events_kafka_partition_at(c, c->revoked, i) &&
            events_kafka_has_unacked(events_kafka_partition_at(c, c->revoked, i)))
            return;
    events_kafka_commit(k, over ? 0 : KAFKA_CALL_MS);
    events_kafka_end_revoke(k);
}

static void events_kafka_on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t err, rd_kafka_topic_partition_list_t *list,
                                      void *context)
{
    struct events_kafka *k = context;
    if (err == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        events_kafka_assign(k, list);
        return;
    }
    if (k->consumer.revoked) /* the group did not wait for it */
        events_kafka_end_revoke(k);
    if (err == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS && !k->consumer.closing && !rd_kafka_assignment_lost(rk))
        events_kafka_begin_revoke(k, list);
    else
        events_kafka_unassign(k, list);
}

/* ---- polling ---- */

static enum err events_kafka_subscribe(struct events_kafka *k, struct error *e)
{
    struct consumer *c = &k->consumer;
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, k->topic, RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t err = rd_kafka_subscribe(c->rk, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    return err ? kafka_unavailable(&k->url, "joining the updaters", err, NULL, e) : ERR_OK;
}

/* max.poll.interval.ms: a member that joins waits for all others, at most this long. The default is 5 min, and a
 * broken connection may double that. A member that polls more rarely, because the store is unavailable, leaves the
 * group until it polls again. */
static enum err events_kafka_open_consumer(struct events_kafka *k, struct error *e)
{
    static const struct kafka_setting usual[] = {
        { "session.timeout.ms", "6000" },          { "heartbeat.interval.ms", "2000" },
        { "max.poll.interval.ms", "10000" },       { "queued.min.messages", "10000" },
        { "queued.max.messages.kbytes", "16384" }, { "allow.auto.create.topics", "false" },
    };
    const struct kafka_setting fixed[] = {
        { "group.id", k->group },
        { "enable.auto.commit", "false" },
        { "enable.auto.offset.store", "false" },
        { "auto.offset.reset", "earliest" },
        { "partition.assignment.strategy", "range" },
    };
    const struct kafka_settings settings = { KAFKA_USUAL(usual), KAFKA_FIXED(fixed) };
    struct consumer *c = &k->consumer;
    rd_kafka_conf_t *conf;
    if (c->rk)
        return ERR_OK;
    enum err rc = kafka_conf(&k->url, &settings, &conf, e);
    if (rc)
        return rc;
    events_kafka_set_error_cb(k, conf);
    rd_kafka_conf_set_rebalance_cb(conf, events_kafka_on_rebalance);
    rc = kafka_new(RD_KAFKA_CONSUMER, conf, &c->rk, e);
    if (rc)
        return rc;
    (void)rd_kafka_poll_set_consumer(c->rk);
    c->commits = rd_kafka_queue_new(c->rk);
    return events_kafka_subscribe(k, e);
}

static bool events_kafka_is_retried(rd_kafka_resp_err_t err)
{
    return err == RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED || err == RD_KAFKA_RESP_ERR__PARTITION_EOF ||
           err == RD_KAFKA_RESP_ERR__TRANSPORT || err == RD_KAFKA_RESP_ERR__TIMED_OUT;
}

static enum err events_kafka_handle_message(struct events_kafka *k, const rd_kafka_message_t *m, struct error *e)
{
    if (!m->err) {
        events_kafka_add_record(&k->consumer, m);
        return ERR_OK;
    }
    if (events_kafka_is_retried(m->err))
        return ERR_OK; /* librdkafka retries by itself */
    if (m->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        k->partition_count = 0; /* the topic was deleted: the next call creates it */
    return kafka_unavailable(&k->url, "polling", m->err, rd_kafka_message_errstr(m), e);
}

/* Waits until a record is there, at most wait_ms, and fetches the records that are there. */
static enum err events_kafka_fetch(struct events_kafka *k, size_t max, int64_t wait_ms, struct error *e)
{
    struct consumer *c = &k->consumer;
    int64_t end_ms = kafka_now_ms() + wait_ms;
    while (c->waiting < max) {
        int64_t until_ms = c->revoked ? min_of(end_ms, c->revoke_end_ms) : end_ms;
        int64_t left_ms = c->waiting ? 0 : max_of(until_ms - kafka_now_ms(), (int64_t)0);
        rd_kafka_message_t *m = rd_kafka_consumer_poll(c->rk, (int)left_ms);
        enum err rc = m ? events_kafka_handle_message(k, m, e) : ERR_OK;
        if (m)
            rd_kafka_message_destroy(m);
        events_kafka_continue_revoke(k);
        if (rc)
            return rc;
        if (!m && (c->waiting || kafka_now_ms() >= end_ms))
            break;
    }
    if (c->waiting == 0 && k->is_down) {
        k->is_down = false;
        return kafka_unavailable(&k->url, "polling", RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, k->reason, e);
    }
    return ERR_OK;
}

/* Skips an unreadable event: it counts as acknowledged. */
static void events_kafka_skip(struct events_kafka *k, int partition, struct record *r, const struct error *e)
{
    r->polled = r->acked = true;
    k->consumer.waiting--;
    log_warn("event_unreadable", kv_cstr("topic", k->topic), kv_i64("partition", partition),
             kv_i64("offset", r->offset), kv_cstr("field", e->field), kv_err(e));
}

struct poll_batch {
    struct arena *a;
    struct event *v;
    size_t n, max;
};

static enum err events_kafka_deliver_one(struct events_kafka *k, int partition, struct record *r, struct poll_batch *d,
                                         struct error *e)
{
    struct arena_mark mark = arena_mark(d->a);
    enum err rc = event_read(d->a, (struct str){ r->text, r->n }, &d->v[d->n], e);
    if (rc)
        arena_rewind(d->a, mark);
    if (rc == ERR_CORRUPT) {
        events_kafka_skip(k, partition, r, e);
        return ERR_OK;
    }
    if (rc)
        return rc;
    d->v[d->n++].sequence = events_kafka_sequence(partition, r->offset);
    r->polled = true;
    k->consumer.waiting--;
    return ERR_OK;
}

/* ERR_LIMIT: the arena has no room for the next event. */
static enum err events_kafka_deliver_partition(struct events_kafka *k, int at, struct poll_batch *d, struct error *e)
{
    struct partition *p = &k->consumer.partitions[at];
    enum err rc = ERR_OK;
    list_each (&p->records, link) {
        struct record *r = container_of(link, struct record, link);
        if (rc || d->n == d->max)
            break;
        if (!r->polled)
            rc = events_kafka_deliver_one(k, at, r, d, e);
    }
    events_kafka_move_front(p); /* over unreadable records */
    return rc;
}

/* ERR_LIMIT: the arena has no room for an array of max events and one event. */
static enum err events_kafka_deliver_up_to(struct events_kafka *k, size_t max, struct arena *a, struct event_list *ret,
                                           struct error *e)
{
    struct poll_batch d = { .a = a, .max = max, .v = arena_array(a, struct event, max) };
    enum err rc = ERR_OK;
    if (!d.v)
        return error_set(e, ERR_LIMIT, "there is no room for an event");
    for (int i = 0; !rc && i < k->partition_count; i++)
        rc = events_kafka_deliver_partition(k, (k->consumer.next + i) % k->partition_count, &d, e);
    if (rc && d.n == 0)
        return rc;
    *ret = (struct event_list){ d.v, d.n };
    return ERR_OK;
}

static enum err events_kafka_deliver(struct events_kafka *k, size_t max, struct arena *a, struct event_list *ret,
                                     struct error *e)
{
    struct consumer *c = &k->consumer;
    struct arena_mark mark = arena_mark(a);
    size_t n = min_of(max, c->waiting);
    enum err rc = ERR_LIMIT;
    *ret = (struct event_list){ 0 };
    for (; n > 0 && rc == ERR_LIMIT; n /= 2) {
        arena_rewind(a, mark);
        rc = events_kafka_deliver_up_to(k, n, a, ret, e);
    }
    c->next = (c->next + 1) % k->partition_count;
    return c->waiting && ret->n == 0 ? rc : ERR_OK;
}

enum err events_kafka_poll(struct events *ev, size_t max, int64_t wait_ms, struct arena *a, struct event_list *ret,
                           struct error *e)
{
    struct events_kafka *k = events_kafka_of(ev);
    enum err rc = events_kafka_ensure_topic(k, e);
    if (rc == ERR_OK)
        rc = events_kafka_open_consumer(k, e);
    if (rc)
        return rc;
    events_kafka_commit(k, 0); /* commits that an ack could not make, and skipped records */
    events_kafka_continue_revoke(k);
    rc = events_kafka_fetch(k, max, wait_ms, e);
    return rc ? rc : events_kafka_deliver(k, max, a, ret, e);
}

enum err events_kafka_ack(struct events *ev, const uint64_t *sequences, size_t n, struct error *e)
{
    struct events_kafka *k = events_kafka_of(ev);
    struct consumer *c = &k->consumer;
    if (!c->rk)
        return ERR_OK; /* nothing was polled by this handle */
    for (size_t i = 0; i < n; i++)
        events_kafka_mark_acked(c, sequences[i]);
    events_kafka_commit(k, KAFKA_CALL_MS);
    events_kafka_continue_revoke(k);
    if (c->commit_open)
        return kafka_unavailable(&k->url, "acknowledging events", RD_KAFKA_RESP_ERR__TIMED_OUT, k->reason, e);
    if (c->commit_error && !events_kafka_is_not_member(c->commit_error))
        return kafka_unavailable(&k->url, "acknowledging events", c->commit_error, NULL, e);
    return ERR_OK;
}

enum err events_kafka_reset(struct events *ev, struct error *e)
{
    struct events_kafka *k = events_kafka_of(ev);
    (void)e;
    for (int i = 0; i < KAFKA_PARTITIONS_MAX; i++) {
        struct partition *p = &k->consumer.partitions[i];
        list_each (&p->records, link) {
            struct record *r = container_of(link, struct record, link);
            if (events_kafka_is_unacked(r) && p->revoking)
                events_kafka_drop_record(r); /* the next owner gets it */
            else
                r->polled = r->acked;
        }
    }
    events_kafka_count_waiting(&k->consumer);
    return ERR_OK;
}

size_t events_kafka_depth(struct events *ev)
{
    struct consumer *c = &events_kafka_of(ev)->consumer;
    size_t n = 0;
    for (int i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        list_each (&c->partitions[i].records, link)
            n += !container_of(link, struct record, link)->acked;
    return n;
}

void events_kafka_close_consumer(struct events_kafka *k)
{
    struct consumer *c = &k->consumer;
    if (!c->rk)
        return;
    c->closing = true;
    events_kafka_commit(k, KAFKA_CALL_MS);
    if (c->revoked)
        events_kafka_end_revoke(k);
    (void)rd_kafka_consumer_close(c->rk);
    events_kafka_await_commit(c, 0);
    rd_kafka_queue_destroy(c->commits);
    rd_kafka_destroy(c->rk);
    for (int i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        events_kafka_clear_partition(&c->partitions[i], false);
}
