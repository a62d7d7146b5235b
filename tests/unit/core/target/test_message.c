/* The wire format: written messages read back unchanged; input from outside is checked. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "core/target/message.h"
#include "port/event_message.h"

static struct arena arena;
static struct buf text;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 16 << 20);
    buf_init(&text, 8 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_release(&arena);
    buf_release(&text);
    return 0;
}

static struct uuid id_of(uint8_t n)
{
    return (struct uuid){ { 0x01, 0x98, 0xf0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, n } };
}

static struct task full_task(void)
{
    return (struct task){
        .id = id_of(1),
        .tenant = 7,
        .kind = TASK_OCCURRENCE,
        .state = TASK_RUNNING,
        .parent = id_of(2),
        .run = id_of(4),
        .due_ms = 1770710400123,
        .scheduled_ms = 1770710400000,
        .version = 3,
        .fence = 42,
        .attempts = 2,
        .losses = 1,
        .last_error = S("HTTP 503"),
        .claim = id_of(3),
        .priority = 9,
        .queue = S("reports"),
        .name = S("Nächtlicher „Bericht“\n\u2028"),
        .task_type = S("report"),
        .delivery = DELIVER_AT_MOST_ONCE,
        .timeout_ms = 30000,
        .expires_after_ms = 60000,
        .retry = { .max_attempts = 3,
                   .backoff = BACKOFF_FIXED,
                   .base_delay_ms = 10,
                   .max_delay_ms = 20,
                   .jitter = JITTER_NONE,
                   .rules = S("[ {\"on\": [\"TIMEOUT\"], \"max_attempts\": 9} ]") },
        .requires = S("gpu,linux"),
        .aside = S("a.example:8443"),
        .awaited_ms = 1770710200000,
        .late_by = LATE_BREAKER,
        .cpu_milli = 500,
        .memory_mb = 64,
        .target = TARGET_MESSAGE,
        .target_config = S("{\"broker\": \"jobs\",  \"body\": {\"z\":1.50, \"a\":[ ]}}"),
        .payload = S("{\"n\": 1.50e3, \"deep\": [[[[\"\\u0000\\ud83d\\ude00\"]]]]}"),
        .extra = S("{\"metadata\":{\"k\":\"v\"}}"),
        .signing = S("{\"id\":\"x\"}"),
        .created_ms = 1770710300000,
    };
}

static struct str written_task(const struct task *t, struct str tenant)
{
    buf_reset(&text);
    struct jw w;
    jw_init(&w, &text);
    message_write_task(&w, t, tenant, t->signing);
    assert_false(text.full);
    return buf_str(&text);
}

static struct str written_event(const struct event *ev)
{
    buf_reset(&text);
    struct jw w;
    jw_init(&w, &text);
    event_write(&w, ev);
    assert_false(text.full);
    return buf_str(&text);
}

static struct task task_there_and_back(const struct task *t, const char *tenant)
{
    struct task back;
    struct str name;
    struct error e = { 0 };
    assert_ok(message_read_task(&arena, written_task(t, str_from(tenant)), &back, &name, &e), &e);
    assert_str(name, tenant);
    return back;
}

/* Tables of the fields; X is applied to each field. */
/* clang-format off */
#define NUMBERS(X)                                                                                                     \
    X(tenant) X(kind) X(state) X(due_ms) X(scheduled_ms) X(version) X(fence) X(attempts) X(losses) X(priority)         \
    X(delivery) X(timeout_ms) X(expires_after_ms) X(retry.max_attempts) X(retry.backoff) X(retry.base_delay_ms)        \
    X(retry.max_delay_ms) X(retry.jitter) X(cpu_milli) X(memory_mb) X(target) X(created_ms) X(awaited_ms) X(late_by)
#define TEXTS(X)                                                                                                       \
    X(queue) X(name) X(task_type) X(last_error) X(retry.rules) X(requires) X(aside) X(target_config) X(payload) X(extra)
#define IDS(X) X(id) X(parent) X(claim) X(run)
#define FACT_NUMBERS(X)                                                                                                \
    X(kind) X(task.tenant) X(task.kind) X(task.fence) X(task.scheduled_ms) X(task.due_ms) X(task.attempts)             \
    X(task.losses) X(task.delivery) X(task.retry.max_attempts) X(task.retry.backoff) X(task.retry.base_delay_ms)       \
    X(task.retry.max_delay_ms) X(task.retry.jitter) X(task.expires_ms) X(task.target) X(task.awaited_ms) X(task.late_by) X(outcome.late_by) X(outcome.kind)                  \
    X(outcome.failure) X(outcome.sent) X(outcome.alone) X(outcome.http_status) X(outcome.retry_after_ms)               \
    X(outcome.started_us) X(outcome.completed_us) X(worker.slots) X(worker.running) X(worker.left)                     \
    X(worker.kind.priority_min) X(worker.kind.priority_max) X(worker.kind.cpu_milli) X(worker.kind.memory_mb)
#define FACT_TEXTS(X)                                                                                                  \
    X(task.retry.rules) X(task.place) X(outcome.error) X(outcome.output) X(outcome.worker) X(outcome.trace_id)         \
    X(worker.name) X(worker.version) X(worker.doc) X(worker.kind.queues) X(worker.kind.tenants) X(worker.kind.labels)
#define FACT_IDS(X) X(task.id) X(task.parent) X(task.run) X(worker.id)
/* clang-format on */
#define SAME_NUMBER(f) assert_int_equal(a->f, b->f);
#define SAME_TEXT(f)   assert_true(str_eq(a->f, b->f));
#define SAME_ID(f)     assert_true(uuid_eq(a->f, b->f));

static void assert_same(const struct task *a, const struct task *b)
{
    NUMBERS(SAME_NUMBER)
    TEXTS(SAME_TEXT)
    IDS(SAME_ID)
}

static void assert_same_event(const struct event *a, const struct event *b)
{
    FACT_NUMBERS(SAME_NUMBER)
    FACT_TEXTS(SAME_TEXT)
    FACT_IDS(SAME_ID)
}

static void a_task_reads_back_the_same(void **state)
{
    (void)state;
    struct task t = full_task(), back = task_there_and_back(&t, "acme");
    assert_same(&t, &back);
}

static void a_task_with_nothing_to_say_is_short(void **state)
{
    (void)state;
    struct task t = { .id = id_of(1), .state = TASK_RUNNING, .fence = 1, .retry = RETRY_DEFAULT };
    struct task back = task_there_and_back(&t, "");
    assert_same(&t, &back);
    assert_str(
        written_task(&t, S("")),
        "{\"v\":1,\"id\":\"0198f000-0000-7000-8000-000000000001\",\"fence\":1,\"kind\":\"ONE_TIME\",\"tenant\":0,"
        "\"priority\":0,\"due_ms\":0,\"scheduled_ms\":0,\"target\":\"HTTP_CALLBACK\"}");
}

static struct event full_outcome(void)
{
    return (struct event){
        .kind = EVENT_OUTCOME,
        .task = { .id = id_of(1),
                  .parent = id_of(2),
                  .run = id_of(4),
                  .tenant = 7,
                  .kind = TASK_OCCURRENCE,
                  .fence = INT64_MAX,
                  .scheduled_ms = 1770710400000,
                  .due_ms = 1770710400123,
                  .awaited_ms = 1770710200000,
                  .late_by = LATE_SLOT,
                  .attempts = 2,
                  .losses = 1,
                  .delivery = DELIVER_AT_MOST_ONCE,
                  .retry = { .max_attempts = 3, .base_delay_ms = 0, .max_delay_ms = 20, .rules = S("[]") },
                  .expires_ms = 1770710500000,
                  .target = TARGET_HTTP,
                  .place = S("example.com/x") },
        .outcome = { .kind = OUTCOME_FAILED,
                     .late_by = LATE_HOST,
                     .failure = FAILURE_HTTP,
                     .sent = true,
                     .alone = true,
                     .http_status = 503,
                     .retry_after_ms = 0,
                     .started_us = 1770710400123456,
                     .completed_us = 1770710400999999,
                     .error = S("HTTP 503"),
                     .output = S("a\0b\x7f\"\\/é"),
                     .worker = S("host:1"),
                     .trace_id = S("4bf92f3577b34da6a3ce929d0e0e4736") },
    };
}

static struct event event_there_and_back(const struct event *ev)
{
    struct event back;
    struct error e = { 0 };
    assert_ok(event_read(&arena, written_event(ev), &back, &e), &e);
    return back;
}

static void an_outcome_reads_back_the_same(void **state)
{
    (void)state;
    struct event ev = full_outcome(), back = event_there_and_back(&ev);
    assert_same_event(&ev, &back);
    ev.outcome.retry_after_ms = -1;
    ev.task.expires_ms = INT64_MAX;
    back = event_there_and_back(&ev);
    assert_same_event(&ev, &back);
}

static void what_a_worker_says_reads_back_the_same(void **state)
{
    (void)state;
    struct event ev = { .kind = EVENT_WORKER,
                        .worker = { .id = id_of(9),
                                    .name = S("host-1:4711"),
                                    .version = S("0.1.0"),
                                    .slots = 32,
                                    .running = 5,
                                    .left = true,
                                    .kind = { .queues = S("mail,reports"),
                                              .tenants = S("acme"),
                                              .labels = S("eu,gpu"),
                                              .priority_min = 2,
                                              .priority_max = 8,
                                              .cpu_milli = 1500,
                                              .memory_mb = 4000 },
                                    .doc = S("{\"queues\": [ \"a\" ]}") } };
    struct event back = event_there_and_back(&ev);
    assert_same_event(&ev, &back);
    assert_null(strstr(buf_cstr(&text), "outcome"));
    ev.worker.kind = (struct worker_kind){ .priority_max = PRIORITY_MAX, .cpu_milli = -1, .memory_mb = -1 };
    back = event_there_and_back(&ev);
    assert_same_event(&ev, &back);
    ev.worker.kind = (struct worker_kind){ 0 }; /* only priority 0, and no room for tasks that need any */
    back = event_there_and_back(&ev);
    assert_same_event(&ev, &back);
}

static void a_worker_that_does_not_tell_what_it_serves_may_run_anything(void **state)
{
    (void)state;
    struct event ev;
    struct error e = { 0 };
    assert_ok(
        event_read(&arena,
                   S("{\"v\":1,\"event\":\"WORKER\",\"worker\":{\"id\":\"0198f000-0000-7000-8000-000000000001\"}}"),
                   &ev, &e),
        &e);
    assert_int_equal(worker_kind_compare(&ev.worker.kind, &WORKER_KIND_UNKNOWN), 0);
}

static void output_that_is_no_text_survives_as_replacement_characters(void **state)
{
    (void)state;
    struct event ev = full_outcome();
    ev.outcome.output = S("\xff ok \xc3");
    assert_str(event_there_and_back(&ev).outcome.output, "\xef\xbf\xbd ok \xef\xbf\xbd");
}

static void every_kind_of_outcome_and_failure_has_a_name(void **state)
{
    (void)state;
    struct event ev = full_outcome();
    for (int kind = OUTCOME_OK; kind <= OUTCOME_EXPIRED; kind++) {
        for (int failure = FAILURE_NONE; failure <= FAILURE_INTERNAL; failure++) {
            ev.outcome.kind = (enum outcome_kind)kind;
            ev.outcome.failure = (enum failure)failure;
            struct event back = event_there_and_back(&ev);
            assert_same_event(&ev, &back);
        }
    }
}

static void members_that_are_not_known_are_passed_over(void **state)
{
    (void)state;
    struct event ev;
    struct error e = { 0 };
    assert_ok(
        event_read(
            &arena,
            S("{ \"later\": {\"task\": 1}, \"event\": \"WORKER\", \"v\" : 1, \"worker\": {\"mood\": \"good\", "
              "\"doc\": [ 1 ], \"id\": \"0198f000-0000-7000-8000-000000000001\", \"slots\": null }, \"task\": null}"),
            &ev, &e),
        &e);
    assert_int_equal(ev.worker.slots, 0);
    assert_str(ev.worker.doc, "[ 1 ]");
}

/* JSON texts in tables are written with ' instead of ". */
static enum err read_quoted(const char *quoted, struct error *e)
{
    char *copy = xstrdup(quoted);
    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    struct event ev;
    enum err rc = event_read(&arena, str_from(copy), &ev, e);
    free(copy);
    return rc;
}

#define ID "'id':'0198f000-0000-7000-8000-000000000001'"

static void what_is_no_event_is_refused_in_plain_words(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *says;
    } rows[] = {
        { "", "", "is empty" },
        { "[1]", "", "not a Belfry message" },
        { "{'v':0}", "", "not a Belfry message" },
        { "{'v':'1'}", "", "not a Belfry message" },
        { "{'v':2,'event':'NEW'}", "", "has version 2; this Belfry reads version 1: update it" },
        { "{'v':1}", "event", "is missing" },
        { "{'v':1,'event':'PARTY'}", "event", "not known to this version" },
        { "{'v':1,'event':'OUTCOME'}", "", "without its task" },
        { "{'v':1,'event':'WORKER','worker':{'slots':1}}", "worker.id", "is missing" },
        { "{'v':1,'event':'WORKER','worker':{'id':'x'}}", "worker.id", "must be a UUID" },
        { "{'v':1,'event':'WORKER','worker':{" ID ",'slots':-1}}", "worker.slots", "is -1, but must be between 0 and" },
        { "{'v':1,'event':'WORKER','worker':{" ID ",'slots':1.5}}", "worker.slots", "must be a whole number" },
        { "{'v':1,'event':'WORKER','worker':{" ID ",'left':1}}", "worker.left", "must be true or false" },
        { "{'v':1,'event':'WORKER','worker':{" ID ",'name':[]}}", "worker.name", "must be a string" },
        { "{'v':1,'event':'OUTCOME','task':{" ID ",'fence':0}}", "task.fence", "must be between 1 and" },
        { "{'v':1,'event':'OUTCOME','task':{" ID "}}", "task.fence", "is missing" },
        { "{'v':1,'event':'OUTCOME','task':{" ID ",'fence':1,'kind':'RECURRING'}}", "task.kind", "not known to" },
        { "{'v':1,'event':'OUTCOME','task':{" ID ",'fence':1,'retry':{'max_attempts':-1}}}", "task.retry.max_attempts",
          "is -1" },
        { "{'v':1,'event':'OUTCOME','task':7}", "task", "must be an object" },
        { "{'v':1,'event':'OUTCOME',", "event", "is not valid JSON" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct error e = { 0 };
        assert_int_equal(read_quoted(rows[i].text, &e), ERR_CORRUPT);
        assert_int_equal(e.code, ERR_CORRUPT);
        assert_string_equal(e.field, rows[i].field);
        assert_says(&e, rows[i].says);
        assert_int_equal(read_quoted(rows[i].text, NULL), ERR_CORRUPT);
    }
}

static void a_place_that_is_too_long_is_refused(void **state)
{
    (void)state;
    struct event ev = full_outcome(), back;
    char place[PLACE_MAX + 1];
    memset(place, 'x', sizeof place);
    ev.task.place = (struct str){ place, PLACE_MAX };
    back = event_there_and_back(&ev);
    assert_same_event(&ev, &back);
    ev.task.place.n++;
    struct error e = { 0 };
    assert_int_equal(event_read(&arena, written_event(&ev), &back, &e), ERR_CORRUPT);
    assert_string_equal(e.field, "task.place");
}

static void an_arena_that_is_full_is_no_fault_of_the_message(void **state)
{
    (void)state;
    struct task t = full_task(), back;
    struct str name, written = written_task(&t, S("acme"));
    struct error e = { 0 };
    for (size_t room = 16;; room += 16) {
        struct arena small;
        arena_init(&small, room);
        enum err rc = message_read_task(&small, written, &back, &name, &e);
        arena_release(&small);
        if (rc == ERR_OK)
            break;
        assert_int_equal(rc, ERR_LIMIT);
        assert_true(room < 4096);
    }
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* The time is printed but not checked: with sanitizers and other load any limit would be a guess. */
static void a_usual_task_is_written_and_read_quickly(void **state)
{
    (void)state;
    enum { ROUNDS = 20000 };
    struct task t = full_task();
    t.kind = TASK_ONE_TIME;
    t.retry = RETRY_DEFAULT;
    t.parent = (struct uuid){ 0 };
    t.attempts = t.losses = 0;
    t.name = t.task_type = t.requires = t.extra = (struct str){ 0 };
    t.target_config = S("{\"url\": \"https://example.com/hooks/reports\"}");
    t.payload = S("{\"report\": 17}");
    size_t bytes = written_task(&t, S("acme")).n;
    int64_t start = cpu_ns();
    for (int i = 0; i < ROUNDS; i++)
        (void)written_task(&t, S("acme"));
    int64_t between = cpu_ns();
    struct task back;
    struct str name;
    for (int i = 0; i < ROUNDS; i++) {
        arena_reset(&arena);
        assert_int_equal(message_read_task(&arena, buf_str(&text), &back, &name, NULL), ERR_OK);
    }
    int64_t end = cpu_ns();
    print_message("# a task of %zu bytes: written in %" PRId64 " ns, read in %" PRId64 " ns\n", bytes,
                  (between - start) / ROUNDS, (end - between) / ROUNDS);
    assert_true(uuid_eq(back.id, t.id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_reads_back_the_same),
        cmocka_unit_test(a_task_with_nothing_to_say_is_short),
        cmocka_unit_test(an_outcome_reads_back_the_same),
        cmocka_unit_test(what_a_worker_says_reads_back_the_same),
        cmocka_unit_test(a_worker_that_does_not_tell_what_it_serves_may_run_anything),
        cmocka_unit_test(output_that_is_no_text_survives_as_replacement_characters),
        cmocka_unit_test(every_kind_of_outcome_and_failure_has_a_name),
        cmocka_unit_test(members_that_are_not_known_are_passed_over),
        cmocka_unit_test(what_is_no_event_is_refused_in_plain_words),
        cmocka_unit_test(a_place_that_is_too_long_is_refused),
        cmocka_unit_test(an_arena_that_is_full_is_no_fault_of_the_message),
        cmocka_unit_test(a_usual_task_is_written_and_read_quickly),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
