/* The fields of a body that concern other tasks or calendars: calendar, concurrency, dedupe, expiry. */
#include "make_task.h"

#define KEYED "\"concurrency_key\":\"customer-42\""
#define ONCE  "\"dedupe_key\":\"order-1\""

static struct catalog_cache *catalog_cache_with(const char *name, const char *doc)
{
    struct error e = { 0 };
    struct catalog_cache *b = catalog_cache_new();
    struct catalog_entry entry = {
        .kind = CATALOG_CALENDAR, .tenant = 7, .name = str_from(name), .version = 1, .doc = str_from(doc)
    };
    assert_ok(catalog_cache_put(b, &entry, &e), &e);
    return b;
}

static enum err try_with(void **state, struct catalog_cache *b, const char *text, struct task *ret, struct error *e)
{
    struct task_context c = context();
    struct json_doc d;
    c.catalog = b;
    cleanup_with(free_charp) char *body = unquoted(text);
    assert_ok(json_parse(str_from(body), &d, e), e);
    enum err rc = task_from_json(&d, &c, *state, ret, e);
    json_doc_release(&d);
    return rc;
}

static enum err try_patch_with(void **state, struct catalog_cache *b, const struct task *t, const char *text,
                               struct task *ret, struct error *e)
{
    struct task_context c = context();
    struct json_doc d;
    bool reschedules = false;
    c.catalog = b;
    c.now_ms++;
    cleanup_with(free_charp) char *body = unquoted(text);
    assert_ok(json_parse(str_from(body), &d, e), e);
    enum err rc = task_patch_json(t, &d, &c, *state, ret, &reschedules, e);
    json_doc_release(&d);
    return rc;
}

static const char *shown_with(struct catalog_cache *b, const struct task *t, struct buf *out)
{
    struct task_context c = context();
    struct jw w;
    c.catalog = b;
    buf_init(out, 1 << 16);
    jw_init(&w, out);
    task_to_json(&w, t, &c);
    return buf_cstr(out);
}

static void assert_shows(const struct task *t, const char *part)
{
    cleanup_with(buf_release) struct buf out;
    if (!strstr(shown_with(NULL, t, &out), part))
        fail_msg("%s is not in %s", part, buf_cstr(&out));
}

static void assert_hides(const struct task *t, const char *part)
{
    cleanup_with(buf_release) struct buf out;
    if (strstr(shown_with(NULL, t, &out), part))
        fail_msg("%s is in %s", part, buf_cstr(&out));
}

/* ---- concurrency ---- */

static void a_concurrency_key_alone_is_a_mutex(void **state)
{
    struct task t = make(state, "{" HOOK "," KEYED "}");
    assert_str(t.concurrency_key, "customer-42");
    assert_int_equal(t.concurrency_limit, 1);
    assert_shows(&t, "\"concurrency_key\":\"customer-42\",\"concurrency_limit\":1");
    struct task three = make(state, "{" DAILY HOOK "," KEYED ",\"concurrency_limit\":3}");
    assert_int_equal(three.concurrency_limit, 3);
    struct task none = make(state, "{" HOOK "}");
    assert_int_equal(none.concurrency_limit, 0);
    assert_hides(&none, "concurrency");
}

static void a_limit_is_changed_with_its_key_or_alone(void **state)
{
    struct task t = make(state, "{" HOOK "," KEYED ",\"concurrency_limit\":3}");
    assert_int_equal(patch(state, &t, "{\"concurrency_limit\":9}").concurrency_limit, 9);
    assert_int_equal(patch(state, &t, "{\"concurrency_limit\":null}").concurrency_limit, 1);
    struct task other = patch(state, &t, "{\"concurrency_key\":\"b\"}");
    assert_str(other.concurrency_key, "b");
    assert_int_equal(other.concurrency_limit, 3);
    struct task none = patch(state, &t, "{\"concurrency_key\":null}");
    assert_str(none.concurrency_key, "");
    assert_int_equal(none.concurrency_limit, 0);
    struct task same = patch(state, &t, "{\"priority\":1}");
    assert_str(same.concurrency_key, "customer-42");
    assert_int_equal(same.concurrency_limit, 3);
}

static void what_waited_for_another_key_waits_no_more(void **state)
{
    struct task t = make(state, "{" HOOK "," KEYED "}");
    t.state = TASK_BLOCKED;
    t.waits_for = S("c:7:customer-42");
    assert_shows(&t, "\"waiting_for\":{\"kind\":\"concurrency_key\",\"key\":\"customer-42\"}");
    struct task same = patch(state, &t, "{\"priority\":1}");
    assert_int_equal(same.state, TASK_BLOCKED);
    assert_str(same.waits_for, "c:7:customer-42");
    static const char *const freeing[] = { "{\"concurrency_key\":\"other\"}", "{\"concurrency_key\":null}",
                                           "{\"concurrency_limit\":2}", "{\"delay\":\"1h\"}" };
    for (size_t i = 0; i < array_count(freeing); i++) {
        struct task p = patch(state, &t, freeing[i]);
        assert_int_equal(p.state, TASK_SCHEDULED);
        assert_str(p.waits_for, "");
        assert_hides(&p, "waiting_for");
    }
    t.waits_for = (struct str){ NULL, 0 }; /* waits for something other than a slot */
    assert_int_equal(patch(state, &t, "{\"concurrency_limit\":2}").state, TASK_BLOCKED);
}

static void a_key_with_a_colon_is_shown_whole(void **state)
{
    struct task t = make(state, "{" HOOK ",\"concurrency_key\":\"a:b: c\"}");
    t.state = TASK_BLOCKED;
    t.waits_for = S("c:7:a:b: c");
    assert_shows(&t, "\"waiting_for\":{\"kind\":\"concurrency_key\",\"key\":\"a:b: c\"}");
    t.waits_for = S("o:0198f000-0000-7000-8000-000000000001");
    assert_shows(&t, "\"waiting_for\":{\"kind\":\"overlap\",\"key\":\"0198f000-0000-7000-8000-000000000001\"}");
}

/* ---- dedupe ---- */

static void a_dedupe_key_has_a_window_and_an_action(void **state)
{
    struct task t = make(state, "{" HOOK "," ONCE "}");
    assert_str(t.dedupe_key, "order-1");
    assert_int_equal(t.dedupe_window_ms, 3600000);
    assert_int_equal(t.dedupe, DEDUPE_RETURN);
    assert_shows(&t, "\"dedupe_key\":\"order-1\",\"dedupe_window_seconds\":3600,\"dedupe_action\":\"RETURN\"");
    struct task moved =
        make(state, "{" HOOK "," ONCE ",\"dedupe_window_seconds\":31622400,\"dedupe_action\":\"RESCHEDULE\"}");
    assert_int_equal(moved.dedupe_window_ms, 31622400000);
    assert_int_equal(moved.dedupe, DEDUPE_RESCHEDULE);
    struct task none = make(state, "{" HOOK "}");
    assert_int_equal(none.dedupe_window_ms, 0);
    assert_hides(&none, "dedupe");
    assert_str(make(state, "{" DAILY HOOK "," ONCE "}").dedupe_key, "order-1");
}

static void a_dedupe_key_stays_as_it_was_made(void **state)
{
    struct task t = make(state, "{" HOOK "," ONCE ",\"dedupe_window_seconds\":60}"), none = make(state, "{" HOOK "}"),
                p;
    static const struct {
        const char *body, *field;
    } rows[] = {
        { "{'dedupe_key':'order-2'}", "dedupe_key" },
        { "{'dedupe_key':null}", "dedupe_key" },
        { "{'dedupe_window_seconds':61}", "dedupe_window_seconds" },
        { "{'dedupe_window_seconds':null}", "dedupe_window_seconds" },
        { "{'dedupe_action':'RESCHEDULE'}", "dedupe_action" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct error e = { 0 };
        assert_int_equal(try_patch_with(state, NULL, &t, rows[i].body, &p, &e), ERR_INVALID);
        assert_string_equal(e.field, rows[i].field);
        assert_says(&e, "cannot be changed; create a new task");
    }
    struct error e = { 0 };
    assert_int_equal(try_patch_with(state, NULL, &none, "{'dedupe_key':'k'}", &p, &e), ERR_INVALID);
    assert_string_equal(e.field, "dedupe_key");
    p = patch(state, &t, "{" ONCE ",\"dedupe_window_seconds\":60,\"dedupe_action\":\"RETURN\",\"name\":\"as it is\"}");
    assert_str(p.dedupe_key, "order-1");
    assert_int_equal(p.dedupe_window_ms, 60000);
    assert_str(patch(state, &none, "{\"dedupe_key\":null}").dedupe_key, "");
}

/* ---- expiry ---- */

static void an_expiry_counts_from_the_wish(void **state)
{
    struct task t = make(state, "{" HOOK ",\"run_at\":\"2026-02-10T09:00:00Z\",\"expires_after_seconds\":600}");
    assert_int_equal(t.expires_after_ms, 600000);
    assert_shows(&t, "\"expires_after_seconds\":600,\"expires_at\":\"2026-02-10T09:10:00.000Z\"");
    struct task r = make(state, "{" DAILY HOOK ",\"expires_after_seconds\":1}");
    assert_int_equal(r.expires_after_ms, 1000);
    assert_shows(&r, "\"expires_after_seconds\":1");
    assert_hides(&r, "expires_at"); /* each occurrence has its own expiry */
    assert_int_equal(patch(state, &t, "{\"expires_after_seconds\":5}").expires_after_ms, 5000);
    assert_int_equal(patch(state, &t, "{\"name\":\"n\"}").expires_after_ms, 600000);
    struct task never = patch(state, &t, "{\"expires_after_seconds\":null}");
    assert_int_equal(never.expires_after_ms, 0);
    assert_hides(&never, "expires");
}

static void what_is_too_late_already_is_taken_all_the_same(void **state)
{
    struct task t = make(state, "{" HOOK ",\"run_at\":\"2020-01-01T00:00:00Z\",\"expires_after_seconds\":60}");
    assert_int_equal(t.state, TASK_SCHEDULED);
    assert_int_equal(t.due_ms, NOW_MS);
    assert_true(task_expires_ms(&t) < NOW_MS);
}

/* ---- calendars ---- */

#define WEEKEND "{\"excluded_weekdays\":[\"SAT\",\"SUN\"],\"excluded\":[\"2026-02-11\"]}" /* NOW_MS is a Tuesday */
#define DAYS    "'cron_expression':'0 8 * * *','target_type':'NOOP'"

static void a_calendar_decides_on_the_first_occurrence(void **state)
{
    struct catalog_cache *b = catalog_cache_with("de", WEEKEND);
    struct error e = { 0 };
    struct task t;
    assert_ok(try_with(state, b, "{" DAYS ",'start_time':'2026-02-10T08:00:01Z','calendar':'de'}", &t, &e), &e);
    assert_str(t.schedule.calendar, "de");
    assert_int_equal(t.schedule.calendar_policy, CALENDAR_SKIP);
    assert_int_equal(t.due_ms, at("2026-02-12T08:00:00Z"));
    assert_int_equal(t.cursor_ms, at("2026-02-11T08:00:00Z")); /* the day that is left out is the first row */
    cleanup_with(buf_release) struct buf out;
    assert_non_null(strstr(shown_with(b, &t, &out), "\"calendar\":\"de\",\"calendar_policy\":\"SKIP\""));
    assert_non_null(strstr(buf_cstr(&out), "\"next_execution\":\"2026-02-12T08:00:00.000Z\""));
    struct task p;
    assert_ok(try_patch_with(state, b, &t, "{'calendar_policy':'NEXT_DAY'}", &p, &e), &e);
    assert_int_equal(p.schedule.calendar_policy, CALENDAR_NEXT_DAY);
    assert_int_equal(p.due_ms, at("2026-02-12T08:00:00Z"));
    assert_ok(try_patch_with(state, b, &p, "{'calendar':null}", &p, &e), &e);
    assert_str(p.schedule.calendar, "");
    assert_int_equal(p.schedule.calendar_policy, CALENDAR_SKIP);
    assert_int_equal(p.cursor_ms, at("2026-02-11T08:00:00Z"));
    catalog_cache_free(b);
}

static void a_calendar_named_again_is_read_again(void **state)
{
    struct catalog_cache *b = catalog_cache_with("de", WEEKEND),
                         *later = catalog_cache_with("de", "{\"excluded\":[\"2026-02-12\"]}");
    struct error e = { 0 };
    struct task t, p;
    assert_ok(try_with(state, b, "{" DAYS ",'start_time':'2026-02-10T08:00:01Z','calendar':'de'}", &t, &e), &e);
    assert_ok(try_patch_with(state, later, &t, "{'name':'n'}", &p, &e), &e);
    assert_int_equal(p.cursor_ms, t.cursor_ms);
    assert_ok(try_patch_with(state, later, &t, "{'calendar':'de'}", &p, &e), &e);
    assert_int_equal(p.cursor_ms, at("2026-02-11T08:00:00Z"));
    catalog_cache_free(b);
    catalog_cache_free(later);
}

static void a_task_whose_calendar_is_gone_can_be_shown_and_edited(void **state)
{
    struct catalog_cache *b = catalog_cache_with("de", WEEKEND);
    struct error e = { 0 };
    struct task t, p;
    assert_ok(try_with(state, b, "{" DAYS ",'calendar':'de'}", &t, &e), &e);
    catalog_cache_remove(b, 7, CATALOG_CALENDAR, S("de"));
    cleanup_with(buf_release) struct buf out;
    assert_non_null(strstr(shown_with(b, &t, &out), "\"calendar\":\"de\""));
    assert_ok(try_patch_with(state, b, &t, "{'priority':1}", &p, &e), &e);
    assert_int_equal(try_patch_with(state, b, &t, "{'cron_expression':'0 9 * * *'}", &p, &e), ERR_INVALID);
    assert_string_equal(e.field, "calendar");
    assert_ok(try_patch_with(state, b, &t, "{'calendar':null}", &p, &e), &e);
    catalog_cache_free(b);
}

/* ---- refusals ---- */

#define N "'target_type':'NOOP'"
/* clang-format off */
static const struct {
    const char *body, *field, *says;
} bad[] = {
    { "{" N ",'calendar':'de'}", "calendar", "is only for recurring tasks" },
    { "{" N ",'calendar_policy':'SKIP'}", "calendar_policy", "is only for recurring tasks" },
    { "{" DAYS ",'calendar_policy':'SKIP'}", "calendar_policy", "needs a calendar" },
    { "{" DAYS ",'calendar':'fr'}", "calendar", "de" },
    { "{" DAYS ",'calendar':''}", "calendar", "must not be empty" },
    { "{" DAYS ",'calendar':'a\\nb'}", "calendar", "control characters" },
    { "{" DAYS ",'calendar':'de','calendar_policy':'NEXT'}", "calendar_policy", "NEXT_DAY" },
    { "{'cron_expression':'0 8 * * SAT','target_type':'NOOP','calendar':'de'}", "calendar",
      "leaves nothing to fire: it excludes every day that the schedule names" },
    { "{" N ",'overlap_policy':'SKIP'}", "overlap_policy", "is only for recurring tasks" },
    { "{" DAYS ",'overlap_policy':'QUEUE'}", "overlap_policy", "QUEUE_ONE" },
    { "{" N ",'concurrency_limit':1}", "concurrency_limit", "needs a concurrency_key" },
    { "{" N ",'concurrency_key':''}", "concurrency_key", "must not be empty" },
    { "{" N ",'concurrency_key':'a\\tb'}", "concurrency_key", "must not hold control characters" },
    { "{" N ",'concurrency_key':7}", "concurrency_key", "must be a string" },
    { "{" N ",'concurrency_key':'k','concurrency_limit':0}", "concurrency_limit", "1" },
    { "{" N ",'concurrency_key':'k','concurrency_limit':10001}", "concurrency_limit", "10000" },
    { "{" N ",'concurrency_key':'k','concurrency_limit':1.5}", "concurrency_limit", "" },
    { "{" N ",'dedupe_window_seconds':60}", "dedupe_window_seconds", "needs a dedupe_key" },
    { "{" N ",'dedupe_action':'RETURN'}", "dedupe_action", "needs a dedupe_key" },
    { "{" N ",'dedupe_key':'k\\u0085'}", "dedupe_key", "must not hold control characters" },
    { "{" N ",'dedupe_key':'k','dedupe_window_seconds':0}", "dedupe_window_seconds", "1" },
    { "{" N ",'dedupe_key':'k','dedupe_window_seconds':31622401}", "dedupe_window_seconds", "31622400" },
    { "{" N ",'dedupe_key':'k','dedupe_action':'DROP'}", "dedupe_action", "RETURN" },
    { "{" DAYS ",'dedupe_key':'k','dedupe_action':'RESCHEDULE'}", "dedupe_action", "use RETURN, and PATCH the task" },
    { "{" N ",'expires_after_seconds':0}", "expires_after_seconds", "1" },
    { "{" N ",'expires_after_seconds':31622401}", "expires_after_seconds", "31622400" },
    { "{" N ",'expires_after_seconds':'10m'}", "expires_after_seconds", "must be" },
    { "{" N ",'waiting_for':{}}", "waiting_for", "is set by Belfry and cannot be given" },
    { "{" N ",'expires_at':null}", "expires_at", "is set by Belfry and cannot be given" },
    { "{" N ",'deduplicated':true}", "deduplicated", "is set by Belfry and cannot be given" },
};
/* clang-format on */

static void impossible_combinations_are_refused_by_field(void **state)
{
    struct catalog_cache *b = catalog_cache_with("de", WEEKEND);
    for (size_t i = 0; i < array_count(bad); i++) {
        struct task t = { .version = 99 };
        struct error e = { 0 };
        enum err rc = try_with(state, b, bad[i].body, &t, &e);
        if (rc != ERR_INVALID || strcmp(e.field, bad[i].field) != 0 || !strstr(e.text, bad[i].says))
            fail_msg("%s: %d '%s' '%s', not '%s' '%s'", bad[i].body, rc, e.field, e.text, bad[i].field, bad[i].says);
        assert_int_equal(t.version, 99);
    }
    struct error e = { 0 };
    struct task t;
    assert_int_equal(try_with(state, NULL, "{" DAYS ",'calendar':'de'}", &t, &e), ERR_INVALID);
    assert_string_equal(e.field, "calendar");
    catalog_cache_free(b);
}

static void keys_at_their_limit_are_taken_and_one_byte_more_is_not(void **state)
{
    static const char *const names[] = { "concurrency_key", "dedupe_key" };
    for (size_t i = 0; i < array_count(names); i++) {
        for (int over = 0; over < 2; over++) {
            char key[202] = { 0 }, body[400];
            memset(key, 'k', (size_t)(200 + over));
            snprintf(body, sizeof body, "{'target_type':'NOOP','%s':'%s'}", names[i], key);
            struct task t;
            struct error e = { 0 };
            assert_int_equal(try_with(state, NULL, body, &t, &e), over ? ERR_INVALID : ERR_OK);
            assert_string_equal(e.field, over ? names[i] : "");
        }
    }
}

/* ---- other fields of a view ---- */

static void a_failure_shows_its_cause_and_how_it_was_resolved(void **state)
{
    struct task t = make(state, "{" HOOK "}");
    assert_hides(&t, "cause");
    assert_hides(&t, "resol");
    t.state = TASK_FAILED;
    t.cause = S("00112233445566ff");
    t.resolved_ms = NOW_MS;
    t.resolution = S("{\"by\":\"ann\"}");
    assert_shows(&t, "\"cause\":\"00112233445566ff\",\"resolved_at\":\"2026-02-10T08:00:00.000Z\","
                     "\"resolution\":{\"by\":\"ann\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(a_concurrency_key_alone_is_a_mutex),
        row(a_limit_is_changed_with_its_key_or_alone),
        row(what_waited_for_another_key_waits_no_more),
        row(a_key_with_a_colon_is_shown_whole),
        row(a_dedupe_key_has_a_window_and_an_action),
        row(a_dedupe_key_stays_as_it_was_made),
        row(an_expiry_counts_from_the_wish),
        row(what_is_too_late_already_is_taken_all_the_same),
        row(a_calendar_decides_on_the_first_occurrence),
        row(a_calendar_named_again_is_read_again),
        row(a_task_whose_calendar_is_gone_can_be_shown_and_edited),
        row(impossible_combinations_are_refused_by_field),
        row(keys_at_their_limit_are_taken_and_one_byte_more_is_not),
        row(a_failure_shows_its_cause_and_how_it_was_resolved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
