/* Stands in for Kafka in a binary that was built without librdkafka. */
#include "events/kafka/events_kafka.h"

bool is_kafka_url(struct str url)
{
    return str_starts(url, S("kafka://"));
}

enum err events_kafka_open(struct str url, struct events **ret, struct error *e)
{
    (void)url;
    (void)ret;
    return error_set(e, ERR_INVALID,
                     "needs Kafka, which this belfry was built without: build it where librdkafka is installed");
}
