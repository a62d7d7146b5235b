/* belfry watch - prints what happens, as it happens. */
#include <errno.h>
#include <time.h>

#include "cli/client.h"
#include "cli/command/commands.h"
#include "cli/filter.h"
#include "cli/ids.h"
#include "cli/reconnect.h"
#include "cli/table.h"
#include "cli/time_text.h"

enum {
    PATH_BYTES = 1024,
    LINE_BYTES = 64 << 10,
    PAUSE_MS = 1000,
    EVENT_WIDTH = 9,
    STATUS_WIDTH = 11,
    CHANGE_WIDTH = 13
};

/* clang-format off */
static const struct option options[] = {
    { .flag = "queue", .type = OPTION_TEXT, .value = "QUEUE", .help = "only tasks of this queue" },
    { .flag = "task", .type = OPTION_TEXT, .value = "TASK", .help = "only this task, and its occurrences: an id, the beginning of an id, or a name" },
    { .flag = "tenant", .type = OPTION_TEXT, .value = "TENANT", .help = "of another tenant; needs an admin key of 'default'" },
};
/* clang-format on */

static const char detail[] =
    "A line for each event: when, what, and what it is about: of a task its id, its name, its queue, its attempt, and why\n"
    "that failed. Times are UTC. Of tasks, 50 a second are shown; then a line says how many more there were.\n"
    "Counts are printed when they have changed: of the server since its start, and how many tasks run and are due.\n"
    "With --json, each event is one line: its name, its id and its data.\n"
    "If the connection is lost, it is made again, and the watch goes on where it was. Ctrl-C ends it.\n"
    "\n"
    "Examples:\n"
    "  belfry watch\n"
    "  belfry watch --queue mail\n"
    "  belfry watch --task report --json\n";

struct watch {
    struct cli *cli;
    struct client *client;
    struct event_stream stream;
    bool json;
    struct reconnect reconnect;
    bool is_lost;      /* the connection, since the last event */
    bool is_final;     /* the server has ended the stream, and would refuse another one */
    struct buf counts; /* the last line of counts */
    struct buf out;
};

static volatile sig_atomic_t watch_stopped;

static void watch_on_signal(int number)
{
    (void)number;
    watch_stopped = 1;
}

static void watch_catch_signals(void)
{
    struct sigaction stop = { .sa_handler = watch_on_signal };
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
}

/* ---- lines ---- */

static const char *watch_colour(struct str status)
{
    static const struct {
        const char *status, *colour;
    } rows[] = { { "COMPLETED", "\033[32m" }, { "FAILED", "\033[31m" },  { "EXPIRED", "\033[31m" },
                 { "RUNNING", "\033[36m" },   { "BLOCKED", "\033[33m" }, { "PAUSED", "\033[33m" } };
    for (size_t i = 0; i < array_count(rows); i++)
        if (str_eq(status, str_from(rows[i].status)))
            return rows[i].colour;
    return NULL;
}

static void watch_add_word(const struct watch *w, struct str word, size_t width, struct buf *out)
{
    char cell[CELL_TEXT];
    const char *colour = w->cli->out_is_terminal ? watch_colour(word) : NULL;
    buf_printf(out, "%s%-*s%s", colour ? colour : "", (int)width, table_cell(word, cell), colour ? "\033[0m" : "");
}

static void watch_add_task(const struct watch *w, const json_t *data, struct buf *out)
{
    char cell[CELL_TEXT];
    int64_t folded = json_i64_at(data, "folded", 0), attempt = json_i64_at(data, "attempt", 0);
    struct str queue = json_text_at(data, "queue"), parent = json_text_at(data, "parent_id");
    struct str name = json_text_at(data, "name"), error = json_text_at(data, "error");
    if (folded) {
        buf_printf(out, "… and %lld more", (long long)folded);
        return;
    }
    watch_add_word(w, json_text_at(data, "status"), STATUS_WIDTH, out);
    buf_printf(out, "%s", table_cell(json_text_at(data, "id"), cell));
    if (name.n)
        buf_printf(out, "  '%s'", table_cell(name, cell));
    if (queue.n)
        buf_printf(out, "  %s", table_cell(queue, cell));
    if (attempt)
        buf_printf(out, "  attempt %lld", (long long)attempt);
    if (parent.n)
        buf_printf(out, "  of %s", table_cell(parent, cell));
    if (!error.n)
        return;
    buf_text(out, "  ");
    table_plain_text(error, SIZE_MAX, out);
}

static void watch_add_counts(const struct watch *w, const json_t *data, struct buf *out)
{
    static const char *const names[] = { "created", "started", "completed", "failed", "retried", "running", "due" };
    (void)w;
    for (size_t i = 0; i < array_count(names); i++) {
        int64_t n = json_i64_at(data, names[i], -1);
        if (n >= 0)
            buf_printf(out, "%s%s %lld", i ? "  " : "", names[i], (long long)n);
    }
}

static void watch_add_job(const struct watch *w, const json_t *data, struct buf *out)
{
    char cell[CELL_TEXT];
    watch_add_word(w, json_text_at(data, "state"), STATUS_WIDTH, out);
    buf_printf(out, "%s", table_cell(json_text_at(data, "id"), cell));
    buf_printf(out, "  %s  %lld of %s%lld", table_cell(json_text_at(data, "action"), cell),
               (long long)json_i64_at(data, "done", 0), json_is_true(json_at(data, "total_exact")) ? "" : "about ",
               (long long)json_i64_at(data, "total", 0));
    if (json_i64_at(data, "failed", 0))
        buf_printf(out, "  %lld failed", (long long)json_i64_at(data, "failed", 0));
}

static void watch_add_incident(const struct watch *w, const json_t *data, struct buf *out)
{
    char cell[CELL_TEXT];
    watch_add_word(w, json_text_at(data, "change"), CHANGE_WIDTH, out);
    buf_printf(out, "%s", table_cell(json_text_at(data, "id"), cell));
    buf_printf(out, "  %s", table_cell(json_text_at(data, "kind"), cell));
    buf_printf(out, "  %s  %lld times", table_cell(json_text_at(data, "cause"), cell),
               (long long)json_i64_at(data, "count", 0));
}

static void watch_add_node(const struct watch *w, const json_t *data, struct buf *out)
{
    char cell[CELL_TEXT];
    watch_add_word(w, json_text_at(data, "state"), STATUS_WIDTH, out);
    buf_printf(out, "%s", table_cell(json_text_at(data, "id"), cell));
    buf_printf(out, "  %s", table_cell(json_text_at(data, "name"), cell));
}

static void watch_add_detail(const struct watch *w, const json_t *data, struct buf *out)
{
    (void)w;
    table_plain_text(json_text_at(data, "detail"), SIZE_MAX, out);
}

static const struct {
    const char *name;
    void (*add)(const struct watch *w, const json_t *data, struct buf *out);
} watch_events[] = {
    { "task", watch_add_task },         { "counts", watch_add_counts }, { "job", watch_add_job },
    { "incident", watch_add_incident }, { "node", watch_add_node },     { "gap", watch_add_detail },
    { "end", watch_add_detail },
};

/* False: there is nothing to print. An event of a newer server is not known. */
static bool watch_add_about(struct watch *w, struct str name, const json_t *data, struct buf *out)
{
    size_t from = out->n;
    for (size_t i = 0; i < array_count(watch_events); i++)
        if (str_eq(name, str_from(watch_events[i].name)))
            watch_events[i].add(w, data, out);
    struct str about = str_sub(buf_str(out), from, out->n);
    if (!str_eq(name, S("counts")))
        return about.n;
    if (str_eq(about, buf_str(&w->counts)))
        return false;
    buf_reset(&w->counts);
    buf_add(&w->counts, about);
    return true;
}

static bool watch_print_line(struct watch *w, struct str name, const json_t *data)
{
    char when[TIME_TEXT], cell[CELL_TEXT];
    int64_t at_ms;
    if (!json_time_at(data, "at", &at_ms))
        at_ms = clock_wall_ms(w->cli->clock);
    time_text_utc(at_ms, when);
    buf_reset(&w->out);
    buf_printf(&w->out, "%-25s %-*s", when, EVENT_WIDTH, table_cell(name, cell));
    if (!watch_add_about(w, name, data, &w->out))
        return true;
    buf_char(&w->out, '\n');
    return cli_print(w->cli, &w->out);
}

static bool watch_print_json(struct watch *w, struct str name, struct str data)
{
    struct jw j;
    buf_reset(&w->out);
    jw_init(&j, &w->out);
    jw_object(&j);
    jw_kv_str(&j, "event", name);
    jw_kv_str_or_null(&j, "id", buf_str(&w->stream.last_id));
    jw_key(&j, "data");
    jw_raw(&j, data);
    jw_object_end(&j);
    buf_char(&w->out, '\n');
    return cli_print(w->cli, &w->out);
}

static void watch_say(const struct watch *w, const char *what)
{
    fprintf(w->cli->err, "belfry watch: %s\n", what);
}

static bool watch_on_event(void *context, struct str name, struct str data)
{
    struct watch *w = context;
    struct json_doc doc = { 0 };
    struct error ignored;
    if (json_parse(data, &doc, &ignored))
        return true;
    if (w->is_lost)
        watch_say(w, "connected again");
    w->is_lost = false;
    w->reconnect.lost_ns = 0;
    struct str reason = json_text_at(doc.root, "reason");
    if (str_eq(name, S("end")))
        w->is_final = !str_eq(reason, S("SHUTDOWN")) && !str_eq(reason, S("ROOM"));
    bool more = w->json ? watch_print_json(w, name, data) : watch_print_line(w, name, doc.root);
    json_doc_release(&doc);
    fflush(w->cli->out);
    return more;
}

/* ---- the connection ---- */

static void watch_pause(const struct watch *w)
{
    int64_t ms = w->stream.retry_ms ? w->stream.retry_ms : PAUSE_MS;
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL); /* a signal ends it */
}

/* A server that was never reached is an error at once: the second try prints it. */
static enum exit_code watch_begin(struct watch *w, const char *path)
{
    reconnect_init(&w->reconnect, w->client);
    enum exit_code code = client_stream(w->client, path, &w->stream, &watch_stopped);
    if (code != EXIT_UNREACHABLE || w->stream.last_id.n)
        return code;
    client_set_patient(w->client, false);
    return client_stream(w->client, path, &w->stream, &watch_stopped);
}

/* False: the watch is over. */
static bool watch_may_go_on(struct watch *w, enum exit_code code)
{
    if (watch_stopped || w->stream.is_stopped || w->is_final || !w->stream.last_id.n)
        return false;
    if (code == EXIT_DONE) {
        watch_say(w, "the server has ended the stream; connecting again");
        w->is_lost = true;
        return true;
    }
    if (code != EXIT_UNREACHABLE)
        return false;
    w->is_lost = true;
    return reconnect_again(&w->reconnect, code, true);
}

static enum exit_code watch_run(struct watch *w, const char *path)
{
    enum exit_code code = watch_begin(w, path);
    while (watch_may_go_on(w, code)) {
        watch_pause(w);
        if (!watch_stopped)
            code = client_stream(w->client, path, &w->stream, &watch_stopped);
    }
    if (watch_stopped || w->stream.is_stopped)
        return EXIT_DONE;
    if (w->is_final)
        return EXIT_REFUSED;
    return code == EXIT_UNREACHABLE && w->stream.last_id.n ? reconnect_fail(&w->reconnect) : code;
}

static enum exit_code watch_make_path(struct client *client, const struct options *o, struct buf *path)
{
    static const char *const texts[] = { "queue", "tenant" };
    cleanup_with(ids_release) struct ids found = { 0 };
    enum exit_code code = EXIT_DONE;
    buf_text(path, "/v1/events");
    for (size_t i = 0; i < array_count(texts); i++)
        if (option_given(o, texts[i]))
            query_add(path, texts[i], option_get(o, texts[i])->text);
    if (option_given(o, "task"))
        code = ids_resolve_word(client, option_get(o, "task")->text, "/v1/tasks", &found);
    if (found.n)
        query_add(path, "task", str_from(found.v[0]));
    return code;
}

static enum exit_code command_watch_run(struct cli *cli, const struct options *o)
{
    struct watch w = { .cli = cli, .json = option_given(o, "json") };
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, PATH_BYTES);
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE)
        code = watch_make_path(client, o, &path);
    if (code)
        return code;
    w.client = client;
    buf_init(&w.counts, LINE_BYTES);
    buf_init(&w.out, LINE_BYTES);
    event_stream_init(&w.stream);
    w.stream.on_event = watch_on_event;
    w.stream.context = &w;
    watch_catch_signals();
    code = watch_run(&w, buf_cstr(&path));
    event_stream_release(&w.stream);
    buf_release(&w.counts);
    buf_release(&w.out);
    return code;
}

const struct command command_watch = {
    .name = "watch",
    .words = "",
    .summary = "print what happens, as it happens",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_watch_run,
};
