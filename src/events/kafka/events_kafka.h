#pragma once
/* events/kafka/events_kafka.h - events on a topic of Kafka's: brokers 2.4 or later.
 *
 * Topic <prefix>.events, made if it is missing; key: the task's id, so that what happens to one task stays in its order; format: docs/EVENTS.md.
 * Updaters are the consumer group <prefix>.updaters. An ack counts for the group once all before it in the same partition are acknowledged:
 * who takes over a partition gets all behind the first that was not. */
#include "port/events.h"

/* Nothing is connected yet: the first call that needs it does. ERR_INVALID: the address (broker/kafka/kafka.h) is wrong. */
enum err events_kafka_open(struct str url, struct events **ret, struct error *e) must_use;
