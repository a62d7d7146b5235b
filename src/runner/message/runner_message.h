#pragma once
/* runner/message/runner_message.h - puts messages on Redis streams and lists, RabbitMQ exchanges and queues, Kafka topics (docs/MESSAGES.md).
 *
 * Clients of brokers block, so each broker has a thread of its own, with one connection that is kept; what waits for it goes out together,
 * and each message is confirmed by its broker before it counts as sent. Brokers by name are an operator's, and are trusted; addresses in tasks
 * are judged as those of webhooks are (platform/ssrf_guard.h), have no secrets and no parameters, and no connection serves two tenants.
 *
 * runner_free closes handles on the loop, which must run once more before it is closed. */
#include <uv.h>

#include "core/target/address.h"
#include "port/clock.h"
#include "port/runner.h"

struct message_broker {
    struct str name, url;
};

struct runner_message_setup {
    const struct message_broker *brokers; /* copied */
    size_t broker_count;
    bool allow_loopback;
    const struct address_range *allowed; /* blocked otherwise; copied */
    size_t allowed_count;
};

/* Whether a name and its address may be among the brokers: ERR_INVALID says what is wrong. */
enum err message_broker_check(const struct message_broker *b, struct error *e) must_use;

struct runner *runner_message_new(uv_loop_t *loop, struct clock *clock, const struct runner_message_setup *setup);
