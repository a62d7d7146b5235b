#pragma once
/* events/kafka/internal.h - the state that publishing (events_kafka.c) and polling (poll.c) share.
 *
 * Each Kafka client is created when it is first needed: a worker never joins the group, and a poll creates no
 * producer. */
#include "base/list.h"
#include "broker/kafka/kafka.h"
#include "events/kafka/events_kafka.h"

enum { NAME_BYTES = KAFKA_PREFIX_MAX + 16, REASON_BYTES = 256 };

/* A record that was fetched and is not committed yet. */
struct record {
    struct list link; /* in the list of its partition, in the order of offsets */
    int64_t offset;
    bool polled, acked;
    size_t n;
    char text[];
};

struct partition {
    struct list records;
    int64_t front;     /* all records before this offset are acknowledged; -1: nothing was fetched */
    int64_t committed; /* the committed offset */
    bool ours;
    bool revoking; /* being revoked: no more records of it are polled */
};

struct consumer {
    rd_kafka_t *rk; /* NULL: not created yet */
    struct partition partitions[KAFKA_PARTITIONS_MAX];
    size_t waiting;                           /* fetched records that are not polled yet */
    int next;                                 /* the partition that the next poll begins with, so that none starves */
    rd_kafka_topic_partition_list_t *revoked; /* partitions that the group revokes, not given up yet; NULL: none */
    int64_t revoke_end_ms;                    /* when they are given up, acknowledged or not */
    rd_kafka_queue_t *commits;                /* queue of commit results */
    bool commit_open, closing;
    rd_kafka_resp_err_t commit_error; /* result of the last commit */
};

struct producer {
    rd_kafka_t *rk;  /* NULL: not created yet */
    uint64_t call;   /* number of the current publish: reports of earlier ones are ignored */
    char tokens[64]; /* addresses that identify the last calls in reports; records of an older call have timed out */
    size_t awaited;
    rd_kafka_resp_err_t failed;
    bool is_down; /* the last call got no reply */
};

struct events_kafka {
    struct events base;
    struct kafka_url url;
    char topic[NAME_BYTES], group[NAME_BYTES];
    int partition_count;        /* 0: not known yet */
    rd_kafka_t *offsets_client; /* reads the group's offsets without being a member; NULL: not created yet */
    struct producer producer;
    struct consumer consumer;
    bool is_down;              /* all brokers are down, according to librdkafka */
    char reason[REASON_BYTES]; /* the last error of librdkafka */
};

static inline struct events_kafka *events_kafka_of(struct events *ev)
{
    return container_of(ev, struct events_kafka, base);
}

/* Creates the topic if it is missing and counts its partitions; later calls return at once. */
enum err events_kafka_ensure_topic(struct events_kafka *k, struct error *e) must_use;
/* writes librdkafka's errors to k->reason */
void events_kafka_set_error_cb(struct events_kafka *k, rd_kafka_conf_t *conf);

enum err events_kafka_poll(struct events *ev, size_t max, int64_t wait_ms, struct arena *a, struct event_list *ret,
                           struct error *e) must_use;
enum err events_kafka_ack(struct events *ev, const uint64_t *sequences, size_t n, struct error *e) must_use;
enum err events_kafka_reset(struct events *ev, struct error *e) must_use;
size_t events_kafka_depth(struct events *ev);
void events_kafka_close_consumer(struct events_kafka *k);
