#pragma once
/* runner/message/internal.h - what the files of the message runner share.
 *
 *   runner_message.c         runs, their time and their outcome; on the loop
 *   broker_thread.c  a broker's thread and what waits for it
 *   message.c    one message: what it carries
 *   redis.c, amqp.c, kafka.c   how each kind of broker is given one */
#include <pthread.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "core/target/message_target.h"
#include "platform/ssrf_guard.h"
#include "runner/message/runner_message.h"

enum {
    POST_TEXTS_MAX = 8 << 20,
    POST_OWN_HEADERS = 8,
    POST_HEADER_TEXT = 64,
    BROKER_THREADS_MAX = 64,
    BATCH_MAX = 256
};

/* One run. The loop owns it until it is given to its office's thread, which gives it back when it is sent or has failed; by then nobody
 * may want to know any more (run is NULL). */
struct post {
    struct list link; /* waiting at its office, in its thread's hands, or done */
    struct heap_node due;
    struct run *run;
    struct broker_thread *broker_thread;
    bool given; /* to the thread */
    struct arena texts;
    struct message_target letter; /* all in texts */
    struct webhook_header headers[POST_OWN_HEADERS + WEBHOOK_HEADERS_MAX];
    size_t header_count;
    const char *content_type;
    char id[UUID_TEXT + 1]; /* webhook-id */
    char trace_id[33];
    char own[POST_OWN_HEADERS][POST_HEADER_TEXT];
    int64_t started_us, timeout_ms;

    /* What came of it: the thread's word. FAILURE_NONE: its broker has confirmed it. */
    enum failure failure;
    bool sent;
    char error[256], output[96];
};

struct post *post_new(struct run *run, const char *trace_id, int64_t now_us);
void post_free(struct post *p);
enum err post_read(struct post *p, struct error *e) must_use; /* from its run's task */
void post_failed(struct post *p, enum failure failure, bool sent, const char *why);

/* Where addresses in tasks may lead. `blocked` is set when one may not. */
struct judge {
    const struct guard *guard; /* NULL: an operator's address: anywhere */
    bool blocked;
};

/* A connection to one broker, used by one thread. deliver says of each of its posts what became of it. */
struct sender {
    const struct sender_ops *ops;
};
struct sender_ops {
    void (*deliver)(struct sender *, struct post **v, size_t n);
    void (*free)(struct sender *);
};
enum err sender_redis_new(struct str url, struct judge *j, struct sender **ret, struct error *e) must_use;
enum err sender_amqp_new(struct str url, struct judge *j, struct sender **ret, struct error *e) must_use;
enum err sender_kafka_new(struct str url, struct judge *j, struct sender **ret, struct error *e) must_use;
enum err sender_check(struct str url, struct error *e) must_use; /* the address alone */

/* For senders: the broker could not be reached, or was lost on the way. What is said to a stranger tells nothing of our network. */
void post_lost(struct post *p, const struct judge *j, bool sent, const char *why);

struct runner_message {
    struct runner base;
    struct clock *clock;
    struct guard guard;
    struct message_broker *brokers;
    size_t broker_count;
    struct prng random;
    uv_async_t *back;
    uv_timer_t *timer;
    struct heap due; /* runs that are not done, by when their time is over */

    pthread_mutex_t lock; /* of what follows, and of posts that wait */
    pthread_cond_t empty; /* no thread is left */
    struct map broker_threads;
    struct list done; /* posts */
    size_t threads;
    bool closing;
};

/* broker_thread.c */
struct broker_thread;
enum err broker_thread_send(struct runner_message *r, struct post *p, struct str url, bool trusted,
                            struct error *e) must_use;
bool broker_thread_take_back(struct runner_message *r, struct post *p); /* false: it is given already */
void broker_threads_close(struct runner_message *r);                    /* returns when all threads have ended */
