#pragma once
/* tests/support/http_client.h - the API server on a memory store, and a client that sends exactly the given bytes. The
 * writer is synchronous: an operation is applied within submit, unless the test holds it back or makes it fail. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "api/auth/admin_keys.h"
#include "api/auth/auth.h"
#include "api/server/api_server.h"
#include "base/json/json.h"
#include "base/metrics.h"
#include "http_socket.h"
#include "model/store_memory.h"
#include "platform/clock_system.h"
#include "platform/zoneinfo_system.h"

#define PEPPER S("0123456789abcdef0123456789abcdef")

struct sick_store;

struct harness {
    struct writer writer; /* first member: the server sees only this */
    struct store *store;
    struct sick_store *sick; /* the same, as the server sees it */
    struct zoneinfo *zones;
    struct metrics *metrics;
    struct api_server *server;
    char key[AUTH_KEY_TEXT + 1];
    pthread_mutex_t lock;
    _Atomic int broken;    /* every operation fails with this enum err */
    _Atomic bool lost;     /* every operation is applied, but its result is lost */
    _Atomic int conflicts; /* this many puts fail because the state has changed */
    _Atomic bool hold;     /* operations wait in `held` */
    struct op *held[16];
    size_t held_count;
    _Atomic size_t nudged;
    _Atomic int64_t nudged_ms; /* due time or cursor of the latest call */

    void (*before_recall)(struct harness *h); /* before a recall that takes a task back is stored; NULL: nothing */
    _Atomic bool recall_silent;               /* no result until the test gives one */
    _Atomic int recall_result;                /* enum recall_result */
    enum task_state freed_as;                 /* RECALL_FREED: the task's state then, and the attempts made meanwhile */
    int freed_attempts;
    struct recall_answer *_Atomic recall_waiting;
    _Atomic int recalls;
    _Atomic int told; /* recall orders that tell */
    _Atomic bool recall_abort;
    _Atomic bool recall_known;  /* running tasks are known as running */
    _Atomic bool recall_breaks; /* the store fails right after a recall */
    _Atomic bool not_ready;
    _Atomic bool has_old_node;       /* a node lives that cannot run workflows */
    _Atomic int reads_before_broken; /* INT_MAX: all reads succeed; n: all reads after the next n fail */
};

/* ---- a store whose readers can be made to fail ---- */

struct sick_store {
    struct store base;
    struct harness *harness;
};

struct sick_reader {
    struct reader base;
    struct harness *harness;
    struct reader *real;
};

static inline struct reader *sick_or_real(struct reader *r, struct error *e)
{
    struct sick_reader *s = container_of(r, struct sick_reader, base);
    bool healthy = s->harness->reads_before_broken == INT_MAX || s->harness->reads_before_broken-- > 0;
    if (!healthy)
        error_set(e, ERR_UNAVAILABLE, "the disk is gone");
    return healthy ? s->real : NULL;
}

#define SICK_READ(name, parameters, ...)                                                                               \
    static inline enum err sick_##name parameters                                                                      \
    {                                                                                                                  \
        r = sick_or_real(r, e);                                                                                        \
        return r ? reader_##name(__VA_ARGS__) : ERR_UNAVAILABLE;                                                       \
    }
SICK_READ(get, (struct reader * r, int32_t t, struct uuid i, struct arena *a, struct task *ret, struct error *e), r, t,
          i, a, ret, e)
SICK_READ(list,
          (struct reader * r, const struct task_filter *f, struct arena *a, struct task_page *ret, struct error *e), r,
          f, a, ret, e)
SICK_READ(count_tasks,
          (struct reader * r, const struct task_filter *f, size_t max, struct task_count *ret, struct error *e), r, f,
          max, ret, e)
SICK_READ(executions,
          (struct reader * r, const struct execution_filter *f, struct arena *a, struct execution_page *ret,
           struct error *e),
          r, f, a, ret, e)
SICK_READ(idempotency,
          (struct reader * r, int32_t t, const uint8_t key[32], struct arena *a, struct idempotency *ret,
           struct error *e),
          r, t, key, a, ret, e)
SICK_READ(key, (struct reader * r, struct str id, struct arena *a, struct api_key *ret, struct error *e), r, id, a, ret,
          e)
SICK_READ(dedupe, (struct reader * r, int32_t t, struct str key, int64_t now_ms, struct uuid *ret, struct error *e), r,
          t, key, now_ms, ret, e)
SICK_READ(keys, (struct reader * r, int32_t t, struct arena *a, struct key_list *ret, struct error *e), r, t, a, ret, e)
SICK_READ(slots, (struct reader * r, struct str key, struct arena *a, struct slot_holders *ret, struct error *e), r,
          key, a, ret, e)
SICK_READ(causes,
          (struct reader * r, int32_t t, size_t max, struct arena *a, struct cause_groups *ret, struct error *e), r, t,
          max, a, ret, e)
SICK_READ(catalog_get,
          (struct reader * r, int32_t t, enum catalog_kind k, struct str name, struct arena *a,
           struct catalog_entry *ret, struct error *e),
          r, t, k, name, a, ret, e)
SICK_READ(catalog_list,
          (struct reader * r, const struct catalog_filter *f, struct arena *a, struct catalog_page *ret,
           struct error *e),
          r, f, a, ret, e)
SICK_READ(unstarted, (struct reader * r, struct task *v, size_t n, int64_t now_ms, struct error *e), r, v, n, now_ms, e)
SICK_READ(definition,
          (struct reader * r, int32_t t, const uint8_t hash[DEFINITION_HASH], struct arena *a, struct str *ret,
           struct error *e),
          r, t, hash, a, ret, e)
SICK_READ(workflow,
          (struct reader * r, int32_t t, struct str name, int64_t version, struct arena *a, struct workflow_row *ret,
           struct error *e),
          r, t, name, version, a, ret, e)
SICK_READ(workflows,
          (struct reader * r, int32_t t, struct str after, size_t max, struct arena *a, struct workflow_rows *ret,
           struct error *e),
          r, t, after, max, a, ret, e)
SICK_READ(run, (struct reader * r, int32_t t, struct uuid run, struct arena *a, struct run_row *ret, struct error *e),
          r, t, run, a, ret, e)
SICK_READ(steps, (struct reader * r, const struct step_filter *f, struct arena *a, struct tasks *ret, struct error *e),
          r, f, a, ret, e)
SICK_READ(stats,
          (struct reader * r, const struct stats_filter *f, struct arena *a, struct stats_points *ret, struct error *e),
          r, f, a, ret, e)
SICK_READ(counts, (struct reader * r, int64_t now_ms, struct store_counts *ret, struct error *e), r, now_ms, ret, e)

static inline void sick_reader_free(struct reader *r)
{
    struct sick_reader *s = container_of(r, struct sick_reader, base);
    reader_free(s->real);
    free(s);
}

static inline enum err sick_reader(struct store *store, struct reader **ret, struct error *e)
{
    static const struct reader_ops ops = { .get = sick_get,
                                           .list = sick_list,
                                           .count = sick_count_tasks,
                                           .executions = sick_executions,
                                           .idempotency = sick_idempotency,
                                           .key = sick_key,
                                           .dedupe = sick_dedupe,
                                           .keys = sick_keys,
                                           .slots = sick_slots,
                                           .causes = sick_causes,
                                           .catalog_get = sick_catalog_get,
                                           .catalog_list = sick_catalog_list,
                                           .counts = sick_counts,
                                           .stats = sick_stats,
                                           .definition = sick_definition,
                                           .workflow = sick_workflow,
                                           .workflows = sick_workflows,
                                           .run = sick_run,
                                           .steps = sick_steps,
                                           .unstarted = sick_unstarted,
                                           .free = sick_reader_free };
    struct harness *h = container_of(store, struct sick_store, base)->harness;
    if (h->reads_before_broken == 0)
        return error_set(e, ERR_UNAVAILABLE, "no more readers");
    struct sick_reader *s = xnew(*s);
    s->base.ops = &ops;
    s->harness = h;
    *ret = &s->base;
    return store_reader(h->store, &s->real, e);
}

static const struct store_ops sick_store_ops = { .reader = sick_reader };

static inline void harness_apply(struct harness *h, struct op *op)
{
    pthread_mutex_lock(&h->lock);
    if (h->broken) {
        op->rc = error_set(&op->error, (enum err)h->broken, "the disk of %s is full", "nobody");
    } else if (op->kind == OP_PUT && h->conflicts > 0) {
        h->conflicts--;
        op->rc = error_set(&op->error, ERR_CONFLICT, "it has changed");
        snprintf(op->error.field, sizeof op->error.field, "state");
    } else {
        struct op *const ops[] = { op };
        enum err rc = store_apply(h->store, ops, 1, &op->error);
        op->rc = rc ? rc : op->rc;
    }
    if (h->lost)
        op->rc = error_set(&op->error, ERR_UNAVAILABLE, "the answer was lost");
    pthread_mutex_unlock(&h->lock);
}

static inline void harness_submit(struct writer *w, struct op *op)
{
    struct harness *h = container_of(w, struct harness, writer);
    pthread_mutex_lock(&h->lock);
    bool hold = h->hold;
    if (hold)
        h->held[h->held_count++] = op;
    pthread_mutex_unlock(&h->lock);
    if (hold)
        return;
    harness_apply(h, op);
    op->done(op);
}

static inline size_t harness_held(struct harness *h)
{
    pthread_mutex_lock(&h->lock);
    size_t n = h->held_count;
    pthread_mutex_unlock(&h->lock);
    return n;
}

static inline void harness_release_held(struct harness *h)
{
    pthread_mutex_lock(&h->lock);
    h->hold = false;
    size_t n = h->held_count;
    h->held_count = 0;
    pthread_mutex_unlock(&h->lock);
    for (size_t i = 0; i < n; i++) {
        harness_apply(h, h->held[i]);
        h->held[i]->done(h->held[i]);
    }
}

static inline bool harness_workflows_are_known(void *context)
{
    return !((struct harness *)context)->has_old_node;
}

static inline void harness_nudge(void *context, const struct task *tasks, size_t n)
{
    struct harness *h = context;
    h->nudged += n;
    h->nudged_ms = tasks[n - 1].kind == TASK_RECURRING ? tasks[n - 1].cursor_ms : tasks[n - 1].due_ms;
}

static inline void harness_recall(void *context, const struct recall_order *recall_request,
                                  struct recall_answer *answer)
{
    struct harness *h = context;
    h->recall_abort = recall_request->abort;
    h->recalls++;
    h->told += recall_request->tells;
    if (h->recall_silent) {
        h->recall_waiting = answer;
        return;
    }
    if (h->recall_result == RECALL_DONE) {
        struct settlement v = { .id = recall_request->running->id,
                                .fence = recall_request->running->fence,
                                .parent = recall_request->running->parent,
                                .replace = recall_request->replace };
        if (h->before_recall)
            h->before_recall(h);
        struct op_settle op = {
            .op = { .kind = OP_SETTLE }, .v = &v, .n = 1, .now_ms = 1, .idempotency = recall_request->record
        };
        arena_init(&op.op.arena, 1 << 20);
        harness_apply(h, &op.op);
        assert_int_equal(op.op.rc, ERR_OK);
        assert_false(v.stale);
        answer->became = v.ret_state;
        arena_release(&op.op.arena);
        h->broken = h->recall_breaks ? ERR_UNAVAILABLE : h->broken;
    }
    if (h->recall_result == RECALL_FREED) { /* as if another node returned it: not due for a while */
        struct settlement v = { .id = recall_request->running->id,
                                .fence = recall_request->running->fence,
                                .verdict = { .next = h->freed_as,
                                             .due_ms = recall_request->running->due_ms + 1000,
                                             .attempts = recall_request->running->attempts + h->freed_attempts } };
        struct op_settle op = { .op = { .kind = OP_SETTLE }, .v = &v, .n = 1, .now_ms = 1 };
        arena_init(&op.op.arena, 1 << 20);
        harness_apply(h, &op.op);
        assert_false(op.op.rc || v.stale);
        arena_release(&op.op.arena);
    }
    answer->result = (enum recall_result)h->recall_result;
    answer->known = h->recall_known;
    answer->done(answer);
}

static inline void harness_status(void *context, struct jw *w)
{
    struct harness *h = context;
    jw_kv_i64(w, "recalls", h->recalls);
}

static inline bool harness_ready(void *context, struct error *e)
{
    struct harness *h = context;
    if (h->not_ready)
        error_set(e, ERR_UNAVAILABLE, "recovering");
    return !h->not_ready;
}

static inline struct harness *harness_new(bool require_key, const struct api_limits *limits)
{
    static const struct writer_ops ops = { harness_submit };
    struct harness *h = xnew(*h);
    struct error e = { 0 };
    h->writer.ops = &ops;
    pthread_mutex_init(&h->lock, NULL);
    h->store = store_memory_new();
    h->sick = xnew(*h->sick);
    *h->sick = (struct sick_store){ { &sick_store_ops }, h };
    h->reads_before_broken = INT_MAX;
    h->metrics = metrics_new();
    h->zones = zoneinfo_system_new(NULL);
    assert_ok(auth_bootstrap(h->store, PEPPER, 1, h->key, &e), &e);
    struct api_setup setup = {
        .listen = "127.0.0.1:0",
        .store = &h->sick->base,
        .writer = &h->writer,
        .clock = clock_system(),
        .zones = h->zones,
        .metrics = h->metrics,
        .pepper = PEPPER,
        .require_idempotency_key = require_key,
        .limits = limits ? *limits : (struct api_limits){ 0 },
        .context = h,
        .nudge = harness_nudge,
        .workflows_are_known = harness_workflows_are_known,
        .recall = harness_recall,
        .status = harness_status,
        .ready = harness_ready,
    };
    assert_ok(api_server_new(&setup, &h->server, &e), &e);
    return h;
}

static inline void harness_free(struct harness *h)
{
    api_server_free(h->server);
    reader_free(atomic_exchange(&h->sick->base.kept, NULL)); /* as store_free does for the real one */
    store_free(h->store);
    free(h->sick);
    zoneinfo_free(h->zones);
    metrics_free(h->metrics);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* ---- the client ---- */

struct answer {
    int status; /* 0: the connection ended without a response */
    char head[4096];
    struct buf body;
    json_t *json; /* the body, if it is JSON */
};

static inline int client_connect(const struct harness *h)
{
    return http_socket_connect(api_server_port(h->server), NULL, 0);
}

static inline bool client_send(int fd, struct str text)
{
    while (text.n) {
        ssize_t n = send(fd, text.p, text.n, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        text = str_sub(text, (size_t)n, text.n);
    }
    return true;
}

/* The value of a response header, or "". */
static inline const char *header_of(const struct answer *a, const char *name)
{
    static char value[512];
    char wanted[80];
    snprintf(wanted, sizeof wanted, "\n%s: ", name);
    const char *at = strcasestr(a->head, wanted);
    value[0] = '\0';
    if (at) {
        at += strlen(wanted);
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r\n"), at);
    }
    return value;
}

static inline void client_answer_release(struct answer *a)
{
    json_decref(a->json);
    buf_release(&a->body);
}

/* Reads one response. The response to HEAD has no body, whatever its headers say. */
static inline struct answer client_read(int fd, bool head_only)
{
    struct answer a = { 0 };
    buf_init(&a.body, 128 << 20);
    size_t n = 0;
    while (n < sizeof a.head - 1 && !strstr(a.head, "\r\n\r\n")) {
        if (recv(fd, a.head + n, 1, 0) <= 0)
            return a;
        a.head[++n] = '\0';
    }
    a.status = (int)strtol(a.head + strlen("HTTP/1.1 "), NULL, 10);
    if (a.status == 100) {
        client_answer_release(&a);
        return client_read(fd, head_only);
    }
    size_t left = head_only ? 0 : strtoul(header_of(&a, "Content-Length"), NULL, 10);
    while (left) {
        char piece[65536];
        ssize_t got = recv(fd, piece, min_of(left, sizeof piece), 0);
        if (got <= 0)
            break;
        buf_add(&a.body, (struct str){ piece, (size_t)got });
        left -= (size_t)got;
    }
    a.json = json_loadb(buf_cstr(&a.body), a.body.n, 0, NULL);
    return a;
}

/* Sends one request on its own connection. headers: whole lines with CRLF; body NULL: none. */
static inline struct answer ask_with(struct harness *h, const char *key, const char *method, const char *uri,
                                     const char *headers, const char *body)
{
    struct buf text;
    buf_init(&text, 64 << 20);
    buf_printf(&text, "%s %s HTTP/1.1\r\nHost: test\r\n%s", method, uri, headers ? headers : "");
    if (key)
        buf_printf(&text, "Authorization: Bearer %s\r\n", key);
    if (body)
        buf_printf(&text, "Content-Length: %zu\r\n", strlen(body));
    buf_text(&text, "\r\n");
    if (body)
        buf_text(&text, body);
    int fd = client_connect(h);
    client_send(fd, buf_str(&text));
    struct answer a = client_read(fd, strcmp(method, "HEAD") == 0);
    close(fd);
    buf_release(&text);
    return a;
}

static inline struct answer ask(struct harness *h, const char *method, const char *uri, const char *body)
{
    return ask_with(h, h->key, method, uri, NULL, body);
}

static inline const char *text_of(const struct answer *a, const char *field)
{
    const char *text = json_string_value(json_object_get(a->json, field));
    return text ? text : "";
}

static inline int64_t number_of(const struct answer *a, const char *field)
{
    return json_integer_value(json_object_get(a->json, field));
}

/* Checks the form of an error response and releases it. */
#define assert_problem(expression, status_, slug, part)                                                                \
    do {                                                                                                               \
        struct answer p_ = (expression);                                                                               \
        if (p_.status != (status_))                                                                                    \
            fail_msg("%s: %d, not %d: %s", #expression, p_.status, (status_), buf_cstr(&p_.body));                     \
        assert_string_equal(header_of(&p_, "Content-Type"), "application/problem+json");                               \
        assert_string_equal(text_of(&p_, "type"), "urn:belfry:problem:" slug);                                         \
        assert_int_equal(number_of(&p_, "status"), (status_));                                                         \
        assert_true(text_of(&p_, "title")[0]);                                                                         \
        if (!strstr(buf_cstr(&p_.body), (part)))                                                                       \
            fail_msg("%s does not say '%s'", buf_cstr(&p_.body), (part));                                              \
        client_answer_release(&p_);                                                                                    \
    } while (0)

#define assert_status(a, expected)                                                                                     \
    do {                                                                                                               \
        if ((a)->status != (expected))                                                                                 \
            fail_msg("%d, not %d: %s", (a)->status, (expected), buf_cstr(&(a)->body));                                 \
    } while (0)

/* ---- common steps of tests ---- */

#define FAR_FUTURE "2099-01-01T00:00:00.000Z"
#define NOOP_FAR   "{\"name\":\"a\",\"run_at\":\"" FAR_FUTURE "\",\"target_type\":\"NOOP\"}"
#define HOURLY     "{\"name\":\"r\",\"cron_expression\":\"0 * * * *\",\"target_type\":\"NOOP\"}"

/* Creates a task and writes its id to `id`. */
static inline void client_create(struct harness *h, const char *body, char id[UUID_TEXT + 1])
{
    struct answer a = ask(h, "POST", "/v1/tasks", body);
    assert_status(&a, 201);
    snprintf(id, UUID_TEXT + 1, "%s", text_of(&a, "id"));
    client_answer_release(&a);
}

static inline const char *path_of(const char *id, const char *tail)
{
    static char path[4][128];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, 128, "/v1/tasks/%s%s", id, tail);
    return p;
}

/* Claims all tasks that are due by then. */
static inline void harness_claim_until(struct harness *h, int64_t until_ms)
{
    static uint8_t n;
    struct lane_quota lanes[2 * PRIORITIES];
    for (int i = 0; i < 2 * PRIORITIES; i++) {
        struct lane lane = { .tenant = 1, .queue = S("default"), .priority = i / 2, .late = i % 2 };
        lanes[i] = (struct lane_quota){ lane, 1000 };
    }
    struct op_claim c = { .op = { .kind = OP_CLAIM }, .lanes = lanes, .lane_count = 2 * PRIORITIES, .max = 1000 };
    c.claim.b[0] = ++n;
    c.node.b[0] = 1;
    c.now_ms = clock_wall_ms(clock_system());
    c.until_ms = max_of(until_ms, c.now_ms);
    c.max_bytes = 1 << 20;
    arena_init(&c.op.arena, 1 << 20);
    harness_apply(h, &c.op);
    assert_int_equal(c.op.rc, ERR_OK);
    assert_true(c.ret.n > 0);
    arena_release(&c.op.arena);
}
