/* Replaces the adapter in a binary that was built without librdkafka. */
#include "events/kafka/events_kafka.h"

enum err events_kafka_open(struct str url, struct events **ret, struct error *e)
{
    (void)url;
    (void)ret;
    return error_set(e, ERR_INVALID,
                     "needs Kafka, which this belfry was built without: build it where librdkafka is installed");
}
