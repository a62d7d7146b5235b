#include "check.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/prng.h"
#include "random_bytes.h"

static int64_t fixed_ms(void *context)
{
    return *(int64_t *)context;
}

static int64_t now_ms = 1770710400123;
static char text[1 << 20]; /* the text that the last call of `written` read */

/* A memory file that the log writes to. */
static int open_log(enum log_format format, enum log_level level)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(fd >= 0);
    log_open(&(struct log_setup){ .fd = fd, .format = format, .level = level, .now_ms = fixed_ms, .context = &now_ms });
    return fd;
}

static struct str written(int fd)
{
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    close(fd);
    return (struct str){ text, (size_t)n };
}

static json_t *parsed(struct str line)
{
    json_error_t e;
    json_t *v = json_loadb(line.p, line.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!v)
        fail_msg("%s: " STR_FMT, e.text, STR_ARG(line));
    return v;
}

static void nothing_is_written_before_it_is_opened(void **state)
{
    (void)state;
    assert_false(log_wants(LOG_ERROR));
    log_error("too_early");
    log_event(LOG_ERROR, "too_early", NULL, 0);
}

static void json_lines_have_time_level_event_and_fields(void **state)
{
    (void)state;
    int fd = open_log(LOG_JSON, LOG_DEBUG);
    struct error e;
    assert_int_equal(error_set(&e, ERR_UNAVAILABLE, "disk \"sda\" gone"), ERR_UNAVAILABLE);
    log_warn("claim_failed", kv_err(&e), kv_i64("retry_ms", 5));
    log_debug("started");
    assert_str(written(fd), "{\"time\":\"2026-02-10T08:00:00.123Z\",\"level\":\"warn\",\"event\":\"claim_failed\","
                            "\"error\":\"disk \\\"sda\\\" gone\",\"retry_ms\":5}\n"
                            "{\"time\":\"2026-02-10T08:00:00.123Z\",\"level\":\"debug\",\"event\":\"started\"}\n");
}

static void lines_name_the_request_that_their_thread_works_for(void **state)
{
    (void)state;
    char id[] = "order-7";
    int fd = open_log(LOG_LOGFMT, LOG_INFO);
    {
        cleanup_with(log_request_leave) struct log_request before = log_request_enter(str_from(id));
        memset(id, 'x', sizeof id - 1); /* it was copied */
        log_info("a", kv_i64("n", 1));
        log_info("b", kv_cstr("request", "order-7"));
        log_info("c", kv_cstr("request", "order-8"));
        {
            cleanup_with(log_request_leave) struct log_request outer = log_request_enter(S(""));
            log_info("d");
        }
        log_info("e");
    }
    log_info("f");
#define AT "time=2026-02-10T08:00:00.123Z level=info event="
    assert_str(written(fd), AT "a n=1 request=order-7\n" AT "b request=order-7\n" AT
                               "c request=order-8 by_request=order-7\n" AT "d\n" AT "e request=order-7\n" AT "f\n");
#undef AT
}

static void every_kind_of_value_has_its_form(void **state)
{
    (void)state;
    struct uuid id;
    assert_true(uuid_parse(S("01890a5d-ac96-774b-bcce-b302099a8057"), &id));
    for (enum log_format format = LOG_LOGFMT; format <= LOG_JSON; format++) {
        int fd = open_log(format, LOG_INFO);
        log_error("kinds", kv_str("s", S("a b")), kv_cstr("bare", "a-b/c:1"), kv_cstr("none", NULL), kv_i64("i", -1),
                  kv_u64("u", UINT64_MAX), kv_f64("f", 0.5), kv_f64("nan", (double)NAN), kv_bool("b", true),
                  kv_uuid("id", id));
        const char *expected =
            format == LOG_JSON
                ? "{\"time\":\"2026-02-10T08:00:00.123Z\",\"level\":\"error\",\"event\":\"kinds\",\"s\":\"a b\","
                  "\"bare\":\"a-b/c:1\",\"none\":\"\",\"i\":-1,\"u\":18446744073709551615,\"f\":0.5,\"nan\":null,"
                  "\"b\":true,\"id\":\"01890a5d-ac96-774b-bcce-b302099a8057\"}\n"
                : "time=2026-02-10T08:00:00.123Z level=error event=kinds s=\"a b\" bare=a-b/c:1 none=\"\" i=-1 "
                  "u=18446744073709551615 f=0.5 nan=null b=true id=01890a5d-ac96-774b-bcce-b302099a8057\n";
        assert_str(written(fd), expected);
    }
}

static void an_error_without_a_sentence_says_its_code(void **state)
{
    (void)state;
    int fd = open_log(LOG_LOGFMT, LOG_INFO);
    log_info("x", kv_err(&(struct error){ .code = ERR_NOT_FOUND }));
    assert_str(written(fd), "time=2026-02-10T08:00:00.123Z level=info event=x error=\"not found\"\n");
}

static void values_cannot_forge_lines_fields_or_directions(void **state)
{
    (void)state;
    int fd = open_log(LOG_LOGFMT, LOG_INFO);
    log_info("x", kv_cstr("v", "a\nlevel=error b\x1b[2J\xe2\x80\xae\xff"), kv_cstr("w", "k=v"), kv_cstr("q", "\""),
             kv_cstr("r", "\\"), kv_cstr("s", "\x7f"), kv_cstr("t", "ü"));
    assert_str(written(fd), "time=2026-02-10T08:00:00.123Z level=info event=x "
                            "v=\"a\\nlevel=error b\\u001b[2J\\u202e\\ufffd\" w=\"k=v\" q=\"\\\"\" r=\"\\\\\" "
                            "s=\"\\u007f\" t=\"ü\"\n");
}

static void what_lies_below_the_level_is_not_written_nor_evaluated(void **state)
{
    (void)state;
    int fd = open_log(LOG_JSON, LOG_WARN);
    int asked = 0;
    log_info("quiet", kv_i64("n", ++asked));
    log_event(LOG_DEBUG, "quiet", NULL, 0);
    assert_int_equal(asked, 0);
    assert_false(log_wants(LOG_INFO));
    assert_true(log_wants(LOG_WARN));
    assert_int_equal(written(fd).n, 0);
}

static void a_long_value_is_cut_at_a_character_with_a_mark(void **state)
{
    (void)state;
    char long_text[LOG_VALUE_MAX + 10];
    memset(long_text, 'x', sizeof long_text);
    memcpy(long_text + LOG_VALUE_MAX - 1, "ü", 2); /* across the limit */
    for (enum log_format format = LOG_LOGFMT; format <= LOG_JSON; format++) {
        int fd = open_log(format, LOG_INFO);
        log_info("x", kv_str("v", (struct str){ long_text, sizeof long_text }));
        struct str line = written(fd);
        assert_non_null(strstr(line.p, "xxx…\""));
        assert_null(strstr(line.p, "ü"));
        assert_null(strstr(line.p, "truncated"));
        size_t xs = 0;
        for (size_t i = 0; i < line.n; i++)
            xs += line.p[i] == 'x';
        assert_int_equal(xs, LOG_VALUE_MAX - 1 + 1 /* the event's name */);
    }
    int fd = open_log(LOG_LOGFMT, LOG_INFO);
    log_info("e", kv_str("v", (struct str){ long_text, LOG_VALUE_MAX - 1 }));
    assert_null(strstr(written(fd).p, "…")); /* a value that just fits is not truncated */
}

static void a_long_line_loses_fields_but_stays_valid(void **state)
{
    (void)state;
    char big[LOG_VALUE_MAX];
    memset(big, '\x01', sizeof big); /* six bytes each once escaped */
    struct str v = { big, sizeof big };
    int fd = open_log(LOG_JSON, LOG_INFO);
    log_info("e", kv_str("a", v), kv_str("b", v), kv_i64("c", 3), kv_str("d", v));
    struct str line = written(fd);
    assert_true(line.n <= LOG_LINE_MAX);
    json_t *o = parsed(line);
    assert_int_equal(json_string_length(json_object_get(o, "a")), LOG_VALUE_MAX);
    assert_null(json_object_get(o, "b"));
    assert_int_equal(json_integer_value(json_object_get(o, "c")), 3);
    assert_true(json_is_true(json_object_get(o, "truncated")));
    json_decref(o);
    fd = open_log(LOG_LOGFMT, LOG_INFO);
    log_info("e", kv_str("a", v), kv_str("b", v));
    line = written(fd);
    assert_non_null(strstr(line.p, "\" truncated=true\n"));
}

/* Fields that fill a line to its last byte, and one byte more. */
static void a_line_may_be_exactly_as_long_as_allowed(void **state)
{
    (void)state;
    char fill[LOG_VALUE_MAX];
    memset(fill, 'x', sizeof fill);
    for (size_t last = 0; last < LOG_VALUE_MAX; last++) {
        struct kv kvs[8];
        for (size_t i = 0; i < 7; i++)
            kvs[i] = kv_str("k", (struct str){ fill, LOG_VALUE_MAX });
        kvs[7] = kv_str("z", (struct str){ fill, last });
        int fd = open_log(LOG_LOGFMT, LOG_INFO);
        log_event(LOG_INFO, "e", kvs, 8);
        struct str line = written(fd);
        assert_true(line.n <= LOG_LINE_MAX && line.p[line.n - 1] == '\n');
        bool dropped = !strstr(line.p, " z=");
        assert_int_equal(dropped, strstr(line.p, " truncated=true\n") != NULL);
    }
}

static void any_bytes_make_a_line_that_parses(void **state)
{
    (void)state;
    struct prng r;
    prng_init(&r, 2026);
    for (int i = 0; i < 300; i++) {
        char bytes[4][LOG_VALUE_MAX + 100];
        struct kv kvs[4];
        static const char *const keys[] = { "a", "b_2", "c", "d" };
        for (size_t k = 0; k < 4; k++) {
            size_t n = prng_below(&r, sizeof bytes[k]);
            random_bytes(&r, bytes[k], n);
            kvs[k] = kv_str(keys[k], (struct str){ bytes[k], n });
        }
        int fd = open_log(LOG_JSON, LOG_INFO);
        log_event(LOG_INFO, "random", kvs, prng_below(&r, 5));
        struct str line = written(fd);
        assert_true(line.n <= LOG_LINE_MAX && str_find(line, '\n', 0) == line.n - 1);
        json_decref(parsed(line));
    }
}

static void a_terminal_gets_logfmt_and_a_file_json(void **state)
{
    (void)state;
    int fd = open_log(LOG_AUTO, LOG_INFO);
    log_info("e");
    assert_int_equal(written(fd).p[0], '{');
    int master, slave;
    if (openpty(&master, &slave, NULL, NULL, NULL) != 0) {
        skip();
        return;
    }
    log_open(&(struct log_setup){ .fd = slave, .now_ms = fixed_ms, .context = &now_ms });
    log_info("e");
    ssize_t n = read(master, text, sizeof text);
    assert_true(n > 5 && memcmp(text, "time=", 5) == 0);
    close(master);
    close(slave);
}

static void *write_many(void *arg)
{
    char fill[500];
    memset(fill, *(char *)arg, sizeof fill);
    for (int i = 0; i < 200; i++)
        log_info("many", kv_str("v", (struct str){ fill, sizeof fill }));
    return NULL;
}

static void lines_of_several_threads_never_mix(void **state)
{
    (void)state;
    int fd = memfd_create("log", MFD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
    log_open(
        &(struct log_setup){ .fd = fd, .format = LOG_JSON, .level = LOG_INFO, .now_ms = fixed_ms, .context = &now_ms });
    pthread_t threads[4];
    char letters[] = "abcd";
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &letters[i]), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    struct str rest = written(fd), line;
    size_t lines = 0;
    for (; str_cut(&rest, '\n', &line); lines++) {
        json_t *o = parsed(line);
        const char *v = json_string_value(json_object_get(o, "v"));
        assert_int_equal(strspn(v, (char[]){ v[0], '\0' }), 500);
        json_decref(o);
    }
    assert_int_equal(lines, 800);
}

static void *drain_slowly(void *arg)
{
    int fd = *(int *)arg;
    size_t n = 0;
    for (ssize_t got; (got = read(fd, text + n, 1000)) > 0; n += (size_t)got)
        sched_yield();
    text[n] = '\0';
    return NULL;
}

static void ignore_signal(int number)
{
    (void)number;
}

/* A pipe of one page accepts a long line in parts, and a timer interrupts the write in between. */
static void a_line_written_in_parts_or_interrupted_arrives_whole(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    struct sigaction action = { .sa_handler = ignore_signal }, old;
    sigaction(SIGALRM, &action, &old);
    pthread_t reader;
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
    assert_int_equal(pthread_create(&reader, NULL, drain_slowly, &ends[0]), 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { 0 };
    setitimer(ITIMER_REAL, &often, NULL);
    log_open(&(struct log_setup){
        .fd = ends[1], .format = LOG_JSON, .level = LOG_INFO, .now_ms = fixed_ms, .context = &now_ms });
    char big[LOG_VALUE_MAX];
    memset(big, '\x01', sizeof big);
    for (int i = 0; i < 20; i++)
        log_info("e", kv_str("a", (struct str){ big, sizeof big }));
    setitimer(ITIMER_REAL, &never, NULL);
    close(ends[1]);
    pthread_join(reader, NULL);
    close(ends[0]);
    sigaction(SIGALRM, &old, NULL);
    struct str rest = str_from(text), line;
    size_t lines = 0;
    for (; str_cut(&rest, '\n', &line); lines++)
        json_decref(parsed(line));
    assert_int_equal(lines, 20);
}

static void a_log_that_cannot_be_written_is_no_reason_to_stop(void **state)
{
    (void)state;
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        skip();
    log_open(&(struct log_setup){ .fd = fd, .now_ms = fixed_ms, .context = &now_ms });
    log_error("e");
    close(fd);
}

static void the_first_of_a_row_of_failures_is_told_apart(void **state)
{
    (void)state;
    bool fails_now = false;
    assert_false(log_first_failure(&fails_now, false));
    assert_true(log_first_failure(&fails_now, true));
    assert_false(log_first_failure(&fails_now, true));
    assert_false(log_first_failure(&fails_now, false));
    assert_true(log_first_failure(&fails_now, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_written_before_it_is_opened),
        cmocka_unit_test(json_lines_have_time_level_event_and_fields),
        cmocka_unit_test(lines_name_the_request_that_their_thread_works_for),
        cmocka_unit_test(every_kind_of_value_has_its_form),
        cmocka_unit_test(an_error_without_a_sentence_says_its_code),
        cmocka_unit_test(values_cannot_forge_lines_fields_or_directions),
        cmocka_unit_test(what_lies_below_the_level_is_not_written_nor_evaluated),
        cmocka_unit_test(a_long_value_is_cut_at_a_character_with_a_mark),
        cmocka_unit_test(a_long_line_loses_fields_but_stays_valid),
        cmocka_unit_test(a_line_may_be_exactly_as_long_as_allowed),
        cmocka_unit_test(any_bytes_make_a_line_that_parses),
        cmocka_unit_test(a_terminal_gets_logfmt_and_a_file_json),
        cmocka_unit_test(lines_of_several_threads_never_mix),
        cmocka_unit_test(a_line_written_in_parts_or_interrupted_arrives_whole),
        cmocka_unit_test(a_log_that_cannot_be_written_is_no_reason_to_stop),
        cmocka_unit_test(the_first_of_a_row_of_failures_is_told_apart),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
