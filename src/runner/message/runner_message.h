#pragma once
/* runner/message/runner_message.h - publishes messages to Redis streams and lists, RabbitMQ exchanges and queues, and
 * Kafka topics (docs/MESSAGES.md).
 *
 * - Broker clients block, so each broker has its own thread with one connection, which stays open. The thread publishes
 *   all waiting messages together. A message counts as sent when its broker has confirmed it.
 * - Named brokers come from the operator's settings and are trusted.
 * - A broker address in a task is untrusted: it is checked like a webhook's (platform/ssrf_guard.h), must not hold
 *   credentials or parameters, and its connection is never shared between tenants. A tenant has few of them; a message
 *   that finds none free is reported as OUTCOME_HELD.
 * - Threads: runner_start and runner_abort are for the loop's thread, and `done` is called on it. runner_free may be
 *   called there, or on another thread after the loop has ended. It waits for the broker threads and closes handles, so
 *   the loop must run once more before it is closed. */
#include <uv.h>

#include "core/target/broker_rules.h"
#include "platform/ssrf_guard.h"
#include "port/clock.h"
#include "port/runner.h"
#include "port/signer.h"

struct message_broker {
    struct str name, url;
};

enum { MESSAGE_TENANT_CONNECTIONS = 8 };

struct runner_message_setup {
    const struct message_broker *brokers; /* copied */
    size_t broker_count;
    /* to how many addresses in tasks one tenant is connected at once; 0: MESSAGE_TENANT_CONNECTIONS */
    size_t tenant_connections;
    const struct broker_rules *rules; /* who may send what; borrowed. NULL: all is allowed */
    /* The name of a tenant, of which a task has the number only; NULL: tasks have it. */
    struct str (*tenant_name)(void *context, int32_t number, struct arena *a);
    void *context;
    /* Why a named broker failed, with what tasks do not learn: for the log. On the broker's thread; NULL: nobody is
     * told. */
    void (*broker_failed)(const char *broker, const char *why);
    struct guard_setup guard;      /* which addresses may be called */
    const struct secrets *secrets; /* that decrypt headers and signing keys; borrowed. NULL: none */
    struct signing_source signing; /* of the keys that sign messages */
    bool sends_tracestate;         /* that of the caller who made the task */
};

/* Checks a broker's name and address. ERR_INVALID says what is wrong. Any thread may call it. */
enum err message_broker_check(const struct message_broker *b, struct error *e) must_use;

struct runner *runner_message_new(uv_loop_t *loop, struct clock *clock, const struct runner_message_setup *setup);
