#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/date.h"
#include "platform/zoneinfo_system.h"
#include "scratch.h"
#include "tzif.h"

/* ---- a directory of zones ---- */

struct folder {
    char path[64];
    struct zoneinfo *zones;
};

static void write_bytes(const struct folder *f, const char *name, struct str bytes)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.p, 1, bytes.n, file), bytes.n);
    assert_int_equal(fclose(file), 0);
}

static void write_zone(const struct folder *f, const char *name, const char *footer)
{
    static const struct tzif_type types[] = { { 0 } };
    struct buf b;
    buf_init(&b, 4096);
    tzif_write(
        &b, &(struct tzif){ .version = '2', .types = types, .type_count = 1, .chars = S("LMT\0"), .footer = footer });
    write_bytes(f, name, buf_str(&b));
    buf_release(&b);
}

static void make_folder(const struct folder *f, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static int empty_folder(void **state)
{
    struct folder *f = xnew(*f);
    snprintf(f->path, sizeof f->path, "/tmp/belfry-zoneinfo-XXXXXX");
    if (!mkdtemp(f->path))
        return -1;
    f->zones = zoneinfo_system_new(f->path);
    *state = f;
    return 0;
}

static int folder_of_zones(void **state)
{
    static const char *const folders[] = { "Europe", "America",      "America/Argentina", "posix",
                                           "right",  "right/Europe", "posix/Europe",      "Etc" };
    static const char *const names[] = { "Europe/Berlin",
                                         "Europe/Paris",
                                         "America/New_York",
                                         "America/Argentina/Buenos_Aires",
                                         "EST",
                                         "right/Europe/Berlin",
                                         "posix/Europe/Berlin",
                                         "Etc/UTC",
                                         "localtime",
                                         "posixrules",
                                         "Factory" };
    if (empty_folder(state))
        return -1;
    struct folder *f = *state;
    for (size_t i = 0; i < array_count(folders); i++)
        make_folder(f, folders[i]);
    for (size_t i = 0; i < array_count(names); i++)
        write_zone(f, names[i], "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
    write_bytes(f, "leapseconds", S("# nothing\n"));
    write_bytes(f, "zone.tab", S("# nothing\n"));
    write_bytes(f, "Europe/Broken", S("TZif"));
    write_bytes(f, ".hidden", S("TZif"));
    zoneinfo_free(f->zones);
    f->zones = zoneinfo_system_new(f->path);
    return 0;
}

static int remove_folder(void **state)
{
    struct folder *f = *state;
    zoneinfo_free(f->zones);
    (void)scratch_remove(f->path);
    free(f);
    return 0;
}

static struct tz *get(struct zoneinfo *zones, const char *name)
{
    struct tz *z = NULL;
    struct error e = { 0 };
    assert_ok(zoneinfo_get(zones, str_from(name), &z, &e), &e);
    assert_string_equal(tz_name(z), name);
    return z;
}

static void refused(struct zoneinfo *zones, const char *name, enum err code, const char *field, const char *sentence)
{
    struct tz *z = NULL;
    struct error e = { 0 };
    assert_int_equal(zoneinfo_get(zones, str_from(name), &z, &e), code);
    assert_string_equal(e.text, sentence);
    assert_string_equal(e.field, field);
    assert_null(z);
}

/* ---- the tests ---- */

static void a_zone_is_read_once(void **state)
{
    struct folder *f = *state;
    struct tz *berlin = get(f->zones, "Europe/Berlin");
    assert_int_equal(tz_local(berlin, 0), 3600);
    write_bytes(f, "Europe/Berlin", S("no longer a zone"));
    struct tz *again = get(f->zones, "Europe/Berlin");
    assert_ptr_equal(again, berlin);
    tz_unref(again);
    tz_unref(berlin);
    struct tz *far = get(f->zones, "America/Argentina/Buenos_Aires");
    tz_unref(far);
}

static void unknown_names_get_the_closest_one(void **state)
{
    struct folder *f = *state;
    static const struct {
        const char *asked, *meant;
    } rows[] = {
        { "Europe/Berln", "Europe/Berlin" },
        { "europe/berlin", "Europe/Berlin" },
        { "berlin", "Europe/Berlin" },
        { "Berln", "Europe/Berlin" },
        { "Germany/Berlin", "Europe/Berlin" },
        { "Europe/Berlin2", "Europe/Berlin" },
        { "Europe/Brokn", "Europe/Broken" },
        { "newyork", "America/New_York" },
        { "America/Newyork", "America/New_York" },
        { "Buenos_Aires", "America/Argentina/Buenos_Aires" },
        { "Est", "EST" },
        { "utc", "UTC" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char sentence[256];
        snprintf(sentence, sizeof sentence, "unknown time zone '%s'; did you mean %s?", rows[i].asked, rows[i].meant);
        refused(f->zones, rows[i].asked, ERR_INVALID, "time_zone", sentence);
    }
    static const char *const nowhere[] = { "Middle/Earth", "Europe/Berlin/Mitte",
                                           "leapseconds",  "localtim",
                                           "Europe",       "Q" };
    for (size_t i = 0; i < array_count(nowhere); i++) {
        char sentence[256];
        snprintf(sentence, sizeof sentence, "unknown time zone '%s'; use one such as Europe/Berlin or UTC", nowhere[i]);
        refused(f->zones, nowhere[i], ERR_INVALID, "time_zone", sentence);
    }
}

static void other_trees_and_other_paths_are_refused(void **state)
{
    struct folder *f = *state;
    refused(f->zones, "right/Europe/Berlin", ERR_INVALID, "time_zone",
            "'right/Europe/Berlin' is not supported; use Europe/Berlin");
    refused(f->zones, "posix/Europe/Berlin", ERR_INVALID, "time_zone",
            "'posix/Europe/Berlin' is not supported; use Europe/Berlin");
    static const char *const unsound[] = { "../Berlin", "/etc/passwd", "Europe//Berlin", "Europe/", "Europe/Ber lin",
                                           "",          "zone.tab" };
    for (size_t i = 0; i < array_count(unsound); i++) {
        char sentence[256];
        snprintf(sentence, sizeof sentence, "'%s' is not a time zone name; use one such as Europe/Berlin or UTC",
                 unsound[i]);
        refused(f->zones, unsound[i], ERR_INVALID, "time_zone", sentence);
    }
}

static void zones_that_differ_between_machines_are_unknown(void **state)
{
    struct folder *f = *state;
    static const char *const names[] = { "localtime", "posixrules", "Factory" };
    for (size_t i = 0; i < array_count(names); i++) {
        char sentence[256];
        snprintf(sentence, sizeof sentence, "unknown time zone '%s'; use one such as Europe/Berlin or UTC", names[i]);
        refused(f->zones, names[i], ERR_INVALID, "time_zone", sentence);
    }
}

static void a_broken_file_says_what_is_wrong(void **state)
{
    struct folder *f = *state;
    refused(f->zones, "Europe/Broken", ERR_CORRUPT, "", "time zone 'Europe/Broken': cut short in its header");
}

static void a_file_that_cannot_be_read_is_not_unknown(void **state)
{
    struct folder *f = *state;
    char sentence[256], path[128];
    snprintf(path, sizeof path, "%s/Loop", f->path);
    assert_int_equal(symlink("Loop", path), 0);
    snprintf(sentence, sizeof sentence, "open '%s': Too many levels of symbolic links", path);
    refused(f->zones, "Loop", ERR_UNAVAILABLE, "", sentence);
}

static void without_tzdata_only_utc_is_there(void **state)
{
    struct folder *f = *state;
    char sentence[128];
    snprintf(sentence, sizeof sentence, "no time zone data in %s: install the package tzdata", f->path);
    refused(f->zones, "Europe/Berlin", ERR_UNAVAILABLE, "", sentence);
    assert_ptr_equal(get(f->zones, "UTC"), tz_utc());
    make_folder(f, "Europe"); /* an installation is noticed without a restart */
    write_zone(f, "Europe/Berlin", "\nCET-1\n");
    tz_unref(get(f->zones, "Europe/Berlin"));
    refused(f->zones, "Europe/Berln", ERR_INVALID, "time_zone",
            "unknown time zone 'Europe/Berln'; did you mean Europe/Berlin?");
    struct zoneinfo *nowhere = zoneinfo_system_new("/nonexistent/zoneinfo");
    refused(nowhere, "Europe/Berlin", ERR_UNAVAILABLE, "",
            "no time zone data in /nonexistent/zoneinfo: install the package tzdata");
    zoneinfo_free(nowhere);
}

static void a_path_too_long_is_refused(void **state)
{
    (void)state;
    char path[5000];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    struct zoneinfo *zones = zoneinfo_system_new(path);
    struct tz *z = NULL;
    struct error e = { 0 };
    assert_int_equal(zoneinfo_get(zones, S("Europe/Berlin"), &z, &e), ERR_UNAVAILABLE);
    assert_says(&e, "path of time zones is too long: xxx");
    zoneinfo_free(zones);
}

static void a_zone_stays_as_it_was_read(void **state)
{
    struct folder *f = *state;
    struct tz *old = get(f->zones, "Europe/Berlin");
    write_zone(f, "Europe/Berlin", "\nMSK-3\n");
    struct tz *cached = get(f->zones, "Europe/Berlin");
    assert_ptr_equal(cached, old);
    tz_unref(cached);
    tz_unref(old);
    struct zoneinfo *restarted = zoneinfo_system_new(f->path);
    struct tz *new = get(restarted, "Europe/Berlin");
    assert_int_equal(tz_local(new, 0), 10800);
    tz_unref(new);
    zoneinfo_free(restarted);
}

static void the_environment_names_the_directory(void **state)
{
    struct folder *f = *state;
    write_zone(f, "Europe/Belfry", "\n<+07>-7\n");
    assert_int_equal(setenv("TZDIR", f->path, 1), 0);
    struct zoneinfo *zones = zoneinfo_system_new(NULL);
    struct tz *z = get(zones, "Europe/Belfry");
    assert_int_equal(tz_local(z, 0), 7 * HOUR_S);
    tz_unref(z);
    zoneinfo_free(zones);
    setenv("TZDIR", "", 1); /* an empty value counts as not set */
    zones = zoneinfo_system_new(NULL);
    struct error e = { 0 };
    assert_int_not_equal(zoneinfo_get(zones, S("Europe/Belfry"), &z, &e), ERR_OK);
    zoneinfo_free(zones);
    unsetenv("TZDIR");
    zoneinfo_free(NULL);
}

/* Past years, which no new tzdata changes. */
static void the_systems_own_zones_are_read(void **state)
{
    (void)state;
    if (access("/usr/share/zoneinfo/Europe/Berlin", R_OK) != 0)
        skip();
    static const struct {
        const char *zone;
        struct civil at;
        int32_t before_s, after_s;
    } rows[] = {
        { "Europe/Berlin", { { 2024, 3, 31 }, 1, 0, 0 }, 3600, 7200 },
        { "America/New_York", { { 2024, 11, 3 }, 6, 0, 0 }, -14400, -18000 },
        { "Australia/Lord_Howe", { { 2024, 4, 6 }, 15, 0, 0 }, 39600, 37800 },
        { "Africa/Cairo", { { 2024, 4, 25 }, 22, 0, 0 }, 7200, 10800 },
        { "America/Santiago", { { 2024, 9, 8 }, 4, 0, 0 }, -14400, -10800 },
        { "Pacific/Chatham", { { 2024, 9, 28 }, 14, 0, 0 }, 45900, 49500 },
        { "Antarctica/Troll", { { 2024, 3, 31 }, 1, 0, 0 }, 0, 7200 },
        { "Pacific/Apia", { { 2011, 12, 30 }, 10, 0, 0 }, -36000, 50400 },
        { "Africa/Casablanca", { { 2024, 3, 10 }, 2, 0, 0 }, 3600, 0 },
        { "Asia/Kathmandu", { { 1985, 12, 31 }, 18, 30, 0 }, 19800, 20700 },
        { "Europe/Dublin", { { 2024, 10, 27 }, 1, 0, 0 }, 3600, 0 },
    };
    struct zoneinfo *zones = zoneinfo_system_new(NULL);
    for (size_t i = 0; i < array_count(rows); i++) {
        struct tz *z = get(zones, rows[i].zone);
        int64_t at = civil_second(rows[i].at);
        struct tz_span s = tz_span_at(z, at);
        if (s.from != at || s.offset_before_s != rows[i].before_s || s.offset_s != rows[i].after_s)
            fail_msg("%s changes at %lld from %d to %d", rows[i].zone, (long long)s.from, s.offset_before_s,
                     s.offset_s);
        tz_unref(z);
    }
    zoneinfo_free(zones);
}

/* Other files in the directory are skipped. */
static void what_is_no_zone_is_never_suggested(void **state)
{
    struct folder *f = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/Dangling", f->path);
    assert_int_equal(symlink("nowhere", path), 0);
    snprintf(path, sizeof path, "%s/Pipework", f->path);
    assert_int_equal(mkfifo(path, 0600), 0);
    write_bytes(f, "Tinyfile", S("TZ"));
    make_folder(f, "Deep");
    make_folder(f, "Deep/Deep");
    make_folder(f, "Deep/Deep/Deep");
    make_folder(f, "Deep/Deep/Deep/Deep");
    write_zone(f, "Deep/Deep/Deep/Deep/Abyssal", "\nCET-1\n");
    write_zone(f, "Deep/Deep/Deep/Bottom", "\nCET-1\n");
    static const char *const asked[] = { "Danglin", "Pipework", "Tinyfile", "Abyssal", "hidden", "posixrule" };
    for (size_t i = 0; i < array_count(asked); i++) {
        char sentence[256];
        snprintf(sentence, sizeof sentence, "unknown time zone '%s'; use one such as Europe/Berlin or UTC", asked[i]);
        refused(f->zones, asked[i], ERR_INVALID, "time_zone", sentence);
    }
    refused(f->zones, "Botom", ERR_INVALID, "time_zone",
            "unknown time zone 'Botom'; did you mean Deep/Deep/Deep/Bottom?");
}

static void a_huge_file_is_not_read_to_its_end(void **state)
{
    struct folder *f = *state;
    char path[128];
    write_zone(f, "Huge", "\nCET-1\n");
    snprintf(path, sizeof path, "%s/Huge", f->path);
    assert_int_equal(truncate(path, 1 << 30), 0);
    refused(f->zones, "Huge", ERR_CORRUPT, "", "time zone 'Huge': has 1048577 bytes, more than 1048576");
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 300 };

static void *ask_again_and_again(void *argument)
{
    struct folder *f = argument;
    static const char *const names[] = { "Europe/Berlin", "America/New_York", "UTC", "Europe/Berln" };
    size_t wrong = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        struct tz *z = NULL;
        const char *name = names[i % array_count(names)];
        enum err rc = zoneinfo_get(f->zones, str_from(name), &z, NULL);
        wrong += (rc == ERR_OK) != (z != NULL) || (rc == ERR_OK && strcmp(tz_name(z), name) != 0);
        tz_unref(z);
    }
    return wrong ? f : NULL;
}

static void threads_share_one_zone(void **state)
{
    struct folder *f = *state;
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_again_and_again, f), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    struct tz *a = get(f->zones, "Europe/Berlin"), *b = get(f->zones, "Europe/Berlin");
    assert_ptr_equal(a, b);
    tz_unref(a);
    tz_unref(b);
}

int main(void)
{
#define with_zones(test) cmocka_unit_test_setup_teardown(test, folder_of_zones, remove_folder)
    const struct CMUnitTest tests[] = {
        with_zones(a_zone_is_read_once),
        with_zones(unknown_names_get_the_closest_one),
        with_zones(other_trees_and_other_paths_are_refused),
        with_zones(zones_that_differ_between_machines_are_unknown),
        with_zones(a_broken_file_says_what_is_wrong),
        with_zones(a_file_that_cannot_be_read_is_not_unknown),
        cmocka_unit_test_setup_teardown(without_tzdata_only_utc_is_there, empty_folder, remove_folder),
        cmocka_unit_test(a_path_too_long_is_refused),
        with_zones(a_zone_stays_as_it_was_read),
        with_zones(the_environment_names_the_directory),
        cmocka_unit_test(the_systems_own_zones_are_read),
        with_zones(what_is_no_zone_is_never_suggested),
        with_zones(a_huge_file_is_not_read_to_its_end),
        with_zones(threads_share_one_zone),
    };
    return cmocka_run_group_tests_name("zoneinfo_system", tests, NULL, NULL);
}
