#pragma once
/* broker/kafka/kafka.h - the address of a Kafka cluster, the settings of a client, and topics; for the adapters that
 * use Kafka.
 *
 *   kafka://h1:9092,h2:9092/?prefix=belfry&partitions=12&security.protocol=sasl_ssl&sasl.mechanisms=PLAIN&…
 *
 * `prefix` starts the names of topics and groups. `partitions` is the number of partitions of a topic that Belfry
 * creates. Every other parameter is passed to librdkafka as a setting. Settings that Belfry's guarantees depend on
 * (acks, commits, …) are refused. Percent escapes in names and values are decoded. */
#include <librdkafka/rdkafka.h>

#include "base/str.h"

enum { KAFKA_SETTINGS_MAX = 48, KAFKA_PARTITIONS_MAX = 63, KAFKA_PREFIX_MAX = 64, KAFKA_CALL_MS = 2000 };

struct kafka_setting {
    const char *name, *value;
};

struct kafka_url {
    char *memory; /* holds all texts */
    const char *brokers, *prefix;
    int partitions;
    struct kafka_setting settings[KAFKA_SETTINGS_MAX];
    size_t count;
};

enum err kafka_url_parse(struct str text, struct kafka_url *ret, struct error *e) must_use;
void kafka_url_release(struct kafka_url *u);

/* Settings are applied in this order, and a later one wins: `usual` (defaults), those of the address, `fixed`. */
struct kafka_settings {
    const struct kafka_setting *usual, *fixed;
    size_t usual_count, fixed_count;
};
#define KAFKA_USUAL(table) .usual = (table), .usual_count = array_count(table)
#define KAFKA_FIXED(table) .fixed = (table), .fixed_count = array_count(table)
enum err kafka_conf(const struct kafka_url *u, const struct kafka_settings *s, rd_kafka_conf_t **ret,
                    struct error *e) must_use;

/* Takes ownership of conf. */
enum err kafka_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, rd_kafka_t **ret, struct error *e) must_use;

/* Returns how many partitions a topic has; creates the topic if it is missing. `rk` must be a consumer: a producer's
 * metadata request would create the topic with the broker's default number of partitions. */
enum err kafka_topic(rd_kafka_t *rk, const struct kafka_url *u, const char *name, int *ret_partitions,
                     struct error *e) must_use;

/* ERR_UNAVAILABLE: what was tried, at which brokers, and why it failed; `reason` (may be NULL) is the last error of
 * librdkafka. */
enum err kafka_unavailable(const struct kafka_url *u, const char *tried, rd_kafka_resp_err_t err, const char *reason,
                           struct error *e);

int64_t kafka_now_ms(void); /* steady clock */
