/* OP_LIMIT_TAKE: a node takes places and tokens of limits that hold for the whole cluster.
 *
 * The rows of the limits are locked in the order of their keys until the transaction ends. Every transaction that takes
 * places or tokens of a limit locks its row first, and reads what is taken only then, so that it reads the latest
 * state. The node's own row is locked FOR KEY SHARE, as by a claim: the node cannot be marked dead in between. */
#include <assert.h>
#include <stdlib.h>

#include "store/common/limit_share.h"
#include "store/postgres/internal.h"

enum { TRIES_MAX = 10 };

static const struct pg_statement lock_node = { "share_node",
                                               "SELECT 1 FROM nodes WHERE id = $1 AND NOT dead FOR KEY SHARE" };
static const struct pg_statement lock_shares = {
    "share_hold", "SELECT key, rate, burst, level, since_ms, taken, seen_ms FROM shares WHERE key = ANY ($1) "
                  "ORDER BY key FOR UPDATE"
};
static const struct pg_statement read_places = {
    "share_places", "SELECT p.key, coalesce(sum(p.n) FILTER (WHERE p.node = $2), 0)::bigint, "
                    "coalesce(sum(p.n) FILTER (WHERE p.node <> $2), 0)::bigint "
                    "FROM places AS p JOIN nodes AS n ON n.id = p.node AND NOT n.dead "
                    "WHERE p.key = ANY ($1) GROUP BY p.key ORDER BY p.key"
};
/* RUNNING tasks of a limit that occupy no living node's places: tasks of claims that nodes had made before they left
 * or died, up to the places that these nodes held, and leased tasks. The array parameters are keys, tenants, queues
 * (NULL: all queues of the tenant) and the number up to which counting is useful. */
#define LEASED(which)                                                                                                    \
    "(SELECT count(*) FROM (SELECT FROM task_leases AS l JOIN tasks AS t ON t.id = l.task_id AND t.state = " SQL_RUNNING \
    " AND t.fence = l.fence WHERE l.tenant_id = k.tenant AND " which " LIMIT k.most) AS x)"
static const struct pg_statement read_nodeless = {
    "share_nodeless",
    "WITH gone AS MATERIALIZED (SELECT DISTINCT p.node FROM places AS p WHERE p.key = ANY ($1) "
    "AND NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.id = p.node AND NOT n.dead)), "
    "runs AS MATERIALIZED (SELECT c.node, t.lane, count(*) AS n FROM gone JOIN claims AS c ON c.node = gone.node AND c.hold < 2 "
    "CROSS JOIN LATERAL (SELECT DISTINCT u.task FROM unnest(c.tasks) AS u(task)) AS x "
    "JOIN tasks AS t ON t.id = x.task AND t.state = " SQL_RUNNING " AND t.claim_id = c.id GROUP BY c.node, t.lane) "
    "SELECT k.key, coalesce((SELECT sum(least(p.n, (SELECT coalesce(sum(r.n), 0) FROM runs AS r JOIN lanes AS l ON l.lane = r.lane "
    "AND l.tenant_id = k.tenant AND (k.queue IS NULL OR l.queue = k.queue) WHERE r.node = p.node))) "
    "FROM places AS p WHERE p.key = k.key AND p.node IN (SELECT node FROM runs)), 0)::bigint + " LEASED(
        "k.queue IS NULL") " + " LEASED("l.queue = k.queue") " FROM unnest($1, $2, $3, $4) AS k (key, tenant, queue, most) ORDER BY k.key"
};
static const struct pg_statement make_shares = {
    "share_make", "INSERT INTO shares (key, rate, burst, level, since_ms, taken, seen_ms) "
                  "SELECT key, 0, 0, 0, 0, 0, 0 FROM unnest($1::text[]) AS u (key) ORDER BY key COLLATE \"C\" "
                  "ON CONFLICT (key) DO NOTHING"
};
static const struct pg_statement write_shares = {
    "share_write", "UPDATE shares AS s SET rate = u.rate, burst = u.burst, level = u.level, since_ms = u.since_ms, "
                   "taken = u.taken, seen_ms = u.seen_ms FROM unnest($1::text[], $2::double precision[], $3::bigint[], "
                   "$4::double precision[], $5::bigint[], $6::bigint[], $7::bigint[]) "
                   "AS u (key, rate, burst, level, since_ms, taken, seen_ms) WHERE s.key = u.key"
};
static const struct pg_statement write_places = { "share_write_places",
                                                  "INSERT INTO places (key, node, n) SELECT u.key, $2, u.n "
                                                  "FROM unnest($1::text[], $3::bigint[]) AS u (key, n) "
                                                  "ON CONFLICT (key, node) DO UPDATE SET n = excluded.n" };
static const struct pg_statement drop_places = { "share_drop_places",
                                                 "DELETE FROM places WHERE node = $2 AND key = ANY ($1)" };

/* A share of the operation, and its row before and after. */
struct pg_limit_share {
    struct share *share;
    struct share_row before, now;
};

struct pg_limit_take {
    struct store_postgres *s;
    const struct op_limit_take *op;
    struct pg_limit_share *v; /* op->n entries, by key */
};

static int pg_limit_by_key(const void *a, const void *b)
{
    return str_cmp(((const struct pg_limit_share *)a)->share->key, ((const struct pg_limit_share *)b)->share->key);
}

static void pg_limit_sort(struct pg_limit_take *k)
{
    for (size_t i = 0; i < k->op->n; i++)
        k->v[i].share = &k->op->v[i];
    qsort(k->v, k->op->n, sizeof *k->v, pg_limit_by_key);
    for (size_t i = 1; i < k->op->n; i++)
        assert(pg_limit_by_key(&k->v[i - 1], &k->v[i]) < 0);
}

/* Starts the parameters with all keys, and then the node if and_node. */
static struct pg_params *pg_limit_add_keys(const struct pg_limit_take *k, bool and_node)
{
    struct pg_params *p = &k->s->params;
    pg_params_reset(p);
    pg_array(p, PG_TEXT);
    for (size_t i = 0; i < k->op->n; i++)
        pg_element_text(p, k->v[i].share->key);
    pg_array_end(p);
    if (and_node)
        pg_add_uuid(p, k->op->node);
    return p;
}

/* ---- locking and reading ---- */

/* The entry of the row's key; NULL: this key was not asked for. */
static struct pg_limit_share *pg_limit_find(const struct pg_limit_take *k, const struct pg_result *r, int row)
{
    struct share key = { .key = pg_text(r, row, 0) };
    struct pg_limit_share like = { .share = &key };
    return bsearch(&like, k->v, k->op->n, sizeof *k->v, pg_limit_by_key);
}

static enum err pg_limit_unexpected_error(const struct pg_limit_take *k, struct error *e)
{
    return pg_corrupt(&k->s->conn, "the server returned a share that was not asked for", e);
}

/* *ret_all is false if a row is missing: it never existed, or was just purged. */
static enum err pg_limit_get_shares(struct pg_limit_take *k, bool *ret_all, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_get(&k->s->conn, &r, e))
        return e->code;
    for (int i = 0; i < r.rows; i++) {
        struct pg_limit_share *a = pg_limit_find(k, &r, i);
        if (!a)
            return pg_limit_unexpected_error(k, e);
        a->before.bucket = (struct bucket){
            .rate = pg_double(&r, i, 1),
            .burst = pg_i64(&r, i, 2),
            .level = pg_double(&r, i, 3),
            .since_ms = pg_i64(&r, i, 4),
            .taken = pg_i64(&r, i, 5),
            .seen_ms = pg_i64(&r, i, 6),
        };
    }
    *ret_all = (size_t)r.rows == k->op->n;
    return ERR_OK;
}

static enum err pg_limit_get_places(struct pg_limit_take *k, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_get(&k->s->conn, &r, e))
        return e->code;
    for (size_t i = 0; i < k->op->n; i++)
        k->v[i].before.held = k->v[i].before.others = 0;
    for (int i = 0; i < r.rows; i++) {
        struct pg_limit_share *a = pg_limit_find(k, &r, i);
        if (!a)
            return pg_limit_unexpected_error(k, e);
        a->before.held = pg_i64(&r, i, 1);
        a->before.others = pg_i64(&r, i, 2);
    }
    return ERR_OK;
}

/* Only a share that limits concurrency and whose key names a tenant. */
static bool pg_limit_counts_nodeless(const struct pg_limit_share *a)
{
    return a->share->concurrency > 0 && share_subject(a->share->key).tenant;
}

static enum err pg_limit_send_nodeless(const struct pg_limit_take *k, bool *ret_sent, struct error *e)
{
    struct pg_params *p = &k->s->params;
    enum { KEY, TENANT, QUEUE, MOST, COLUMNS };
    static const enum pg_type types[] = { PG_TEXT, PG_I32, PG_TEXT, PG_I64 };
    *ret_sent = false;
    pg_params_reset(p);
    for (int column = 0; column < COLUMNS; column++) {
        pg_array(p, types[column]);
        for (size_t i = 0; i < k->op->n; i++) {
            const struct share *s = k->v[i].share;
            struct share_subject about = share_subject(s->key);
            if (!pg_limit_counts_nodeless(&k->v[i]))
                continue;
            *ret_sent = true;
            switch (column) {
            case KEY: pg_element_text(p, s->key); break;
            case TENANT: pg_element_i64(p, about.tenant); break;
            case QUEUE: pg_element_text_or_null(p, about.queue); break;
            default: pg_element_i64(p, s->concurrency);
            }
        }
        pg_array_end(p);
    }
    return *ret_sent ? pg_send(&k->s->conn, &read_nodeless, p, e) : ERR_OK;
}

static enum err pg_limit_get_nodeless(struct pg_limit_take *k, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_get(&k->s->conn, &r, e))
        return e->code;
    for (int i = 0; i < r.rows; i++) {
        struct pg_limit_share *a = pg_limit_find(k, &r, i);
        if (!a)
            return pg_limit_unexpected_error(k, e);
        a->before.others += pg_i64(&r, i, 1);
    }
    return ERR_OK;
}

static enum err pg_limit_try_lock(struct pg_limit_take *k, bool *ret_lives, bool *ret_all, struct error *e)
{
    struct pg_conn *c = &k->s->conn;
    cleanup_with(pg_result_release) struct pg_result node = { 0 };
    bool nodeless;
    pg_params_reset(&k->s->params);
    pg_add_uuid(&k->s->params, k->op->node);
    if (pg_send(c, &lock_node, &k->s->params, e) || pg_send(c, &lock_shares, pg_limit_add_keys(k, false), e) ||
        pg_send(c, &read_places, pg_limit_add_keys(k, true), e) || pg_limit_send_nodeless(k, &nodeless, e) ||
        pg_get(c, &node, e) || pg_limit_get_shares(k, ret_all, e) || pg_limit_get_places(k, e) ||
        (nodeless && pg_limit_get_nodeless(k, e)))
        return e->code;
    *ret_lives = node.rows > 0;
    return ERR_OK;
}

static enum err pg_limit_lock_all(struct pg_limit_take *k, bool *ret_lives, struct error *e)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        bool all;
        if (pg_limit_try_lock(k, ret_lives, &all, e))
            return e->code;
        if (all || !*ret_lives)
            return ERR_OK;
        if (pg_run(&k->s->conn, &make_shares, pg_limit_add_keys(k, false), NULL, e))
            return e->code;
    }
    return pg_corrupt(&k->s->conn, "the rows of limits were deleted again and again", e);
}

/* ---- writing ---- */

static bool pg_limit_bucket_changed(const struct pg_limit_share *a)
{
    return !share_bucket_same(&a->before.bucket, &a->now.bucket);
}

#define ADD_COLUMN(k, type, element, member)                                                                           \
    do {                                                                                                               \
        pg_array(&(k)->s->params, type);                                                                               \
        for (size_t i_ = 0; i_ < (k)->op->n; i_++)                                                                     \
            if (pg_limit_bucket_changed(&(k)->v[i_]))                                                                  \
                element(&(k)->s->params, (k)->v[i_].member);                                                           \
        pg_array_end(&(k)->s->params);                                                                                 \
    } while (0)

static enum err pg_limit_send_buckets(const struct pg_limit_take *k, int *sent, struct error *e)
{
    size_t n = 0;
    for (size_t i = 0; i < k->op->n; i++)
        n += pg_limit_bucket_changed(&k->v[i]);
    if (n == 0)
        return ERR_OK;
    pg_params_reset(&k->s->params);
    ADD_COLUMN(k, PG_TEXT, pg_element_text, share->key);
    ADD_COLUMN(k, PG_DOUBLE, pg_element_double, now.bucket.rate);
    ADD_COLUMN(k, PG_I64, pg_element_i64, now.bucket.burst);
    ADD_COLUMN(k, PG_DOUBLE, pg_element_double, now.bucket.level);
    ADD_COLUMN(k, PG_I64, pg_element_i64, now.bucket.since_ms);
    ADD_COLUMN(k, PG_I64, pg_element_i64, now.bucket.taken);
    ADD_COLUMN(k, PG_I64, pg_element_i64, now.bucket.seen_ms);
    ++*sent;
    return pg_send(&k->s->conn, &write_shares, &k->s->params, e);
}

static bool pg_limit_place_changed(const struct pg_limit_share *a, bool given_up)
{
    return a->now.held != a->before.held && (a->now.held == 0) == given_up;
}

/* Sends the places that are given up, or the other places that have changed. */
static enum err pg_limit_send_places(const struct pg_limit_take *k, bool given_up, int *sent, struct error *e)
{
    struct pg_params *p = &k->s->params;
    size_t n = 0;
    pg_params_reset(p);
    pg_array(p, PG_TEXT);
    for (size_t i = 0; i < k->op->n; i++) {
        if (!pg_limit_place_changed(&k->v[i], given_up))
            continue;
        pg_element_text(p, k->v[i].share->key);
        n++;
    }
    pg_array_end(p);
    if (n == 0)
        return ERR_OK;
    pg_add_uuid(p, k->op->node);
    if (!given_up) {
        pg_array(p, PG_I64);
        for (size_t i = 0; i < k->op->n; i++)
            if (pg_limit_place_changed(&k->v[i], false))
                pg_element_i64(p, k->v[i].now.held);
        pg_array_end(p);
    }
    ++*sent;
    return pg_send(&k->s->conn, given_up ? &drop_places : &write_places, p, e);
}

static enum err pg_limit_write_all(const struct pg_limit_take *k, struct error *e)
{
    int sent = 0;
    if (pg_limit_send_buckets(k, &sent, e) || pg_limit_send_places(k, false, &sent, e) ||
        pg_limit_send_places(k, true, &sent, e))
        return e->code;
    for (; sent > 0; sent--)
        if (pg_get(&k->s->conn, NULL, e))
            return e->code;
    return ERR_OK;
}

static enum err pg_limit_take_all(struct pg_limit_take *k, struct error *e)
{
    bool lives;
    pg_limit_sort(k);
    if (pg_limit_lock_all(k, &lives, e))
        return e->code;
    for (size_t i = 0; i < k->op->n; i++) {
        struct pg_limit_share *a = &k->v[i];
        a->now = a->before;
        if (lives)
            share_take(a->share, &a->now, k->op->now_ms);
        else
            share_refuse(a->share, k->op->now_ms);
    }
    return lives ? pg_limit_write_all(k, e) : ERR_OK;
}

enum err postgres_limit_take(struct store_postgres *s, struct op *base)
{
    struct op_limit_take *op = (struct op_limit_take *)base;
    if (op->n == 0)
        return ERR_OK;
    struct pg_limit_take k = { s, op, xcalloc(op->n, sizeof(struct pg_limit_share)) };
    enum err rc = pg_limit_take_all(&k, &base->error);
    free(k.v);
    return rc;
}
