#pragma once
/* core/target/message_target.h - a message to a broker (target QUEUE_MESSAGE), read from a task and checked. Pure:
 * nothing is sent here.
 *
 * The API checks a target with it before it stores the task, and the runner reads it again before each attempt. Errors
 * name the field ("broker").
 *
 * A broker is one of:
 * - a name; the operator's settings (brokers.NAME) give its address and secrets;
 * - an address: redis://host:6379/0, rediss://…, amqp://host:5672/vhost, amqps://…, kafka://host:9092,host:9092. It
 *   holds no user, no password and no parameters, because some parameters of the client libraries read files. */
#include "core/target/webhook.h"

enum {
    MESSAGE_TARGET_NAME_MAX = 64,
    MESSAGE_TARGET_BROKER_MAX = 512,
    MESSAGE_TARGET_DESTINATION_MAX = 255,
    MESSAGE_TARGET_KEY_MAX = 255,
    MESSAGE_TARGET_HOSTS_MAX = 16,
    MESSAGE_TARGET_HOST_MAX = 255,
};

enum message_target_broker { MESSAGE_TARGET_NAMED, MESSAGE_TARGET_REDIS, MESSAGE_TARGET_AMQP, MESSAGE_TARGET_KAFKA };

struct message_target {
    struct str broker;
    enum message_target_broker kind;
    struct str destination, key; /* their meaning depends on the broker: docs/MESSAGES.md */
    struct webhook content;      /* headers, body and timeout; url is not used */
};

/* Reads target_config {"broker", "destination", "key", "headers", "body", "timeout_ms"}; the body as webhook_read does.
 * Texts live in the arena or in the task. */
enum err message_target_read(const struct task *t, struct arena *a, struct message_target *ret,
                             struct error *e) must_use;

/* The same without the body. */
enum err message_target_check(json_t *config, struct arena *a, struct message_target *ret, struct error *e) must_use;

bool message_target_is_name(struct str broker);

/* Returns the kind of an address by its scheme; MESSAGE_TARGET_NAMED if it has none of the known schemes. */
enum message_target_broker message_target_broker_of(struct str broker);

/* Iterates over the hosts of an address that message_target_check accepted, without ports and brackets. *rest starts as
 * {NULL, 0}. */
bool message_target_next_host(struct str broker, struct str *rest, struct str *ret_host);
