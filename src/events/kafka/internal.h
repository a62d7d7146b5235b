#pragma once
/* events/kafka/internal.h - what the two halves of events_kafka share: who publishes, and who polls.
 *
 * Each client is made when it is first needed: a worker never joins the group, a poll makes no producer. */
#include "base/list.h"
#include "broker/kafka/kafka.h"
#include "events/kafka/events_kafka.h"

enum { NAME_BYTES = KAFKA_PREFIX_MAX + 16, REASON_BYTES = 256 };

/* A record that was fetched and is not yet covered by what the group has committed. */
struct record {
    struct list link; /* of its partition, in the order of offsets */
    int64_t offset;
    bool polled, acked;
    size_t n;
    char text[];
};

struct partition {
    struct list records;
    int64_t front;     /* all before it is acknowledged; -1: nothing was fetched */
    int64_t committed; /* what the group knows of that */
    bool ours;
    bool revoking; /* asked back by the group: nothing of it is polled any more */
};

struct consumer {
    rd_kafka_t *rk; /* NULL: not yet */
    struct partition partitions[KAFKA_PARTITIONS_MAX];
    size_t waiting;                           /* records that are not polled yet */
    int next;                                 /* the partition that is looked at first, so that none starves */
    rd_kafka_topic_partition_list_t *revoked; /* what was asked back and not yet given; NULL: nothing */
    int64_t revoke_end_ms;                    /* when it is given, acknowledged or not */
    rd_kafka_queue_t *commits;                /* where answers to commits come */
    bool commit_open, closing;
    rd_kafka_resp_err_t commit_error; /* of the last one */
};

struct producer {
    rd_kafka_t *rk;  /* NULL: not yet */
    uint64_t call;   /* whose reports are awaited: older ones come too late for anybody */
    char tokens[64]; /* one for each of the last calls: a call that gave up took two seconds, and so did its records */
    size_t awaited;
    rd_kafka_resp_err_t failed;
    bool is_down; /* the last call was not answered */
};

struct events_kafka {
    struct events base;
    struct kafka_url url;
    char topic[NAME_BYTES], group[NAME_BYTES];
    int partition_count;        /* 0: the topic was not looked at */
    rd_kafka_t *offsets_client; /* asks for offsets, in the group's name, without being one of it; NULL: not yet */
    struct producer producer;
    struct consumer consumer;
    bool is_down;              /* the brokers, by the consumer's word */
    char reason[REASON_BYTES]; /* the last that librdkafka complained of */
};

static inline struct events_kafka *events_kafka_of(struct events *ev)
{
    return container_of(ev, struct events_kafka, base);
}

/* The topic is there and its partitions are counted; later calls cost nothing. */
enum err events_kafka_ensure_topic(struct events_kafka *k, struct error *e) must_use;
void events_kafka_set_error_cb(struct events_kafka *k, rd_kafka_conf_t *conf); /* complaints go to k->reason */

enum err events_kafka_poll(struct events *ev, size_t max, int64_t wait_ms, struct arena *a, struct event_list *ret,
                           struct error *e) must_use;
enum err events_kafka_ack(struct events *ev, const uint64_t *sequences, size_t n, struct error *e) must_use;
enum err events_kafka_reset(struct events *ev, struct error *e) must_use;
size_t events_kafka_depth(struct events *ev);
void events_kafka_close_consumer(struct events_kafka *k);
