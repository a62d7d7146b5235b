/* The streams, from the request to the end: GET /v1/events. */
#include <stdlib.h>

#include "api/live/live_internal.h"
#include "api/resource/tenants.h"
#include "api/server/query.h"

enum { KEY_ARENA = 64 << 10, RETRY_MIN_MS = 1000, RETRY_MAX_MS = 5000 };

/* ---- begin and end ---- */

struct live_query {
    struct str tenant, queue;
    struct uuid task;
};

/* Of the place that Last-Event-ID names: "NODE.NUMBER". False: it is of another node, or too long ago. */
static bool live_stream_resume(struct live_stream *s, struct str last_id)
{
    struct str node, rest = last_id;
    int64_t number;
    if (!str_cut(&rest, '.', &node) || !str_eq(node, str_from(s->live->name)) ||
        !str_to_i64(rest, 0, INT64_MAX, &number) || !live_part_has_since(&s->tenant->part, (uint64_t)number))
        return false;
    s->cursor = (uint64_t)number;
    return true;
}

/* With the lock held. */
static void live_stream_add(struct live *l, struct live_stream *s, int32_t tenant, const struct live_query *query,
                            struct str last_id)
{
    struct live_tenant *t = live_tenant_get(l, tenant);
    s->live = l;
    s->tenant = t;
    s->filter = live_filters_join(&t->filters, query->task, query->queue);
    s->folded = live_filters_folded(&t->filters, s->filter);
    s->cursor = t->part.last;
    s->has_gap = last_id.n && !live_stream_resume(s, last_id);
    list_push(&l->streams, &s->link);
    list_push(&t->streams, &s->of_tenant);
    l->stream_count++;
    if (!t->is_watched)
        live_send_watch(l, t);
    t->is_watched = true;
    live_tenant_activate(l, t);
}

/* With the lock held. */
static void live_stream_set_over(struct live_stream *s)
{
    struct live_tenant *t = s->tenant;
    s->is_over = true;
    s->live->stream_count--;
    list_remove(&s->of_tenant);
    t->kept_until_ms = clock_steady_ms(s->live->server->setup.clock) + LIVE_KEPT_MS;
}

void live_stream_free(struct live_stream *s)
{
    http_stream_unref(s->http);
    live_filters_leave(&s->tenant->filters, s->filter);
    list_remove(&s->link);
    free(s);
}

static void live_stream_on_quiet(void *context, struct buf *out)
{
    (void)context;
    buf_text(out, ": still here\n\n");
}

static void live_stream_on_ended(void *context)
{
    struct live_stream *s = context;
    struct live *l = s->live;
    pthread_mutex_lock(&l->lock);
    live_stream_set_over(s);
    pthread_mutex_unlock(&l->lock);
}

void live_stream_cancel(struct live_stream *s)
{
    if (s)
        live_stream_on_ended(s);
}

bool live_stream_open(struct live_stream *s, struct http_exchange *x)
{
    struct http_stream_setup setup = { .context = s,
                                       .on_quiet = live_stream_on_quiet,
                                       .on_ended = live_stream_on_ended };
    struct live *l = s->live;
    pthread_mutex_lock(&l->lock);
    struct http_stream *http = l->is_stopped ? NULL : http_stream_open(x, &setup);
    s->http = http;
    if (!http)
        live_stream_set_over(s);
    pthread_mutex_unlock(&l->lock);
    return http;
}

void live_stream_end(struct live_stream *s, const char *reason, const char *detail, int64_t retry_ms)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, LIVE_TEXT_MAX);
    if (retry_ms)
        buf_printf(&out, "retry: %lld\n", (long long)retry_ms);
    live_write_end(&out, reason, detail);
    buf_char(&out, '\n');
    (void)http_stream_write(s->http, buf_str(&out)); /* a reader that is behind does not learn it */
    http_stream_end(s->http);
    s->is_ending = true;
}

void live_stop(struct live *l)
{
    pthread_mutex_lock(&l->lock);
    l->is_stopped = true;
    list_each (&l->streams, link) {
        struct live_stream *s = container_of(link, struct live_stream, link);
        if (s->http && !s->is_ending && !s->is_over)
            live_stream_end(s, "SHUTDOWN", "the node is shutting down; connect again",
                            prng_between(&l->random, RETRY_MIN_MS, RETRY_MAX_MS));
    }
    pthread_mutex_unlock(&l->lock);
}

size_t live_stream_count(struct live *l)
{
    pthread_mutex_lock(&l->lock);
    size_t n = l->stream_count;
    pthread_mutex_unlock(&l->lock);
    return n;
}

/* ---- keys ---- */

struct live_key {
    char id[IDENTITY_TEXT];
    int32_t tenant;
    const char *reason, *detail; /* why its streams end; NULL: they go on */
};

static size_t live_list_keys(struct live *l, struct live_key *v)
{
    size_t n = 0;
    list_each (&l->streams, link) {
        const struct live_stream *s = container_of(link, struct live_stream, link);
        bool is_known = s->is_over || n == LIVE_STREAMS_MAX;
        for (size_t i = 0; i < n; i++)
            is_known = is_known || strcmp(v[i].id, s->key_id) == 0;
        if (is_known)
            continue;
        v[n] = (struct live_key){ .tenant = s->key_tenant };
        memcpy(v[n++].id, s->key_id, sizeof s->key_id);
    }
    return n;
}

/* If the store is unavailable, the streams go on. */
static void live_judge_key(struct live *l, struct reader *r, struct live_key *k)
{
    const struct api_setup *setup = &l->server->setup;
    cleanup_with(arena_release) struct arena arena;
    struct tenant_rules tenant;
    struct api_key key;
    struct error e;
    arena_init(&arena, KEY_ARENA);
    if (setup->catalog && (!catalog_cache_tenant(setup->catalog, k->tenant, NULL, &tenant) || tenant.disabled)) {
        k->reason = "TENANT_DISABLED";
        k->detail = "the tenant of the API key is disabled";
        return;
    }
    if (str_starts(str_from(k->id), S("cert:")))
        return;
    enum err rc = auth_read_key(r, str_from(k->id), &arena, &key, &e);
    bool is_expired = rc == ERR_OK && key.expires_ms > 0 && key.expires_ms <= clock_wall_ms(setup->clock);
    if (rc == ERR_NOT_FOUND || (rc == ERR_OK && key.expires_ms < 0)) {
        k->reason = "KEY_REVOKED";
        k->detail = "the API key was revoked";
    } else if (is_expired) {
        k->reason = "KEY_EXPIRED";
        k->detail = "the API key has expired";
    }
}

static void live_end_streams_of(struct live *l, const struct live_key *k)
{
    list_each (&l->streams, link) {
        struct live_stream *s = container_of(link, struct live_stream, link);
        if (k->reason && s->http && !s->is_ending && !s->is_over && strcmp(s->key_id, k->id) == 0)
            live_stream_end(s, k->reason, k->detail, 0);
    }
}

/* A pool thread. */
static enum handled live_run_check(struct request *q, struct reader *r)
{
    struct live *l = q->context;
    struct live_key keys[LIVE_STREAMS_MAX];
    pthread_mutex_lock(&l->lock);
    size_t n = live_list_keys(l, keys);
    pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; i < n; i++)
        live_judge_key(l, r, &keys[i]);
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < n; i++)
        live_end_streams_of(l, &keys[i]);
    l->is_checking = false;
    pthread_mutex_unlock(&l->lock);
    api_server_end_run(l->server);
    return HANDLED_LATER;
}

void live_check_keys(struct live *l)
{
    if (!api_server_begin_run(l->server))
        return;
    l->is_checking = true;
    l->keys_changed = false;
    (void)request_later(l->internal, live_run_check);
}

/* ---- the request ---- */

static enum err live_read_query(struct request *q, struct reader *r, struct live_query *p, int32_t *ret_tenant,
                                struct error *e)
{
    static const struct query_field fields[] = {
        { .name = "tenant", .kind = QUERY_TEXT, .offset = offsetof(struct live_query, tenant), .max = ROUTE_NAME_MAX },
        { .name = "queue", .kind = QUERY_TEXT, .offset = offsetof(struct live_query, queue), .max = ROUTE_NAME_MAX },
        { .name = "task", .kind = QUERY_ID, .offset = offsetof(struct live_query, task), .also = "id" },
    };
    struct tenant_rules tenant = { .number = q->who.tenant };
    struct task t;
    if (query_read(q->query, fields, array_count(fields), p, &q->arena, e))
        return e->code;
    if (p->queue.n && !route_name_is_valid(p->queue))
        return error_field(e, "queue", "must consist of letters, digits and . _ : -");
    if (p->tenant.n && request_tenant(q, r, p->tenant, &tenant, e))
        return error_set(e, ERR_NOT_FOUND, "the tenant does not exist, or this key may not see it");
    if (!uuid_is_nil(p->task) && reader_get(r, tenant.number, p->task, &q->arena, &t, e))
        return e->code == ERR_NOT_FOUND ? error_set(e, ERR_NOT_FOUND, "there is no such task") : e->code;
    *ret_tenant = tenant.number;
    return ERR_OK;
}

/* A stream ends with the session that opened it. */
static const char *live_key_of(const struct request *q)
{
    return q->who.session[0] ? q->who.session : q->who.key_id;
}

static bool live_stream_counts(const struct live_stream *s)
{
    return s->http && !s->is_over && !s->is_ending;
}

static size_t live_count_of_tenant(const struct live *l, int32_t key_tenant)
{
    size_t n = 0;
    list_each (&l->streams, link) {
        const struct live_stream *s = container_of(link, struct live_stream, link);
        n += live_stream_counts(s) && s->key_tenant == key_tenant;
    }
    return n;
}

/* With the lock held. A node that is full ends a stream of the tenant that has most, if this one has fewer: no tenant
 * keeps another from watching. False: this one has as many as any. */
static bool live_make_room(struct live *l, int32_t key_tenant)
{
    struct live_stream *latest = NULL;
    size_t most = live_count_of_tenant(l, key_tenant) + 1;
    list_each (&l->streams, link) {
        struct live_stream *s = container_of(link, struct live_stream, link);
        size_t n = live_stream_counts(s) ? live_count_of_tenant(l, s->key_tenant) : 0;
        if (n < most || (n == most && !latest))
            continue;
        most = n;
        latest = s;
    }
    if (latest)
        live_stream_end(latest, "ROOM", "the node is full, and another tenant has fewer streams; connect again",
                        RETRY_MAX_MS);
    return latest;
}

/* With the lock held. False: the request is answered. */
static bool live_has_room(struct live *l, struct request *q)
{
    size_t of_key = 0;
    list_each (&l->streams, link) {
        const struct live_stream *s = container_of(link, struct live_stream, link);
        of_key += !s->is_over && strcmp(s->key_id, live_key_of(q)) == 0;
    }
    if (l->is_stopped)
        request_refuse(q, PROBLEM_UNAVAILABLE, "the server is shutting down; try again");
    else if (of_key < LIVE_STREAMS_KEY && l->stream_count >= LIVE_STREAMS_MAX && !live_make_room(l, q->who.tenant))
        respond_problem(&q->response, PROBLEM_UNAVAILABLE,
                        "this node has %d streams of events, which is the most; try again, or another node",
                        LIVE_STREAMS_MAX);
    else if (of_key >= LIVE_STREAMS_KEY)
        respond_problem(&q->response, PROBLEM_QUOTA,
                        "this API key has %d streams of events on this node, which is the most; close one",
                        LIVE_STREAMS_KEY);
    else
        return true;
    return false;
}

enum handled live_stream_events(struct request *q, struct reader *r)
{
    struct live *l = q->server->live;
    struct live_query p = { 0 };
    struct error e = { 0 };
    int32_t tenant;
    if (live_read_query(q, r, &p, &tenant, &e))
        return request_fail(q, &e);
    struct live_stream *s = xnew(*s);
    const struct tls_client *client = q->exchange->client;
    bool by_certificate = str_starts(str_from(q->who.key_id), S("cert:"));
    snprintf(s->key_id, sizeof s->key_id, "%s", live_key_of(q));
    s->key_tenant = q->who.tenant;
    s->expires_ms = client && by_certificate ? client->expires_ms : INT64_MAX;
    s->sees_nodes =
        q->who.tenant == TENANT_DEFAULT && tenant == TENANT_DEFAULT && identity_may(&q->who, SCOPE_STATUS_READ);
    s->sees_incidents = identity_may(&q->who, SCOPE_NOTIFICATIONS_READ);
    pthread_mutex_lock(&l->lock);
    bool has_room = live_has_room(l, q);
    if (has_room)
        live_stream_add(l, s, tenant, &p, q->head.last_event_id);
    pthread_mutex_unlock(&l->lock);
    if (!has_room) {
        free(s);
        return HANDLED_DONE;
    }
    q->live_stream = s;
    q->response.status = 200;
    q->response.type = TYPE_EVENTS;
    return HANDLED_DONE;
}
