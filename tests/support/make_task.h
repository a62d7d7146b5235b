#pragma once
/* tests/support/make_task.h - tasks made from JSON, as a client's request makes them, at a fixed time. */
#include "check.h"

#include "api/task/json.h"
#include "base/rfc3339.h"
#include "platform/zoneinfo_system.h"

#define NOW_MS 1770710400000LL /* 2026-02-10T08:00:00Z */
#define HOOK   "\"target_config\":{\"url\":\"https://example.com/x\"}"
#define EVERY  "\"interval_seconds\":300,"
#define DAILY  "\"cron_expression\":\"0 8 * * *\","

static struct zoneinfo *zones;

static inline struct task_context context(void)
{
    struct task_context c = { .tenant = 7, .now_ms = NOW_MS, .zones = zones };
    assert_true(uuid_parse(S("0198f000-0000-7000-8000-000000000001"), &c.id));
    return c;
}

static inline int set_up(void **state)
{
    zones = zoneinfo_system_new(NULL);
    struct arena *a = xnew(*a);
    arena_init(a, 1 << 22);
    *state = a;
    return 0;
}

static inline int tear_down(void **state)
{
    arena_release(*state);
    free(*state);
    zoneinfo_free(zones);
    return 0;
}

static inline enum err try_make(struct arena *a, struct str text, struct task *ret, struct error *e)
{
    struct task_context c = context();
    struct json_doc d;
    assert_ok(json_parse(text, &d, e), e);
    enum err rc = task_from_json(&d, &c, a, ret, e);
    json_doc_release(&d);
    return rc;
}

static inline struct task make(void **state, const char *text)
{
    struct task t;
    struct error e = { 0 };
    char *own = xstrdup(text); /* freed before the task is used: nothing may point into it */
    if (try_make(*state, str_from(own), &t, &e))
        fail_msg("%s: %s %s", text, e.field, e.text);
    free(own);
    return t;
}

static inline enum err try_patch(struct arena *a, const struct task *t, const char *text, int64_t now_ms,
                                 struct task *ret, bool *ret_reschedules, struct error *e)
{
    struct task_context c = context();
    c.now_ms = now_ms;
    struct json_doc d;
    char *own = xstrdup(text);
    assert_ok(json_parse(str_from(own), &d, e), e);
    enum err rc = task_patch_json(t, &d, &c, a, ret, ret_reschedules, e);
    json_doc_release(&d);
    free(own);
    return rc;
}

static inline struct task patch(void **state, const struct task *t, const char *text)
{
    struct task changed;
    struct error e = { 0 };
    bool reschedules;
    if (try_patch(*state, t, text, NOW_MS + 1000, &changed, &reschedules, &e))
        fail_msg("%s: %s %s", text, e.field, e.text);
    assert_int_equal(reschedules, t->kind == TASK_RECURRING);
    return changed;
}

static inline int64_t at(const char *text)
{
    int64_t ms;
    assert_int_equal(rfc3339_parse(str_from(text), &ms, NULL), ERR_OK);
    return ms;
}

/* Bodies in tables are written with ' for ". */
static inline char *unquoted(const char *text)
{
    char *copy = xstrdup(text);
    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    return copy;
}

#define row(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
