#pragma once
/* queue/redis/internal.h - what the files of the queue on Redis share. The verbs are those of queue_redis.lua. */
#include "base/json/jsonw.h"
#include "broker/redis/internal.h"
#include "queue/redis/queue_redis.h"

enum {
    MEMBER_MAX = UUID_TEXT + 24, /* id:fence */
    GROUP_TEXT = 16,
    MESSAGE_MAX = 64 << 20,
    CHANNEL_MAX = 4000, /* what queue_redis.lua reads of what it holds to find the channel */
};

struct queue_redis {
    struct queue base;
    struct redis_conn conn;
    const struct queue_names *names;
    struct buf data, channel, filter; /* for one call */
    size_t waiting;                   /* as of the last answer that told */
    char group[GROUP_TEXT + 1];       /* of workers with that filter */
    int64_t scan_at_ms;               /* when to look again for channels that the group may have */
};

static inline struct queue_redis *queue_redis_of(struct queue *q)
{
    return container_of(q, struct queue_redis, base);
}

/* A call of a verb: its words follow, then the answer is asked for. */
void queue_redis_call_begin(struct queue_redis *q, const char *verb);
enum err queue_redis_call(struct queue_redis *q, redisReply **ret, struct error *e) must_use;
enum err queue_redis_call_no_reply(struct queue_redis *q, struct error *e) must_use; /* whatever it says */

void queue_redis_arg_member(struct redis_conn *c, const struct fenced_id *d);
bool queue_redis_read_member(struct str text, struct fenced_id *ret);

/* Into q->channel; then what is held of the task, which begins with that, into q->data. */
void queue_redis_write_channel(struct queue_redis *q, const struct task *t);
void queue_redis_write_data(struct queue_redis *q, const struct task *t);
void queue_redis_append_escaped(struct buf *b, struct str s); /* without | , and what is not printable */

/* What the queue holds of one. ERR_CORRUPT: nobody can read it; ERR_LIMIT: the arena, which is then as it was, is full. */
enum err queue_redis_read_delivery(struct arena *a, struct str data, struct task *ret, struct error *e) must_use;

/* Adds an item to an array that grows in the arena; NULL: it is full. */
void *queue_redis_array_add(struct arena *a, void **v, size_t n, size_t *cap, size_t size);

enum err queue_redis_take(struct queue *base, const struct take *t, struct arena *a, struct taken *ret,
                          struct error *e) must_use;
enum err queue_redis_renew(struct queue *base, const struct task *const *running, size_t n, const struct take *by,
                           struct error *e) must_use;
enum err queue_redis_timed_out(struct queue *base, int64_t now_ms, struct arena *a, struct delivery_timeouts *ret,
                               struct error *e) must_use;
