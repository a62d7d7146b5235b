/* core/time/crontab: which lines call a URL, and why the others are refused. */
#include "check.h"
#include "core/time/crontab.h"

static struct crontab_line read_line(const char *text, bool has_user, struct arena *a)
{
    struct crontab_line l;
    crontab_read(str_from(text), has_user, a, &l);
    return l;
}

static void a_line_that_calls_a_url_becomes_a_call(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    struct crontab_line l = read_line(
        "0 3 * * 1-5\tcurl -fsS -X PUT -H 'X-Team: a b' -d \"{\\\"a\\\": 1}\" -m 20 https://e.example/x?y=1 >/dev/null 2>&1",
        false, &a);
    assert_int_equal(l.kind, CRONTAB_CALL);
    assert_str(l.schedule, "0 3 * * 1-5");
    assert_str(l.call.url, "https://e.example/x?y=1");
    assert_str(l.call.method, "PUT");
    assert_str(l.call.body, "{\"a\": 1}");
    assert_int_equal(l.call.header_count, 1);
    assert_str(l.call.headers[0], "X-Team: a b");
    assert_int_equal(l.call.timeout_ms, 20000);
    l = read_line("@hourly www-data /usr/bin/wget --quiet --post-data='x' http://e.example/", true, &a);
    assert_int_equal(l.kind, CRONTAB_CALL);
    assert_str(l.schedule, "@hourly");
    assert_str(l.call.body, "x");
    assert_str(l.call.method, "");
    arena_release(&a);
}

static void comments_settings_and_blank_lines_are_told_apart(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    assert_int_equal(read_line("  \t", false, &a).kind, CRONTAB_NOTHING);
    struct crontab_line l = read_line(" #  Nightly report ", false, &a);
    assert_int_equal(l.kind, CRONTAB_COMMENT);
    assert_str(l.text, "Nightly report");
    l = read_line("CRON_TZ = \"Europe/Berlin\"", false, &a);
    assert_int_equal(l.kind, CRONTAB_SETTING);
    assert_str(l.name, "CRON_TZ");
    assert_str(l.text, "Europe/Berlin");
    arena_release(&a);
}

static void what_cannot_be_taken_over_is_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } rows[] = {
        { "@reboot curl http://e.example", "when the machine starts" },
        { "61 * * * * curl http://e.example", "61" },
        { "* * * *", "too few fields" },
        { "* * * * *", "no command" },
        { "0 0 * * * /usr/local/bin/backup.sh --all", "runs a program, 'backup.sh'" },
        { "0 0 * * * curl http://e.example | mail root", "'|'" },
        { "0 0 * * * curl http://e.example && curl http://f.example", "'&'" },
        { "0 0 * * * curl http://e.example/$(date)", "'$'" },
        { "0 0 * * * curl \"http://e.example/`date`\"", "'`'" },
        { "0 0 * * * curl http://e.example/%Y", "new line" },
        { "0 0 * * * curl 'http://e.example", "quote" },
        { "0 0 * * * curl -k https://e.example", "'-k'" },
        { "0 0 * * * curl -d @/etc/passwd https://e.example", "file" },
        { "0 0 * * * curl -d a -d b https://e.example", "more than one piece" },
        { "0 0 * * * curl ftp://e.example", "not an http" },
        { "0 0 * * * curl http://a.example http://b.example", "more than one URL" },
        { "0 0 * * * curl -s", "no URL" },
        { "0 0 * * * curl https://e.example -X", "no value" },
        { "0 0 * * * curl -m soon https://e.example", "whole number" },
    };
    struct arena a;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < array_count(rows); i++) {
        struct crontab_line l = read_line(rows[i].line, false, &a);
        assert_int_equal(l.kind, CRONTAB_REFUSED);
        if (!strstr(l.reason.text, rows[i].says))
            fail_msg("%s: %s", rows[i].line, l.reason.text);
    }
    assert_int_equal(read_line("0 0 * * * curl http://e.example/\\%Y", false, &a).kind, CRONTAB_CALL);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_that_calls_a_url_becomes_a_call),
        cmocka_unit_test(comments_settings_and_blank_lines_are_told_apart),
        cmocka_unit_test(what_cannot_be_taken_over_is_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
