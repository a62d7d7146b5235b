/* Converts between rows and structs, driven by the tables of columns. */
#include "store/common/columns.h"

#include <assert.h>
#include <stddef.h>

#include "base/json/json.h"
#include "base/json/jsonw.h"

/* ---- tables ---- */

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
#undef ROW_TYPE
#define ROW_TYPE struct node_row
static const struct column node_columns[] = { NODE_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct task_lease
static const struct column task_lease_columns[] = { TASK_LEASE_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct worker_row
static const struct column worker_columns[] = { WORKER_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct breaker_row
static const struct column breaker_columns[] = { BREAKER_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct worker_group
static const struct column worker_group_columns[] = { WORKER_GROUP_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct run_row
static const struct column run_columns[] = { RUN_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct signal_row
static const struct column signal_columns[] = { SIGNAL_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct workflow_row
static const struct column workflow_columns[] = { WORKFLOW_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct audit
static const struct column audit_columns[] = { AUDIT_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE                    struct stats_row
#define FIGURE_ROW(id, column, how) { #column, COL_I64, offsetof(ROW_TYPE, stats.v[STAT_##id]), 0 },
static const struct column stats_columns[] = { STATS_KEY_COLUMNS(ROW) STATS_MAP(FIGURE_ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct stats_point
static const struct column stats_point_columns[] = { ROW(at_ms, COL_I64, at_ms, 0) STATS_MAP(FIGURE_ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct hit
static const struct column hit_columns[] = { HIT_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct record
static const struct column record_columns[] = { RECORD_COLUMNS(ROW) };

const struct table table_due = { "task", task_columns, AT_gates - 1 }; /* the columns are numbered from 1 */
const struct table table_tasks = { "task", task_columns, array_count(task_columns) };
const struct table table_executions = { "execution", execution_columns, array_count(execution_columns) };
const struct table table_idempotency = { "idempotency record", idempotency_columns, array_count(idempotency_columns) };
const struct table table_api_keys = { "API key", api_key_columns, array_count(api_key_columns) };
const struct table table_catalog = { "catalog entry", catalog_columns, array_count(catalog_columns) };
const struct table table_nodes = { "node", node_columns, array_count(node_columns) };
const struct table table_task_leases = { "lease", task_lease_columns, array_count(task_lease_columns) };
const struct table table_workers = { "worker", worker_columns, array_count(worker_columns) };
const struct table table_worker_groups = { "group of workers", worker_group_columns,
                                           array_count(worker_group_columns) };
const struct table table_runs = { "run", run_columns, array_count(run_columns) };
const struct table table_signals = { "signal", signal_columns, array_count(signal_columns) };
const struct table table_workflows = { "workflow", workflow_columns, array_count(workflow_columns) };
const struct table table_audit = { "audit row", audit_columns, array_count(audit_columns) };
const struct table table_stats = { "row of stats", stats_columns, array_count(stats_columns) };
const struct table table_stats_points = { "point of stats", stats_point_columns, array_count(stats_point_columns) };
const struct table table_hits = { "hit", hit_columns, array_count(hit_columns) };
const struct table table_records = { "incident", record_columns, array_count(record_columns) };
const struct table table_breakers = { "breaker", breaker_columns, array_count(breaker_columns) };

/* ---- JSON columns ---- */

/* The stored form: enums are numbers, so that a table of fields can read it. */
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

#define SCHEDULE_TEXTS(X) X(cron) X(time_zone) /* the calendar has its own column: it has an index */
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

static bool columns_retry_is_default(const struct retry_policy *p)
{
    const struct retry_policy d = RETRY_DEFAULT;
    return p->max_attempts == d.max_attempts && p->backoff == d.backoff && p->base_delay_ms == d.base_delay_ms &&
           p->max_delay_ms == d.max_delay_ms && p->jitter == d.jitter && p->rules.n == 0;
}

static void columns_write_retry(struct buf *b, const struct retry_policy *p)
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

static enum err columns_read_retry(struct str text, struct arena *a, struct retry_policy *ret, struct error *e)
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

static bool columns_schedule_is_empty(const struct schedule *s)
{
#define X(member) || s->member.n
    bool texts = false SCHEDULE_TEXTS(X);
#undef X
#define X(member) || s->member
    bool numbers = false SCHEDULE_NUMBERS(X);
#undef X
    return !texts && !numbers;
}

static void columns_write_schedule(struct buf *b, const struct schedule *s)
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

static enum err columns_read_schedule(struct str text, struct arena *a, struct schedule *ret, struct error *e)
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
    int64_t concurrency_limit, overlap, dedupe_window_ms, dedupe, dedupe_max_wait_ms;
};

static const struct json_field gates_fields[] = {
#define X(member, kind_) { .name = #member, .kind = kind_, .offset = offsetof(struct gates_json, member) },
    X(concurrency_key, JSON_KIND_STR) X(dedupe_key, JSON_KIND_STR) X(concurrency_limit, JSON_KIND_I64)
        X(overlap, JSON_KIND_I64) X(dedupe_window_ms, JSON_KIND_I64) X(dedupe, JSON_KIND_I64)
            X(dedupe_max_wait_ms, JSON_KIND_I64)
#undef X
};

/* The overlap of a task without an overlap gate. Only an OCCURRENCE has overlap; ALLOW holds nothing back. */
static enum overlap columns_no_overlap(const struct task *t)
{
    return t->kind == TASK_OCCURRENCE ? OVERLAP_ALLOW : OVERLAP_SKIP;
}

static bool columns_has_gates(const struct task *t)
{
    return t->concurrency_key.n || t->concurrency_limit || t->overlap != columns_no_overlap(t) || t->dedupe_key.n ||
           t->dedupe_window_ms || t->dedupe;
}

static void columns_write_gates(struct buf *b, const struct task *t)
{
    struct jw w;
    jw_init(&w, b);
    jw_object(&w);
    if (t->concurrency_key.n)
        jw_kv_str(&w, "concurrency_key", t->concurrency_key);
    if (t->concurrency_limit)
        jw_kv_i64(&w, "concurrency_limit", t->concurrency_limit);
    if (t->overlap != columns_no_overlap(t))
        jw_kv_i64(&w, "overlap", t->overlap);
    if (t->dedupe_key.n)
        jw_kv_str(&w, "dedupe_key", t->dedupe_key);
    if (t->dedupe_window_ms)
        jw_kv_i64(&w, "dedupe_window_ms", t->dedupe_window_ms);
    if (t->dedupe)
        jw_kv_i64(&w, "dedupe", t->dedupe);
    if (t->dedupe_max_wait_ms)
        jw_kv_i64(&w, "dedupe_max_wait_ms", t->dedupe_max_wait_ms);
    jw_object_end(&w);
}

static enum err columns_read_gates(struct str text, struct arena *a, struct task *ret, struct error *e)
{
    struct gates_json r = { .overlap = columns_no_overlap(ret) };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(text, &doc, e) || json_read(doc.root, gates_fields, array_count(gates_fields), &r, a, e))
        return e->code;
    ret->concurrency_key = r.concurrency_key;
    ret->concurrency_limit = (int)r.concurrency_limit;
    ret->overlap = (enum overlap)r.overlap;
    ret->dedupe_key = r.dedupe_key;
    ret->dedupe_window_ms = r.dedupe_window_ms;
    ret->dedupe_max_wait_ms = r.dedupe_max_wait_ms;
    ret->dedupe = (enum dedupe)r.dedupe;
    return ERR_OK;
}

struct needs_json {
    struct str requires;
    int64_t cpu_milli, memory_mb;
};

static const struct json_field needs_fields[] = {
    { .name = "requires", .kind = JSON_KIND_STR, .offset = offsetof(struct needs_json, requires) },
    { .name = "cpu_milli", .kind = JSON_KIND_I64, .offset = offsetof(struct needs_json, cpu_milli) },
    { .name = "memory_mb", .kind = JSON_KIND_I64, .offset = offsetof(struct needs_json, memory_mb) },
};

static bool columns_has_needs(const struct task *t)
{
    return t->requires.n || t->cpu_milli || t->memory_mb;
}

static void columns_write_needs(struct buf *b, const struct task *t)
{
    struct jw w;
    jw_init(&w, b);
    jw_object(&w);
    if (t->requires.n)
        jw_kv_str(&w, "requires", t->requires);
    if (t->cpu_milli)
        jw_kv_i64(&w, "cpu_milli", t->cpu_milli);
    if (t->memory_mb)
        jw_kv_i64(&w, "memory_mb", t->memory_mb);
    jw_object_end(&w);
}

static enum err columns_read_needs(struct str text, struct arena *a, struct task *ret, struct error *e)
{
    struct needs_json r = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(text, &doc, e) || json_read(doc.root, needs_fields, array_count(needs_fields), &r, a, e))
        return e->code;
    ret->requires = r.requires;
    ret->cpu_milli = r.cpu_milli;
    ret->memory_mb = r.memory_mb;
    return ERR_OK;
}

/* ---- values of a row's columns ---- */

static bool columns_is_failed(const struct task *t)
{
    return t->state == TASK_FAILED;
}

static bool columns_is_held(const struct task *t)
{
    return t->state == TASK_FAILED || t->state == TASK_PAUSED;
}

bool column_number(const struct column *c, const void *row, int64_t *ret)
{
    const void *member = (const char *)row + c->offset;
    switch (c->kind) {
    case COL_INT: *ret = *(const int *)member; return true;
    case COL_BOOL: *ret = *(const bool *)member; return true;
    case COL_DEAD_I64: *ret = columns_is_failed(row) ? *(const int64_t *)member : 0; return true;
    case COL_FAILED:
        *ret = *(const int64_t *)member;
        return columns_is_failed(row) && uuid_is_nil(((const struct task *)row)->run);
    default: *ret = *(const int64_t *)member; return true;
    }
}

struct str column_text(const struct column *c, const void *row, struct buf *b)
{
    const void *member = (const char *)row + c->offset;
    const struct task *t = row;
    if (c->kind == COL_DEAD_TEXT) /* do not reset b: it may hold the text of another column */
        return columns_is_failed(t) ? *(const struct str *)member : (struct str){ 0 };
    if (c->kind == COL_HELD_TEXT)
        return columns_is_held(t) ? *(const struct str *)member : (struct str){ 0 };
    if (c->kind == COL_QUEUE)
        return task_is_control(t) ? t->queue : (struct str){ 0 };
    if (c->kind == COL_TEXT)
        return *(const struct str *)member;
    buf_reset(b);
    switch (c->kind) {
    case COL_RETRY:
        if (!columns_retry_is_default(member))
            columns_write_retry(b, member);
        break;
    case COL_SCHEDULE:
        if (!columns_schedule_is_empty(member))
            columns_write_schedule(b, member);
        break;
    case COL_GATES:
        if (columns_has_gates(t))
            columns_write_gates(b, t);
        break;
    case COL_NEEDS:
        if (columns_has_needs(t))
            columns_write_needs(b, t);
        break;
    default: break; /* no other kind is text */
    }
    assert(!b->full); /* limits on user input are far below the buffer's size */
    return buf_str(b);
}

enum err column_wrong(const struct table *t, const struct column *c, int64_t number, struct error *e)
{
    return error_set(e, ERR_CORRUPT, "%s with invalid %s %lld", t->what, c->name, (long long)number);
}

enum err column_read_number(const struct table *t, const struct column *c, int64_t number, void *row, struct error *e)
{
    void *member = (char *)row + c->offset;
    switch (c->kind) {
    case COL_INT:
        if (number < 0 || number > c->max)
            return column_wrong(t, c, number, e);
        *(int *)member = (int)number;
        break;
    case COL_BOOL: *(bool *)member = number != 0; break;
    case COL_FAILED: break;
    default: *(int64_t *)member = number;
    }
    return ERR_OK;
}

static enum err columns_copy_text(struct str text, struct arena *a, struct str *ret, struct error *e)
{
    return text.n == 0 || arena_str(a, text, ret) ? ERR_OK : error_no_room(e);
}

static enum err columns_read_any(const struct column *c, struct str text, struct arena *a, void *row, struct error *e)
{
    void *member = (char *)row + c->offset;
    struct task *t = row;
    switch (c->kind) {
    case COL_RETRY:
        *(struct retry_policy *)member = RETRY_DEFAULT;
        return text.n ? columns_read_retry(text, a, member, e) : ERR_OK;
    case COL_GATES: t->overlap = columns_no_overlap(t); return text.n ? columns_read_gates(text, a, t, e) : ERR_OK;
    case COL_NEEDS: return text.n ? columns_read_needs(text, a, t, e) : ERR_OK;
    case COL_SCHEDULE: return text.n ? columns_read_schedule(text, a, member, e) : ERR_OK;
    case COL_HELD_TEXT: /* a join that skips a PAUSED task writes its state alone */
        return columns_is_held(t) ? columns_copy_text(text, a, member, e) : ERR_OK;
    default: return columns_copy_text(text, a, member, e);
    }
}

enum err column_read_text(const struct table *t, const struct column *c, struct str text, struct arena *a, void *row,
                          struct error *e)
{
    if (columns_read_any(c, text, a, row, e) == ERR_OK)
        return ERR_OK;
    if (e->code != ERR_INVALID)
        return e->code;
    e->code = ERR_CORRUPT; /* stored JSON that does not parse is corrupt data, not a caller's mistake */
    return error_wrap(e, "%s with invalid %s", t->what, c->name);
}

/* ---- valid UTF-8 ---- */

bool text_is_clean(struct str text)
{
    return text.n == 0 || (!memchr(text.p, '\0', text.n) && str_is_utf8(text));
}

void text_add_clean(struct buf *out, struct str text)
{
    if (text_is_clean(text)) {
        buf_add(out, text);
        return;
    }
    for (size_t i = 0; i < text.n;) {
        size_t n = text.p[i] ? str_utf8_at(text, i) : 0;
        buf_add(out, n ? str_sub(text, i, i + n) : S("\xEF\xBF\xBD"));
        i += max_of(n, (size_t)1);
    }
}
