#pragma once
/* broker/kafka/kafka.h - what everything that speaks with Kafka has in common: an address, a client's settings, a topic that is there.
 *
 *   kafka://h1:9092,h2:9092/?prefix=belfry&partitions=12&security.protocol=sasl_ssl&sasl.mechanisms=PLAIN&…
 *
 * `prefix` begins the names of topics and groups, `partitions` is how many a topic that is created here has. Every other name is a setting of
 * librdkafka's and goes there as it is, but for those that Belfry's promises hang on (acks, commits, …), which are refused. Values may have
 * percent escapes. */
#include <librdkafka/rdkafka.h>

#include "base/str.h"

enum { KAFKA_SETTINGS_MAX = 48, KAFKA_PARTITIONS_MAX = 63, KAFKA_PREFIX_MAX = 64, KAFKA_CALL_MS = 2000 };

struct kafka_setting {
    const char *name, *value;
};

struct kafka_url {
    char *memory; /* of all texts */
    const char *brokers, *prefix;
    int partitions;
    struct kafka_setting settings[KAFKA_SETTINGS_MAX];
    size_t count;
};

enum err kafka_url_parse(struct str text, struct kafka_url *ret, struct error *e) must_use;
void kafka_url_release(struct kafka_url *u);

/* Settings in this order, the later ones hold: `usual`, the address's own, `fixed`. */
struct kafka_settings {
    const struct kafka_setting *usual, *fixed;
    size_t usual_count, fixed_count;
};
#define KAFKA_USUAL(table) .usual = (table), .usual_count = array_count(table)
#define KAFKA_FIXED(table) .fixed = (table), .fixed_count = array_count(table)
enum err kafka_conf(const struct kafka_url *u, const struct kafka_settings *s, rd_kafka_conf_t **ret,
                    struct error *e) must_use;

/* Takes the conf over. */
enum err kafka_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, rd_kafka_t **ret, struct error *e) must_use;

/* How many partitions a topic has; one that is missing is made. `rk` is a consumer's, whose questions make no topic by themselves. */
enum err kafka_topic(rd_kafka_t *rk, const struct kafka_url *u, const char *name, int *ret_partitions,
                     struct error *e) must_use;

/* ERR_UNAVAILABLE in plain words: what was tried, where, and why it failed; `reason` (may be NULL) is what librdkafka said last. */
enum err kafka_unavailable(const struct kafka_url *u, const char *tried, rd_kafka_resp_err_t err, const char *reason,
                           struct error *e);

int64_t kafka_now_ms(void); /* steady */
