#pragma once
/* events/kafka/events_kafka.h - events on a Kafka topic; needs brokers 2.4 or later.
 *
 * The topic is <prefix>.events, created if it is missing. The key of a record is the task's id, so that the events
 * of a task stay in order. docs/EVENTS.md describes the format.
 * Updaters are the consumer group <prefix>.updaters. The committed offset of a partition moves over an acknowledged
 * event once all events before it are acknowledged. An updater that takes over a partition gets all events from the
 * first unacknowledged one on. */
#include "port/events.h"

/* Connects to nothing: the first call that needs it does. ERR_INVALID: the address is wrong (broker/kafka/kafka.h
 * describes it), or the binary was built without librdkafka. */
enum err events_kafka_open(struct str url, struct events **ret, struct error *e) must_use;
