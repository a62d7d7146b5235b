/* The table of the server's options, the data directory, and secrets. */
#include "server/settings/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static void server_options_have_sound_rows(void **state)
{
    (void)state;
    struct options o;
    options_init(&o, server_options, SERVER_OPTION_COUNT); /* checks every default against its own row */
    assert_str(option_get(&o, "listen")->text, "127.0.0.1:8080");
    assert_int_equal(option_get(&o, "concurrency")->number, 1000);
    assert_int_equal(option_get(&o, "drain-deadline")->number, 30000);
    assert_int_equal(option_get(&o, "retention.tasks")->number, 7 * 86400000LL);
    assert_int_equal(option_get(&o, "log-level")->number, 1);
    for (size_t i = 0; i < SERVER_OPTION_COUNT; i++) {
        const struct option *row = &server_options[i];
        assert_true(row->key || row->flag);
        assert_true(row->help[0] && row->help[strlen(row->help) - 1] != '.');
        for (size_t k = 0; k < i; k++) {
            assert_false(row->key && server_options[k].key && strcmp(row->key, server_options[k].key) == 0);
            assert_false(row->flag && server_options[k].flag && strcmp(row->flag, server_options[k].flag) == 0);
        }
    }
    options_release(&o);
}

static void check_data_dir(const char *flag, const char *expected)
{
    struct options o;
    struct buf out;
    struct error e;
    char argument[64];
    snprintf(argument, sizeof argument, "--data-dir=%s", flag ? flag : "");
    char *const argv[] = { argument };
    options_init(&o, server_options, SERVER_OPTION_COUNT);
    assert_ok(options_parse_flags(&o, flag ? 1 : 0, argv, &e), &e);
    buf_init(&out, 1000);
    options_data_dir(&o, &out);
    assert_str(buf_str(&out), expected);
    buf_release(&out);
    options_release(&o);
}

static void data_directory_is_where_people_expect_it(void **state)
{
    (void)state;
    setenv("HOME", "/h", 1);
    setenv("XDG_DATA_HOME", "/x", 1);
    check_data_dir("/d", "/d");
    check_data_dir(NULL, "/x/belfry");
    setenv("XDG_DATA_HOME", "relative", 1);
    check_data_dir(NULL, "/h/.local/share/belfry");
    setenv("XDG_DATA_HOME", "", 1);
    check_data_dir(NULL, "/h/.local/share/belfry");
    unsetenv("HOME");
    check_data_dir(NULL, "/var/lib/belfry");
}

static void a_file_is_read_into_the_options(void **state)
{
    (void)state;
    char path[] = "/tmp/belfry-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "[worker]\nconcurrency = 7\n", 25), 25);
    close(fd);
    struct options o;
    struct error e;
    options_init(&o, server_options, SERVER_OPTION_COUNT);
    assert_ok(options_read_config_file(&o, path, &e), &e);
    assert_int_equal(option_get(&o, "concurrency")->number, 7);
    assert_int_equal(option_get(&o, "concurrency")->source, FROM_FILE);
    unlink(path);
    assert_int_equal(options_read_config_file(&o, path, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, ": No such file or directory"));
    assert_int_equal(options_read_config_file(&o, "/", &e), ERR_INVALID);
    assert_str(str_from(e.text), "/: Is a directory");
    options_release(&o);
}

static void the_reference_has_a_row_for_every_option(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 65536);
    options_write_reference(&out);
    size_t lines = 0;
    for (size_t i = 0; i < out.n; i++)
        lines += out.p[i] == '\n';
    assert_int_equal(lines, SETTING_COUNT + 2);
    assert_non_null(strstr(buf_cstr(&out),
                           "\n| `worker.concurrency` | `BELFRY_WORKER_CONCURRENCY` | `--concurrency N` | "
                           "`1000` | 1 to 100000 | how many tasks may run at once |\n"));
    assert_non_null(strstr(buf_cstr(&out), " | `--config FILE` |  |  | read settings"));
    assert_non_null(strstr(buf_cstr(&out), "| `false` | `true`, `false` | refuse state-changing"));
    buf_release(&out);
}

static void secrets_come_from_files(void **state)
{
    (void)state;
    char path[] = "/tmp/belfry-secret-XXXXXX", given[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, " bf_x\r\n\n", 8), 8);
    snprintf(given, sizeof given, "file:%s", path);
    struct buf out;
    struct error e;
    buf_init(&out, 1000);
    assert_ok(options_read_secret(str_from(given), "--key", &out, &e), &e);
    assert_str(buf_str(&out), "bf_x");
    buf_reset(&out);
    assert_ok(options_read_secret(S("file"), "--key", &out, &e), &e);
    assert_str(buf_str(&out), "file");
    unlink(path);
    close(fd);
    assert_int_equal(options_read_secret(str_from(given), "--key", &out, &e), ERR_INVALID);
    assert_string_equal(e.field, "--key");
    assert_says(&e, "No such file or directory");
    assert_int_equal(options_read_secret_file(path, &out, &e), ERR_NOT_FOUND);
    assert_int_equal(options_read_secret_file("/", &out, &e), ERR_INVALID);
    assert_says(&e, "Is a directory");
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_options_have_sound_rows),  cmocka_unit_test(data_directory_is_where_people_expect_it),
        cmocka_unit_test(a_file_is_read_into_the_options), cmocka_unit_test(the_reference_has_a_row_for_every_option),
        cmocka_unit_test(secrets_come_from_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
