/* A lease on Redis: a key that holds the holder's id and expires. The time is the server's. */
#include "lease/redis/lease_redis.h"

#include <stdio.h>
#include <stdlib.h>

#include "broker/redis/connection.h"

enum { NAME_MAX_BYTES = 64 };

struct lease_redis {
    struct lease base;
    struct redis_conn conn;
};

static struct lease_redis *lease_redis_of(struct lease *l)
{
    return container_of(l, struct lease_redis, base);
}

/* Calls a verb of lease_redis.lua for a holder and a name. */
static enum err lease_redis_call(struct lease_redis *l, const char *verb, struct str name, struct uuid holder,
                                 int64_t ttl_ms, bool *ret_done, struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    char who[UUID_TEXT + 1], key[NAME_MAX_BYTES + 16];
    int64_t done;
    if (name.n > NAME_MAX_BYTES)
        return error_set(e, ERR_INVALID, "a lease's name is longer than %d bytes", NAME_MAX_BYTES);
    if (redis_connect(&l->conn, e))
        return e->code;
    snprintf(key, sizeof key, ":lease:" STR_FMT, STR_ARG(name));
    uuid_format(holder, who);
    redis_command_begin(&l->conn);
    redis_arg_text(&l->conn, verb);
    redis_arg_text(&l->conn, who);
    redis_arg_i64(&l->conn, ttl_ms);
    if (redis_run_script(&l->conn, key, &reply, e))
        return e->code;
    if (!reply_i64(reply, &done))
        return redis_unexpected_reply(e, verb);
    *ret_done = done == 1;
    return ERR_OK;
}

static enum err lease_redis_take(struct lease *base, struct str name, struct uuid holder, int64_t ttl_ms,
                                 bool *ret_held, struct error *e)
{
    return lease_redis_call(lease_redis_of(base), "take", name, holder, ttl_ms, ret_held, e);
}

static enum err lease_redis_release(struct lease *base, struct str name, struct uuid holder, struct error *e)
{
    bool was;
    return lease_redis_call(lease_redis_of(base), "let_go", name, holder, 0, &was, e);
}

static void lease_redis_free(struct lease *base)
{
    redis_conn_release(&lease_redis_of(base)->conn);
    free(lease_redis_of(base));
}

enum err lease_redis_open(const struct redis_setup *setup, struct lease **ret, struct error *e)
{
    static const struct lease_ops ops = { lease_redis_take, lease_redis_release, lease_redis_free };
    struct lease_redis *l = xnew(*l);
    l->base.ops = &ops;
    if (redis_conn_init(&l->conn, setup, redis_script_text("lease_redis.lua"), e)) {
        free(l);
        return e->code;
    }
    *ret = &l->base;
    return ERR_OK;
}
