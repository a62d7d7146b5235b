/* Settings, incidents and messages of notifications. */
#include "check_with_arena.h"

#include <stdio.h>

#include "base/json/json.h"
#include "core/notify/channel_formats.h"

#define NOW INT64_C(1770710400000) /* 2026-02-10T08:00:00Z */
enum { SECOND = 1000, MINUTE = 60000, HOUR = 3600000 };

static struct setting some_setting(void)
{
    struct setting s = setting_default();
    s.name = S("ops");
    s.on_failure = s.on_recovered = true;
    s.kind = CHANNEL_HTTP_WEBHOOK;
    s.channel.url = S("https://hooks.example.com/");
    return s;
}

static struct uuid id_of(int n)
{
    return uuid_derived_from(NOW, (struct uuid){ { 1 } }, n);
}

static struct incident some_incident(bool recurring)
{
    struct incident i = { .id = id_of(1), .setting = id_of(2), .kind = INCIDENT_FAILURE, .cause = S("aa"), .count = 1 };
    struct incident_task t = { .id = id_of(3), .name = S("nightly"), .error = S("HTTP 500"), .attempt = 1 };
    i.first_ms = i.last_ms = NOW;
    assert_true(incident_add_task(&i, &t, recurring ? id_of(4) : (struct uuid){ { 0 } }, &arena));
    return i;
}

/* Carries out what is due; returns the message, or MESSAGE_NONE. */
static enum notification_type look(struct incident *i, const struct setting *s, bool recovered, int64_t now_ms)
{
    struct incident_plan p = incident_plan(i, s, recovered, now_ms);
    incident_carry_out(i, &p, now_ms);
    return p.tell;
}

static void a_setting_comes_back_as_it_was_written(void **state)
{
    (void)state;
    struct setting s = some_setting(), back;
    struct error e = { 0 };
    cleanup_with(buf_release) struct buf doc, again;
    struct jw w;
    struct str to[] = { S("a@example.com"), S("b@example.com") };
    struct setting_step step = { .after_ms = HOUR, .kind = CHANNEL_EMAIL, .channel.to = { to, 2 } };
    s.steps = &step;
    s.step_count = 1;
    s.filter.queue = S("mail*");
    s.channel.secret = S("whsec_x");
    s.muted_until_ms = NOW;
    buf_init(&doc, 65536);
    buf_init(&again, 65536);
    jw_init(&w, &doc);
    jw_object(&w);
    setting_write(&w, &s, false);
    jw_object_end(&w);
    assert_ok(setting_read(buf_str(&doc), &arena, &back, &e), &e);
    jw_init(&w, &again);
    jw_object(&w);
    setting_write(&w, &back, false);
    jw_object_end(&w);
    assert_string_equal(buf_cstr(&doc), buf_cstr(&again));
    assert_ok(setting_check(&back, &e), &e);
    buf_reset(&again);
    jw_init(&w, &again);
    jw_object(&w);
    setting_write(&w, &back, true);
    jw_object_end(&w);
    assert_null(strstr(buf_cstr(&again), "whsec_x"));
}

/* NULL: the url is accepted. */
static void check_url(const char *url, const char *why)
{
    struct setting s = some_setting();
    struct error e = { 0 };
    s.channel.url = str_from(url);
    enum err rc = setting_check(&s, &e);
    if (rc != (why ? ERR_INVALID : ERR_OK) || (why && !strstr(e.text, why)))
        fail_msg("%s: %s", url, e.text);
}

static void the_host_of_a_channel_is_a_name_or_an_address_as_everybody_reads_it(void **state)
{
    (void)state;
    static const char *const good[] = { "https://hooks.example.com",      "http://localhost:8080/x",
                                        "https://a_b-c.example?x=1",      "https://example.com./x",
                                        "https://3com.com/a@b",           "http://192.0.2.1:80/",
                                        "http://[2001:db8::1]:8443/a\\b", "https://Example.COM:0443/" };
    static const char *const hosts[] = { "127.1",      "0x7f.1", "2130706433", "0x7f000001", "127.0.0.1.", "127.0.0.01",
                                         "a.0x1",      "a.7",    ".",          "a..b",       "a..",        ".a",
                                         "[::1",       "[::1]x", "[example]",  "[]",         "a%62",       "a\\b",
                                         "a\\@b.test", "a,b",    "1.2.3.4.5",  "a.1b" };
    static const struct {
        const char *url, *why;
    } rows[] = {
        { "", "must start with https:// or http:// and a host" },
        { "ftp://a.test/", "must start with https:// or http:// and a host" },
        { "https:///x", "must start with https:// or http:// and a host" },
        { "https://a.test/\xc3\xa4", "must be visible ASCII" },
        { "https://me:pw@a.test/", "must not hold a user name or password" },
        { "https://@a.test/", "must not hold a user name or password" },
        { "https://a.test/#x", "must not have a fragment" },
        { "https://a.test:/", "has no valid port" },
        { "https://a.test:0/", "has no valid port" },
        { "https://a.test:-1/", "has no valid port" },
        { "https://a.test:65536/", "has no valid port" },
        { "https://::1/", "has no valid port" },
    };
    for (size_t i = 0; i < array_count(good); i++)
        check_url(good[i], NULL);
    for (size_t i = 0; i < array_count(hosts); i++) {
        char url[64];
        snprintf(url, sizeof url, "https://%s/x", hosts[i]);
        check_url(url, "must have its host written plainly");
    }
    for (size_t i = 0; i < array_count(rows); i++)
        check_url(rows[i].url, rows[i].why);
}

static void a_setting_wants_what_it_says_and_matches_by_prefix(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct task t = { .queue = S("mails"), .name = S("nightly") };
    assert_int_equal(setting_wants(&s), 1U << HIT_FAILURE);
    s.on_dead_letter = s.on_missed = true;
    assert_int_equal(setting_wants(&s), 1U << HIT_FAILURE | 1U << HIT_MISSED);
    s.enabled = false;
    assert_int_equal(setting_wants(&s), 0);
    assert_true(setting_matches(&s, &t));
    s.filter.queue = S("mail*");
    assert_true(setting_matches(&s, &t));
    s.filter.name = S("night");
    assert_false(setting_matches(&s, &t));
}

static void it_is_told_after_the_wait_and_again_after_the_interval(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = some_incident(true);
    assert_int_equal(incident_plan(&i, &s, false, NOW).next_ms, NOW + RECOVERY_EVERY_MS);
    assert_int_equal(look(&i, &s, false, NOW + 9 * SECOND), MESSAGE_NONE);
    assert_int_equal(look(&i, &s, false, NOW + 10 * SECOND), MESSAGE_OPENED);
    assert_int_equal(look(&i, &s, false, NOW + 10 * SECOND), MESSAGE_NONE);
    assert_int_equal(look(&i, &s, false, NOW + 4LL * HOUR), MESSAGE_NONE);
    assert_int_equal(look(&i, &s, false, NOW + 4LL * HOUR + 10 * SECOND), MESSAGE_REPEATED);
    i.acked_ms = NOW;
    assert_int_equal(look(&i, &s, false, NOW + 40LL * HOUR), MESSAGE_NONE);
}

static void a_recovery_is_told_if_it_is_wanted_or_the_only_message(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident told = some_incident(true), untold = some_incident(true);
    assert_int_equal(look(&told, &s, false, NOW + 10 * SECOND), MESSAGE_OPENED);
    assert_int_equal(look(&told, &s, true, NOW + 20 * SECOND), MESSAGE_CLOSED);
    assert_true(told.closed_ms == NOW + 20 * SECOND && told.recovered);
    s.on_recovered = false;
    assert_int_equal(look(&untold, &s, true, NOW + 5 * SECOND), MESSAGE_CLOSED);
    assert_true(untold.closed_ms);
    untold = some_incident(true);
    s.after = 2;
    assert_int_equal(look(&untold, &s, true, NOW + 5 * SECOND), MESSAGE_NONE); /* it was not grave */
    s.after = 1;
    untold = some_incident(true);
    untold.muted_until_ms = NOW + HOUR;
    assert_int_equal(look(&untold, &s, true, NOW + 5 * SECOND), MESSAGE_NONE);
    told = some_incident(true);
    told.told = 1;
    assert_int_equal(look(&told, &s, true, NOW + 20 * SECOND), MESSAGE_NONE);
    assert_true(told.closed_ms);
}

static void one_time_tasks_end_in_silence_after_the_window(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = some_incident(false);
    assert_int_equal(look(&i, &s, false, NOW + 10 * SECOND), MESSAGE_OPENED);
    struct incident_plan p = incident_plan(&i, &s, false, NOW + 20 * SECOND);
    assert_true(!p.close && p.next_ms == NOW + 5LL * MINUTE);
    p = incident_plan(&i, &s, false, NOW + 5LL * MINUTE);
    assert_true(p.close && p.tell == MESSAGE_NONE);
    i.last_ms = NOW + MINUTE; /* one more hit */
    assert_false(incident_plan(&i, &s, false, NOW + 5LL * MINUTE).close);
}

static void an_incident_that_was_not_looked_at_in_time_is_told_before_it_ends(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = some_incident(false);
    assert_int_equal(look(&i, &s, false, NOW + HOUR), MESSAGE_OPENED);
    assert_true(incident_plan(&i, &s, false, NOW + HOUR).close);
}

static void steps_come_in_their_order_until_it_is_acknowledged(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct setting_step steps[] = { { .after_ms = 10LL * MINUTE }, { .after_ms = 30LL * MINUTE } };
    struct incident i = some_incident(true);
    s.steps = steps;
    s.step_count = 2;
    assert_int_equal(look(&i, &s, false, NOW + 10 * SECOND), MESSAGE_OPENED);
    assert_int_equal(look(&i, &s, false, NOW + 10LL * MINUTE), MESSAGE_NONE);
    struct incident_plan p = incident_plan(&i, &s, false, NOW + 11LL * MINUTE);
    assert_true(p.tell == MESSAGE_ESCALATED && p.step == 1);
    incident_carry_out(&i, &p, NOW + 11LL * MINUTE);
    assert_int_equal(look(&i, &s, false, NOW + 12LL * MINUTE), MESSAGE_NONE);
    struct incident acked = i;
    acked.acked_ms = NOW;
    assert_int_equal(look(&acked, &s, false, NOW + 40LL * MINUTE), MESSAGE_NONE);
    assert_int_equal(look(&i, &s, false, NOW + 40LL * MINUTE), MESSAGE_ESCALATED);
    assert_int_equal(i.steps_told, 2);
}

static void a_muted_incident_is_told_when_the_mute_ends(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = some_incident(false);
    i.muted_until_ms = NOW + HOUR;
    assert_int_equal(look(&i, &s, false, NOW + 30LL * MINUTE), MESSAGE_NONE);
    assert_false(i.closed_ms);
    assert_int_equal(look(&i, &s, false, NOW + HOUR), MESSAGE_OPENED);
}

static void after_counts_failures_in_a_row_or_hits(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident one = some_incident(false), many = some_incident(true);
    s.after = 3;
    assert_int_equal(look(&one, &s, false, NOW + MINUTE), MESSAGE_NONE);
    one.count = 3;
    assert_int_equal(look(&one, &s, false, NOW + MINUTE), MESSAGE_OPENED);
    many.count = 50; /* of many recurring tasks, each once */
    assert_int_equal(look(&many, &s, false, NOW + MINUTE), MESSAGE_NONE);
    many.fails = 3;
    assert_int_equal(look(&many, &s, false, NOW + MINUTE), MESSAGE_OPENED);
}

static void successes_and_retries_are_always_groups(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = some_incident(true);
    i.kind = INCIDENT_SUCCESS;
    assert_int_equal(look(&i, &s, false, NOW + 10 * SECOND), MESSAGE_OPENED);
    assert_true(incident_plan(&i, &s, false, NOW + 5LL * MINUTE).close);
    assert_false(incident_is_open(&i)); /* nobody has to look after successes */
    i.kind = INCIDENT_RETRY;
    assert_true(incident_is_open(&i));
}

static void with_every_no_happening_stays_untold(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = some_incident(false);
    s.mode = SETTING_EVERY;
    assert_int_equal(look(&i, &s, false, NOW + 10 * SECOND), MESSAGE_OPENED);
    i.count = 8; /* within a minute */
    i.last_ms = NOW + MINUTE;
    assert_int_equal(incident_plan(&i, &s, false, NOW + MINUTE).next_ms, NOW + 10 * SECOND + 5LL * MINUTE);
    assert_int_equal(look(&i, &s, false, NOW + HOUR), MESSAGE_REPEATED); /* although it could have ended meanwhile */
    assert_true(incident_plan(&i, &s, false, NOW + HOUR).close);
    i.count++;
    i.acked_ms = NOW;
    assert_true(incident_plan(&i, &s, false, NOW + HOUR).close);
}

static void a_task_that_joins_is_told_first_and_ends_an_acknowledgement(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct setting_step step = { .after_ms = 10LL * MINUTE };
    struct incident i = some_incident(true);
    struct incident_task late = { .id = id_of(5), .name = S("payroll") };
    s.steps = &step;
    s.step_count = 1;
    incident_join(&i, &late, NOW);
    assert_true(!i.joined_ms && i.task_count == 1); /* the first message tells of it */
    assert_int_equal(look(&i, &s, false, NOW + 10 * SECOND), MESSAGE_OPENED);
    i.acked_ms = NOW + MINUTE;
    i.acked_by = S("anna");
    assert_true(incident_add_task(&i, &late, late.id, &arena));
    incident_join(&i, &late, NOW + HOUR);
    assert_true(i.task_count == 2 && str_eq(i.tasks[0].name, S("payroll")) && str_eq(i.tasks[1].name, S("nightly")));
    assert_true(!i.acked_ms && !i.acked_by.n);
    struct incident soon = i;
    soon.told_ms = NOW + HOUR + 5 * SECOND; /* a message has just told of others that joined */
    assert_int_equal(look(&soon, &s, false, NOW + HOUR + 14 * SECOND), MESSAGE_NONE);
    assert_int_equal(look(&soon, &s, false, NOW + HOUR + 15 * SECOND), MESSAGE_REPEATED);
    assert_int_equal(look(&i, &s, false, NOW + HOUR + 9 * SECOND), MESSAGE_NONE);
    assert_int_equal(look(&i, &s, false, NOW + HOUR + 10 * SECOND), MESSAGE_REPEATED);
    assert_int_equal(look(&i, &s, false, NOW + HOUR + 9LL * MINUTE), MESSAGE_NONE); /* steps count from this message */
    assert_int_equal(look(&i, &s, false, NOW + HOUR + 11LL * MINUTE), MESSAGE_ESCALATED);
    for (int n = 10; n < 30; n++) {
        late.id = id_of(n);
        assert_true(incident_add_task(&i, &late, late.id, &arena));
        incident_join(&i, &late, NOW + 2LL * HOUR);
        assert_true(i.task_count <= INCIDENT_TASKS_MAX && uuid_eq(i.tasks[0].id, late.id));
    }
}

static void a_message_carries_who_joined_or_leaves_them_to_the_next_one(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = some_incident(true), back, before;
    struct incident_task late = { .id = id_of(5), .name = S("payroll") };
    struct error e = { 0 };
    assert_int_equal(look(&i, &s, false, NOW + 10 * SECOND), MESSAGE_OPENED);
    for (int n = 0; n < 2; n++) { /* the second time it is there already */
        i.count++;
        assert_true(incident_add_task(&i, &late, late.id, &arena));
        incident_join(&i, &late, NOW + 11 * SECOND);
        assert_true(i.joined == 1 && i.task_count == 2);
    }
    before = incident_before_joined(&i); /* a second attempt */
    assert_true(before.task_count == 1 && str_eq(before.tasks[0].name, S("nightly")) && !before.joined);
    assert_int_equal(before.count, i.count - 1);
    cleanup_with(buf_release) struct buf doc;
    struct jw w;
    buf_init(&doc, 1 << 16);
    jw_init(&w, &doc);
    incident_write(&w, &i);
    assert_ok(incident_read(buf_str(&doc), &arena, &back, &e), &e);
    assert_int_equal(back.joined, 1);
    struct incident carried = i;
    incident_tell_joined(&carried); /* the first attempt */
    assert_int_equal(incident_before_joined(&carried).task_count, 2);
    assert_int_equal(look(&carried, &s, false, NOW + HOUR), MESSAGE_NONE);
    assert_int_equal(look(&i, &s, false, NOW + 30 * SECOND), MESSAGE_REPEATED);
    assert_int_equal(i.joined, 0);
    for (int n = 10; n < 30; n++) {
        late.id = id_of(n);
        assert_true(incident_add_task(&i, &late, late.id, &arena));
        incident_join(&i, &late, NOW + 2LL * HOUR);
    }
    assert_int_equal(i.joined, INCIDENT_TASKS_MAX);
    assert_int_equal(incident_before_joined(&i).task_count, 0);
}

/* What the title says of an incident with so many hits, of tasks 1 to `tasks`, that was told so many times before. */
static void check_title_of(int64_t told, int64_t count, int tasks, enum notification_type type, bool changed,
                           const char *expected)
{
    struct setting s = some_setting();
    struct incident i = some_incident(true);
    struct notification m = { .id = id_of(9), .incident = i.id, .type = type, .created_ms = NOW };
    struct channel_facts f = { &m, &i, &s, S("default"), NOW, S("") };
    cleanup_with(buf_release) struct buf title;
    for (int n = 1; n < tasks; n++)
        assert_true(
            incident_add_task(&i, &(struct incident_task){ .id = id_of(20 + n), .name = S("b") }, id_of(40), &arena));
    i.told = told;
    i.count = count;
    i.changed = changed;
    incident_carry_out(&i, &(struct incident_plan){ .close = type == MESSAGE_CLOSED }, NOW);
    buf_init(&title, 65536);
    channel_title(&f, &title);
    assert_string_equal(buf_cstr(&title), expected);
}

static void check_title(int64_t count, int tasks, enum notification_type type, bool changed, const char *expected)
{
    check_title_of(1, count, tasks, type, changed, expected);
}

static void titles_say_what_happened_to_how_many(void **state)
{
    (void)state;
    check_title(1, 1, MESSAGE_OPENED, false, "Belfry: 'nightly' failed");
    check_title(7, 1, MESSAGE_REPEATED, false, "Belfry: 'nightly' (7 times) failed, again");
    check_title(2, 2, MESSAGE_OPENED, false, "Belfry: 'nightly' and 1 other failed");
    check_title(4, 4, MESSAGE_ESCALATED, false,
                "Belfry: 'nightly' and 3 others failed, and nobody has acknowledged it");
    check_title(9, 4, MESSAGE_OPENED, false, "Belfry: 'nightly' and others (9 times) failed");
    check_title(1, 1, MESSAGE_CLOSED, false, "Belfry: 'nightly' recovered");
    check_title(1, 1, MESSAGE_CLOSED, true, "Belfry: 'nightly' no longer counts: it was changed, or has ended");
    check_title_of(0, 3, 1, MESSAGE_CLOSED, false, "Belfry: 'nightly' (3 times) failed, and recovered");
    check_title_of(0, 1, 1, MESSAGE_CLOSED, true,
                   "Belfry: 'nightly' failed, and then no longer counts: it was changed, or has ended");
}

static void a_task_is_shown_once_as_it_was_last(void **state)
{
    (void)state;
    struct incident i = some_incident(true);
    struct incident_task again = { .id = id_of(3), .name = S("nightly"), .error = S("HTTP 503"), .attempt = 2 };
    assert_true(incident_add_task(&i, &again, id_of(4), &arena));
    assert_true(i.task_count == 1 && i.recurring_count == 1);
    assert_str(i.tasks[0].error, "HTTP 503");
    for (int n = 0; n < 2 * INCIDENT_TASKS_MAX; n++)
        assert_true(
            incident_add_task(&i, &(struct incident_task){ .id = id_of(100 + n) }, (struct uuid){ { 0 } }, &arena));
    assert_true(i.task_count == INCIDENT_TASKS_MAX);
}

static void texts_for_slack_end_at_a_character(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = some_incident(false);
    struct notification m = { .id = id_of(9), .incident = i.id, .type = MESSAGE_OPENED, .created_ms = NOW };
    struct channel_facts f = { &m, &i, &s, S("default"), NOW, S("") };
    cleanup_with(buf_release) struct buf out;
    char error[2000];
    memset(error, '<', sizeof error);
    i.tasks[0].error = (struct str){ error, sizeof error };
    buf_init(&out, 65536);
    channel_slack(&f, &out);
    assert_non_null(strstr(buf_cstr(&out), "&lt;&lt;\"}}]}")); /* the last entity is whole */
}

static void a_failed_task_is_one_dead_letter_and_not_a_failure_too(void **state)
{
    (void)state;
    struct setting s = some_setting();
    enum incident_kind kind;
    assert_true(incident_kind_of(&s, HIT_FAILURE, true, &kind) && kind == INCIDENT_FAILURE);
    s.on_dead_letter = true;
    assert_true(incident_kind_of(&s, HIT_FAILURE, true, &kind) && kind == INCIDENT_DEAD_LETTER);
    assert_true(incident_kind_of(&s, HIT_FAILURE, false, &kind) && kind == INCIDENT_FAILURE);
    s.on_failure = false;
    assert_false(incident_kind_of(&s, HIT_FAILURE, false, &kind));
    assert_false(incident_kind_of(&s, HIT_SUCCESS, false, &kind));
}

static void an_incident_comes_back_as_it_was_written(void **state)
{
    (void)state;
    struct incident i = some_incident(true), back;
    struct error e = { 0 };
    cleanup_with(buf_release) struct buf doc, again;
    struct jw w;
    for (int k = 0; k < 30; k++) {
        struct incident_task t = { .id = id_of(100 + k), .http_status = 500, .scheduled_ms = NOW };
        assert_true(incident_add_task(&i, &t, id_of(200 + k % 20), &arena));
    }
    assert_true(i.task_count == INCIDENT_TASKS_MAX && i.recurring_count == 21);
    i.acked_by = S("ann");
    buf_init(&doc, 65536);
    buf_init(&again, 65536);
    jw_init(&w, &doc);
    incident_write(&w, &i);
    assert_ok(incident_read(buf_str(&doc), &arena, &back, &e), &e);
    jw_init(&w, &again);
    incident_write(&w, &back);
    assert_string_equal(buf_cstr(&doc), buf_cstr(&again));
    assert_int_equal(incident_read(S("{}"), &arena, &back, &e), ERR_CORRUPT);
}

static void an_alert_is_told_whatever_mode_and_after_and_ends_when_its_rule_does(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = { .id = id_of(1), .kind = INCIDENT_ALERT, .cause = S("BelfryLate"), .count = 1 };
    s.mode = SETTING_EVERY;
    s.after = 10;
    i.first_ms = i.last_ms = NOW;
    assert_int_equal(look(&i, &s, false, NOW), MESSAGE_NONE);
    assert_int_equal(look(&i, &s, false, NOW + s.group_wait_ms), MESSAGE_OPENED);
    assert_int_equal(look(&i, &s, false, NOW + HOUR), MESSAGE_NONE);
    assert_int_equal(i.closed_ms, 0);
    assert_int_equal(look(&i, &s, false, NOW + 5 * HOUR), MESSAGE_REPEATED);
    assert_int_equal(look(&i, &s, true, NOW + 6 * HOUR), MESSAGE_CLOSED);
    assert_true(i.recovered && i.closed_ms == NOW + 6 * HOUR);
    s.on_failure = s.on_recovered = false;
    assert_int_equal(setting_check(&s, &(struct error){ 0 }), ERR_INVALID);
    s.on_alert = true;
    assert_int_equal(setting_check(&s, &(struct error){ 0 }), ERR_OK);
    assert_int_equal(setting_wants(&s), 0);
}

static void names_stay_on_their_line(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = some_incident(false);
    struct notification m = { .id = id_of(9), .incident = i.id, .type = MESSAGE_OPENED, .created_ms = NOW };
    struct channel_facts f = { &m, &i, &s, S("default"), NOW, S("") };
    cleanup_with(buf_release) struct buf title, text;
    i.tasks[0].name = S("a\r\nKind: SUCCESS\xe2\x80\xae\xff z");
    buf_init(&title, 65536);
    buf_init(&text, 65536);
    channel_title(&f, &title);
    channel_text(&f, &text);
    assert_string_equal(buf_cstr(&title), "Belfry: 'a  Kind: SUCCESS   z' failed");
    assert_null(strstr(buf_cstr(&text), "\nKind: SUCCESS"));
    assert_non_null(strstr(buf_cstr(&text), "\n- a  Kind: SUCCESS   z ("));
}

static void a_text_says_the_reason_first_and_ids_last(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = some_incident(false);
    struct notification m = { .id = id_of(9), .incident = i.id, .type = MESSAGE_OPENED, .created_ms = NOW };
    struct channel_facts f = { &m, &i, &s, S("default"), NOW, S("") };
    static const char *const lines[] = {
        "Reason: HTTP 500\n", "- ",        "Host: api.example.com\n", "First: ", "Kind: ", "Cause: ",
        "Incident: ",         "Setting: ", "Tenant: default\n"
    };
    cleanup_with(buf_release) struct buf text;
    i.host = S("api.example.com");
    buf_init(&text, 65536);
    channel_text(&f, &text);
    const char *rest = buf_cstr(&text);
    for (size_t k = 0; k < array_count(lines); k++, rest = strchr(rest, '\n') + 1)
        assert_memory_equal(rest, lines[k], strlen(lines[k]));
    assert_string_equal(rest, "");
    m.type = MESSAGE_CLOSED;
    buf_reset(&text);
    channel_text(&f, &text);
    assert_memory_equal(buf_cstr(&text), "It was: HTTP 500\n", 17);
}

static void messages_are_tried_eight_times_within_a_day(void **state)
{
    (void)state;
    static const int64_t delays[] = { 5, 20, 80, 320, 1280, 3600, 3600 };
    struct notification m = { .created_ms = NOW };
    for (size_t i = 0; i < array_count(delays); i++) {
        m.attempts = (int64_t)i + 1;
        assert_int_equal(notification_retry_at(&m, -1, NOW), NOW + delays[i] * SECOND);
    }
    m.attempts = 1;
    assert_int_equal(notification_retry_at(&m, 60 * SECOND, NOW), NOW + MINUTE);
    assert_int_equal(notification_retry_at(&m, -1, NOW + 24LL * HOUR), 0);
    int64_t last = NOW + 24LL * HOUR - MINUTE; /* Retry-After does not end a message */
    assert_int_equal(notification_retry_at(&m, 24LL * HOUR, NOW), last);
    assert_int_equal(notification_retry_at(&m, 2LL * HOUR, NOW + 23LL * HOUR), last);
    assert_int_equal(notification_retry_at(&m, 24LL * HOUR, last), last + 5 * SECOND);
    assert_int_equal(notification_retry_at(&m, 24LL * HOUR, last + 59 * SECOND), 0);
    m.attempts = MESSAGE_ATTEMPTS_MAX;
    assert_int_equal(notification_retry_at(&m, -1, NOW), 0);
    m = (struct notification){ .created_ms = NOW, .type = MESSAGE_TEST, .attempts = 1 };
    assert_int_equal(notification_retry_at(&m, -1, NOW), 0);
}

static void a_message_that_is_sent_again_keeps_its_past_and_has_eight_attempts(void **state)
{
    (void)state;
    int64_t later = NOW + 48LL * HOUR;
    struct notification m = { .created_ms = NOW, .sent_ms = NOW, .attempts = 8, .state = MESSAGE_FAILED };
    assert_true(notification_is_used_up(&m));
    notification_resend(&m, later);
    assert_true(m.state == MESSAGE_WAITING && m.created_ms == NOW && m.sent_ms == NOW && m.attempts == 8);
    assert_false(notification_is_used_up(&m));
    m.attempts = 10;
    assert_int_equal(notification_retry_at(&m, -1, later), later + 20 * SECOND);
    m.attempts = 16;
    assert_true(notification_is_used_up(&m));
}

static void the_history_keeps_the_first_and_the_latest(void **state)
{
    (void)state;
    struct incident i = some_incident(true);
    struct notification m = { .id = id_of(9), .setting = id_of(1), .type = MESSAGE_OPENED, .created_ms = NOW }, back;
    struct error e = { 0 };
    cleanup_with(buf_release) struct buf doc, again;
    struct jw w;
    char name[300];
    memset(name, 'n', sizeof name);
    for (int k = 0; k < 50; k++) {
        struct notification_act act = { .at_ms = NOW + k, .what = MESSAGE_ACT_FAILED, .error = { name, sizeof name } };
        assert_true(notification_add_act(&m, &act, &arena));
    }
    assert_int_equal(m.history_count, MESSAGE_HISTORY_MAX);
    assert_true(m.history[0].at_ms == NOW && m.history[1].at_ms == NOW + 31 && m.history[19].at_ms == NOW + 49);
    assert_int_equal(m.history[19].error.n, MESSAGE_ACT_TEXT_MAX);
    notification_set_about(&m, &i);
    buf_init(&doc, 65536);
    buf_init(&again, 65536);
    jw_init(&w, &doc);
    notification_write(&w, &m);
    assert_ok(notification_read(buf_str(&doc), &arena, &back, &e), &e);
    jw_init(&w, &again);
    notification_write(&w, &back);
    assert_string_equal(buf_cstr(&doc), buf_cstr(&again));
    assert_str(back.kind, incident_kind_names[i.kind]);
    assert_true(back.history_count == MESSAGE_HISTORY_MAX && uuid_eq(back.task, m.task));
}

static void an_attempt_whose_node_died_is_made_again_for_a_day(void **state)
{
    (void)state;
    struct notification m = { .created_ms = NOW, .attempts = 1 };
    for (int64_t i = 0; i < 2LL * MESSAGE_ATTEMPTS_MAX; i++) {
        assert_true(notification_take(&m, NOW + i));
        assert_true(m.state == MESSAGE_SENDING && m.attempts == 2);
    }
    assert_false(notification_take(&m, NOW + 24LL * HOUR));
    assert_true(m.state == MESSAGE_FAILED && m.attempts == 2 && m.error.n);
    struct notification late = { .created_ms = NOW };
    assert_true(notification_take(&late, NOW + 24LL * HOUR)); /* nobody has sent it yet */
    assert_int_equal(late.attempts, 1);
}

static void mail_has_the_headers_that_a_machine_must_send(void **state)
{
    (void)state;
    struct setting s = some_setting();
    struct incident i = some_incident(true);
    struct notification m = { .id = id_of(9), .incident = i.id, .type = MESSAGE_OPENED, .created_ms = NOW };
    struct str to[] = { S("a@example.com"), S("b@example.com") };
    struct channel c = { .to = { to, 2 } };
    struct channel_facts f = { &m, &i, &s, S("default"), NOW, S("") };
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, 65536);
    channel_mail(&f, &c, S("belfry@example.com"), &out);
    const char *text = buf_cstr(&out);
    assert_non_null(strstr(text, "To: a@example.com,\r\n b@example.com\r\n"));
    assert_non_null(strstr(text, "Subject: =?utf-8?B?"));
    assert_non_null(strstr(text, "Date: 10 Feb 2026 08:00:00 +0000\r\n"));
    assert_non_null(strstr(text, "Auto-Submitted: auto-generated\r\n"));
    assert_non_null(strstr(text, "In-Reply-To: <"));
    assert_non_null(strstr(text, "\r\n\r\n"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, arena_set_up, arena_tear_down)
    const struct CMUnitTest tests[] = {
        T(a_setting_comes_back_as_it_was_written),
        T(the_host_of_a_channel_is_a_name_or_an_address_as_everybody_reads_it),
        T(a_setting_wants_what_it_says_and_matches_by_prefix),
        T(it_is_told_after_the_wait_and_again_after_the_interval),
        T(a_recovery_is_told_if_it_is_wanted_or_the_only_message),
        T(one_time_tasks_end_in_silence_after_the_window),
        T(an_incident_that_was_not_looked_at_in_time_is_told_before_it_ends),
        T(steps_come_in_their_order_until_it_is_acknowledged),
        T(a_muted_incident_is_told_when_the_mute_ends),
        T(after_counts_failures_in_a_row_or_hits),
        T(successes_and_retries_are_always_groups),
        T(with_every_no_happening_stays_untold),
        T(a_task_that_joins_is_told_first_and_ends_an_acknowledgement),
        T(a_message_carries_who_joined_or_leaves_them_to_the_next_one),
        T(titles_say_what_happened_to_how_many),
        T(a_task_is_shown_once_as_it_was_last),
        T(texts_for_slack_end_at_a_character),
        T(a_failed_task_is_one_dead_letter_and_not_a_failure_too),
        T(an_incident_comes_back_as_it_was_written),
        T(an_alert_is_told_whatever_mode_and_after_and_ends_when_its_rule_does),
        T(names_stay_on_their_line),
        T(a_text_says_the_reason_first_and_ids_last),
        T(messages_are_tried_eight_times_within_a_day),
        T(a_message_that_is_sent_again_keeps_its_past_and_has_eight_attempts),
        T(the_history_keeps_the_first_and_the_latest),
        T(an_attempt_whose_node_died_is_made_again_for_a_day),
        T(mail_has_the_headers_that_a_machine_must_send),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
