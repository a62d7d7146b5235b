#pragma once
/* runner/message/internal.h - declarations that the files of the message runner share.
 *
 *   runner_message.c           runs, their timeouts and their outcomes; on the loop's thread
 *   broker_thread.c            a broker's thread and the messages that wait for it
 *   message.c                  a message: its headers and its result
 *   redis.c, amqp.c, kafka.c   publish to one kind of broker; on the broker's thread */
#include <pthread.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/thread_owner.h"
#include "core/target/message_target.h"
#include "core/task/trace.h"
#include "platform/ssrf_guard.h"
#include "runner/message/runner_message.h"

enum {
    MESSAGE_TEXTS_MAX = 8 << 20,
    MESSAGE_OWN_HEADERS = 10,
    MESSAGE_HEADER_TEXT = 64,
    BROKER_THREADS_MAX = 64, /* for addresses in tasks; named brokers have one each besides */
    MESSAGE_BATCH_MAX = 256
};

/* The message of one run. The loop's thread owns it until the broker's thread takes it; the broker's thread returns it
 * through runner_message.done when it is sent or has failed. The run may have ended before that (run is NULL then). */
struct message_in_flight {
    /* In the broker thread's `waiting` or the runner's `done`, or in no list while it is being sent. */
    struct list link;
    struct heap_node due;
    struct run *run;
    struct broker_thread *broker_thread;
    bool taken; /* the broker's thread has it */
    struct arena texts;
    struct message_target target; /* its texts are in `texts` */
    struct webhook_header headers[MESSAGE_OWN_HEADERS + WEBHOOK_HEADERS_MAX];
    size_t header_count;
    const char *content_type;
    char id[UUID_TEXT + 1]; /* webhook-id */
    struct trace trace;
    char own[MESSAGE_OWN_HEADERS][MESSAGE_HEADER_TEXT];
    int64_t started_us, timeout_ms;

    /* The result, written by the broker's thread. FAILURE_NONE: the broker has confirmed the message. */
    enum failure failure;
    bool sent;
    char error[256], output[96];
};

struct message_in_flight *message_new(struct run *run, bool sends_tracestate, int64_t now_us);
void message_free(struct message_in_flight *msg);
/* Reads the target of the run's task, decrypts its headers, and signs the message. */
enum err message_read(struct message_in_flight *msg, const struct secrets *secrets,
                      const struct signing_source *signing, struct error *e) must_use;
void message_set_failed(struct message_in_flight *msg, enum failure failure, bool sent, const char *why);

/* Checks the addresses that a sender connects to. `blocked` is set if one is not allowed. Of a named broker, also what
 * was told of its failures. */
struct peer_check {
    const struct guard *guard;                /* NULL: a trusted broker of the operator, any address is allowed */
    char broker[MESSAGE_TARGET_NAME_MAX + 1]; /* the name of a trusted one */
    void (*tell)(const char *broker, const char *why); /* NULL: nobody */
    char told[256];                                    /* the last detail, and when */
    int64_t told_ms;
    bool blocked;
    bool has_names; /* its hosts are not all literals: nobody learns what is blocked */
};

/* A connection to one broker, used only by that broker's thread. deliver publishes n messages and sets the result of
 * each. */
struct message_sender {
    const struct message_sender_ops *ops;
};
struct message_sender_ops {
    void (*deliver)(struct message_sender *, struct message_in_flight **v, size_t n);
    void (*free)(struct message_sender *);
};
enum err message_sender_redis_new(struct str url, struct peer_check *check, struct message_sender **ret,
                                  struct error *e) must_use;
enum err message_sender_amqp_new(struct str url, struct peer_check *check, struct message_sender **ret,
                                 struct error *e) must_use;
enum err message_sender_kafka_new(struct str url, struct peer_check *check, struct message_sender **ret,
                                  struct error *e) must_use;
enum err message_sender_check(struct str url, struct error *e) must_use; /* checks the address without connecting */

/* For senders: the broker could not be reached, or the connection was lost. The error text reveals nothing about our
 * network; `why`, of a named broker, is told to the operator. */
void message_set_lost(struct message_in_flight *msg, struct peer_check *check, bool sent, const char *why);

/* Tells what operators need to know of a named broker and tenants must not: its host, user and virtual host. The same
 * text at most once a minute. */
void message_tell_detail(struct peer_check *check, const char *why);

struct runner_message {
    struct runner base;
    struct thread_owner owner; /* the loop's thread, from the first start on */
    struct clock *clock;
    struct guard guard;
    struct message_broker *brokers;
    size_t broker_count;
    size_t tenant_connections;
    const struct broker_rules *rules;
    void (*broker_failed)(const char *broker, const char *why);
    struct str (*tenant_name)(void *context, int32_t number, struct arena *a);
    const struct secrets *secrets;
    struct signing_source signing;
    void *context;
    bool sends_tracestate;
    uv_async_t *wakeup;
    uv_timer_t *timer;
    struct heap due; /* runs that have not ended, by their deadline */

    pthread_mutex_t lock;     /* protects the next members, and messages that wait for a broker's thread */
    pthread_cond_t all_ended; /* signalled when the last broker thread has ended */
    struct map broker_threads;
    struct map tenants;      /* number → struct broker_tenant */
    size_t stranger_threads; /* for addresses in tasks */
    struct list done;        /* struct message_in_flight */
    size_t threads;
    bool closing;
};

/* broker_thread.c */
struct broker_thread;
/* ERR_UNAVAILABLE: no thread is free for the tenant; *ret_wait_ms says when to come again. */
enum err broker_thread_send(struct runner_message *r, struct message_in_flight *msg, struct str url, bool trusted,
                            int64_t *ret_wait_ms, struct error *e) must_use;
/* False: the broker's thread has taken it. */
bool broker_thread_withdraw(struct runner_message *r, struct message_in_flight *msg);
void broker_threads_close(struct runner_message *r); /* returns when all broker threads have ended */
