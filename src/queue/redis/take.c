/* The queue on Redis, as workers use it: take, wait, renew; and delivery timeouts, which are read alike.
 *
 * Workers with the same filter form a group. The server keeps for each group which channels it may take from. If a
 * worker finds that the server does not know its group, because the worker is the first or the data was lost, it
 * registers the group and scans for the channels that the group serves. */
#include <stdio.h>
#include <stdlib.h>

#include "queue/redis/internal.h"

enum {
    TAKE_CALL = 256,
    TIMED_OUT_CALL = 100,
    RENEW_CALL = 500,
    SCAN_AGAIN_MS = 30000,
    JOINS_MAX = 3,
    NS_IN_MS = 1000000
};

#define TOKEN_UNBLOCK "2" /* as in queue_redis.lua */

/* ---- groups ---- */

static void queue_redis_append_list(struct buf *b, const struct str *v, size_t n)
{
    buf_char(b, '|');
    for (size_t i = 0; i < n; i++) {
        buf_char(b, ',');
        queue_redis_append_escaped(b, v[i]);
    }
    if (n)
        buf_char(b, ',');
}

/* low|high|,queues,|,tenants,|,labels, */
static void queue_redis_write_filter(struct queue_redis *q, const struct queue_filter *f)
{
    static const struct queue_filter everything = { .priority_max = PRIORITY_MAX };
    struct buf *b = &q->filter;
    f = f ? f : &everything;
    buf_reset(b);
    buf_printf(b, "%d|%d", f->priority_min, f->priority_max);
    queue_redis_append_list(b, f->queues, f->queue_count);
    queue_redis_append_list(b, f->tenants, f->tenant_count);
    queue_redis_append_list(b, f->labels, f->label_count);
    snprintf(q->group, sizeof q->group, "%016llx", (unsigned long long)hash_bytes(HASH_STABLE, buf_str(b)));
}

static void queue_redis_group_call_begin(struct queue_redis *q, const char *verb)
{
    queue_redis_call_begin(q, verb);
    redis_arg_text(&q->conn, q->group);
    redis_arg_str(&q->conn, buf_str(&q->filter));
}

static enum err queue_redis_join_group(struct queue_redis *q, struct error *e)
{
    char cursor[24] = "0";
    queue_redis_group_call_begin(q, "join");
    if (queue_redis_call_no_reply(q, e))
        return e->code;
    do {
        cleanup_with(redis_reply_free) redisReply *reply = NULL;
        queue_redis_group_call_begin(q, "scan");
        redis_arg_text(&q->conn, cursor);
        if (queue_redis_call(q, &reply, e))
            return e->code;
        snprintf(cursor, sizeof cursor, STR_FMT, STR_ARG(reply_str(reply)));
    } while (strcmp(cursor, "0") != 0 && cursor[0]);
    q->scan_at_ms = clock_steady_ms(q->conn.clock) + SCAN_AGAIN_MS;
    return ERR_OK;
}

/* ---- one call of take ---- */

struct delivery_batch {
    struct arena *arena;
    struct take rest; /* what the take still wants */
    struct taken taken;
    size_t task_cap, abort_cap, wanted_cap;
    bool full;      /* the arena has no room: no further call */
    bool unblocked; /* the take returns without waiting */
    int64_t at;     /* where the next call continues; -1: nothing left */
};

static void queue_redis_take_call_begin(struct queue_redis *q, const struct delivery_batch *h)
{
    char worker[UUID_TEXT + 1];
    const struct take *t = &h->rest;
    struct class_slots all = queue_places(t), places = class_slots_limit(&all, TAKE_CALL);
    uuid_format(t->worker, worker);
    queue_redis_call_begin(q, "take");
    redis_arg_text(&q->conn, q->group);
    redis_arg_text(&q->conn, worker);
    redis_arg_i64(&q->conn, (int64_t)places.free);
    redis_arg_i64(&q->conn, t->visibility_ms);
    redis_arg_i64(&q->conn, t->wait_ms);
    redis_arg_i64(&q->conn, t->alone);
    redis_arg_i64(&q->conn, t->cpu_milli);
    redis_arg_i64(&q->conn, t->memory_mb);
    redis_arg_i64(&q->conn, h->at);
    for (int c = 0; c < CLASSES; c++)
        redis_arg_i64(&q->conn, (int64_t)places.kept[c]);
}

static void queue_redis_use_room(struct take *room, const struct task *t)
{
    struct class_slots places = queue_places(room);
    class_slots_take(&places, priority_class_of(t->priority), 1);
    room->max = places.free;
    memcpy(room->kept, places.kept, sizeof places.kept);
    room->alone = false;
    if (room->cpu_milli >= 0)
        room->cpu_milli -= t->cpu_milli;
    if (room->memory_mb >= 0)
        room->memory_mb -= t->memory_mb;
}

static bool queue_redis_add_task(struct delivery_batch *h, struct str data, struct error *e)
{
    struct arena_mark before = arena_mark(h->arena);
    void *v = h->taken.tasks.v;
    struct task *t = queue_redis_array_add(h->arena, &v, h->taken.tasks.n, &h->task_cap, sizeof *t);
    struct task read;
    h->taken.tasks.v = v;
    if (!t) {
        arena_rewind(h->arena, before);
        return error_set(e, ERR_LIMIT, "the next delivery is larger than the memory set aside for it") == ERR_OK;
    }
    if (queue_redis_read_delivery(h->arena, data, &read, e))
        return false;
    *t = read;
    h->taken.tasks.n++;
    queue_redis_use_room(&h->rest, t);
    return true;
}

/* Adds the deliveries of a list to an array. ERR_LIMIT: the arena has no room for all; the worker must not believe that
 * it has heard everything. */
static enum err queue_redis_add_requests(struct delivery_batch *h, const redisReply *list, struct fenced_id **v,
                                         size_t *n, size_t *cap, struct error *e)
{
    for (size_t i = 0; i < reply_count(list); i++) {
        void *all = *v;
        struct fenced_id id;
        if (!queue_redis_read_member(reply_str(list->element[i]), &id))
            continue;
        if (!queue_redis_array_add(h->arena, &all, *n, cap, sizeof id))
            return error_set(e, ERR_LIMIT, "the requests to abort are larger than the memory set aside for them");
        *v = all;
        (*v)[(*n)++] = id;
    }
    return ERR_OK;
}

/* Returns the tasks from `from` on, for which there is no room: they wait again at their old places. */
static enum err queue_redis_return_tasks(struct queue_redis *q, const redisReply *v, size_t from, struct error *e)
{
    queue_redis_call_begin(q, "back");
    for (size_t i = from; i + 2 < v->elements; i += 3) {
        redis_arg_str(&q->conn, reply_str(v->element[i]));
        redis_arg_str(&q->conn, reply_str(v->element[i + 1]));
    }
    return queue_redis_call_no_reply(q, e);
}

static enum err queue_redis_mark_unreadable(struct queue_redis *q, struct str member, struct error *e)
{
    queue_redis_call_begin(q, "spoil");
    redis_arg_str(&q->conn, member);
    return queue_redis_call_no_reply(q, e);
}

static enum err queue_redis_add_tasks(struct queue_redis *q, struct delivery_batch *h, const redisReply *v,
                                      struct error *e)
{
    for (size_t i = 0; i + 2 < reply_count(v); i += 3) {
        struct error why, ignored;
        if (queue_redis_add_task(h, reply_str(v->element[i + 2]), &why))
            continue;
        if (why.code != ERR_LIMIT) {
            if (queue_redis_mark_unreadable(q, reply_str(v->element[i]), e))
                return e->code;
            continue;
        }
        h->full = true;
        if (queue_redis_return_tasks(q, v, i, &ignored) && h->taken.tasks.n == 0)
            return *e = ignored, e->code; /* not returned: they time out */
        if (h->taken.tasks.n == 0)
            return *e = why, e->code;
        break;
    }
    return ERR_OK;
}

/* The reply: time, where to continue, number of waiting tasks, aborts, tasks, whether the take is not to wait, tasks
 * that are wanted back. */
static enum err queue_redis_read_take_reply(struct queue_redis *q, struct delivery_batch *h, const redisReply *r,
                                            struct error *e)
{
    int64_t waiting, unblocked;
    if (reply_count(r) != 7 || !reply_i64(r->element[0], &h->taken.queue_us) || !reply_i64(r->element[1], &h->at) ||
        !reply_i64(r->element[2], &waiting) || !reply_i64(r->element[5], &unblocked))
        return redis_unexpected_reply(e, "take");
    h->unblocked |= unblocked != 0;
    q->waiting = waiting > 0 ? (size_t)waiting : 0;
    if (queue_redis_add_requests(h, r->element[3], &h->taken.aborts, &h->taken.abort_count, &h->abort_cap, e) ||
        queue_redis_add_requests(h, r->element[6], &h->taken.wanted, &h->taken.wanted_count, &h->wanted_cap, e))
        return e->code;
    return queue_redis_add_tasks(q, h, r->element[4], e);
}

static bool queue_redis_is_join_reply(const redisReply *r)
{
    return r->type == REDIS_REPLY_STRING && str_eq(reply_str(r), S("join"));
}

static enum err queue_redis_take_call(struct queue_redis *q, struct delivery_batch *h, struct error *e)
{
    for (int i = 0; i < JOINS_MAX; i++) {
        cleanup_with(redis_reply_free) redisReply *reply = NULL;
        queue_redis_take_call_begin(q, h);
        if (queue_redis_call(q, &reply, e))
            return e->code;
        if (!queue_redis_is_join_reply(reply))
            return queue_redis_read_take_reply(q, h, reply, e);
        if (queue_redis_join_group(q, e))
            return e->code;
    }
    return error_set(e, ERR_UNAVAILABLE, "Redis loses the group of workers as soon as it is registered");
}

/* ---- taking ---- */

static bool queue_redis_has_result(const struct delivery_batch *h)
{
    return h->taken.tasks.n || h->taken.abort_count || h->taken.wanted_count;
}

/* Takes all tasks that are there now. A suspect is taken alone. */
static enum err queue_redis_take_now(struct queue_redis *q, struct delivery_batch *h, struct error *e)
{
    h->at = 0;
    h->taken.heard_ms = clock_steady_ms(q->conn.clock);
    do {
        enum err rc = queue_redis_take_call(q, h, e);
        h->taken.unheard |= rc != ERR_OK;
        if (rc)
            return queue_redis_has_result(h) ? ERR_OK : rc;
    } while (h->at >= 0 && h->rest.max > 0 && !h->full);
    return ERR_OK;
}

/* Waits for a wakeup: a push that this worker may take, an abort, or queue_unblock. At most ms. */
static enum err queue_redis_wait_for_wakeup(struct queue_redis *q, struct delivery_batch *h, int64_t ms,
                                            bool *ret_woken, struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    char worker[UUID_TEXT + 1], key[UUID_TEXT + 16], seconds[32];
    uuid_format(h->rest.worker, worker);
    snprintf(key, sizeof key, ":q:w:%s", worker);
    snprintf(seconds, sizeof seconds, "%lld.%03lld", (long long)(ms / 1000), (long long)(ms % 1000));
    redis_command_begin(&q->conn);
    redis_arg_text(&q->conn, "BLPOP");
    redis_arg_key(&q->conn, key);
    redis_arg_text(&q->conn, seconds);
    redis_command_end(&q->conn);
    if (redis_reply_next(&q->conn, ms, &reply, e))
        return e->code;
    *ret_woken = reply_count(reply) == 2;
    h->unblocked = *ret_woken && str_eq(reply_str(reply->element[1]), S(TOKEN_UNBLOCK));
    return ERR_OK;
}

static void queue_redis_rescan_channels(struct queue_redis *q)
{
    struct error ignored;
    if (clock_steady_ms(q->conn.clock) >= q->scan_at_ms && queue_redis_join_group(q, &ignored))
        q->scan_at_ms = clock_steady_ms(q->conn.clock) + SCAN_AGAIN_MS;
}

enum err queue_redis_take(struct queue *base, const struct take *t, struct arena *a, struct taken *ret, struct error *e)
{
    struct queue_redis *q = queue_redis_of(base);
    struct delivery_batch h = { .arena = a, .rest = *t };
    if (queue_redis_connect(q, e))
        return e->code;
    queue_redis_write_filter(q, t->filter);
    queue_redis_rescan_channels(q);
    int64_t end_ms = clock_steady_ms(q->conn.clock) + t->wait_ms;
    bool woken = true;
    while (woken && !h.unblocked) {
        if (!q->conn.link && queue_redis_connect(q, e))
            return e->code;
        if (queue_redis_take_now(q, &h, e))
            return e->code;
        int64_t left = end_ms - clock_steady_ms(q->conn.clock);
        if (queue_redis_has_result(&h) || left <= 0 || h.unblocked)
            break;
        h.rest.wait_ms = left;
        if (queue_redis_wait_for_wakeup(q, &h, left, &woken, e))
            return e->code;
    }
    *ret = h.taken;
    return ERR_OK;
}

/* ---- renewing ---- */

static void queue_redis_worker_call_begin(struct queue_redis *q, const char *verb, const struct take *by)
{
    char worker[UUID_TEXT + 1];
    uuid_format(by->worker, worker);
    queue_redis_call_begin(q, verb);
    redis_arg_text(&q->conn, worker);
    redis_arg_i64(&q->conn, by->visibility_ms);
}

/* Restores deliveries that the server has lost, from the worker that runs them. */
static enum err queue_redis_restore_lost(struct queue_redis *q, const struct task *const *running, size_t n,
                                         const redisReply *lost, const struct take *by, struct error *e)
{
    queue_redis_worker_call_begin(q, "revive", by);
    for (size_t i = 0; i < lost->elements; i++) {
        int64_t at;
        if (!reply_i64(lost->element[i], &at) || at < 0 || (size_t)at >= n)
            return redis_unexpected_reply(e, "renew");
        const struct task *t = running[at];
        queue_redis_write_channel(q, t);
        queue_redis_write_data(q, t);
        queue_redis_arg_member(&q->conn, &(struct fenced_id){ t->id, t->fence });
        redis_arg_str(&q->conn, buf_str(&q->data));
    }
    return queue_redis_call_no_reply(q, e);
}

static enum err queue_redis_renew_call(struct queue_redis *q, const struct task *const *running, size_t n,
                                       const struct take *by, struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    queue_redis_worker_call_begin(q, "renew", by);
    for (size_t i = 0; i < n; i++)
        queue_redis_arg_member(&q->conn, &(struct fenced_id){ running[i]->id, running[i]->fence });
    if (queue_redis_call(q, &reply, e))
        return e->code;
    return reply_count(reply) ? queue_redis_restore_lost(q, running, n, reply, by, e) : ERR_OK;
}

enum err queue_redis_renew(struct queue *base, const struct task *const *running, size_t n, const struct take *by,
                           struct error *e)
{
    struct queue_redis *q = queue_redis_of(base);
    if (queue_redis_connect(q, e))
        return e->code;
    for (size_t done = 0; done < n; done += RENEW_CALL)
        if (queue_redis_renew_call(q, running + done, min_of(n - done, (size_t)RENEW_CALL), by, e))
            return e->code;
    return ERR_OK;
}

/* ---- delivery timeouts ---- */

/* If the contents are lost or unreadable, returns only the id and the fence. */
static enum err queue_redis_read_timed_out(struct arena *a, const redisReply *const *v, struct timed_out_delivery *ret,
                                           struct error *e)
{
    int64_t fired;
    struct fenced_id id;
    struct timed_out_delivery l = { .task.state = TASK_RUNNING };
    if (!queue_redis_read_member(reply_str(v[0]), &id) || !reply_i64(v[1], &fired))
        return error_set(e, ERR_CORRUPT, "a timed out delivery has no id");
    enum err rc =
        v[2]->type == REDIS_REPLY_STRING ? queue_redis_read_delivery(a, reply_str(v[2]), &l.task, e) : ERR_CORRUPT;
    if (rc == ERR_LIMIT)
        return rc;
    if (rc == ERR_OK) {
        l.fired = fired == 1;
        l.alone = l.fired && task_is_suspect(&l.task);
    } else {
        l.task.id = id.id;
        l.task.fence = id.fence;
    }
    *ret = l;
    return ERR_OK;
}

/* Makes the server report the deliveries from `from` on again at once: there is no room for them now. */
static enum err queue_redis_unreport(struct queue_redis *q, const redisReply *r, size_t from, struct error *e)
{
    queue_redis_call_begin(q, "untold");
    for (size_t i = from; i + 2 < r->elements; i += 3)
        redis_arg_str(&q->conn, reply_str(r->element[i]));
    return queue_redis_call_no_reply(q, e);
}

struct timed_out_list {
    struct delivery_timeouts found;
    size_t cap;
    bool more, full;
};

static enum err queue_redis_timed_out_call(struct queue_redis *q, struct arena *a, struct timed_out_list *l,
                                           struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    queue_redis_call_begin(q, "lapsed");
    redis_arg_i64(&q->conn, TIMED_OUT_CALL);
    redis_arg_i64(&q->conn, TIMED_OUT_AGAIN_MS);
    if (queue_redis_call(q, &reply, e))
        return e->code;
    l->more = reply_count(reply) == (size_t)TIMED_OUT_CALL * 3;
    for (size_t i = 0; i + 2 < reply_count(reply); i += 3) {
        struct error ignored;
        void *v = l->found.v;
        struct timed_out_delivery *at = queue_redis_array_add(a, &v, l->found.n, &l->cap, sizeof *at), read;
        l->found.v = v;
        enum err rc =
            at ? queue_redis_read_timed_out(a, (const redisReply *const *)reply->element + i, &read, e) : ERR_LIMIT;
        if (rc == ERR_LIMIT) {
            l->full = true;
            return queue_redis_unreport(q, reply, i, l->found.n ? &ignored : e) && !l->found.n ? e->code : ERR_OK;
        }
        if (rc == ERR_OK) {
            *at = read;
            l->found.n++;
        }
    }
    return ERR_OK;
}

enum err queue_redis_timed_out(struct queue *base, int64_t now_ms, struct arena *a, struct delivery_timeouts *ret,
                               struct error *e)
{
    (void)now_ms; /* uses the server's clock */
    struct queue_redis *q = queue_redis_of(base);
    struct timed_out_list l = { .more = true };
    if (queue_redis_connect(q, e))
        return e->code;
    while (l.more && !l.full) {
        enum err rc = queue_redis_timed_out_call(q, a, &l, e);
        if (rc && l.found.n == 0)
            return rc;
        if (rc)
            break;
    }
    if (l.full && l.found.n == 0)
        return error_set(e, ERR_LIMIT, "the next delivery is larger than the memory set aside for it");
    *ret = l.found;
    return ERR_OK;
}
