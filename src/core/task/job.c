#include "core/task/job.h"

#include "base/json/json.h"

enum { TEN = 10, OUTCOMES_MIN = 10 /* outcomes before the percentage counts */, PAGE = 256 };
enum { JOB_STEP_MS = 200, JOB_LOOK_MS = 200 };

static const char *const state_names[] = {
#define X(name) [JOB_##name] = #name,
    JOB_STATE_MAP(X)
#undef X
        NULL
};
static const char *const phase_names[] = { [JOB_FIRST] = "FIRST", [JOB_TEN] = "TEN", [JOB_REST] = "REST", NULL };

const char *job_state_name(enum job_state s)
{
    return state_names[s];
}

/* ---- JSON ---- */

struct failure_json {
    struct str task_id, error;
};

/* The document as it is written. */
struct job_json {
    struct str id, kind, action, by, reason, cursor;
    json_t *filter, *pause;
    int state, phase;
    int64_t created_ms, finished_ms, total, done, failed, rate, max_failed_percent, succeeded, failed_again;
    bool cancelling, total_exact, without_workflows;
    struct json_array failures, watched;
};

#define ROW(text, type, member)                                                                                        \
    .name = (text), .kind = JSON_KIND_##type, .offset = offsetof(struct job_json, member), .nullable = true
static const struct json_field failure_fields[] = {
    { .name = "task_id", .kind = JSON_KIND_STR, .offset = offsetof(struct failure_json, task_id) },
    { .name = "error", .kind = JSON_KIND_STR, .offset = offsetof(struct failure_json, error) },
};
static const struct json_field failure_row = { .kind = JSON_KIND_OBJECT,
                                               .fields = failure_fields,
                                               .count = array_count(failure_fields) };
static const struct json_field id_row = { .kind = JSON_KIND_STR };

/* clang-format off */
static const struct json_field fields[] = {
    { ROW("id", STR, id) },
    { ROW("kind", STR, kind) },
    { ROW("action", STR, action) },
    { ROW("filter", RAW, filter) }, /* kept as text, and so is the next */
    { ROW("pause", RAW, pause) },
    { ROW("by", STR, by) },
    { ROW("without_workflows", BOOL, without_workflows) },
    { ROW("state", ENUM, state), .names = state_names },
    { ROW("cancelling", BOOL, cancelling) },
    { ROW("reason", STR, reason) },
    { ROW("created_at", TIME, created_ms) },
    { ROW("finished_at", TIME, finished_ms) },
    { ROW("cursor", STR, cursor) },
    { ROW("total", I64, total) },
    { ROW("total_exact", BOOL, total_exact) },
    { ROW("done", I64, done) },
    { ROW("failed", I64, failed) },
    { ROW("failures", ARRAY, failures), .fields = &failure_row, .count = 1, .size = sizeof(struct failure_json) },
    { ROW("rate", I64, rate) },
    { ROW("max_failed_percent", I64, max_failed_percent) },
    { ROW("phase", ENUM, phase), .names = phase_names },
    { ROW("watched", ARRAY, watched), .fields = &id_row, .count = 1, .size = sizeof(struct str) },
    { ROW("succeeded", I64, succeeded) },
    { ROW("failed_again", I64, failed_again) },
};
/* clang-format on */

static enum err job_damaged_error(struct error *e)
{
    return error_set(e, ERR_CORRUPT, "the record of a job is damaged");
}

static enum err job_read_lists(const struct job_json *j, struct job *ret, struct error *e)
{
    const struct failure_json *failures = j->failures.v;
    const struct str *watched = j->watched.v;
    if (j->failures.n > JOB_FAILURES_MAX || j->watched.n > JOB_WATCHED_MAX)
        return job_damaged_error(e);
    for (size_t i = 0; i < j->failures.n; i++) {
        ret->failures[i].error = failures[i].error;
        if (!uuid_parse(failures[i].task_id, &ret->failures[i].task))
            return job_damaged_error(e);
    }
    for (size_t i = 0; i < j->watched.n; i++)
        if (!uuid_parse(watched[i], &ret->watched[i]))
            return job_damaged_error(e);
    ret->failure_count = j->failures.n;
    ret->watched_count = j->watched.n;
    return ERR_OK;
}

static enum err job_from_json(const struct job_json *j, struct job *ret, struct error *e)
{
    *ret = (struct job){
        .redrive = str_eq(j->kind, S("redrive")),
        .by = j->by,
        .without_workflows = j->without_workflows,
        .state = (enum job_state)j->state,
        .cancelling = j->cancelling,
        .reason = j->reason,
        .created_ms = j->created_ms,
        .finished_ms = j->finished_ms,
        .total = j->total,
        .total_exact = j->total_exact,
        .done = j->done,
        .failed = j->failed,
        .rate = j->rate,
        .max_failed_percent = j->max_failed_percent,
        .phase = (enum job_phase)j->phase,
        .succeeded = j->succeeded,
        .failed_again = j->failed_again,
    };
    if (!uuid_parse(j->id, &ret->id) || !action_parse(j->action, &ret->action) ||
        (j->cursor.n && !uuid_parse(j->cursor, &ret->cursor)))
        return job_damaged_error(e);
    return job_read_lists(j, ret, e);
}

enum err job_read(struct str doc, struct arena *a, struct job *ret, struct error *e)
{
    struct job_json j = { 0 };
    cleanup_with(json_doc_release) struct json_doc parsed = { 0 };
    if (json_parse(doc, &parsed, e) || json_read(parsed.root, fields, array_count(fields), &j, a, e) ||
        job_from_json(&j, ret, e))
        return e->code;
    struct str filter = json_member_text(&parsed, "filter");
    bool fits = filter.p && arena_str(a, filter, &ret->filter);
    if (fits && j.pause)
        fits = arena_str(a, json_member_text(&parsed, "pause"), &ret->pause);
    return fits ? ERR_OK : job_damaged_error(e);
}

static void job_write_redrive(struct jw *w, const struct job *j)
{
    jw_kv_i64(w, "rate", j->rate);
    jw_kv_i64(w, "max_failed_percent", j->max_failed_percent);
    jw_kv_cstr(w, "phase", phase_names[j->phase]);
    jw_kv_i64(w, "succeeded", j->succeeded);
    jw_kv_i64(w, "failed_again", j->failed_again);
    jw_key(w, "watched");
    jw_array(w);
    for (size_t i = 0; i < j->watched_count; i++) {
        char id[UUID_TEXT + 1];
        uuid_format(j->watched[i], id);
        jw_str(w, str_from(id));
    }
    jw_array_end(w);
}

static void job_write_failures(struct jw *w, const struct job *j)
{
    jw_key(w, "failures");
    jw_array(w);
    for (size_t i = 0; i < j->failure_count; i++) {
        jw_object(w);
        jw_kv_uuid(w, "task_id", j->failures[i].task);
        jw_kv_str(w, "error", j->failures[i].error);
        jw_object_end(w);
    }
    jw_array_end(w);
}

void job_write(struct jw *w, const struct job *j)
{
    jw_object(w);
    jw_kv_uuid(w, "id", j->id);
    jw_kv_cstr(w, "kind", j->redrive ? "redrive" : "bulk");
    jw_kv_cstr(w, "action", action_name(j->action));
    jw_key(w, "filter");
    jw_raw(w, j->filter);
    if (j->pause.n) {
        jw_key(w, "pause");
        jw_raw(w, j->pause);
    }
    jw_kv_str_or_null(w, "by", j->by);
    if (j->without_workflows)
        jw_kv_bool(w, "without_workflows", true);
    jw_kv_cstr(w, "state", job_state_name(j->state));
    if (j->cancelling && j->state == JOB_RUNNING)
        jw_kv_bool(w, "cancelling", true);
    jw_kv_str_or_null(w, "reason", j->reason);
    jw_kv_time(w, "created_at", j->created_ms);
    jw_kv_time_or_null(w, "finished_at", j->finished_ms);
    int64_t seen = j->done + j->failed; /* more than the count: the count was cut short, or tasks came later */
    jw_kv_i64(w, "total", max_of(j->total, seen));
    jw_kv_bool(w, "total_exact", j->total_exact && (seen <= j->total || j->finished_ms));
    jw_kv_i64(w, "done", j->done);
    jw_kv_i64(w, "failed", j->failed);
    job_write_failures(w, j);
    jw_kv_uuid(w, "cursor", j->cursor);
    if (j->redrive)
        job_write_redrive(w, j);
    jw_object_end(w);
}

/* ---- counting ---- */

void job_count(struct job *j, struct uuid task, const char *error)
{
    if (!error) {
        j->done++;
        return;
    }
    j->failed++;
    if (j->failure_count < JOB_FAILURES_MAX)
        j->failures[j->failure_count++] = (struct job_failure){ task, str_from(error) };
}

/* A retry resets attempts to 0, so a task with an attempt that is not COMPLETED has failed again. */
enum job_outcome job_outcome_of(const struct task *t)
{
    if (t->state == TASK_COMPLETED)
        return JOB_SUCCEEDED;
    return t->state == TASK_FAILED || t->attempts > 0 || task_is_final(t->state) ? JOB_FAILED_AGAIN : JOB_UNKNOWN;
}

/* ---- the pace of a re-drive ---- */

static bool job_too_many_failed(const struct job *j)
{
    int64_t known = j->succeeded + j->failed_again;
    bool is_significant = j->phase == JOB_FIRST || known >= OUTCOMES_MIN || j->watched_count == 0;
    return known > 0 && is_significant && j->failed_again * 100 > j->max_failed_percent * known;
}

size_t job_allowance(struct job *j)
{
    if (!j->redrive)
        return PAGE;
    if (job_too_many_failed(j)) {
        j->state = JOB_STOPPED;
        j->reason = S("too many tasks failed again; the remaining tasks were not touched");
        return 0;
    }
    if (j->phase == JOB_FIRST && j->done == 0)
        return 1;
    if (j->phase != JOB_REST && j->watched_count)
        return 0;
    if (j->phase == JOB_FIRST) {
        j->phase = JOB_TEN;
        return TEN;
    }
    j->phase = JOB_REST;
    return (size_t)max_of(min_of(j->rate * JOB_STEP_MS / 1000, (int64_t)PAGE), (int64_t)1);
}

int64_t job_pause_ms(const struct job *j, size_t taken)
{
    if (!j->redrive)
        return 0;
    return j->phase == JOB_REST && taken ? (int64_t)taken * 1000 / j->rate : JOB_LOOK_MS;
}
