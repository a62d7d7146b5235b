/* Rows and structs by table: a column is a row here. What is long and rare (a retry policy of one's own, a schedule) is JSON
 * text, which a person can read and SQLite's json functions too. */
#include <assert.h>
#include <stddef.h>

#include "adapter/store_sqlite_impl.h"
#include "base/json.h"
#include "base/jsonw.h"

/* ---- the tables ---- */

#define ROW(column, kind, member, max) { #column, kind, offsetof(ROW_TYPE, member), max },
#define ROW_TYPE                       struct task
static const struct column task_columns[] = { TASK_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct execution
static const struct column execution_columns[] = { EXECUTION_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct idempotency
static const struct column idempotency_columns[] = { IDEMPOTENCY_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct api_key
static const struct column api_key_columns[] = { API_KEY_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct catalog_entry
static const struct column catalog_columns[] = { CATALOG_COLUMNS(ROW) };

const struct table table_due = { "task", task_columns, AT_payload };
const struct table table_tasks = { "task", task_columns, array_count(task_columns) };
const struct table table_executions = { "execution", execution_columns, array_count(execution_columns) };
const struct table table_idempotency = { "idempotency record", idempotency_columns, array_count(idempotency_columns) };
const struct table table_api_keys = { "API key", api_key_columns, array_count(api_key_columns) };
const struct table table_catalog = { "catalog entry", catalog_columns, array_count(catalog_columns) };

/* ---- JSON columns ---- */

/* As it is written: numbers for enums, so that a table can read it. */
struct retry_json {
    int64_t max_attempts, backoff, base_delay_ms, max_delay_ms, jitter;
    struct str rules;
};

static const struct json_field retry_fields[] = {
    { .name = "max_attempts", .kind = JSON_KIND_I64, .offset = offsetof(struct retry_json, max_attempts) },
    { .name = "backoff", .kind = JSON_KIND_I64, .offset = offsetof(struct retry_json, backoff) },
    { .name = "base_delay_ms", .kind = JSON_KIND_I64, .offset = offsetof(struct retry_json, base_delay_ms) },
    { .name = "max_delay_ms", .kind = JSON_KIND_I64, .offset = offsetof(struct retry_json, max_delay_ms) },
    { .name = "jitter", .kind = JSON_KIND_I64, .offset = offsetof(struct retry_json, jitter) },
    { .name = "rules", .kind = JSON_KIND_STR, .offset = offsetof(struct retry_json, rules) },
};

struct schedule_json {
    struct str cron, time_zone;
    int64_t interval_ms, calendar_policy, gap, repeat, start_ms, end_ms, max_runs, spread_ms, catch_up,
        catch_up_window_ms, overlap;
};

#define SCHEDULE_TEXTS(X) X(cron) X(time_zone) /* the calendar has a column of its own: it is looked for */
#define SCHEDULE_NUMBERS(X)                                                                                            \
    X(interval_ms)                                                                                                     \
    X(calendar_policy)                                                                                                 \
    X(gap) X(repeat) X(start_ms) X(end_ms) X(max_runs) X(spread_ms) X(catch_up) X(catch_up_window_ms) X(overlap)

static const struct json_field schedule_fields[] = {
#define X(member) { .name = #member, .kind = JSON_KIND_STR, .offset = offsetof(struct schedule_json, member) },
    SCHEDULE_TEXTS(X)
#undef X
#define X(member) { .name = #member, .kind = JSON_KIND_I64, .offset = offsetof(struct schedule_json, member) },
        SCHEDULE_NUMBERS(X)
#undef X
};

static bool is_default_retry(const struct retry_policy *p)
{
    const struct retry_policy d = RETRY_DEFAULT;
    return p->max_attempts == d.max_attempts && p->backoff == d.backoff && p->base_delay_ms == d.base_delay_ms &&
           p->max_delay_ms == d.max_delay_ms && p->jitter == d.jitter && p->rules.n == 0;
}

static void write_retry(struct buf *b, const struct retry_policy *p)
{
    struct jw w;
    jw_init(&w, b);
    jw_object(&w);
    jw_kv_i64(&w, "max_attempts", p->max_attempts);
    jw_kv_i64(&w, "backoff", p->backoff);
    jw_kv_i64(&w, "base_delay_ms", p->base_delay_ms);
    jw_kv_i64(&w, "max_delay_ms", p->max_delay_ms);
    jw_kv_i64(&w, "jitter", p->jitter);
    if (p->rules.n)
        jw_kv_str(&w, "rules", p->rules);
    jw_object_end(&w);
}

static enum err read_retry(struct str text, struct arena *a, struct retry_policy *ret, struct error *e)
{
    struct retry_json r = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(text, &doc, e) || json_read(doc.root, retry_fields, array_count(retry_fields), &r, a, e))
        return e->code;
    *ret = (struct retry_policy){ .max_attempts = (int)r.max_attempts,
                                  .backoff = (enum backoff)r.backoff,
                                  .base_delay_ms = r.base_delay_ms,
                                  .max_delay_ms = r.max_delay_ms,
                                  .jitter = (enum jitter)r.jitter,
                                  .rules = r.rules };
    return ERR_OK;
}

static bool is_empty_schedule(const struct schedule *s)
{
#define X(member) || s->member.n
    bool texts = false SCHEDULE_TEXTS(X);
#undef X
#define X(member) || s->member
    bool numbers = false SCHEDULE_NUMBERS(X);
#undef X
    return !texts && !numbers;
}

static void write_schedule(struct buf *b, const struct schedule *s)
{
    struct jw w;
    jw_init(&w, b);
    jw_object(&w);
#define X(member)                                                                                                      \
    if (s->member.n)                                                                                                   \
        jw_kv_str(&w, #member, s->member);
    SCHEDULE_TEXTS(X)
#undef X
#define X(member)                                                                                                      \
    if (s->member)                                                                                                     \
        jw_kv_i64(&w, #member, (int64_t)s->member);
    SCHEDULE_NUMBERS(X)
#undef X
    jw_object_end(&w);
}

static enum err read_schedule(struct str text, struct arena *a, struct schedule *ret, struct error *e)
{
    struct schedule_json r = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(text, &doc, e) || json_read(doc.root, schedule_fields, array_count(schedule_fields), &r, a, e))
        return e->code;
#define X(member) .member = r.member,
#define Y(member) .member = (typeof(ret->member))r.member,
    *ret = (struct schedule){ SCHEDULE_TEXTS(X) SCHEDULE_NUMBERS(Y) };
#undef X
#undef Y
    return ERR_OK;
}

struct gates_json {
    struct str concurrency_key, dedupe_key;
    int64_t concurrency_limit, overlap, dedupe_window_ms, dedupe;
};

static const struct json_field gates_fields[] = {
#define X(member, kind_) { .name = #member, .kind = kind_, .offset = offsetof(struct gates_json, member) },
    X(concurrency_key, JSON_KIND_STR) X(dedupe_key, JSON_KIND_STR) X(concurrency_limit, JSON_KIND_I64)
        X(overlap, JSON_KIND_I64) X(dedupe_window_ms, JSON_KIND_I64) X(dedupe, JSON_KIND_I64)
#undef X
};

/* Only an OCCURRENCE has one; ALLOW holds nothing back. */
static enum overlap no_overlap(const struct task *t)
{
    return t->kind == TASK_OCCURRENCE ? OVERLAP_ALLOW : OVERLAP_SKIP;
}

static bool has_gates(const struct task *t)
{
    return t->concurrency_key.n || t->concurrency_limit || t->overlap != no_overlap(t) || t->dedupe_key.n ||
           t->dedupe_window_ms || t->dedupe;
}

static void write_gates(struct buf *b, const struct task *t)
{
    struct jw w;
    jw_init(&w, b);
    jw_object(&w);
    if (t->concurrency_key.n)
        jw_kv_str(&w, "concurrency_key", t->concurrency_key);
    if (t->concurrency_limit)
        jw_kv_i64(&w, "concurrency_limit", t->concurrency_limit);
    if (t->overlap != no_overlap(t))
        jw_kv_i64(&w, "overlap", t->overlap);
    if (t->dedupe_key.n)
        jw_kv_str(&w, "dedupe_key", t->dedupe_key);
    if (t->dedupe_window_ms)
        jw_kv_i64(&w, "dedupe_window_ms", t->dedupe_window_ms);
    if (t->dedupe)
        jw_kv_i64(&w, "dedupe", t->dedupe);
    jw_object_end(&w);
}

static enum err read_gates(struct str text, struct arena *a, struct task *ret, struct error *e)
{
    struct gates_json r = { .overlap = no_overlap(ret) };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(text, &doc, e) || json_read(doc.root, gates_fields, array_count(gates_fields), &r, a, e))
        return e->code;
    ret->concurrency_key = r.concurrency_key;
    ret->concurrency_limit = (int)r.concurrency_limit;
    ret->overlap = (enum overlap)r.overlap;
    ret->dedupe_key = r.dedupe_key;
    ret->dedupe_window_ms = r.dedupe_window_ms;
    ret->dedupe = (enum dedupe)r.dedupe;
    return ERR_OK;
}

/* ---- binding ---- */

bool bind_uuid(sqlite3_stmt *st, int at, const struct uuid *u)
{
    if (uuid_is_nil(*u))
        return sqlite3_bind_null(st, at) == SQLITE_OK;
    return sqlite3_bind_blob(st, at, u->b, sizeof u->b, SQLITE_STATIC) == SQLITE_OK;
}

bool bind_str(sqlite3_stmt *st, int at, struct str s)
{
    return sqlite3_bind_text64(st, at, s.n ? s.p : "", s.n, SQLITE_STATIC, SQLITE_UTF8) == SQLITE_OK;
}

static void bind_text(sqlite3_stmt *st, int at, struct str s)
{
    if (s.n)
        (void)bind_str(st, at, s);
    else
        sqlite3_bind_null(st, at);
}

static void bind_retry(struct conn *c, sqlite3_stmt *st, int at, const struct retry_policy *p)
{
    buf_reset(&c->texts[0]);
    if (!is_default_retry(p))
        write_retry(&c->texts[0], p);
    assert(!c->texts[0].full); /* what a user may write is limited far below */
    bind_text(st, at, buf_str(&c->texts[0]));
}

static void bind_schedule(struct conn *c, sqlite3_stmt *st, int at, const struct schedule *s)
{
    buf_reset(&c->texts[1]);
    if (!is_empty_schedule(s))
        write_schedule(&c->texts[1], s);
    assert(!c->texts[1].full);
    bind_text(st, at, buf_str(&c->texts[1]));
}

static void bind_gates(struct conn *c, sqlite3_stmt *st, int at, const struct task *t)
{
    buf_reset(&c->texts[2]);
    if (has_gates(t))
        write_gates(&c->texts[2], t);
    assert(!c->texts[2].full);
    bind_text(st, at, buf_str(&c->texts[2]));
}

static bool is_failed(const struct task *t)
{
    return t->state == TASK_FAILED;
}

static void bind_failed(sqlite3_stmt *st, int at, const struct task *t)
{
    if (is_failed(t))
        sqlite3_bind_int64(st, at, t->completed_ms);
    else
        sqlite3_bind_null(st, at);
}

void row_bind(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, const void *row)
{
    for (int i = 0; i < t->count; i++) {
        const struct column *column = &t->columns[i];
        const void *member = (const char *)row + column->offset;
        int at = first + i;
        switch (column->kind) {
        case COL_UUID: (void)bind_uuid(st, at, member); break;
        case COL_BYTES32: sqlite3_bind_blob(st, at, member, 32, SQLITE_STATIC); break;
        case COL_I64: sqlite3_bind_int64(st, at, *(const int64_t *)member); break;
        case COL_INT: sqlite3_bind_int(st, at, *(const int *)member); break;
        case COL_BOOL: sqlite3_bind_int(st, at, *(const bool *)member); break;
        case COL_TEXT: bind_text(st, at, *(const struct str *)member); break;
        case COL_RETRY: bind_retry(c, st, at, member); break;
        case COL_SCHEDULE: bind_schedule(c, st, at, member); break;
        case COL_GATES: bind_gates(c, st, at, row); break;
        case COL_DEAD_TEXT: bind_text(st, at, is_failed(row) ? *(const struct str *)member : (struct str){ 0 }); break;
        case COL_DEAD_I64: sqlite3_bind_int64(st, at, is_failed(row) ? *(const int64_t *)member : 0); break;
        case COL_FAILED: bind_failed(st, at, row); break;
        case COL_LANE: break;
        }
    }
}

/* ---- reading ---- */

struct uuid row_uuid(sqlite3_stmt *st, int column)
{
    struct uuid u = { 0 };
    const void *p = sqlite3_column_blob(st, column);
    if (p && sqlite3_column_bytes(st, column) == (int)sizeof u.b)
        memcpy(u.b, p, sizeof u.b);
    return u;
}

static struct str text_at(sqlite3_stmt *st, int column)
{
    const void *p = sqlite3_column_blob(st, column); /* not column_text, which may add a NUL by copying */
    return (struct str){ p, p ? (size_t)sqlite3_column_bytes(st, column) : 0 };
}

static enum err no_room(struct error *e)
{
    return error_set(e, ERR_LIMIT, "does not fit in the memory allowed");
}

static enum err read_text(sqlite3_stmt *st, int at, struct arena *a, struct str *ret, struct error *e)
{
    struct str text = text_at(st, at);
    return text.n == 0 || arena_str(a, text, ret) ? ERR_OK : no_room(e);
}

static enum err read_lane(struct conn *c, sqlite3_stmt *st, int at, struct arena *a, struct str *ret, struct error *e)
{
    const struct lane_row *lane;
    if (lanes_at(c, sqlite3_column_int64(st, at), &lane, e))
        return e->code;
    return lane->lane.queue.n == 0 || arena_str(a, lane->lane.queue, ret) ? ERR_OK : no_room(e);
}

static enum err wrong(const struct table *t, const struct column *column, sqlite3_stmt *st, int at, struct error *e)
{
    return error_set(e, ERR_CORRUPT, "%s with the impossible %s %lld", t->what, column->name,
                     (long long)sqlite3_column_int64(st, at));
}

/* JSON of our own that does not parse is no mistake of the caller's. */
static enum err read_failed(const struct table *t, const char *column, struct error *e)
{
    if (e->code != ERR_INVALID)
        return e->code;
    e->code = ERR_CORRUPT;
    return error_wrap(e, "%s with an impossible %s", t->what, column);
}

enum err row_read_gates(sqlite3_stmt *st, int at, struct arena *a, struct task *ret, struct error *e)
{
    struct str text = text_at(st, at);
    ret->overlap = no_overlap(ret);
    if (text.n == 0 || read_gates(text, a, ret, e) == ERR_OK)
        return ERR_OK;
    return read_failed(&table_tasks, "gates", e);
}

/* Texts, which need the arena or a parser. */
static enum err read_long(struct conn *c, sqlite3_stmt *st, int at, const struct column *column, struct arena *a,
                          void *row, void *member, struct error *e)
{
    struct str text;
    switch (column->kind) {
    case COL_LANE: return read_lane(c, st, at, a, member, e);
    case COL_RETRY:
        text = text_at(st, at);
        *(struct retry_policy *)member = RETRY_DEFAULT;
        return text.n ? read_retry(text, a, member, e) : ERR_OK;
    case COL_GATES: return row_read_gates(st, at, a, row, e);
    case COL_SCHEDULE: text = text_at(st, at); return text.n ? read_schedule(text, a, member, e) : ERR_OK;
    default: return read_text(st, at, a, member, e);
    }
}

enum err row_read(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, struct arena *a, void *row,
                  struct error *e)
{
    for (int i = 0; i < t->count; i++) {
        const struct column *column = &t->columns[i];
        void *member = (char *)row + column->offset;
        int at = first + i;
        int64_t number;
        switch (column->kind) {
        case COL_UUID: *(struct uuid *)member = row_uuid(st, at); break;
        case COL_BYTES32:
            if (sqlite3_column_bytes(st, at) != 32)
                return wrong(t, column, st, at, e);
            memcpy(member, sqlite3_column_blob(st, at), 32);
            break;
        case COL_DEAD_I64:
        case COL_I64: *(int64_t *)member = sqlite3_column_int64(st, at); break;
        case COL_INT:
            number = sqlite3_column_int64(st, at);
            if (number < 0 || number > column->max)
                return wrong(t, column, st, at, e);
            *(int *)member = (int)number;
            break;
        case COL_BOOL: *(bool *)member = sqlite3_column_int(st, at) != 0; break;
        case COL_FAILED: break;
        default:
            if (read_long(c, st, at, column, a, row, member, e))
                return read_failed(t, column->name, e);
        }
    }
    return ERR_OK;
}
