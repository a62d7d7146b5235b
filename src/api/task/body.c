/* The table of the fields of a body, and its reading. make.c checks the fields together. */
#include "api/task/body.h"

#include <assert.h>

#include "api/task/target.h"
#include "base/date.h"
#include "base/duration.h"
#include "base/sentence.h"
#include "port/catalog.h"

enum {
    SHARED_KEY_BYTES = 200,
    WORD_BYTES = 100,
    KEY_BYTES = 255,
    CONCURRENCY_MAX = 10000,
    METADATA_BYTES = 16 << 10,
    PARTS_MAX = 64
};
/* A shorter interval would only fill the store: occurrences are rows that are spawned 10 to 20 seconds ahead. */
enum { INTERVAL_MIN_MS = 100 };
enum { LABEL_BYTES = 63, LABELS_MAX = 16, CPU_MAX = 1024, MEMORY_MAX_MB = 16 << 20 };
#define YEAR_MS  (366LL * DAY_MS)
#define RUNS_MAX 1000000000LL

/* clang-format off */
const char *const kind_names[] = { [TASK_ONE_TIME] = "ONE_TIME", [TASK_RECURRING] = "RECURRING",
                                   [TASK_OCCURRENCE] = "OCCURRENCE" };
const char *const gap_names[] = { [DST_GAP_DEFAULT] = "", [DST_GAP_SHIFT] = "SHIFT", [DST_GAP_SKIP] = "SKIP", NULL };
const char *const repeat_names[] = { [DST_REPEAT_DEFAULT] = "", [DST_REPEAT_FIRST] = "FIRST",
                                     [DST_REPEAT_LAST] = "LAST", [DST_REPEAT_BOTH] = "BOTH", NULL };
const char *const calendar_policy_names[] = { [CALENDAR_SKIP] = "SKIP", [CALENDAR_NEXT_DAY] = "NEXT_DAY",
                                              [CALENDAR_PREVIOUS_DAY] = "PREVIOUS_DAY", NULL };
const char *const catch_up_names[] = { [CATCH_UP_ONE] = "RUN_ONE_NOW", [CATCH_UP_ALL] = "RUN_ALL_MISSED",
                                       [CATCH_UP_NONE] = "SKIP_MISSED", NULL };
const char *const overlap_names[] = { [OVERLAP_SKIP] = "SKIP", [OVERLAP_ALLOW] = "ALLOW",
                                      [OVERLAP_QUEUE_ONE] = "QUEUE_ONE", [OVERLAP_QUEUE_ALL] = "QUEUE_ALL",
                                      [OVERLAP_CANCEL_PREVIOUS] = "CANCEL_PREVIOUS", NULL };
const char *const dedupe_names[] = { [DEDUPE_RETURN] = "RETURN", [DEDUPE_RESCHEDULE] = "RESCHEDULE",
                                     [DEDUPE_REPLACE] = "REPLACE", NULL };
const char *const delivery_names[] = { [DELIVER_AT_LEAST_ONCE] = "AT_LEAST_ONCE",
                                       [DELIVER_AT_MOST_ONCE] = "AT_MOST_ONCE", NULL };
const char *const backoff_names[] = { [BACKOFF_EXPONENTIAL] = "EXPONENTIAL", [BACKOFF_FIXED] = "FIXED", NULL };
const char *const jitter_names[] = { [JITTER_FULL] = "FULL", [JITTER_NONE] = "NONE", NULL };

const struct task_body task_body_default = {
    .queue = { "default", 7 },
    .priority = PRIORITY_DEFAULT,
    .time_zone = { "UTC", 3 },
    .end_ms = INT64_MAX,
    .catch_up_window_ms = DAY_MS,
    .dedupe_window_ms = HOUR_S * 1000LL,
    .retry = { .max_attempts = 5, .base_delay_ms = 1000, .max_delay_ms = 3600000 },
};

/* ---- the fields ---- */

#define ROW(text, type, member) \
    .name = (text), .kind = JSON_KIND_##type, .offset = offsetof(struct task_body, member), .nullable = true
#define SEEN(member)     .seen_offset = offsetof(struct task_body, has.member)
#define BETWEEN(a, b)    .min = (a), .max = (b)
#define RETRY_ROW(text, type, member) \
    .name = (text), .kind = JSON_KIND_##type, .offset = offsetof(struct retry_body, member), .nullable = true
#define RETRY_SEEN(member) .seen_offset = offsetof(struct retry_body, has.member)

static const struct json_field dst_fields[] = {
    { .name = "gap", .kind = JSON_KIND_ENUM, .offset = offsetof(struct dst_body, gap), .names = gap_names, .nullable = true },
    { .name = "overlap", .kind = JSON_KIND_ENUM, .offset = offsetof(struct dst_body, repeat), .names = repeat_names,
      .nullable = true },
};

static const struct json_field retry_fields[] = {
    { RETRY_ROW("max_attempts", I64, max_attempts), RETRY_SEEN(max_attempts), BETWEEN(1, 100) },
    { RETRY_ROW("backoff", ENUM, backoff), .names = backoff_names },
    { RETRY_ROW("base_delay_ms", I64, base_delay_ms), BETWEEN(1, DAY_MS) },
    { RETRY_ROW("max_delay_ms", I64, max_delay_ms), RETRY_SEEN(max_delay_ms), BETWEEN(1, 7 * DAY_MS) },
    { RETRY_ROW("jitter", ENUM, jitter), .names = jitter_names },
    { RETRY_ROW("rules", RAW, rules) },
};

static const struct json_field label = { .kind = JSON_KIND_STR, .min = 1, .max = LABEL_BYTES };
static const struct json_field resource_fields[] = {
    { .name = "cpu", .kind = JSON_KIND_F64, .offset = offsetof(struct resources_body, cpu), .min = 0, .max = CPU_MAX,
      .nullable = true },
    { .name = "memory_mb", .kind = JSON_KIND_I64, .offset = offsetof(struct resources_body, memory_mb), .min = 0,
      .max = MEMORY_MAX_MB, .nullable = true },
};

static const struct json_field task_body_fields[] = {
    { ROW("type", STR, type_text), BETWEEN(1, WORD_BYTES) },
    { ROW("name", STR, name), BETWEEN(1, NAME_CHARACTERS), .characters = true },
    { ROW("task_type", STR, task_type), SEEN(task_type), BETWEEN(1, WORD_BYTES) },
    { ROW("queue", STR, queue), BETWEEN(1, WORD_BYTES) },
    { ROW("priority", I64, priority), BETWEEN(PRIORITY_MIN, PRIORITY_MAX) },
    { ROW("run_at", TIME, run_at_ms), SEEN(run_at) },
    { ROW("scheduled_at", TIME, scheduled_at_ms), SEEN(scheduled_at) },
    { ROW("delay", DURATION, delay_ms), SEEN(delay) },
    { ROW("cron_expression", STR, cron), SEEN(cron), BETWEEN(1, 4 * CRON_TEXT_MAX) },
    { ROW("interval_seconds", SECONDS, interval_ms), SEEN(interval), BETWEEN(INTERVAL_MIN_MS, DURATION_MAX_MS) },
    { ROW("time_zone", STR, time_zone), SEEN(time_zone), BETWEEN(1, 256) },
    { ROW("calendar", STR, calendar), SEEN(calendar), BETWEEN(1, CATALOG_NAME_MAX) },
    { ROW("calendar_policy", ENUM, calendar_policy), SEEN(calendar_policy), .names = calendar_policy_names },
    { ROW("dst_policy", OBJECT, dst), SEEN(dst), .fields = dst_fields, .count = array_count(dst_fields),
      .size = sizeof(struct dst_body) },
    { ROW("start_time", TIME, start_ms), SEEN(start) },
    { ROW("end_date", TIME, end_ms), SEEN(end) },
    { ROW("max_runs", I64, max_runs), SEEN(max_runs), BETWEEN(1, RUNS_MAX) },
    { ROW("spread_seconds", SECONDS, spread_ms), SEEN(spread), BETWEEN(0, DAY_MS) },
    { ROW("catch_up_mode", ENUM, catch_up), SEEN(catch_up), .names = catch_up_names },
    { ROW("catch_up_window_seconds", SECONDS, catch_up_window_ms), SEEN(catch_up_window), BETWEEN(1, YEAR_MS) },
    { ROW("overlap_policy", ENUM, overlap), SEEN(overlap), .names = overlap_names },
    { ROW("concurrency_key", STR, concurrency_key), BETWEEN(1, SHARED_KEY_BYTES) },
    { ROW("concurrency_limit", I64, concurrency_limit), SEEN(concurrency_limit), BETWEEN(1, CONCURRENCY_MAX) },
    { ROW("dedupe_key", STR, dedupe_key), BETWEEN(1, SHARED_KEY_BYTES) },
    { ROW("dedupe_window_seconds", SECONDS, dedupe_window_ms), SEEN(dedupe_window), BETWEEN(1, YEAR_MS) },
    { ROW("dedupe_action", ENUM, dedupe), SEEN(dedupe), .names = dedupe_names },
    { ROW("dedupe_max_wait_seconds", SECONDS, dedupe_max_wait_ms), BETWEEN(1, YEAR_MS) },
    { ROW("expires_after_seconds", SECONDS, expires_ms), BETWEEN(1, YEAR_MS) },
    { ROW("delivery", ENUM, delivery), .names = delivery_names },
    { ROW("retry", OBJECT, retry), .fields = retry_fields, .count = array_count(retry_fields),
      .size = sizeof(struct retry_body) },
    { ROW("max_retries", I64, max_retries), SEEN(max_retries), BETWEEN(0, 99) },
    { ROW("timeout_ms", I64, timeout_ms), SEEN(timeout), BETWEEN(1, TIMEOUT_MAX_MS) },
    { ROW("target_type", ENUM, target), SEEN(target), .names = target_kind_choices },
    { ROW("target_config", RAW, target_config), SEEN(target_config) },
    { ROW("payload", RAW, payload), SEEN(payload) },
    { ROW("metadata", RAW, metadata), SEEN(metadata) },
    { ROW("depends_on", RAW, depends_on), SEEN(depends_on) },
    { ROW("expect", RAW, expect), SEEN(expect) },
    { ROW("notify", RAW, notify) },
    { ROW("join", ENUM, join), SEEN(join), .names = dag_join_names },
    { ROW("requires", ARRAY, requires), SEEN(requires), .fields = &label, .count = 1, .size = sizeof(struct str),
      BETWEEN(0, LABELS_MAX) },
    { ROW("resources", OBJECT, resources), SEEN(resources), .fields = resource_fields,
      .count = array_count(resource_fields), .size = sizeof(struct resources_body) },
    { ROW("idempotency_key", STR, idempotency_key), BETWEEN(1, KEY_BYTES) },
};

/* Names that are not in the table, but get a better sentence than "is unknown". */
static const char *const task_body_special_names[] = {
    "id", "status", "version", "created_at", "updated_at", "started_at", "completed_at", "next_execution",
    "attempts", "last_error", "runs_count", "skipped_count", "last_run_at", "parent_id", "scheduled_for",
    "executions", "expires_at", "waiting_for", "cause", "resolved_at", "resolution", "deduplicated", "paused",
};
/* Members of target_config that users give beside it. */
static const char *const task_body_target_names[] = { "url", "method", "headers", "body", "broker", "destination" };
/* clang-format on */

/* The error's field is one of these names only if the member was not in the table. */
static void task_body_explain_unknown(struct error *e)
{
    for (size_t i = 0; i < array_count(task_body_special_names); i++) {
        if (strcmp(e->field, task_body_special_names[i]) == 0)
            (void)error_field(e, task_body_special_names[i], "is set by Belfry and cannot be given");
    }
    for (size_t i = 0; i < array_count(task_body_target_names); i++) {
        const char *name = task_body_target_names[i];
        if (strcmp(e->field, name) == 0)
            (void)error_field(e, name, "is unknown; did you mean target_config.%s?", name);
    }
}

/* ---- null ---- */

static size_t task_body_field_size(const struct json_field *f)
{
    switch (f->kind) {
    case JSON_KIND_STR: return sizeof(struct str);
    case JSON_KIND_ENUM: return sizeof(int);
    case JSON_KIND_RAW: return sizeof(json_t *);
    case JSON_KIND_OBJECT: return f->size;
    case JSON_KIND_ARRAY: return sizeof(struct json_array);
    case JSON_KIND_F64: return sizeof(double);
    default: return sizeof(int64_t);
    }
}

/* Sets the fields that are null to their defaults. The tables are at most one level deep below the root. */
static void task_body_reset_nulls(json_t *object, const struct json_field *rows, size_t count, char *into,
                                  const char *defaults)
{
    const char *name;
    json_t *v;
    json_object_foreach (object, name, v) {
        for (size_t i = 0; json_is_null(v) && i < count; i++) {
            if (strcmp(rows[i].name, name) != 0)
                continue;
            memcpy(into + rows[i].offset, defaults + rows[i].offset, task_body_field_size(&rows[i]));
            if (rows[i].seen_offset)
                *(bool *)(into + rows[i].seen_offset) = false;
        }
    }
}

static void task_body_reset_all_nulls(json_t *root, struct task_body *b)
{
    const struct task_body *d = &task_body_default;
    task_body_reset_nulls(root, task_body_fields, array_count(task_body_fields), (char *)b, (const char *)d);
    task_body_reset_nulls(json_object_get(root, "retry"), retry_fields, array_count(retry_fields), (char *)&b->retry,
                          (const char *)&d->retry);
    task_body_reset_nulls(json_object_get(root, "resources"), resource_fields, array_count(resource_fields),
                          (char *)&b->resources, (const char *)&d->resources);
    if (json_is_null(json_object_get(root, "requires")))
        b->required = (struct str){ 0 };
    task_body_reset_nulls(json_object_get(root, "dst_policy"), dst_fields, array_count(dst_fields), (char *)&b->dst,
                          (const char *)&d->dst);
}

/* ---- JSON texts that are stored as written ---- */

/* Stores the text of a member; null becomes empty. False: it is another member, and *into is unchanged. */
static bool task_body_keep_text(const struct json_part *p, const char *name, struct str *into)
{
    if (!json_part_is(p, name))
        return false;
    *into = str_eq(p->text, S("null")) ? (struct str){ NULL, 0 } : p->text;
    return true;
}

static void task_body_find_rules(struct str retry, struct task_body *b)
{
    struct json_part parts[array_count(retry_fields)];
    size_t n = json_parts(retry, parts, array_count(parts));
    if (str_eq(retry, S("null")))
        b->text.rules = (struct str){ NULL, 0 };
    for (size_t i = 0; i < n && !task_body_keep_text(&parts[i], "rules", &b->text.rules); i++)
        continue;
}

static void task_body_find_texts(struct str body, struct task_body *b)
{
    struct json_part parts[PARTS_MAX];
    size_t n = json_parts(body, parts, PARTS_MAX);
    for (size_t i = 0; i < n; i++) {
        bool kept = task_body_keep_text(&parts[i], "target_config", &b->text.target_config) ||
                    task_body_keep_text(&parts[i], "payload", &b->text.payload) ||
                    task_body_keep_text(&parts[i], "metadata", &b->text.metadata) ||
                    task_body_keep_text(&parts[i], TASK_EXPECT, &b->text.expect) ||
                    task_body_keep_text(&parts[i], TASK_NOTIFY, &b->text.notify);
        if (!kept && json_part_is(&parts[i], "retry"))
            task_body_find_rules(parts[i].text, b);
    }
}

/* ---- checks of single fields ---- */

static bool task_body_is_word(struct str s)
{
    return !s.n || str_is_plain(s, "._:-");
}

static enum err task_body_check_controls(const struct task_body *b, struct error *e)
{
    const struct {
        const char *name;
        struct str text;
    } rows[] = {
        { "name", b->name },
        { "calendar", b->calendar },
        { "concurrency_key", b->concurrency_key },
        { "dedupe_key", b->dedupe_key },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (str_has_control(rows[i].text))
            return error_field(e, rows[i].name, "must not hold control characters");
    return ERR_OK;
}

static enum err task_body_check_texts(const struct task_body *b, struct error *e)
{
    static const char word[] = "must consist of letters, digits and . _ : -";
    if (task_body_check_controls(b, e))
        return ERR_INVALID;
    if (!task_body_is_word(b->task_type))
        return error_field(e, "task_type", "%s", word);
    if (!task_body_is_word(b->queue))
        return error_field(e, "queue", "%s", word);
    if (b->expect && !json_is_object(b->expect))
        return error_field(e, TASK_EXPECT, "must be an object");
    if (b->metadata && !json_is_object(b->metadata))
        return error_field(e, "metadata", "must be an object");
    if (b->metadata && b->text.metadata.n > METADATA_BYTES)
        return error_field(e, "metadata", "must be at most %d bytes long, not %zu", METADATA_BYTES, b->text.metadata.n);
    return ERR_OK;
}

/* Other schedulers call the task type `type`. So a type that is not a kind is the task type, unless it looks like a
 * misspelled kind. */
static enum err task_body_read_type(struct task_body *b, struct error *e)
{
    struct suggest s;
    if (!b->type_text.n)
        return ERR_OK;
    suggest_init(&s, b->type_text);
    for (int kind = TASK_ONE_TIME; kind <= TASK_OCCURRENCE; kind++) {
        if (kind != TASK_OCCURRENCE && str_eq_nocase(b->type_text, str_from(kind_names[kind]))) {
            b->type = kind;
            b->has.type = true;
            return ERR_OK;
        }
        suggest_offer(&s, str_from(kind_names[kind]));
    }
    if (s.closest.p)
        return error_field(e, "type", "must be ONE_TIME or RECURRING, or a task type that looks like neither");
    if (!task_body_is_word(b->type_text))
        return error_field(e, "type", "must be ONE_TIME, RECURRING or a task type of letters, digits and . _ : -");
    if (b->has.task_type && !str_eq(b->task_type, b->type_text))
        return error_field(e, "type", "is read as the task type here, and task_type is another; give one of the two");
    b->task_type = b->type_text;
    b->has.type_as_task_type = true;
    return ERR_OK;
}

enum err task_body_read(const struct json_doc *doc, struct task_body *into, struct arena *a, struct error *e)
{
    assert(e);
    enum err rc = json_read(doc->root, task_body_fields, array_count(task_body_fields), into, a, e);
    if (rc) {
        task_body_explain_unknown(e);
        return rc;
    }
    task_body_reset_all_nulls(doc->root, into);
    task_body_find_texts(doc->text, into);
    rc = task_body_read_type(into, e);
    return rc ? rc : task_body_check_texts(into, e);
}
