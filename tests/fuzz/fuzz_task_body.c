/* Task bodies. A body becomes a task within all limits, whose view is JSON that creates the same task again; or it is
 * refused with a sentence. The same text as an edit of that task and of a recurring task ends in a row or a sentence,
 * too. */
#include <stdint.h>
#include <stdlib.h>

#include "api/task/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_MS 1770710400000LL

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Provides UTC only: the real implementation of the port is fuzzed elsewhere. */
static enum err get_zone(struct zoneinfo *z, struct str name, struct tz **ret, struct error *e)
{
    (void)z;
    if (!str_eq(name, S("UTC")))
        return error_field(e, "time_zone", "is unknown");
    *ret = tz_utc();
    return ERR_OK;
}

static struct task_context context(void)
{
    static const struct zoneinfo_ops ops = { .get = get_zone };
    static struct zoneinfo zones = { &ops };
    return (struct task_context){ .tenant = 1, .now_ms = NOW_MS, .id = { { 1 } }, .zones = &zones };
}

/* What is stored can be read again. */
static void check_config(struct str config)
{
    struct json_doc d = { 0 };
    if (!config.n)
        return;
    check(json_parse(config, &d, NULL) == ERR_OK && json_is_object(d.root));
    json_doc_release(&d);
}

static void check_task(const struct task *t)
{
    check(t->state == TASK_SCHEDULED && t->due_ms >= NOW_MS && t->version >= 1);
    check(t->priority >= PRIORITY_MIN && t->priority <= PRIORITY_MAX);
    check(t->queue.n >= 1 && t->queue.n <= 100 && t->name.n <= 4 * 255); /* 255 characters */
    check(t->timeout_ms >= (t->target != TARGET_WORKER) &&
          t->timeout_ms <= (t->target == TARGET_MESSAGE ? 86400000 : 3600000));
    check(t->retry.max_attempts >= 1 && t->retry.max_attempts <= 100 &&
          t->retry.base_delay_ms <= t->retry.max_delay_ms);
    check(t->target == TARGET_HTTP || t->target == TARGET_NOOP || t->target == TARGET_MESSAGE ||
          t->target == TARGET_WORKER);
    check_config(t->target_config);
    check(t->concurrency_key.n <= 200 && t->concurrency_limit <= 10000 &&
          (t->concurrency_limit > 0) == (t->concurrency_key.n > 0));
    check(t->dedupe_key.n <= 200 && (t->dedupe_window_ms > 0) == (t->dedupe_key.n > 0));
    check(t->dedupe == DEDUPE_RETURN || (t->dedupe_key.n && t->kind != TASK_RECURRING));
    check(t->expires_after_ms >= 0 && t->expires_after_ms <= 366 * 86400000LL && !t->schedule.calendar.n);
    check((t->kind == TASK_RECURRING) == (t->schedule.cron.n || t->schedule.interval_ms));
    check(t->kind != TASK_RECURRING || (t->cursor_ms >= NOW_MS && t->cursor_ms <= t->schedule.end_ms));
}

static void show(const struct task *t, struct buf *out)
{
    struct task_context c = context();
    struct jw w;
    jw_init(&w, out);
    task_to_json(&w, t, &c);
}

/* Uses the view, without the members that users may not give, as a body again. */
static void check_round_trip(const struct task *t, struct arena *a)
{
    static const char *const ours[] = { "id",          "status",     "next_execution", "version",   "created_at",
                                        "updated_at",  "started_at", "completed_at",   "attempts",  "last_error",
                                        "last_run_at", "runs_count", "skipped_count",  "expires_at" };
    struct task_context c = context();
    struct buf first;
    buf_init(&first, 1 << 22);
    show(t, &first);
    struct json_doc body;
    json_t *view =
        /* a separate document, since a parsed one must not be changed */
        json_loadb(buf_cstr(&first), first.n, JSON_ALLOW_NUL, NULL);
    check(view);
    for (size_t i = 0; i < array_count(ours); i++)
        json_object_del(view, ours[i]);
    char *text = json_dumps(view, JSON_COMPACT);
    check(text && json_parse(str_from(text), &body, NULL) == ERR_OK);
    struct task again;
    struct error e = { 0 };
    enum err rc = task_from_json(&body, &c, a, &again, &e);
    bool is_hidden = str_starts(str_from(e.field), S("target_config.headers.")); /* a new task cannot take *** over */
    check(rc == ERR_OK || rc == ERR_LIMIT || is_hidden ||
          strcmp(e.field, "metadata") == 0); /* it may be longer when printed */
    if (rc == ERR_OK) {
        check(again.cursor_ms == t->cursor_ms && again.due_ms == t->due_ms && again.timeout_ms == t->timeout_ms);
        check(str_eq(again.concurrency_key, t->concurrency_key) && again.concurrency_limit == t->concurrency_limit);
        check(str_eq(again.dedupe_key, t->dedupe_key) && again.dedupe_window_ms == t->dedupe_window_ms &&
              again.dedupe == t->dedupe && again.expires_after_ms == t->expires_after_ms);
        check(str_eq(again.name, t->name) && again.kind == t->kind && again.schedule.overlap == t->schedule.overlap);
    }
    json_doc_release(&body);
    json_decref(view);
    free(text);
    buf_release(&first);
}

static void check_edit(const struct task *t, const struct json_doc *d, struct arena *a)
{
    struct task_context c = context();
    struct task changed;
    struct error e = { 0 };
    bool reschedules = false;
    if (task_patch_json(t, d, &c, a, &changed, &reschedules, &e)) {
        check(e.code != ERR_OK && e.text[0]);
        return;
    }
    check(changed.version == t->version + 1 && changed.kind == t->kind && uuid_eq(changed.id, t->id));
    check(reschedules == (t->kind == TASK_RECURRING));
    check_task(&changed);
}

static void edit_a_task(struct str made_of, const struct json_doc *d, struct arena *a)
{
    struct task_context c = context();
    struct json_doc body;
    struct task t;
    check(json_parse(made_of, &body, NULL) == ERR_OK);
    check(task_from_json(&body, &c, a, &t, NULL) == ERR_OK);
    json_doc_release(&body);
    check_edit(&t, d, a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_doc d;
    if (json_parse((struct str){ (const char *)data, size }, &d, NULL))
        return 0;
    struct task_context c = context();
    struct arena a;
    struct task t;
    struct error e = { 0 };
    arena_init(&a, 1 << 22);
    if (task_from_json(&d, &c, &a, &t, &e)) {
        check(e.code != ERR_OK && e.text[0]);
    } else {
        check_task(&t);
        check_round_trip(&t, &a);
        check_edit(&t, &d, &a);
    }
    edit_a_task(S("{\"target_type\":\"NOOP\",\"interval_seconds\":60}"), &d, &a);
    edit_a_task(S("{\"target_config\":{\"url\":\"http://h\",\"method\":\"PUT\",\"body\":{\"a\":1},\"timeout_ms\":5,"
                  "\"headers\":{\"Authorization\":\"s\",\"X-A\":\"1\"}}}"),
                &d, &a);
    arena_release(&a);
    json_doc_release(&d);
    return 0;
}
