/* belfry backup, belfry restore - copy a data directory to one file, also while a server runs, and restore it. */
#include <unistd.h>

#include "base/failpoint.h"
#include "base/json/jsonw.h"
#include "base/rfc3339.h"
#include "cli/command/commands.h"
#include "server/settings/options.h"
#include "store/sqlite/backup.h"
#include "store/sqlite/copy_mark.h"

enum { OUT_MAX = 64 * 1024, DIRECTORY_MAX = 4096 };

/* ---- progress ---- */

struct backup_progress_line {
    struct cli *cli;
    bool printed;
};

static bool backup_on_progress(void *context, enum backup_step step, int64_t done, int64_t total)
{
    struct backup_progress_line *t = context;
    double mib = (double)total / (1 << 20);
    if (step == BACKUP_COPYING)
        fprintf(t->cli->err, "\r\033[Kcopying: %.0f %% of %.1f MiB", total ? 100.0 * (double)done / (double)total : 100,
                mib);
    else
        fprintf(t->cli->err, "\r\033[Kreading it back: %.1f MiB", mib);
    fflush(t->cli->err);
    t->printed = true;
    return true;
}

static void backup_clear_progress(struct backup_progress_line *t)
{
    if (t->printed)
        fputs("\r\033[K", t->cli->err);
}

/* ---- contents ---- */

static void backup_write_states(const struct store_sqlite_facts *f, struct buf *out)
{
    const char *before = " (all tenants, with occurrences: ";
    for (int i = 0; i <= TASK_EXPIRED; i++) {
        if (!f->by_state[i])
            continue;
        buf_printf(out, "%s%lld %s", before, (long long)f->by_state[i], task_state_name((enum task_state)i));
        before = ", ";
    }
    if (before[0] == ',')
        buf_char(out, ')');
}

static int64_t backup_task_count(const struct store_sqlite_facts *f)
{
    int64_t n = 0;
    for (int i = 0; i <= TASK_EXPIRED; i++)
        n += f->by_state[i];
    return n;
}

static void backup_write_facts(const struct store_sqlite_facts *f, struct buf *out)
{
    buf_printf(out, "%lld task%s", (long long)backup_task_count(f), backup_task_count(f) == 1 ? "" : "s");
    backup_write_states(f, out);
    buf_printf(out, ", %lld execution%s, schema version %d, %.1f MiB\n", (long long)f->executions,
               f->executions == 1 ? "" : "s", f->version, (double)f->bytes / (1 << 20));
}

static void backup_write_facts_json(const struct store_sqlite_facts *f, struct jw *w)
{
    jw_kv_i64(w, "schema_version", f->version);
    jw_kv_i64(w, "bytes", f->bytes);
    jw_kv_i64(w, "executions", f->executions);
    jw_key(w, "tasks");
    jw_object(w);
    for (int i = 0; i <= TASK_EXPIRED; i++)
        jw_kv_i64(w, task_state_name((enum task_state)i), f->by_state[i]);
    jw_object_end(w);
}

static enum exit_code backup_check_words(struct cli *cli, const struct options *o)
{
    struct error e;
    if (o->word_count == 1 && o->words[0].n)
        return EXIT_DONE;
    error_set(&e, ERR_INVALID, "give exactly one file");
    return cli_fail(cli, cli->command->name, &e, EXIT_USAGE);
}

/* Whether the store is a PostgreSQL database, which its own tools copy: they are tested with all that it can hold, and
 * know of replicas and of points in time. Then prints what to do instead. */
static bool backup_refuse_postgres(struct cli *cli, const struct options *o, const char *instead)
{
    struct error e;
    if (!option_given(o, "store"))
        return false;
    error_set(&e, ERR_INVALID, "the data is in a PostgreSQL database: %s; docs/OPERATIONS.md describes it", instead);
    (void)cli_fail(cli, cli->command->name, &e, EXIT_REFUSED);
    return true;
}

static void backup_hint_at_postgres(struct error *e)
{
    struct error why = *e;
    error_set(e, why.code, "%s; if the server has --store, its data is in PostgreSQL: use pg_dump (docs/OPERATIONS.md)",
              why.text);
}

#define STORE_OPTION                                                                                                   \
    {                                                                                                                  \
        .key = "store", .flag = "store", .type = OPTION_TEXT, .value = "URL",                                          \
        .help = "postgres://… of a cluster: refused, with the command of PostgreSQL to use instead"                  \
    }

/* ---- backup ---- */

static void backup_print(struct cli *cli, const struct options *o, const struct store_sqlite_facts *f)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    if (option_get(o, "json")->number) {
        struct jw w;
        jw_init(&w, &out);
        jw_object(&w);
        jw_kv_str(&w, "file", o->words[0]);
        jw_kv_bool(&w, "secrets", !option_get(o, "without-secrets")->number);
        backup_write_facts_json(f, &w);
        jw_object_end(&w);
        buf_char(&out, '\n');
    } else {
        buf_printf(&out, "%s contains ", o->words[0].p);
        backup_write_facts(f, &out);
    }
    cli_print(cli, &out);
}

/* A backup of data that is no longer in use is easily taken for one of the database. */
static void backup_note_copied(struct cli *cli, const char *directory)
{
    struct copy_mark mark;
    char when[RFC3339_TEXT + 1];
    if (!copy_mark_read(directory, &mark))
        return;
    rfc3339_format(mark.copied_ms, when);
    fprintf(
        cli->err,
        "belfry backup: note: this data was copied to %s at %s. If servers run on that database, back it up with pg_dump "
        "(docs/OPERATIONS.md): this file has none of the changes since then\n",
        mark.address, when);
}

static void backup_note_keys(struct cli *cli, const char *key)
{
    fprintf(cli->err,
            "belfry backup: note: the copy has encrypted secrets and not the key '%s' that they need: keep a copy of "
            "secrets.key, or use --with-keys to put it into the copy\n",
            key);
}

static enum exit_code command_backup_run(struct cli *cli, const struct options *o)
{
    cleanup_with(buf_release) struct buf directory;
    buf_init(&directory, DIRECTORY_MAX);
    struct store_sqlite_facts facts;
    struct backup_progress_line line = { .cli = cli };
    struct backup_progress progress = { backup_on_progress, &line };
    struct error e;
    enum exit_code code = backup_check_words(cli, o);
    if (code)
        return code;
    if (backup_refuse_postgres(cli, o, "run 'pg_dump --format=custom --file=FILE URL', also while nodes run"))
        return EXIT_REFUSED;
    if (option_get(o, "with-keys")->number && option_get(o, "without-secrets")->number) {
        (void)error_field(&e, "--with-keys", "and --without-secrets contradict each other: give one of them");
        return cli_fail(cli, "backup", &e, EXIT_USAGE);
    }
    options_data_dir(o, &directory);
    struct backup_request request = {
        .directory = buf_cstr(&directory),
        .path = o->words[0].p,
        .replace = option_get(o, "force")->number,
        .with_keys = option_get(o, "with-keys")->number,
        .without_secrets = option_get(o, "without-secrets")->number,
        .progress = isatty(fileno(cli->err)) ? &progress : NULL,
    };
    enum err rc = store_sqlite_backup(&request, &facts, &e);
    backup_clear_progress(&line);
    if (rc == ERR_CONFLICT)
        error_set(&e, rc, "'%s' exists already: give another file, or add --force to replace it", request.path);
    if (rc == ERR_NOT_FOUND)
        backup_hint_at_postgres(&e);
    if (rc)
        return cli_fail(cli, "backup", &e, EXIT_REFUSED);
    backup_print(cli, o, &facts);
    if (facts.needs_key[0])
        backup_note_keys(cli, facts.needs_key);
    backup_note_copied(cli, request.directory);
    return EXIT_DONE;
}

/* clang-format off */
static const struct option backup_options[] = {
    STORE_OPTION,
    { .flag = "force", .type = OPTION_FLAG, .help = "replace an existing FILE, after the new copy was verified" },
    { .flag = "with-keys", .type = OPTION_FLAG,
      .help = "also copy secrets.key; without it, encrypted headers of tasks cannot be read after a restore elsewhere" },
    { .flag = "without-secrets", .type = OPTION_FLAG,
      .help = "leave out pepper and admin.key; after a restore, API keys work only if the file pepper is put back" },
};
/* clang-format on */

const struct command command_backup = {
    .name = "backup",
    .words = "FILE",
    .summary = "copy the data of a server to one file, also while it runs",
    .detail =
        "Reads the data directory directly, so run it on the server's machine. The copy gets its name only after it was read\n"
        "back and verified. It contains the payloads of tasks and the secrets of API keys, so only its owner may read it.\n"
        "A cluster's data is in PostgreSQL: back that up with pg_dump. docs/OPERATIONS.md describes it.\n"
        "\n"
        "Examples:\n"
        "  belfry backup /backup/belfry-monday.db --data-dir /var/lib/belfry\n"
        "  belfry backup --force latest.db\n",
    .options = backup_options,
    .option_count = array_count(backup_options),
    .run = command_backup_run,
    .asks_no_server = true,
};

/* ---- restore ---- */

static void restore_print(struct cli *cli, const struct options *o, const char *directory, const struct restored *r)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    if (option_get(o, "json")->number) {
        struct jw w;
        jw_init(&w, &out);
        jw_object(&w);
        jw_kv_cstr(&w, "data_dir", directory);
        jw_kv_bool(&w, "has_pepper", r->has_pepper);
        jw_kv_bool(&w, "needs_key_file", r->needs_key[0] != '\0');
        if (r->kept[0])
            jw_kv_cstr(&w, "kept", r->kept);
        backup_write_facts_json(&r->facts, &w);
        jw_object_end(&w);
        buf_char(&out, '\n');
    } else {
        buf_printf(&out, "%s contains ", directory);
        backup_write_facts(&r->facts, &out);
        if (r->kept[0])
            buf_printf(&out, "The previous data is kept in %s/%s: remove it when you no longer need it.\n", directory,
                       r->kept);
    }
    cli_print(cli, &out);
    if (!r->has_pepper)
        fprintf(
            cli->err,
            "belfry restore: the file contains no secrets: no API key works without the pepper of that server; copy it to "
            "%s/pepper before the first start. Otherwise the first start makes a new pepper and a new admin key, and all "
            "other keys must be created again\n",
            directory);
    if (r->needs_key[0])
        fprintf(cli->err,
                "belfry restore: the file has encrypted secrets and not the key that they need: copy the "
                "secrets.key of that server, which has key '%s', to %s/secrets.key before the first start\n",
                r->needs_key, directory);
}

static enum exit_code command_restore_run(struct cli *cli, const struct options *o)
{
    cleanup_with(buf_release) struct buf directory;
    buf_init(&directory, DIRECTORY_MAX);
    struct restored restored;
    struct backup_progress_line line = { .cli = cli };
    struct backup_progress progress = { backup_on_progress, &line };
    struct error e;
    const char *fail = options_getenv("BELFRY_FAILPOINT");
    enum exit_code code = backup_check_words(cli, o);
    if (code)
        return code;
    if (backup_refuse_postgres(cli, o,
                               "stop all nodes, create an empty database, and run 'pg_restore --no-owner "
                               "--single-transaction --dbname=URL FILE'"))
        return EXIT_REFUSED;
    if (fail && failpoint_arm(str_from(fail), &e))
        return cli_fail(cli, "restore", &e, EXIT_USAGE);
    options_data_dir(o, &directory);
    struct restore_request request = {
        .path = o->words[0].p,
        .directory = buf_cstr(&directory),
        .replace = option_get(o, "force")->number,
        .now_ms = clock_wall_ms(cli->clock),
        .progress = isatty(fileno(cli->err)) ? &progress : NULL,
    };
    enum err rc = store_sqlite_restore(&request, &restored, &e);
    backup_clear_progress(&line);
    if (rc == ERR_CONFLICT)
        error_set(&e, rc, "data directory '%s' contains data already: give another, or add --force to replace it",
                  request.directory);
    if (rc)
        return cli_fail(cli, "restore", &e, EXIT_REFUSED);
    restore_print(cli, o, request.directory, &restored);
    return EXIT_DONE;
}

/* clang-format off */
static const struct option restore_options[] = {
    STORE_OPTION,
    { .flag = "force", .type = OPTION_FLAG,
      .help = "replace existing data; the previous data is kept in a folder replaced-TIME in the directory" },
};
/* clang-format on */

const struct command command_restore = {
    .name = "restore",
    .words = "FILE",
    .summary = "restore a data directory from a backup",
    .detail =
        "Stop the server of the directory first. FILE is read and verified before any data is changed, and replaces it\n"
        "atomically, even if the machine crashes. Tasks that became due since the backup fire when the server starts, and\n"
        "tasks that ran since then run again. Never start two servers from one backup: each would run every task.\n"
        "\n"
        "Examples:\n"
        "  belfry restore /backup/belfry-monday.db --data-dir /var/lib/belfry\n"
        "  belfry restore latest.db --force\n",
    .options = restore_options,
    .option_count = array_count(restore_options),
    .run = command_restore_run,
    .asks_no_server = true,
};
