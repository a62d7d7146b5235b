#include "cli/task_body.h"

#include <errno.h>
#include <stdlib.h>

#include "base/date.h"
#include "base/duration.h"
#include "base/json/json.h"
#include "base/sentence.h"
#include "cli/json_set.h"
#include "cli/task_parents.h"
#include "platform/file.h"

/* The limits of the API, so that --help shows them (api/task/body.c). */
enum { ATTEMPTS_MAX = 100, RUNS_MAX = 1000000000, HOUR_MS = 3600000 };
#define YEAR_MS (366 * DAY_MS)

/* clang-format off */
const struct option task_options[] = {
    { .flag = "at", .type = OPTION_TIME, .value = "TIME", .help = "fire once, at this time: 2026-02-10T08:00:00Z" },
    { .flag = "in", .type = OPTION_DURATION, .value = "DURATION", .max = DURATION_MAX_MS,
      .help = "fire once, after this delay: 90s, 15m, 1h30m, 7d" },
    { .flag = "every", .type = OPTION_DURATION, .value = "DURATION", .min = 100, .max = DURATION_MAX_MS,
      .help = "fire repeatedly, at this interval" },
    { .flag = "cron", .type = OPTION_TEXT, .value = "EXPR",
      .help = "fire repeatedly, by a cron expression such as '0 8 * * MON-FRI'; 'belfry next' shows its times" },
    { .flag = "tz", .type = OPTION_TEXT, .value = "ZONE", .help = "time zone of --cron, such as Europe/Berlin; default: UTC" },
    { .flag = "dst-gap", .type = OPTION_CHOICE, .value = "POLICY", .choices = "shift|skip",
      .help = "with --cron: when the clock is set forward over a fire: shift it to the first valid time after the gap, or skip it; default: shift if hour and minute are fixed, otherwise skip" },
    { .flag = "dst-overlap", .type = OPTION_CHOICE, .value = "POLICY", .choices = "first|last|both",
      .help = "with --cron: when the clock is set back and a local time occurs twice: which of the two fires; default: first if hour and minute are fixed, otherwise both" },
    { .flag = "calendar", .type = OPTION_TEXT, .value = "NAME",
      .help = "with --every or --cron: fire only on the business days of this calendar; edit with '': on all days" },
    { .flag = "calendar-policy", .type = OPTION_CHOICE, .value = "POLICY", .choices = "skip|next-day|previous-day",
      .help = "with --calendar: what happens to a fire on any other day; default: skip" },
    { .flag = "overlap", .type = OPTION_CHOICE, .value = "POLICY", .choices = "skip|allow|queue-one|queue-all|cancel-previous",
      .help = "with --every or --cron: what happens to a fire while the previous run is still running; default: skip; 'belfry run' and a retry by hand run beside it" },
    { .flag = "start", .type = OPTION_TIME, .value = "TIME", .help = "with --every or --cron: do not fire before this time" },
    { .flag = "end", .type = OPTION_TIME, .value = "TIME", .help = "with --every or --cron: do not fire after this time" },
    { .flag = "max-runs", .type = OPTION_INT, .value = "N", .min = 1, .max = RUNS_MAX,
      .help = "with --every or --cron: complete the task after N fires" },
    { .flag = "spread", .type = OPTION_DURATION, .value = "DURATION", .max = DAY_MS,
      .help = "delay the fire, or each fire of --every and --cron, by a fixed part of this, which depends on the task's id" },
    { .flag = "catch-up", .type = OPTION_CHOICE, .value = "MODE", .choices = "one|all|skip",
      .help = "with --every or --cron: what happens to fires missed while the server was down; default: one" },
    { .flag = "catch-up-window", .type = OPTION_DURATION, .value = "DURATION", .min = 1000, .max = YEAR_MS,
      .help = "with --catch-up: catch up only fires that were missed within this time; default: 1d" },
    { .flag = "name", .type = OPTION_TEXT, .value = "NAME", .help = "name of the task" },
    { .flag = "queue", .type = OPTION_TEXT, .value = "QUEUE", .help = "queue of the task; default: default" },
    { .flag = "priority", .type = OPTION_INT, .value = "P", .min = 0, .max = 9, .help = "priority; if many tasks are due, higher ones run first; default: 5" },
    { .flag = "type", .type = OPTION_TEXT, .value = "TYPE", .help = "task type, such as report.daily" },
    { .flag = "timeout", .type = OPTION_DURATION, .value = "DURATION", .min = 1, .max = HOUR_MS,
      .help = "time limit of one attempt; default: 30s, for a WORKER task none" },
    { .flag = "max-attempts", .type = OPTION_INT, .value = "N", .min = 1, .max = ATTEMPTS_MAX,
      .help = "attempts before the task is FAILED; 1: no retry; default: 5" },
    { .flag = "backoff", .type = OPTION_CHOICE, .value = "KIND", .choices = "exponential|fixed",
      .help = "whether the delay between attempts doubles or stays the same; default: exponential" },
    { .flag = "retry-delay", .type = OPTION_DURATION, .value = "DURATION", .min = 1, .max = DAY_MS,
      .help = "delay before the second attempt, unless --jitter none a random time between 0 and this; twice as long after 429 or 503 without Retry-After; default: 1s" },
    { .flag = "retry-max-delay", .type = OPTION_DURATION, .value = "DURATION", .min = 1, .max = 7 * DAY_MS,
      .help = "longest delay between two attempts; default: 1h" },
    { .flag = "jitter", .type = OPTION_CHOICE, .value = "KIND", .choices = "full|none",
      .help = "full: the delay between attempts is random, between 0 and its length; none: its length; default: full" },
    { .flag = "expires", .type = OPTION_DURATION, .value = "DURATION", .max = YEAR_MS,
      .help = "let the task expire if it has not started this long after its due time; 0s: never" },
    { .flag = "concurrency-key", .type = OPTION_TEXT, .value = "KEY",
      .help = "tasks with the same key run one after another (see --concurrency-limit); '': no key" },
    { .flag = "concurrency-limit", .type = OPTION_INT, .value = "N", .min = 1, .max = 10000,
      .help = "how many tasks with the same key may run at once; default: 1" },
    { .flag = "delivery", .type = OPTION_CHOICE, .value = "MODE", .choices = "at-least-once|at-most-once",
      .help = "after a crash with an unknown outcome: run the task again, or not; default: at-least-once" },
    { .flag = "requires", .type = OPTION_LIST, .value = "LABEL",
      .help = "only a worker with this label may run the task; edit with '': any worker" },
    { .flag = "cpu", .type = OPTION_TEXT, .value = "CORES", .help = "CPU cores that the task needs, such as 0.5 or 2; 0: unspecified" },
    { .flag = "memory-mb", .type = OPTION_INT, .value = "MB", .min = 0, .max = 16 << 20,
      .help = "memory that the task needs, in MB; 0: unspecified" },
    { .flag = "expect-success-by", .type = OPTION_TEXT, .value = "HH:MM",
      .help = "with --every or --cron: settings with on_missed are told if the task has not succeeded by this time of day, in its time zone and calendar" },
    { .flag = "expect-days", .type = OPTION_TEXT, .value = "DAYS", .help = "with --expect-success-by: only on these days of the week, such as MON-FRI" },
    { .flag = "expect-within", .type = OPTION_DURATION, .value = "DURATION", .max = YEAR_MS,
      .help = "settings with on_missed are told if the task has not succeeded for this time; edit with 0s: nothing is expected" },
    { .flag = "notify", .type = OPTION_LIST, .value = "SETTING",
      .help = "tell this notification setting, given by its id or name, whatever its filter; '': nobody is told of the task" },
    { .flag = "method", .letter = 'X', .type = OPTION_TEXT, .value = "METHOD", .help = "HTTP method; default: POST" },
    { .flag = "header", .letter = 'H', .type = OPTION_LIST, .value = "HEADER", .help = "HTTP header to send, such as 'X-Team: a'" },
    { .flag = "data", .letter = 'd', .type = OPTION_LIST, .value = "BODY",
      .help = "request body; @FILE reads it from a file, - from stdin; a webhook gets a JSON object or array as application/json, any other text as curl sends it: application/x-www-form-urlencoded, without the line breaks of a file, and several texts joined by &" },
    { .flag = "set", .type = OPTION_LIST, .value = "FIELD=JSON",
      .help = "any field of the API, such as 'metadata={\"team\": \"a\"}' or retry.max_attempts=3; a value that is not JSON is text, @FILE reads it" },
    { .flag = "idempotency-key", .type = OPTION_TEXT, .value = "KEY",
      .help = "send this Idempotency-Key, so that a repeated command has no second effect; default: a random one" },
    /* of a create only: TASK_EDIT_OPTION_COUNT is without these */
    { .flag = "dedupe-key", .type = OPTION_TEXT, .value = "KEY", .help = "do not create a second task with this key" },
    { .flag = "dedupe-window", .type = OPTION_DURATION, .value = "DURATION", .min = 1000, .max = YEAR_MS,
      .help = "how long after its creation the dedupe key counts; default: 1h" },
    { .flag = "dedupe-action", .type = OPTION_CHOICE, .value = "ACTION", .choices = "return|reschedule|replace",
      .help = "what a second task with the key does: return the first task, move it to the new time (debounce), or give it the new payload too; default: return" },
    { .flag = "dedupe-max-wait", .type = OPTION_DURATION, .value = "DURATION", .min = 1000, .max = YEAR_MS,
      .help = "with reschedule and replace: run it this long after its creation at the latest" },
    { .flag = "after", .type = OPTION_LIST, .value = "TASK[:TYPE]",
      .help = "wait for this task, given by its id or name; TYPE is what it must do: must-succeed (default), must-not-fail, must-finish, must-fail" },
    { .flag = "join", .type = OPTION_CHOICE, .value = "KIND", .choices = "all|any|some",
      .help = "with --after: start when all of them did that, when the first did, or when all have ended and one did" },
};
/* clang-format on */

/* How an option's value is written. An empty text and 0 seconds are written as null, which resets the field to its
 * default. ELSEWHERE: another part of this file, or the command, writes the field. */
enum member_format { AS_TEXT, AS_NUMBER, AS_CORES, AS_SECONDS, AS_TIME, AS_NAME, AS_LABELS, AS_PARENTS, ELSEWHERE };

static const char *const catch_up_names[] = { "RUN_ONE_NOW", "RUN_ALL_MISSED", "SKIP_MISSED" };
static const char *const calendar_policy_names[] = { "SKIP", "NEXT_DAY", "PREVIOUS_DAY" };
static const char *const overlap_names[] = { "SKIP", "ALLOW", "QUEUE_ONE", "QUEUE_ALL", "CANCEL_PREVIOUS" };
static const char *const dedupe_names[] = { "RETURN", "RESCHEDULE", "REPLACE" };
static const char *const delivery_names[] = { "AT_LEAST_ONCE", "AT_MOST_ONCE" };
static const char *const gap_names[] = { "SHIFT", "SKIP" };
static const char *const repeat_names[] = { "FIRST", "LAST", "BOTH" };
static const char *const backoff_names[] = { "EXPONENTIAL", "FIXED" };
static const char *const jitter_names[] = { "FULL", "NONE" };
static const char *const join_names[] = { "ALL", "ANY", "SOME" };

/* Every field of a task body, by its path. A field without a flag is given by --set alone. */
static const struct field {
    const char *flag, *path;
    enum member_format as;
    const char *const *names; /* AS_NAME: by the index of the choice */
} fields[] = {
    { "at", "run_at", AS_TIME, NULL },
    { "in", "delay", AS_TEXT, NULL },
    { "every", "interval_seconds", AS_SECONDS, NULL },
    { "cron", "cron_expression", AS_TEXT, NULL },
    { "tz", "time_zone", AS_TEXT, NULL },
    { "dst-gap", "dst_policy.gap", AS_NAME, gap_names },
    { "dst-overlap", "dst_policy.overlap", AS_NAME, repeat_names },
    { "calendar", "calendar", AS_TEXT, NULL },
    { "calendar-policy", "calendar_policy", AS_NAME, calendar_policy_names },
    { "overlap", "overlap_policy", AS_NAME, overlap_names },
    { "start", "start_time", AS_TIME, NULL },
    { "end", "end_date", AS_TIME, NULL },
    { "max-runs", "max_runs", AS_NUMBER, NULL },
    { "spread", "spread_seconds", AS_SECONDS, NULL },
    { "catch-up", "catch_up_mode", AS_NAME, catch_up_names },
    { "catch-up-window", "catch_up_window_seconds", AS_SECONDS, NULL },
    { "name", "name", AS_TEXT, NULL },
    { "queue", "queue", AS_TEXT, NULL },
    { "priority", "priority", AS_NUMBER, NULL },
    { "type", "task_type", AS_TEXT, NULL },
    { "timeout", "timeout_ms", AS_NUMBER, NULL },
    { "max-attempts", "retry.max_attempts", AS_NUMBER, NULL },
    { "backoff", "retry.backoff", AS_NAME, backoff_names },
    { "retry-delay", "retry.base_delay_ms", AS_NUMBER, NULL },
    { "retry-max-delay", "retry.max_delay_ms", AS_NUMBER, NULL },
    { "jitter", "retry.jitter", AS_NAME, jitter_names },
    { "expires", "expires_after_seconds", AS_SECONDS, NULL },
    { "concurrency-key", "concurrency_key", AS_TEXT, NULL },
    { "concurrency-limit", "concurrency_limit", AS_NUMBER, NULL },
    { "dedupe-key", "dedupe_key", AS_TEXT, NULL },
    { "dedupe-window", "dedupe_window_seconds", AS_SECONDS, NULL },
    { "dedupe-action", "dedupe_action", AS_NAME, dedupe_names },
    { "dedupe-max-wait", "dedupe_max_wait_seconds", AS_SECONDS, NULL },
    { "delivery", "delivery", AS_NAME, delivery_names },
    { "after", "depends_on", AS_PARENTS, NULL },
    { "join", "join", AS_NAME, join_names },
    { "requires", "requires", AS_LABELS, NULL },
    { "cpu", "resources.cpu", AS_CORES, NULL },
    { "memory-mb", "resources.memory_mb", AS_NUMBER, NULL },
    { "expect-success-by", "expect.success_by", AS_TEXT, NULL },
    { "expect-days", "expect.days", AS_TEXT, NULL },
    { "expect-within", "expect.within_seconds", AS_SECONDS, NULL },
    { "notify", "notify", AS_LABELS, NULL },
    { "idempotency-key", "idempotency_key", ELSEWHERE, NULL }, /* the client sends it as a header */
    { "target", "target_type", ELSEWHERE, NULL },
    { "url", "target_config.url", ELSEWHERE, NULL },
    { "method", "target_config.method", ELSEWHERE, NULL },
    { "header", "target_config.headers", ELSEWHERE, NULL },
    { "data", "target_config.body", ELSEWHERE, NULL },
    { "message", "target_config.broker", ELSEWHERE, NULL },
    { "destination", "target_config.destination", ELSEWHERE, NULL },
    { "message-key", "target_config.key", ELSEWHERE, NULL },
    { "workflow", "target_config.workflow", ELSEWHERE, NULL },
    { "version", "target_config.version", ELSEWHERE, NULL },
    { "input", "target_config.input", ELSEWHERE, NULL },
    { "deadline", "target_config.deadline_seconds", ELSEWHERE, NULL },
    { NULL, "target_config.timeout_ms", ELSEWHERE, NULL },
    { NULL, "target_config", ELSEWHERE, NULL },
    { NULL, "payload", ELSEWHERE, NULL },
    { NULL, "metadata", ELSEWHERE, NULL },
    { NULL, "retry.rules", ELSEWHERE, NULL },
    { NULL, "max_retries", ELSEWHERE, NULL },
    { NULL, "scheduled_at", ELSEWHERE, NULL },
    { NULL, "type", ELSEWHERE, NULL },
};
enum { CPU_MAX = 1024, KEY_BYTES = 255, VALUE_MAX = 64 * 1024 };
enum { SCHEDULE_COUNT = 4 }; /* the first fields above exclude each other */

const char *task_field_path(size_t i, const char **ret_flag)
{
    if (i >= array_count(fields))
        return NULL;
    *ret_flag = fields[i].flag;
    return fields[i].path;
}

static enum err task_body_check_schedules(const struct options *o, struct error *e)
{
    const char *first = NULL;
    for (size_t i = 0; i < SCHEDULE_COUNT; i++) {
        if (!option_known(o, fields[i].flag) || !option_given(o, fields[i].flag))
            continue;
        char name[16];
        snprintf(name, sizeof name, "--%s", fields[i].flag);
        if (first)
            return error_field(e, name, "and --%s exclude each other; give only one of them", first);
        first = fields[i].flag;
    }
    return ERR_OK;
}

static void task_body_write_seconds(int64_t ms, struct jw *w)
{
    if (ms)
        jw_seconds(w, ms);
    else
        jw_null(w);
}

static void task_body_write_labels(const struct option_value *v, struct jw *w)
{
    jw_array(w);
    for (size_t i = 0; i < v->list_count; i++)
        if (v->list[i].n)
            jw_str(w, v->list[i]);
    jw_array_end(w);
}

static enum err task_body_write_cores(struct str text, struct jw *w, struct error *e)
{
    char *end = NULL;
    double cores = strtod(text.p, &end);
    if (!text.n || *end || !(cores >= 0) || cores > CPU_MAX)
        return error_field(e, "--cpu", "must be a number of cores, such as 0.5 or 2");
    jw_f64(w, cores);
    return ERR_OK;
}

static enum err task_body_write_value(const struct field *f, const struct option_value *v, struct jw *w,
                                      struct error *e)
{
    switch (f->as) {
    case AS_TEXT:
        if (v->text.n)
            jw_str(w, v->text);
        else
            jw_null(w);
        break;
    case AS_NUMBER: jw_i64(w, v->number); break;
    case AS_TIME: jw_time(w, v->number); break;
    case AS_NAME: jw_str(w, str_from(f->names[v->number])); break;
    case AS_LABELS: task_body_write_labels(v, w); break;
    case AS_PARENTS: task_parents_write(v, NULL, w); break;
    case AS_CORES: return task_body_write_cores(v->text, w, e);
    case AS_SECONDS: task_body_write_seconds(v->number, w); break;
    case ELSEWHERE: break;
    }
    return ERR_OK;
}

/* Sets a member of the object in `body`. */
static enum err task_body_set(struct buf *body, struct str path, struct str value, bool *ret_replaced, struct error *e)
{
    struct buf changed;
    buf_init(&changed, body->max);
    if (json_set(buf_str(body), path, value, ret_replaced, &changed, e)) {
        buf_release(&changed);
        return e->code;
    }
    buf_release(body);
    *body = changed;
    return ERR_OK;
}

/* It becomes a header. */
static enum err task_body_check_idempotency_key(const struct options *o, struct error *e)
{
    const char *key = task_idempotency_key(o);
    size_t n = key ? strlen(key) : 1;
    for (const char *c = key; c && *c; c++)
        if (*c < ' ' || *c >= 0x7F)
            n = 0;
    return n > 0 && n <= KEY_BYTES
               ? ERR_OK
               : error_field(e, "--idempotency-key", "must be 1 to %d printable ASCII characters", KEY_BYTES);
}

enum err task_fields_write(const struct options *o, struct buf *ret, struct error *e)
{
    if (task_body_check_schedules(o, e) || task_body_check_idempotency_key(o, e))
        return e->code;
    buf_text(ret, "{}");
    for (size_t i = 0; i < array_count(fields); i++) {
        const struct field *f = &fields[i];
        cleanup_with(buf_release) struct buf value;
        struct jw w;
        bool replaced;
        buf_init(&value, VALUE_MAX);
        jw_init(&w, &value);
        if (f->as == ELSEWHERE || !option_known(o, f->flag) || !option_given(o, f->flag))
            continue;
        if (task_body_write_value(f, option_get(o, f->flag), &w, e) ||
            task_body_set(ret, str_from(f->path), buf_str(&value), &replaced, e))
            return e->code;
    }
    return ERR_OK;
}

void task_members_copy(struct str object, struct jw *w)
{
    struct json_cursor c = { .text = object };
    struct str name, value;
    while (json_next(&c, &name, &value)) {
        char key[64];
        snprintf(key, sizeof key, STR_FMT, STR_ARG(name));
        jw_key(w, key);
        jw_raw(w, value);
    }
}

const char *task_idempotency_key(const struct options *o)
{
    return option_given(o, "idempotency-key") ? option_get(o, "idempotency-key")->text.p : NULL;
}

enum err option_json_write(const struct options *o, const char *flag, struct jw *w, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    char field[32];
    struct error why;
    buf_init(&text, TASK_BODY_MAX);
    if (!option_given(o, flag))
        return ERR_OK;
    struct str given = option_get(o, flag)->text;
    bool is_file = str_starts(given, S("@"));
    snprintf(field, sizeof field, "--%s", flag);
    if (!is_file && !str_eq(given, S("-")))
        buf_add(&text, given);
    else if (file_read(is_file ? given.p + 1 : given.p, &text, &why)) /* option texts are NUL-terminated */
        return error_field(e, field, "cannot be read from %s", why.text);
    if (json_parse(buf_str(&text), &doc, &why))
        return error_field(e, field, "%s%s%s%s", why.text, why.field[0] ? ", at '" : "", why.field,
                           why.field[0] ? "'" : "");
    jw_key(w, flag);
    jw_raw(w, str_trim(buf_str(&text)));
    return ERR_OK;
}

/* ---- the target ---- */

void target_release(struct target *t)
{
    buf_release(&t->body);
    buf_release(&t->form);
}

/* BODY, @FILE, @- or -. */
static enum err task_body_read_data(struct str given, const char *field, struct buf *out, struct error *e)
{
    bool is_file = str_starts(given, S("@"));
    if (!is_file && !str_eq(given, S("-"))) {
        buf_add(out, given);
        return out->full ? error_field(e, field, "is longer than %d bytes", TASK_BODY_MAX) : ERR_OK;
    }
    struct error why;
    enum err rc = file_read(is_file ? given.p + 1 : given.p, out, &why); /* option texts are NUL-terminated */
    return rc ? error_field(e, field, "%s%s", rc == ERR_LIMIT ? "" : "cannot be read from ", why.text) : ERR_OK;
}

/* JSON stays as it was written; any other text becomes a string. */
static enum err task_body_write_json(struct str text, const char *field, struct buf *ret, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct error ignored;
    struct jw w;
    jw_init(&w, ret);
    if (json_parse(text, &doc, &ignored) == ERR_OK)
        jw_raw(&w, str_trim(text));
    else if (str_is_utf8(text))
        jw_str(&w, text);
    else
        return error_field(e, field, "is neither JSON nor UTF-8 text");
    return ERR_OK;
}

static enum err task_body_read_json(struct str given, const char *field, struct buf *ret, struct error *e)
{
    cleanup_with(buf_release) struct buf raw;
    buf_init(&raw, TASK_BODY_MAX);
    enum err rc = task_body_read_data(given, field, &raw, e);
    return rc ? rc : task_body_write_json(buf_str(&raw), field, ret, e);
}

/* Adds what curl -d sends of one text: it leaves out the line breaks and NUL bytes of a file. */
static void task_body_add_form(struct str text, bool is_file, struct buf *ret)
{
    for (size_t i = 0; i < text.n; i++)
        if (!is_file || (text.p[i] != '\r' && text.p[i] != '\n' && text.p[i] != '\0'))
            buf_char(ret, text.p[i]);
}

/* Whether a text that is not JSON begins as if it were meant as an object or an array. "[x] is full" does not. */
static bool task_body_is_json_like(struct str text)
{
    static const char *const elements[] = { "true", "false", "null" };
    struct str all = str_trim(text);
    if (!str_starts(all, S("[")))
        return str_starts(all, S("{"));
    struct str rest = str_trim(str_sub(all, 1, all.n));
    for (size_t i = 0; i < array_count(elements); i++)
        if (str_starts(rest, str_from(elements[i])))
            return true;
    return !rest.n || strchr("{[]\"-0123456789", rest.p[0]);
}

/* Texts of one or more -d, as they are and as curl sends them. */
struct data_texts {
    struct buf raw, sent;
};

static void data_texts_release(struct data_texts *d)
{
    buf_release(&d->raw);
    buf_release(&d->sent);
}

/* Adds one text, behind a & like curl. is_json: it is an object or an array. */
static enum err task_body_add_data(struct str given, struct data_texts *d, struct target *t, bool *ret_is_json,
                                   struct error *e)
{
    cleanup_with(buf_release) struct buf raw;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct error why;
    buf_init(&raw, TASK_BODY_MAX);
    if (task_body_read_data(given, "--data", &raw, e))
        return e->code;
    bool is_json = json_parse(buf_str(&raw), &doc, &why) == ERR_OK;
    *ret_is_json = is_json && (json_is_object(doc.root) || json_is_array(doc.root));
    if (!is_json && !t->not_json.code && task_body_is_json_like(buf_str(&raw)))
        t->not_json = why;
    buf_text(&d->raw, d->raw.n ? "&" : "");
    buf_add(&d->raw, buf_str(&raw));
    buf_text(&d->sent, d->sent.n ? "&" : "");
    task_body_add_form(buf_str(&raw), str_starts(given, S("@")) || str_eq(given, S("-")), &d->sent);
    return d->raw.full ? error_field(e, "--data", "is longer than %d bytes", TASK_BODY_MAX) : ERR_OK;
}

static enum err task_body_read_texts(const struct option_value *v, struct data_texts *d, struct target *t,
                                     struct error *e)
{
    struct jw form;
    bool is_json = false;
    for (size_t i = 0; i < v->list_count; i++) {
        if (task_body_add_data(v->list[i], d, t, &is_json, e))
            return e->code;
        if (is_json && v->list_count > 1)
            return error_field(e, "--data", "is a JSON object or array, so it can be given only once");
    }
    t->data_count = v->list_count;
    jw_init(&form, &t->form);
    if (!is_json)
        jw_str(&form, buf_str(&d->sent));
    return task_body_write_json(buf_str(&d->raw), "--data", &t->body, e);
}

static enum err task_body_read_all(const struct option_value *v, struct target *t, struct error *e)
{
    cleanup_with(data_texts_release) struct data_texts d;
    buf_init(&d.raw, TASK_BODY_MAX);
    buf_init(&d.sent, TASK_BODY_MAX);
    return task_body_read_texts(v, &d, t, e);
}

enum err target_read(const struct options *o, struct str url, struct target *ret, struct error *e)
{
    struct target t = { .url = url };
    buf_init(&t.body, 2 * TASK_BODY_MAX);
    buf_init(&t.form, 2 * TASK_BODY_MAX);
    t.given = url.n || option_given(o, "method") || option_given(o, "header") || option_given(o, "data");
    if (option_given(o, "data") && task_body_read_all(option_get(o, "data"), &t, e)) {
        target_release(&t);
        return e->code;
    }
    *ret = t;
    return ERR_OK;
}

enum err target_check_data(const struct target *t, struct error *e)
{
    return t->data_count < 2 || t->as_curl
               ? ERR_OK
               : error_field(
                     e, "--data",
                     "can be given only once, unless the task calls a URL; a webhook gets all of them, joined by &");
}

static enum err task_body_write_headers(const struct options *o, struct jw *w, struct error *e)
{
    const struct option_value *v = option_get(o, "header");
    jw_key(w, "headers");
    jw_object(w);
    for (size_t i = 0; i < v->list_count; i++) {
        struct str line = v->list[i];
        size_t colon = str_find(line, ':', 0);
        char name[256], shown[QUOTE_TEXT];
        quote_text(line, shown);
        if (colon == line.n || colon == 0 || colon >= sizeof name)
            return error_field(e, "--header", "must have the form 'Name: value', but is %s", shown);
        snprintf(name, sizeof name, STR_FMT, STR_ARG(str_sub(line, 0, colon)));
        jw_kv_str(w, name, str_trim(str_sub(line, colon + 1, line.n)));
    }
    jw_object_end(w);
    return ERR_OK;
}

/* Writes the present members of the target that no option replaces. */
static void task_body_write_unchanged(const struct options *o, const struct target *t, struct str current, struct jw *w)
{
    struct json_cursor c = { .text = current };
    struct str name, value;
    while (json_next(&c, &name, &value)) {
        bool replaced = (str_eq(name, S("url")) && t->url.n) || (str_eq(name, S("body")) && t->body.n) ||
                        (str_eq(name, S("method")) && option_given(o, "method")) ||
                        (str_eq(name, S("headers")) && option_given(o, "header"));
        char key[256];
        snprintf(key, sizeof key, STR_FMT, STR_ARG(name));
        if (replaced)
            continue;
        jw_key(w, key);
        jw_raw(w, value);
    }
}

enum err target_write(const struct options *o, const struct target *t, struct str current, struct jw *w,
                      struct error *e)
{
    jw_key(w, "target_config");
    jw_object(w);
    if (t->url.n)
        jw_kv_str(w, "url", t->url);
    task_body_write_unchanged(o, t, current, w);
    if (option_given(o, "method"))
        jw_kv_str(w, "method", option_get(o, "method")->text);
    if (option_given(o, "header") && task_body_write_headers(o, w, e))
        return e->code;
    if (t->body.n) {
        jw_key(w, "body");
        jw_raw(w, buf_str(t->as_curl && t->form.n ? &t->form : &t->body));
    }
    jw_object_end(w);
    return ERR_OK;
}

#define FORM_TYPE "application/x-www-form-urlencoded"

/* Its Content-Type header, with the name as it is written. NULL: it has none. */
static const json_t *target_type(const json_t *task, const char **ret_name)
{
    json_t *headers = json_object_get(json_at(task, "target_config"), "headers"), *value;
    json_object_foreach (headers, *ret_name, value)
        if (str_eq_nocase(str_from(*ret_name), S("content-type")))
            return value;
    return NULL;
}

/* Whether the type of a task is that of its form data: other data does not keep it. */
static bool target_type_is_of_form(const json_t *task, const json_t *type)
{
    return json_is_string(json_at(task, "target_config.body")) && json_is_string(type) &&
           str_eq_nocase(str_from(json_string_value(type)), S(FORM_TYPE));
}

static enum err target_refuse_json_like(const struct target *t, struct error *e)
{
    const char *quote = t->not_json.field[0] ? "'" : "", *blank = t->not_json.field[0] ? " " : "";
    return error_field(e, "--data",
                       "begins like JSON, but %s%s%s%s%s; correct it, or send it as text: with a header such as "
                       "-H 'Content-Type: text/plain', or with --set target_config.body=@FILE in place of -d",
                       quote, t->not_json.field, quote, blank, t->not_json.text);
}

enum err target_type_apply(const struct target *t, const struct json_doc *current, struct buf *body, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    char path[300];
    const char *name = "Content-Type", *ignored_name;
    bool ignored;
    if (!t->as_curl || !t->body.n)
        return ERR_OK;
    if (json_parse(buf_str(body), &doc, e))
        return e->code;
    const json_t *type = current ? target_type(current->root, &name) : NULL;
    bool is_of_form = type && target_type_is_of_form(current->root, type), sends_form = t->form.n;
    if (target_type(doc.root, &ignored_name) || (type && !is_of_form))
        return ERR_OK;
    if (sends_form && t->not_json.code)
        return target_refuse_json_like(t, e);
    if (sends_form == is_of_form)
        return ERR_OK;
    snprintf(path, sizeof path, "target_config.headers.%s", sends_form ? "Content-Type" : name);
    return task_body_set(body, str_from(path), sends_form ? S("\"" FORM_TYPE "\"") : S("null"), &ignored, e);
}

/* ---- --set ---- */

/* "priority=3": the field's path and its value. */
static enum err task_body_split_set(struct str given, struct str *ret_path, struct str *ret_value, struct error *e)
{
    size_t equals = str_find(given, '=', 0);
    char shown[QUOTE_TEXT];
    quote_text(given, shown);
    *ret_path = str_sub(given, 0, equals);
    *ret_value = str_sub(given, min_of(equals + 1, given.n), given.n);
    if (equals == given.n)
        return error_field(e, "--set", "must have the form FIELD=JSON, but is %s", shown);
    if (str_eq(*ret_path, S("idempotency_key")))
        return error_field(e, "--set", "cannot give idempotency_key; use --idempotency-key");
    return ERR_OK;
}

bool task_sets_begin_with(const struct options *o, const char *prefix)
{
    const struct option_value *v = option_get(o, "set");
    for (size_t i = 0; i < v->list_count; i++)
        if (str_starts(v->list[i], str_from(prefix)))
            return true;
    return false;
}

bool task_sets_are_nested(const struct options *o)
{
    const struct option_value *v = option_get(o, "set");
    for (size_t i = 0; i < v->list_count; i++)
        if (str_find(v->list[i], '.', 0) < str_find(v->list[i], '=', 0))
            return true;
    return false;
}

/* A member of a nested object is about to be set: adds the present object, if the body has none yet. */
static enum err task_body_seed(struct buf *body, struct str path, const struct json_doc *current, struct error *e)
{
    struct str head = str_sub(path, 0, str_find(path, '.', 0)), name, value;
    struct json_cursor c = { .text = buf_str(body) };
    char member[64];
    bool replaced;
    while (json_next(&c, &name, &value))
        if (str_eq(name, head))
            return ERR_OK;
    snprintf(member, sizeof member, STR_FMT, STR_ARG(str_utf8_cut(head, sizeof member - 1)));
    struct str text = json_member_text(current, member);
    return text.n && head.n < path.n ? task_body_set(body, head, text, &replaced, e) : ERR_OK;
}

enum err task_sets_apply(const struct options *o, const struct json_doc *current, struct buf *body, struct error *e)
{
    const struct option_value *v = option_get(o, "set");
    for (size_t i = 0; i < v->list_count; i++) {
        cleanup_with(buf_release) struct buf value;
        struct str path, text;
        bool replaced;
        struct error why;
        buf_init(&value, 2 * TASK_BODY_MAX);
        if (task_body_split_set(v->list[i], &path, &text, e) || task_body_read_json(text, "--set", &value, e) ||
            (current && task_body_seed(body, path, current, e)))
            return e->code;
        if (task_body_set(body, path, buf_str(&value), &replaced, &why))
            return error_field(e, "--set", "%s", why.text);
        if (replaced && !current)
            return error_field(e, "--set", "gives " STR_FMT " a second time", STR_ARG(str_utf8_cut(path, 100)));
    }
    return ERR_OK;
}
