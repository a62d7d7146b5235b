/* belfry import - creates tasks from the lines of a crontab that call a URL. Other lines are listed with the reason. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/json/jsonw.h"
#include "cli/client.h"
#include "cli/command/commands.h"
#include "cli/table.h"
#include "core/time/crontab.h"
#include "platform/file.h"

enum { FILE_MAX = 4 << 20, ARENA_MAX = 16 << 20, OUT_MAX = 4 << 20, COLUMNS = 4, NAME_BYTES = 200, BODY_MAX = 1 << 20 };

struct crontab_import {
    struct cli *cli;
    struct client *client; /* NULL: a dry run */
    const struct options *options;
    bool json, has_user;
    struct arena arena;
    struct table table;
    struct buf out, zone;
    struct str comment; /* comment in the line before: becomes the name */
    size_t line, made, known, refused;
    enum exit_code worst;
};

/* ---- reading the file ---- */

static enum err import_read_file(const char *path, struct buf *out, struct error *e)
{
    if (file_read(path, out, e))
        return e->code;
    return str_is_utf8(buf_str(out)) ? ERR_OK : error_set(e, ERR_INVALID, "%s is not UTF-8 text", path);
}

/* cron uses the machine's time zone, so that is the default; CRON_TZ in the file or --tz overrides it. */
static void import_system_zone(struct buf *out)
{
    char target[PATH_MAX];
    ssize_t n = readlink("/etc/localtime", target, sizeof target - 1);
    target[max_of(n, (ssize_t)0)] = '\0';
    const char *name = strstr(target, "zoneinfo/");
    buf_text(out, name ? name + strlen("zoneinfo/") : "UTC");
}

static bool import_is_system_file(const char *path)
{
    return strcmp(path, "/etc/crontab") == 0 || strncmp(path, "/etc/cron.d/", 12) == 0;
}

/* ---- writing a task ---- */

/* curl and wget send data as that of a form, whatever it is, unless a header gives another type. */
static bool import_sends_form(const struct crontab_call *c)
{
    for (size_t i = 0; i < c->header_count; i++)
        if (str_eq_nocase(str_trim(str_sub(c->headers[i], 0, str_find(c->headers[i], ':', 0))), S("content-type")))
            return false;
    return c->body.p != NULL;
}

static void import_write_headers(const struct crontab_call *c, struct jw *w)
{
    jw_key(w, "headers");
    jw_object(w);
    if (import_sends_form(c))
        jw_kv_cstr(w, "Content-Type", "application/x-www-form-urlencoded");
    for (size_t i = 0; i < c->header_count; i++) {
        char name[256];
        size_t colon = str_find(c->headers[i], ':', 0);
        snprintf(name, sizeof name, STR_FMT, STR_ARG(str_sub(c->headers[i], 0, min_of(colon, sizeof name - 1))));
        jw_kv_str(w, name, str_trim(str_sub(c->headers[i], min_of(colon + 1, c->headers[i].n), c->headers[i].n)));
    }
    jw_object_end(w);
}

static void import_write_target(const struct crontab_call *c, struct jw *w)
{
    jw_kv_cstr(w, "target_type", "HTTP_CALLBACK");
    jw_key(w, "target_config");
    jw_object(w);
    jw_kv_str(w, "url", c->url);
    jw_kv_str(w, "method", c->method.n ? c->method : c->body.p ? S("POST") : S("GET"));
    if (c->header_count || c->body.p)
        import_write_headers(c, w);
    if (c->body.p)
        jw_kv_str(w, "body", c->body);
    jw_object_end(w);
    if (c->timeout_ms)
        jw_kv_i64(w, "timeout_ms", c->timeout_ms);
}

/* A dedupe key from zone and line: importing the same line again creates no second task. */
static void import_write_dedupe_key(const struct crontab_import *m, struct str line, struct jw *w)
{
    char key[64];
    unsigned long long zone = hash_bytes(HASH_STABLE, buf_str(&m->zone)),
                       text = hash_bytes(HASH_STABLE, str_trim(line));
    snprintf(key, sizeof key, "crontab-%016llx%016llx", zone, text);
    jw_kv_cstr(w, "dedupe_key", key);
    jw_kv_i64(w, "dedupe_window_seconds", 366LL * 86400);
}

/* Same behaviour as under cron: runs may overlap, and missed runs are skipped. */
static void import_write_task(const struct crontab_import *m, struct str line, const struct crontab_line *l,
                              struct buf *out)
{
    struct jw w;
    struct str name = m->comment.n ? m->comment : l->call.url;
    jw_init(&w, out);
    jw_object(&w);
    jw_kv_str(&w, "name", str_utf8_cut(name, NAME_BYTES));
    jw_kv_str(&w, "cron_expression", l->schedule);
    jw_kv_str(&w, "time_zone", buf_str(&m->zone));
    jw_kv_cstr(&w, "overlap_policy", "ALLOW");
    jw_kv_cstr(&w, "catch_up_mode", "SKIP_MISSED");
    if (option_given(m->options, "queue"))
        jw_kv_str(&w, "queue", option_get(m->options, "queue")->text);
    import_write_dedupe_key(m, line, &w);
    import_write_target(&l->call, &w);
    jw_object_end(&w);
}

/* ---- results ---- */

static void import_add_result(struct crontab_import *m, const char *result, struct str what, struct str schedule)
{
    char line[24];
    snprintf(line, sizeof line, "%zu", m->line);
    if (!m->json) {
        table_row(&m->table, COLUMNS, line, schedule.n ? table_text(&m->table, schedule) : "-", result,
                  table_text(&m->table, what));
        return;
    }
    struct jw w;
    jw_init(&w, &m->out);
    jw_object(&w);
    jw_kv_i64(&w, "line", (int64_t)m->line);
    jw_kv_cstr(&w, "result", result);
    jw_kv_str(&w, strcmp(result, "refused") == 0 ? "reason" : "task", what);
    jw_object_end(&w);
    buf_char(&m->out, '\n');
}

static void import_refuse_line(struct crontab_import *m, const struct crontab_line *l)
{
    char text[sizeof l->reason.field + sizeof l->reason.text + 4];
    snprintf(text, sizeof text, "%s%s%s", l->reason.field, l->reason.field[0] ? ": " : "", l->reason.text);
    import_add_result(m, "refused", str_from(text), l->schedule);
    m->refused++;
}

static void import_create_task(struct crontab_import *m, struct str line, const struct crontab_line *l)
{
    cleanup_with(buf_release) struct buf body;
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    buf_init(&body, BODY_MAX);
    import_write_task(m, line, l, &body);
    char where[32];
    snprintf(where, sizeof where, "line %zu", m->line);
    struct client_request call = { .method = "POST", .path = "/v1/tasks", .body = buf_str(&body), .about = where };
    enum exit_code code = m->client ? client_call(m->client, &call, &a) : EXIT_DONE;
    m->worst = max_of(m->worst, code);
    if (code == EXIT_REFUSED) {
        import_add_result(m, "refused", S("by the server, see the message above"), l->schedule);
        m->refused++;
    }
    if (code)
        return;
    bool known = a.status == 200;
    import_add_result(m,
                      !m->client ? "would be imported"
                      : known    ? "existed already"
                                 : "imported",
                      m->client ? json_text_at(a.doc.root, "id") : l->call.url, l->schedule);
    m->made += !known;
    m->known += known;
}

static void import_apply_setting(struct crontab_import *m, const struct crontab_line *l)
{
    bool zone = str_eq(l->name, S("CRON_TZ")) || str_eq(l->name, S("TZ"));
    if (!zone || option_given(m->options, "tz"))
        return;
    buf_reset(&m->zone);
    buf_add(&m->zone, l->text);
}

static void import_read_lines(struct crontab_import *m, struct str text)
{
    struct str rest = text, line;
    while (str_cut(&rest, '\n', &line) && m->worst != EXIT_UNREACHABLE) {
        struct crontab_line l;
        m->line++;
        crontab_read(line, m->has_user, &m->arena, &l);
        switch (l.kind) {
        case CRONTAB_NOTHING:
        case CRONTAB_COMMENT: break;
        case CRONTAB_SETTING: import_apply_setting(m, &l); break;
        case CRONTAB_CALL: import_create_task(m, line, &l); break;
        case CRONTAB_REFUSED: import_refuse_line(m, &l); break;
        }
        m->comment = l.kind == CRONTAB_COMMENT ? l.text : S("");
    }
}

static void import_print_results(struct crontab_import *m)
{
    if (!m->json) {
        table_print(&m->table, &m->out);
        buf_printf(&m->out, "%zu %s, ", m->made, m->client ? "imported" : "would be imported");
        if (m->known)
            buf_printf(&m->out, "%zu existed already, ", m->known);
        buf_printf(&m->out, "%zu refused\n", m->refused);
    }
    cli_print(m->cli, &m->out);
}

static enum exit_code import_crontab(struct crontab_import *m, struct str text)
{
    arena_init(&m->arena, ARENA_MAX);
    table_init(&m->table, COLUMNS);
    m->table.fit = cli_columns(m->cli);
    table_keep(&m->table, COLUMNS - 1);
    table_row(&m->table, COLUMNS, "LINE", "SCHEDULE", "RESULT", "TASK OR REASON");
    buf_init(&m->out, OUT_MAX);
    buf_init(&m->zone, 256);
    if (option_given(m->options, "tz"))
        buf_add(&m->zone, option_get(m->options, "tz")->text);
    else
        import_system_zone(&m->zone);
    import_read_lines(m, text);
    import_print_results(m);
    buf_release(&m->zone);
    buf_release(&m->out);
    table_release(&m->table);
    arena_release(&m->arena);
    return max_of(m->worst, m->refused ? EXIT_REFUSED : EXIT_DONE);
}

static enum exit_code command_import_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, FILE_MAX);
    struct error e;
    if (o->word_count != 2 || !str_eq(o->words[0], S("crontab"))) {
        error_set(&e, ERR_INVALID, "takes: crontab FILE (- is stdin, as in: crontab -l | belfry import crontab -)");
        return cli_fail(cli, "import", &e, EXIT_USAGE);
    }
    if (import_read_file(o->words[1].p, &text, &e))
        return cli_fail(cli, "import", &e, EXIT_REFUSED);
    enum exit_code code = option_get(o, "dry-run")->number ? EXIT_DONE : client_open(cli, o, &client);
    struct crontab_import m = { .cli = cli, .client = client, .options = o, .json = option_get(o, "json")->number };
    m.has_user = option_get(o, "system")->number || import_is_system_file(o->words[1].p);
    return code ? code : import_crontab(&m, buf_str(&text));
}

/* clang-format off */
static const struct option options[] = {
    { .flag = "dry-run", .type = OPTION_FLAG, .help = "only print what would be created" },
    { .flag = "tz", .type = OPTION_TEXT, .value = "ZONE",
      .help = "time zone of the schedules; default: CRON_TZ in the file, else that of this machine" },
    { .flag = "queue", .type = OPTION_TEXT, .value = "QUEUE", .help = "queue of the tasks" },
    { .flag = "system", .type = OPTION_FLAG, .help = "lines contain a user, as in /etc/crontab; automatic for /etc/crontab and /etc/cron.d/*" },
};
/* clang-format on */

const struct command command_import = {
    .name = "import",
    .words = "crontab FILE",
    .summary = "create tasks from the lines of a crontab that call a URL",
    .detail =
        "Lines that run curl or wget become recurring tasks that behave as under cron: runs may overlap, and missed runs are\n"
        "skipped. Data is sent as curl and wget send it, as application/x-www-form-urlencoded unless a header gives another\n"
        "type. Other lines are listed with the reason. A line that was imported before is not imported again.\n"
        "\n"
        "Examples:\n"
        "  crontab -l | belfry import crontab - --dry-run\n"
        "  belfry import crontab /etc/cron.d/reports --queue reports\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_import_run,
};
