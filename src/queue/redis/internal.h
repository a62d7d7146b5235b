#pragma once
/* queue/redis/internal.h - the state and helpers that the files of the queue on Redis share. queue_redis.lua
 * implements the verbs. */
#include "base/json/jsonw.h"
#include "broker/redis/connection.h"
#include "queue/redis/queue_redis.h"

enum {
    MEMBER_MAX = UUID_TEXT + 24, /* id:fence */
    GROUP_TEXT = 16,
    MESSAGE_MAX = 64 << 20,
    CHANNEL_MAX = 4000, /* queue_redis.lua looks for the channel in this many bytes of a delivery */
};

struct queue_redis {
    struct queue base;
    struct redis_conn conn;
    const struct queue_names *names;
    struct buf data, channel, filter; /* scratch space of one call */
    size_t waiting;                   /* from the last reply that had it */
    char group[GROUP_TEXT + 1];       /* group of the workers with the current filter */
    int64_t scan_at_ms;               /* when to scan again for channels that the group serves */
    int64_t ahead_us;                 /* the server's clock minus the steady clock, by the last TIME */
    int64_t time_read_ms;             /* steady: when that was */
    uint64_t time_of_connect;         /* on which connection (redis_conn.connect_count); 0: on none */
};

static inline struct queue_redis *queue_redis_of(struct queue *q)
{
    return container_of(q, struct queue_redis, base);
}

/* redis_connect, and knows the server's time afterwards. */
enum err queue_redis_connect(struct queue_redis *q, struct error *e) must_use;

/* Calls a verb of the script: begin, add arguments, then send and read the reply. */
void queue_redis_call_begin(struct queue_redis *q, const char *verb);
enum err queue_redis_call(struct queue_redis *q, redisReply **ret, struct error *e) must_use;
enum err queue_redis_call_no_reply(struct queue_redis *q, struct error *e) must_use; /* ignores the reply */

void queue_redis_arg_member(struct redis_conn *c, const struct fenced_id *d);
bool queue_redis_read_member(struct str text, struct fenced_id *ret);

/* Writes a task's channel into q->channel, and the stored form of the task, which begins with the channel, into
 * q->data. */
void queue_redis_write_channel(struct queue_redis *q, const struct task *t);
void queue_redis_write_data(struct queue_redis *q, const struct task *t);
void queue_redis_append_escaped(struct buf *b, struct str s); /* escapes | , % and unprintable bytes */

/* Reads the stored form of a task. ERR_CORRUPT: it is unreadable. ERR_LIMIT: the arena has no room, and is
 * unchanged. */
enum err queue_redis_read_delivery(struct arena *a, struct str data, struct task *ret, struct error *e) must_use;

/* Adds an item to an array that grows in the arena. NULL: the arena has no room. */
void *queue_redis_array_add(struct arena *a, void **v, size_t n, size_t *cap, size_t size);

enum err queue_redis_take(struct queue *base, const struct take *t, struct arena *a, struct taken *ret,
                          struct error *e) must_use;
enum err queue_redis_renew(struct queue *base, const struct task *const *running, size_t n, const struct take *by,
                           struct error *e) must_use;
enum err queue_redis_timed_out(struct queue *base, int64_t now_ms, struct arena *a, struct delivery_timeouts *ret,
                               struct error *e) must_use;
