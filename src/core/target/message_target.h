#pragma once
/* core/target/message_target.h - what a message to a broker (target QUEUE_MESSAGE) consists of, read from a task and checked. Pure: nothing is sent here.
 *
 * The API reads a body's target with it before it stores it, the runner again before each attempt. Errors name the field ("broker").
 * A broker is a name, which an operator's settings give an address and secrets to, or an address without any: redis://host:6379/0,
 * amqp://host:5672/vhost, amqps://…, kafka://host:9092,host:9092. Users' addresses carry no user, no password and no parameters: among a
 * client's settings there are such that read files. */
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

struct letter {
    struct str broker;
    enum message_target_broker kind;
    struct str destination, key; /* what they are is each broker's: docs/MESSAGES.md */
    struct webhook content;      /* headers, body and timeout; it has no url */
};

/* From target_config {"broker", "destination", "key", "headers", "body", "timeout_ms"}; the body as webhook_read takes it. Texts live in the
 * arena, or in the task. */
enum err message_target_read(const struct task *t, struct arena *a, struct letter *ret, struct error *e) must_use;

/* The same without the body. */
enum err message_target_check(json_t *config, struct arena *a, struct letter *ret, struct error *e) must_use;

bool message_target_is_name(struct str broker);

/* The kind of an address, by its scheme; MESSAGE_TARGET_NAMED: it has none that is known. */
enum message_target_broker message_target_broker_of(struct str broker);

/* The hosts of an address that message_target_check took, without ports and brackets, one a call: rest begins as {NULL, 0}. */
bool message_target_next_host(struct str broker, struct str *rest, struct str *ret_host);
