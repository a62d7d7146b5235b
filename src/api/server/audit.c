#include "api/server/audit.h"

#include <stdlib.h>

#include "api/server/internal.h"
#include "base/log.h"
#include "port/store/operation_table.h"

/* ---- the object ---- */

/* The kind of an object, by the first word of its path behind /v1/. */
static struct str audit_kind(struct str pattern)
{
    static const struct {
        const char *word, *kind;
    } rows[] = {
        { "tasks", "task" },
        { "recurring-tasks", "task" },
        { "dlq", "task" },
        { "workflows", "workflow_run" },
        { "workflow-definitions", "workflow_definition" },
        { "queues", "queue" },
        { "calendars", "calendar" },
        { "tenants", "tenant" },
        { "api-keys", "api_key" },
        { "jobs", "job" },
        { "breakers", "breaker" },
        { "notification-settings", "notification_setting" },
        { "incidents", "incident" },
        { "notifications", "notification" },
        { "session", "session" },
        { "signing-keys", "signing_key" },
    };
    struct str word = str_sub(pattern, strlen("/v1/"), str_find(pattern, '/', strlen("/v1/")));
    for (size_t i = 0; i < array_count(rows); i++)
        if (str_eq(word, str_from(rows[i].word)))
            return str_from(rows[i].kind);
    return S("");
}

/* The name of an object that the request did not read: what its operation makes or moves. */
static struct str audit_made_name(const struct op *op)
{
    const struct op_insert *insert = (const struct op_insert *)op;
    const struct op_key_put *put = (const struct op_key_put *)op;
    switch (op->kind) {
    case OP_INSERT: return insert->count == 1 ? insert->tasks[0].name : S("");
    case OP_PUT: return ((const struct op_put *)op)->task->name;
    case OP_KEY_PUT: return put->key->parent.n ? S("") : put->key->name; /* a session has the name of its key */
    default: return S("");
    }
}

/* Of a route without parameters: what its operation makes. */
static void audit_set_made(struct audit *row, const struct op *op, char text[UUID_TEXT + 1])
{
    const struct op_insert *insert = (const struct op_insert *)op;
    const struct catalog_entry *entry = op->kind == OP_CATALOG ? &((const struct op_catalog *)op)->v[0].entry : NULL;
    if (op->kind == OP_INSERT) {
        row->count = (int64_t)insert->count;
        if (insert->count == 1) {
            uuid_format(insert->tasks[0].id, text);
            row->object = (struct str){ text, UUID_TEXT };
        }
    } else if (op->kind == OP_PUT) { /* a dedupe key moved a task */
        uuid_format(((const struct op_put *)op)->task->id, text);
        row->object = (struct str){ text, UUID_TEXT };
    } else if (entry) {
        row->object = entry->name;
        row->kind = entry->kind == CATALOG_JOB ? S("job") : row->kind;
    }
}

/* A key is named by its id, also if the path has its name. The tenant that it belongs to sees what becomes of it. */
static void audit_set_key(struct audit *row, const struct api_key *key)
{
    row->object = key->id;
    row->tenant = key->tenant;
}

/* "ID", "NAME", or both as "ID/NAME"; empty: the path has no parameter. */
static struct str audit_path_object(struct request *q)
{
    enum { OBJECT_MAX = UUID_TEXT + 1 + ROUTE_NAME_MAX };
    bool has_id = !uuid_is_nil(q->id);
    char *text = has_id || q->name.n ? arena_array(&q->arena, char, OBJECT_MAX + 1) : NULL;
    if (!text)
        return S("");
    size_t n = has_id ? UUID_TEXT : 0;
    uuid_format(q->id, text);
    if (has_id && q->name.n)
        text[n++] = '/';
    if (q->name.n)
        memcpy(text + n, q->name.p, q->name.n);
    return (struct str){ text, n + q->name.n };
}

/* Why, and until when. Nothing else of a body is kept: it may hold secrets. */
static struct str audit_details(struct request *q)
{
    enum { DETAILS_MAX = 16 << 10 };
    cleanup_with(buf_release) struct buf text;
    struct str ret;
    struct jw w;
    buf_init(&text, DETAILS_MAX);
    if (!q->act_reason.n && !q->act_until_ms)
        return S("");
    jw_init(&w, &text);
    jw_object(&w);
    if (q->act_reason.n)
        jw_kv_str(&w, "reason", q->act_reason);
    if (q->act_until_ms)
        jw_kv_time(&w, "until", q->act_until_ms);
    jw_object_end(&w);
    return !text.full && arena_str(&q->arena, buf_str(&text), &ret) ? ret : S("");
}

/* ---- rows of requests ---- */

static void audit_make(struct request *q, const struct op *op)
{
    struct audit *row = &q->audit;
    char *text = arena_array(&q->arena, char, UUID_TEXT + 1 + PEER_TEXT);
    *row = (struct audit){ .id = request_new_id(q),
                           .tenant = q->who.tenant,
                           .actor = str_from(q->who.key_id),
                           .action = str_from(q->route->action),
                           .kind = audit_kind(str_from(q->route->pattern)),
                           .object = audit_path_object(q),
                           .actor_name = str_from(q->who.key_name),
                           .object_name = q->object_name.n || !op ? q->object_name : audit_made_name(op),
                           .details = audit_details(q),
                           .count = 1 };
    row->at_ms = uuid_time_ms(row->id);
    if (text) {
        row->address = str_from(peer_address(http_peer(q->exchange), text + UUID_TEXT + 1));
        if (op && op->kind == OP_KEY_PUT)
            audit_set_key(row, ((const struct op_key_put *)op)->key);
        else if (op && !row->object.n)
            audit_set_made(row, op, text);
    }
    q->has_audit = true;
    if (q->route->flags & ROUTE_AUDITED) /* its body may hold a key */
        return;
    if (q->has_record && !q->query.n) /* else the record's hash covers the query, too */
        memcpy(row->digest, q->record.payload, sizeof row->digest);
    else
        crypto_sha256(buf_str(&q->body), row->digest);
}

const struct audit *request_audit(struct request *q, const struct op *op)
{
    if (!q->exchange || !q->route || !(q->route->flags & (ROUTE_WRITES | ROUTE_AUDITED)))
        return NULL;
    if (!q->has_audit)
        audit_make(q, op);
    return &q->audit;
}

const struct audit *request_audit_of(struct request *q, const struct op *op)
{
    bool of_user = op_table[op->kind].idempotency_at != 0;
    bool only_record = op->kind == OP_INSERT && ((const struct op_insert *)op)->count == 0;
    return of_user && !only_record ? request_audit(q, op) : NULL;
}

/* ---- other rows ---- */

struct refused_keys {
    struct op_insert insert;
    struct audit row;
    struct api_server *server;
    char address[PEER_TEXT], key_id[IDENTITY_TEXT], key_name[AUTH_NAME_BYTES + 1];
};

static void audit_on_refused_stored(struct op *op)
{
    struct refused_keys *k = op->context;
    struct api_server *s = k->server;
    if (op->rc)
        log_warn("audit_failed", kv_err(&op->error));
    arena_release(&op->arena);
    free(k);
    api_server_end_run(s);
}

static void audit_refused_keys(struct api_server *s, const struct key_failure_row *row)
{
    if (!s->setup.writer || !api_server_begin_run(s))
        return;
    struct refused_keys *k = xnew(*k);
    k->server = s;
    memcpy(k->key_id, row->who.key_id, sizeof k->key_id);
    memcpy(k->key_name, row->who.key_name, sizeof k->key_name);
    const char *address = row->is_of_others ? "other addresses" : peer_address(&row->peer, k->address);
    log_warn("api_key_refused", kv_cstr("peer", address), kv_cstr("reason", key_failure_name(row->reason)),
             kv_cstr("key", k->key_id), kv_i64("count", row->count));
    pthread_mutex_lock(&s->lock);
    struct uuid id = uuid_next(&s->ids, clock_wall_ms(s->setup.clock));
    pthread_mutex_unlock(&s->lock);
    k->row = (struct audit){ .id = id,
                             .tenant = row->who.tenant,
                             .at_ms = uuid_time_ms(id),
                             .actor = str_from(k->key_id),
                             .actor_name = str_from(k->key_name),
                             .address = str_from(address),
                             .action = S("refuse API key"),
                             .kind = S("reason"),
                             .object = str_from(key_failure_name(row->reason)),
                             .outcome = AUDIT_REFUSED,
                             .count = row->count };
    k->insert = (struct op_insert){
        .op = { .kind = OP_INSERT, .done = audit_on_refused_stored, .context = k, .audit = &k->row }
    };
    arena_init(&k->insert.op.arena, 4096);
    writer_submit(s->setup.writer, &k->insert.op);
}

void audit_key_refusal(struct api_server *s, const struct key_refusal *refusal)
{
    if (refusal->is_due)
        audit_refused_keys(s, &refusal->row);
    if (refusal->starts)
        timers_add(s->timers, &s->key_minute, KEY_FAILURES_MINUTE_MS);
}

bool audit_record_refused_keys(struct api_server *s)
{
    struct key_failure_row rows[KEY_FAILURES_ROWS];
    bool again;
    size_t n = key_failures_take(&s->key_failures, rows, &again);
    for (size_t i = 0; i < n; i++)
        audit_refused_keys(s, &rows[i]);
    return again;
}

void audit_on_key_minute(struct timer *timer)
{
    struct api_server *s = container_of(timer, struct api_server, key_minute);
    if (!api_server_begin_run(s))
        return;
    if (audit_record_refused_keys(s))
        timers_add(s->timers, timer, KEY_FAILURES_MINUTE_MS);
    api_server_end_run(s);
}

struct audit audit_by_system(const char *action, const char *kind, struct str object, int64_t now_ms)
{
    uint8_t random[16];
    crypto_random(random, sizeof random);
    struct uuid id = uuid_derived(now_ms, (struct str){ (const char *)random, sizeof random });
    return (struct audit){ .id = id,
                           .tenant = TENANT_DEFAULT,
                           .at_ms = uuid_time_ms(id),
                           .actor = S("system"),
                           .action = str_from(action),
                           .kind = str_from(kind),
                           .object = object,
                           .count = 1 };
}
