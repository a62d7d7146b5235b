/* belfry copy - moves an embedded installation into a PostgreSQL database, which many nodes can share. */
#include <inttypes.h>
#include <unistd.h>

#include "base/json/jsonw.h"
#include "cli/command/commands.h"
#include "cli/table.h"
#include "server/settings/options.h"
#include "server/settings/secret_url.h"
#include "store/common/copy.h"
#include "store/postgres/store_postgres.h"
#include "store/sqlite/copy_mark.h"

enum { OUT_MAX = 64 * 1024, URL_MAX_ = 4096, COLUMNS = 4, NUMBER_TEXT = 40 };

/* ---- progress ---- */

struct copy_progress_line {
    struct cli *cli;
    bool printed;
};

static void copy_on_progress(void *context, enum copy_step step, const char *table, int64_t done, int64_t total)
{
    static const char *const doing[] = {
        [COPY_LOOKING] = "checking both sides", [COPY_COPYING] = "copying", [COPY_VERIFYING] = "reading back"
    };
    struct copy_progress_line *t = context;
    fprintf(t->cli->err, "\r\033[K%s: %s, %lld of %lld", doing[step], table, (long long)done, (long long)total);
    fflush(t->cli->err);
    t->printed = true;
}

static void copy_clear_progress(struct copy_progress_line *t)
{
    if (t->printed)
        fputs("\r\033[K", t->cli->err);
}

/* ---- result ---- */

static void copy_write_json(const struct copied *c, struct buf *out)
{
    char sum[NUMBER_TEXT];
    struct jw w;
    snprintf(sum, sizeof sum, "%016" PRIx64 "%016" PRIx64, c->sum[0], c->sum[1]);
    jw_init(&w, out);
    jw_object(&w);
    jw_kv_cstr(&w, "table", c->table);
    jw_kv_i64(&w, "rows", c->rows);
    jw_kv_i64(&w, "copied", c->added);
    jw_kv_cstr(&w, "checksum", sum);
    jw_object_end(&w);
    buf_char(out, '\n');
}

static void copy_add_row(struct table *t, const struct copied *c)
{
    char rows[NUMBER_TEXT], added[NUMBER_TEXT], sum[NUMBER_TEXT];
    snprintf(rows, sizeof rows, "%lld", (long long)c->rows);
    snprintf(added, sizeof added, "%lld", (long long)c->added);
    snprintf(sum, sizeof sum, "%016" PRIx64 "%016" PRIx64, c->sum[0], c->sum[1]);
    table_row(t, COLUMNS, c->table, rows, added, sum);
}

static void copy_print(struct cli *cli, const struct copied *copied, bool json)
{
    cleanup_with(buf_release) struct buf out;
    cleanup_with(table_release) struct table t;
    buf_init(&out, OUT_MAX);
    table_init(&t, COLUMNS);
    table_row(&t, COLUMNS, "TABLE", "ROWS", "COPIED", "CHECKSUM");
    for (int i = 0; i < COPY_TABLES; i++) {
        if (json)
            copy_write_json(&copied[i], &out);
        else
            copy_add_row(&t, &copied[i]);
    }
    if (!json) {
        table_print(&t, &out);
        buf_text(
            &out,
            "Both sides have the same contents: all tenants; tasks include occurrences. Start servers on the database; do not start the old server again.\n");
    }
    cli_print(cli, &out);
}

/* ---- the command ---- */

static const char from_scheme[] = "sqlite:";

static enum err copy_read_options(const struct options *o, struct buf *url, const char **ret_directory, struct error *e)
{
    struct str from = option_get(o, "from")->text, to = option_get(o, "to")->text;
    if (!str_starts(from, str_from(from_scheme)) || from.n == sizeof from_scheme - 1)
        return error_field(e, "--from", "must be sqlite:DIR, the data directory of the server to move");
    if (!to.n)
        return error_field(e, "--to", "must be postgres://…, or file:/path of a file with that URL");
    if (options_read_secret(to, "--to", url, e))
        return e->code;
    if (!is_postgres_url(buf_str(url)))
        return error_field(e, "--to", "must be a postgres://… URL");
    *ret_directory = from.p + sizeof from_scheme - 1;
    return ERR_OK;
}

/* The data is copied, whether or not the old directory can say so. */
static void copy_mark_source(struct cli *cli, const struct copy_request *r)
{
    cleanup_with(buf_release) struct buf address;
    struct copy_mark mark = { .copied_ms = clock_wall_ms(cli->clock) };
    struct error e;
    buf_init(&address, URL_MAX_);
    secret_url_show(str_from(r->url), &address);
    snprintf(mark.address, sizeof mark.address, "%s", buf_cstr(&address));
    if (copy_mark_write(r->directory, &mark, &e))
        fprintf(cli->err, "belfry copy: the old data directory was not marked as copied: %s\n", e.text);
}

static enum exit_code command_copy_run(struct cli *cli, const struct options *o)
{
    cleanup_with(buf_release) struct buf url;
    struct copied copied[COPY_TABLES];
    struct copy_progress_line line = { .cli = cli };
    struct copy_progress progress = { copy_on_progress, &line };
    struct copy_request request = { .clock = cli->clock };
    bool has_secrets = false;
    struct error e;
    buf_init(&url, URL_MAX_);
    if (copy_read_options(o, &url, &request.directory, &e))
        return cli_fail(cli, "copy", &e, EXIT_USAGE);
    request.url = buf_cstr(&url);
    request.progress = isatty(fileno(cli->err)) ? &progress : NULL;
    request.ret_has_secrets = &has_secrets;
    enum err rc = store_copy(&request, copied, &e);
    copy_clear_progress(&line);
    if (rc)
        return cli_fail(cli, "copy", &e, EXIT_REFUSED);
    copy_mark_source(cli, &request);
    copy_print(cli, copied, option_get(o, "json")->number);
    if (has_secrets)
        fprintf(cli->err,
                "belfry copy: the database has encrypted secrets, and their keys are not in it: copy "
                "%s/secrets.key (or the file of secrets.key_file) to every node and worker, and name it in "
                "secrets.key_file\n",
                request.directory);
    return EXIT_DONE;
}

/* clang-format off */
static const struct option options[] = {
    { .flag = "from", .type = OPTION_TEXT, .value = "sqlite:DIR", .help = "data directory of the server to move" },
    { .flag = "to", .type = OPTION_TEXT, .value = "URL",
      .help = "postgres://USER:PASSWORD@HOST/DATABASE, or file:/path of a file with that URL, which keeps the password off the command line" },
};
/* clang-format on */

const struct command command_copy = {
    .name = "copy",
    .words = "",
    .summary = "move an embedded installation into a PostgreSQL database",
    .detail =
        "Copies all data: tasks, executions, API keys with their pepper, queues, calendars and tenants. Then reads it back and\n"
        "compares. Stop the server first. A server on the database is refused until the copy is complete. If the copy is\n"
        "interrupted, run it again: it continues where it stopped. The source keeps its data. Tasks that were running when\n"
        "the server stopped count as lost, as after a crash. Never start the old server again: both would run every task.\n"
        "The key file is not copied: take secrets.key of the old directory to every node and worker (secrets.key_file).\n"
        "A file copied-to in the old directory lets 'serve' and 'backup' warn. Remove it if the copy was only a trial.\n"
        "\n"
        "Examples:\n"
        "  belfry copy --from sqlite:/var/lib/belfry --to postgres://belfry@db.example.com/belfry\n"
        "  belfry copy --from sqlite:/var/lib/belfry --to file:/etc/belfry/store\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_copy_run,
    .asks_no_server = true,
};
