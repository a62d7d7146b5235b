#include "check.h"

#include <stdio.h>

#include "server/settings/options.h"
#include "server/settings/secret_url.h"
#include "server/settings/store_url.h"

static void a_password_is_shown_nowhere(void **state)
{
    (void)state;
    static const struct {
        const char *url, *shown;
    } rows[] = {
        { "postgres://ann:s3cret@db/belfry", "postgres://ann:******@db/belfry" },
        { "postgres://ann:s3:c@ret@db:5432,db2:5432/x", "postgres://ann:********@db:5432,db2:5432/x" },
        { "postgres://ann@db:5432/x", "postgres://ann@db:5432/x" },
        { "postgres://db/x?user=ann&password=s3cret&sslmode=require",
          "postgres://db/x?user=ann&password=******&sslmode=require" },
        { "postgres://db?password=a@b:c", "postgres://db?password=*****" },
        { "postgres://ann:s3cret@db?sslpassword=x", "postgres://ann:******@db?sslpassword=*" },
        { "postgresql://", "postgresql://" },
        { "postgres", "postgres" },
        { "", "" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct buf out;
        buf_init(&out, 256);
        secret_url_show(str_from(rows[i].url), &out);
        assert_string_equal(buf_cstr(&out), rows[i].shown);
        buf_release(&out);
    }
}

static enum err read_from(char *argument, struct buf *ret, struct error *e)
{
    struct options o;
    char flag[] = "--store", *argv[] = { flag, argument };
    options_init(&o, server_options, SERVER_OPTION_COUNT);
    assert_ok(options_parse_flags(&o, 2, argv, e), e);
    enum err rc = store_url_read(&o, "store", ret, e);
    options_release(&o);
    return rc;
}

static void an_address_on_the_command_line_is_read_and_covered(void **state)
{
    (void)state;
    char argument[] = "postgres://ann:s3cret@db/belfry";
    struct error e = { 0 };
    struct buf url;
    buf_init(&url, 256);
    assert_ok(read_from(argument, &url, &e), &e);
    assert_string_equal(buf_cstr(&url), "postgres://ann:s3cret@db/belfry");
    assert_string_equal(argument, "postgres://ann:******@db/belfry");
    buf_release(&url);
}

static void what_is_no_address_is_refused_and_not_repeated(void **state)
{
    (void)state;
    char argument[] = "mysql://ann:s3cret@db/belfry", missing[] = "file:/nowhere/at/all";
    struct error e = { 0 };
    struct buf url;
    buf_init(&url, 256);
    assert_int_equal(read_from(argument, &url, &e), ERR_INVALID);
    assert_string_equal(e.field, "--store");
    assert_says(&e, "postgres://");
    assert_null(strstr(e.text, "s3cret"));
    assert_null(strstr(argument, "s3cret"));
    assert_int_equal(read_from(missing, &url, &e), ERR_INVALID);
    assert_says(&e, "/nowhere/at/all");
    buf_release(&url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_password_is_shown_nowhere),
        cmocka_unit_test(an_address_on_the_command_line_is_read_and_covered),
        cmocka_unit_test(what_is_no_address_is_refused_and_not_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
