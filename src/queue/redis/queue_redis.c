/* The queue on Redis: sends the verbs to queue_redis.lua, which does the work. Large calls are split, so that no
 * script blocks the server for long. */
#include <stdio.h>
#include <stdlib.h>

#include "core/target/message.h"
#include "port/crypto.h"
#include "queue/redis/internal.h"

enum {
    PUSH_CALL = 256,
    PUSH_CALL_BYTES = 4 << 20,
    IDS_CALL = 1000,
    TIME_AGAIN_MS = 10000, /* how long the difference of the clocks counts */
    TIME_TRIES = 5,
    TIME_WAY_US = 20000, /* an answer that took longer is asked for again */
};

/* ---- calls ---- */

/* The server read its clock before the reply came. So the difference is too small by the way of the reply, and a
 * deadline is never behind the moment at which the caller gives up. *ret_way_us: how long the answer took. */
static enum err queue_redis_read_time_once(struct queue_redis *q, int64_t *ret_way_us, struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    int64_t s, us, sent_us = clock_steady_ns(q->conn.clock) / 1000;
    redis_command_begin(&q->conn);
    redis_arg_text(&q->conn, "TIME");
    redis_command_end(&q->conn);
    enum err rc = redis_reply_next(&q->conn, 0, &reply, e);
    q->conn.sent = false;
    if (rc)
        return rc;
    if (reply_count(reply) != 2 || !reply_i64(reply->element[0], &s) || !reply_i64(reply->element[1], &us))
        return redis_unexpected_reply(e, "TIME");
    int64_t now_us = clock_steady_ns(q->conn.clock) / 1000;
    q->time_read_ms = now_us / 1000;
    q->time_of_connect = q->conn.connect_count;
    q->ahead_us = s * 1000000 + us - now_us;
    *ret_way_us = now_us - sent_us;
    return ERR_OK;
}

/* On a machine that is full, the answer may lie here for long before it is read, and deadlines would come too early. */
static enum err queue_redis_read_time(struct queue_redis *q, struct error *e)
{
    int64_t best_us = INT64_MIN, way_us = INT64_MAX;
    for (int i = 0; i < TIME_TRIES && way_us > TIME_WAY_US; i++) {
        if (queue_redis_read_time_once(q, &way_us, e))
            return e->code;
        best_us = max_of(best_us, q->ahead_us);
    }
    q->ahead_us = best_us;
    return ERR_OK;
}

enum err queue_redis_connect(struct queue_redis *q, struct error *e)
{
    if (redis_connect(&q->conn, e))
        return e->code;
    bool known =
        q->time_of_connect == q->conn.connect_count && clock_steady_ms(q->conn.clock) - q->time_read_ms < TIME_AGAIN_MS;
    return known ? ERR_OK : queue_redis_read_time(q, e);
}

/* By the server's clock: until then the caller waits at least. */
static int64_t queue_redis_deadline_us(const struct queue_redis *q)
{
    return clock_steady_ns(q->conn.clock) / 1000 + REDIS_ANSWER_MS * 1000 + q->ahead_us;
}

void queue_redis_call_begin(struct queue_redis *q, const char *verb)
{
    uint64_t fresh;
    crypto_random(&fresh, sizeof fresh);
    redis_command_begin(&q->conn);
    redis_arg_text(&q->conn, verb);
    redis_arg_text(&q->conn, q->conn.run_id);
    redis_arg_i64(&q->conn, (int64_t)(fresh >> 1 | 1));
    redis_arg_i64(&q->conn, queue_redis_deadline_us(q));
}

enum err queue_redis_call(struct queue_redis *q, redisReply **ret, struct error *e)
{
    enum err rc = redis_run_script(&q->conn, ":q", ret, e);
    if (rc && strstr(e->text, REDIS_LATE)) { /* nothing was done; the clock of one side was set, or the way is long */
        q->time_of_connect = 0;
        q->conn.sent = false;
    }
    return rc;
}

enum err queue_redis_call_no_reply(struct queue_redis *q, struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    return queue_redis_call(q, &reply, e);
}

void queue_redis_arg_member(struct redis_conn *c, const struct fenced_id *d)
{
    char text[MEMBER_MAX];
    uuid_format(d->id, text);
    int n = snprintf(text + UUID_TEXT, sizeof text - UUID_TEXT, ":%lld", (long long)d->fence);
    redis_arg_str(c, (struct str){ text, UUID_TEXT + (size_t)n });
}

bool queue_redis_read_member(struct str text, struct fenced_id *ret)
{
    return text.n > UUID_TEXT + 1 && text.p[UUID_TEXT] == ':' && uuid_parse(str_sub(text, 0, UUID_TEXT), &ret->id) &&
           str_to_i64(str_sub(text, UUID_TEXT + 1, text.n), 1, INT64_MAX, &ret->fence);
}

void *queue_redis_array_add(struct arena *a, void **v, size_t n, size_t *cap, size_t size)
{
    if (n == *cap) {
        size_t more = *cap * 2 + 4;
        void *bigger = arena_alloc(a, more * size);
        if (!bigger)
            return NULL;
        if (n)
            memcpy(bigger, *v, n * size);
        *v = bigger;
        *cap = more;
    }
    return (char *)*v + n * size;
}

/* ---- stored form of a task ---- */

void queue_redis_append_escaped(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c <= ' ' || c == '|' || c == ',' || c == '%' || c == 0x7f)
            buf_printf(b, "%%%02X", c);
        else
            buf_char(b, (char)c);
    }
}

/* flags|priority|cpu|memory|tenant|queue|labels: all facts that decide which workers may take a task. */
void queue_redis_write_channel(struct queue_redis *q, const struct task *t)
{
    struct buf *b = &q->channel;
    struct str rest = t->requires, label;
    buf_reset(b);
    buf_printf(b, "%c%c|%d|%lld|%lld|", task_is_suspect(t) ? 's' : '-', t->delivery == DELIVER_AT_MOST_ONCE ? 'm' : '-',
               t->priority, (long long)t->cpu_milli, (long long)t->memory_mb);
    queue_redis_append_escaped(b, queue_tenant(q->names, t->tenant));
    buf_char(b, '|');
    queue_redis_append_escaped(b, t->queue);
    buf_char(b, '|');
    for (bool first = true; str_cut(&rest, ',', &label); first = false) {
        if (!first)
            buf_char(b, ',');
        queue_redis_append_escaped(b, label);
    }
}

void queue_redis_write_data(struct queue_redis *q, const struct task *t)
{
    struct jw w;
    buf_reset(&q->data);
    buf_add(&q->data, buf_str(&q->channel));
    buf_char(&q->data, '\n');
    jw_init(&w, &q->data);
    message_write_task(&w, t, queue_tenant(q->names, t->tenant), queue_signing(q->names, t));
}

enum err queue_redis_read_delivery(struct arena *a, struct str data, struct task *ret, struct error *e)
{
    size_t line = str_find(data, '\n', 0);
    struct arena_mark before = arena_mark(a);
    struct str tenant;
    if (line >= data.n)
        return error_set(e, ERR_CORRUPT, "the stored task has no channel");
    enum err rc = message_read_task(a, str_sub(data, line + 1, data.n), ret, &tenant, e);
    if (rc)
        arena_rewind(a, before);
    return rc;
}

/* ---- pushing ---- */

/* The channels of the tasks of one call: each is sent once. */
struct push_batch {
    struct buf channels; /* each ends in NUL */
    size_t channel_count;
    uint16_t of[PUSH_CALL];
};

static uint16_t queue_redis_channel_number(struct push_batch *l, struct str channel)
{
    struct str rest = buf_str(&l->channels), name;
    uint16_t number = 0;
    while (str_cut(&rest, '\0', &name)) {
        number++;
        if (str_eq(name, channel))
            return number;
    }
    buf_add(&l->channels, channel);
    buf_char(&l->channels, '\0');
    return (uint16_t)++l->channel_count;
}

static void queue_redis_arg_channels(struct redis_conn *c, const struct push_batch *l)
{
    struct str rest = buf_str(&l->channels), name;
    redis_arg_i64(c, (int64_t)l->channel_count);
    while (str_cut(&rest, '\0', &name))
        redis_arg_str(c, name);
}

static enum err queue_redis_channel_too_long(const struct task *t, struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "the names of tenant, queue and labels of task '" STR_FMT "' are too long together",
                     STR_ARG(t->name));
}

/* Reads the epoch and the number of waiting tasks. */
static enum err queue_redis_read_push_reply(struct queue_redis *q, const redisReply *reply, struct pushed *ret,
                                            struct error *e)
{
    int64_t epoch, waiting;
    if (reply_count(reply) != 2 || !reply_i64(reply->element[0], &epoch) || !reply_i64(reply->element[1], &waiting))
        return redis_unexpected_reply(e, "push");
    ret->epoch = (uint64_t)epoch;
    if (waiting < 0)
        return queue_is_another(e);
    q->waiting = (size_t)waiting;
    return ERR_OK;
}

/* Pushes as many tasks as one call may have; *ret_n: how many those were. */
static enum err queue_redis_push_call(struct queue_redis *q, struct push_batch *l, const struct task *tasks, size_t n,
                                      uint64_t epoch, struct pushed *ret, size_t *ret_n, struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    size_t many = min_of(n, (size_t)PUSH_CALL), i;
    buf_reset(&l->channels);
    l->channel_count = 0;
    for (i = 0; i < many; i++) {
        queue_redis_write_channel(q, &tasks[i]);
        if (q->channel.n > CHANNEL_MAX)
            return queue_redis_channel_too_long(&tasks[i], e);
        l->of[i] = queue_redis_channel_number(l, buf_str(&q->channel));
    }
    queue_redis_call_begin(q, "push");
    redis_arg_i64(&q->conn, (int64_t)epoch);
    queue_redis_arg_channels(&q->conn, l);
    for (i = 0; i < many && q->conn.args.n < PUSH_CALL_BYTES; i++) {
        queue_redis_write_channel(q, &tasks[i]);
        queue_redis_write_data(q, &tasks[i]);
        redis_arg_i64(&q->conn, l->of[i]);
        queue_redis_arg_member(&q->conn, &(struct fenced_id){ tasks[i].id, tasks[i].fence });
        redis_arg_str(&q->conn, buf_str(&q->data));
    }
    *ret_n = i;
    return queue_redis_call(q, &reply, e) ? e->code : queue_redis_read_push_reply(q, reply, ret, e);
}

static enum err queue_redis_push(struct queue *base, const struct task *tasks, size_t n, uint64_t epoch,
                                 struct pushed *ret, struct error *e)
{
    struct queue_redis *q = queue_redis_of(base);
    struct push_batch batch = { 0 };
    if (queue_redis_connect(q, e))
        return e->code;
    buf_init(&batch.channels, (size_t)PUSH_CALL * (CHANNEL_MAX + 1));
    enum err rc = ERR_OK;
    size_t done = 0;
    for (size_t some = 0; done < n && rc == ERR_OK; done += rc ? 0 : some)
        rc = queue_redis_push_call(q, &batch, tasks + done, n - done, done ? ret->epoch : epoch, ret, &some, e);
    buf_release(&batch.channels);
    ret->unsure = rc != ERR_OK && (done > 0 || (rc != ERR_CONFLICT && q->conn.sent));
    return rc;
}

/* ---- the other verbs ---- */

static enum err queue_redis_ack(struct queue *base, const struct fenced_id *v, size_t n, struct error *e)
{
    struct queue_redis *q = queue_redis_of(base);
    if (queue_redis_connect(q, e))
        return e->code;
    for (size_t done = 0; done < n;) {
        queue_redis_call_begin(q, "ack");
        for (size_t end = min_of(done + IDS_CALL, n); done < end; done++)
            queue_redis_arg_member(&q->conn, &v[done]);
        if (queue_redis_call_no_reply(q, e))
            return e->code;
    }
    return ERR_OK;
}

static enum err queue_redis_recall(struct queue *base, struct fenced_id d, bool *ret_recalled, struct error *e)
{
    struct queue_redis *q = queue_redis_of(base);
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    int64_t recalled;
    if (queue_redis_connect(q, e))
        return e->code;
    queue_redis_call_begin(q, "recall");
    queue_redis_arg_member(&q->conn, &d);
    if (queue_redis_call(q, &reply, e))
        return e->code;
    if (!reply_i64(reply, &recalled))
        return redis_unexpected_reply(e, "recall");
    *ret_recalled = recalled == 1;
    return ERR_OK;
}

static enum err queue_redis_abort(struct queue *base, struct fenced_id d, struct error *e)
{
    struct queue_redis *q = queue_redis_of(base);
    if (queue_redis_connect(q, e))
        return e->code;
    queue_redis_call_begin(q, "abort");
    queue_redis_arg_member(&q->conn, &d);
    return queue_redis_call_no_reply(q, e);
}

static enum err queue_redis_want_back(struct queue *base, const struct task *t, uint64_t epoch,
                                      enum want_back_answer *ret, struct error *e)
{
    (void)epoch;
    struct queue_redis *q = queue_redis_of(base);
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    int64_t answer;
    if (queue_redis_connect(q, e))
        return e->code;
    queue_redis_call_begin(q, "want_back");
    queue_redis_arg_member(&q->conn, &(struct fenced_id){ t->id, t->fence });
    if (queue_redis_call(q, &reply, e))
        return e->code;
    if (!reply_i64(reply, &answer) || answer < WANT_BACK_TOLD || answer > WANT_BACK_UNKNOWN)
        return redis_unexpected_reply(e, "want_back");
    *ret = (enum want_back_answer)answer;
    return ERR_OK;
}

static enum err queue_redis_unblock(struct queue *base, struct uuid worker, struct error *e)
{
    struct queue_redis *q = queue_redis_of(base);
    char text[UUID_TEXT + 1];
    uuid_format(worker, text);
    if (queue_redis_connect(q, e))
        return e->code;
    queue_redis_call_begin(q, "unblock");
    redis_arg_text(&q->conn, text);
    return queue_redis_call_no_reply(q, e);
}

static enum err queue_redis_known(struct queue *base, const struct fenced_id *v, const uint64_t *epochs, size_t n,
                                  bool *ret, struct error *e)
{
    (void)epochs;
    struct queue_redis *q = queue_redis_of(base);
    if (queue_redis_connect(q, e))
        return e->code;
    for (size_t done = 0; done < n;) {
        cleanup_with(redis_reply_free) redisReply *reply = NULL;
        size_t some = min_of(n - done, (size_t)IDS_CALL);
        queue_redis_call_begin(q, "known");
        for (size_t i = 0; i < some; i++)
            queue_redis_arg_member(&q->conn, &v[done + i]);
        if (queue_redis_call(q, &reply, e))
            return e->code;
        if (reply_count(reply) != some)
            return redis_unexpected_reply(e, "known");
        for (size_t i = 0; i < some; i++)
            ret[done + i] = reply->element[i]->integer == 1;
        done += some;
    }
    return ERR_OK;
}

static enum err queue_redis_stats(struct queue *base, struct queue_state *ret, struct error *e)
{
    struct queue_redis *q = queue_redis_of(base);
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    int64_t epoch, waiting, delivered;
    if (queue_redis_connect(q, e))
        return e->code;
    queue_redis_call_begin(q, "look");
    if (queue_redis_call(q, &reply, e))
        return e->code;
    if (reply_count(reply) != 3 || !reply_i64(reply->element[0], &epoch) || !reply_i64(reply->element[1], &waiting) ||
        !reply_i64(reply->element[2], &delivered))
        return redis_unexpected_reply(e, "look");
    q->waiting = waiting > 0 ? (size_t)waiting : 0;
    *ret = (struct queue_state){ waiting, delivered, (uint64_t)epoch, INT64_MAX };
    return ERR_OK;
}

static size_t queue_redis_depth(struct queue *base)
{
    return queue_redis_of(base)->waiting;
}

static void queue_redis_free(struct queue *base)
{
    struct queue_redis *q = queue_redis_of(base);
    redis_conn_release(&q->conn);
    buf_release(&q->data);
    buf_release(&q->channel);
    buf_release(&q->filter);
    free(q);
}

enum err queue_redis_open(const struct redis_setup *setup, const struct queue_names *names, struct queue **ret,
                          struct error *e)
{
    static const struct queue_ops ops = {
        .push = queue_redis_push,
        .take = queue_redis_take,
        .renew = queue_redis_renew,
        .ack = queue_redis_ack,
        .timed_out_deliveries = queue_redis_timed_out,
        .recall = queue_redis_recall,
        .abort = queue_redis_abort,
        .want_back = queue_redis_want_back,
        .unblock = queue_redis_unblock,
        .known = queue_redis_known,
        .stats = queue_redis_stats,
        .depth = queue_redis_depth,
        .free = queue_redis_free,
        .push_again = true,
    };
    struct queue_redis *q = xnew(*q);
    q->base.ops = &ops;
    q->names = names;
    if (redis_conn_init(&q->conn, setup, redis_script_text("queue_redis.lua"), e)) {
        free(q);
        return e->code;
    }
    buf_init(&q->data, MESSAGE_MAX);
    buf_init(&q->channel, MESSAGE_MAX);
    buf_init(&q->filter, MESSAGE_MAX);
    *ret = &q->base;
    return ERR_OK;
}
