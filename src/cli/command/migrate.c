/* belfry migrate - shows or changes the schema version of a store. A server migrates up by itself when it starts.
 * This command shows the version, migrates down before a return to an older release, and migrates up over a step
 * that running nodes of the version before cannot work with. */
#include <assert.h>
#include <unistd.h>

#include "base/json/jsonw.h"
#include "base/rfc3339.h"
#include "cli/command/commands.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "server/settings/options.h"
#include "server/settings/store_url.h"
#include "store/postgres/store_postgres.h"
#include "store/sqlite/migrate.h"

enum { OUT_MAX = 1 << 20, ARENA_MAX = 1 << 20, VERSION_MAX = 9999, COLUMNS = 3 };

/* clang-format off */
static const struct option options[] = {
    { .key = "store", .flag = "store", .type = OPTION_TEXT, .value = "URL",
      .help = "postgres://… of a cluster, or file:/path of a file with that URL; default: the embedded store of --data-dir" },
    { .flag = "to", .type = OPTION_INT, .value = "VERSION", .max = VERSION_MAX, .only = "up|down",
      .help = "target version; 0: an empty store; default: up: the newest, down: one lower" },
    { .flag = "yes", .type = OPTION_FLAG, .only = "down", .help = "confirm that data which only the newer schema can hold is lost" },
};
/* clang-format on */

enum { NEWEST = -1 };
static_assert((int)NEWEST == (int)STORE_SQLITE_NEWEST && (int)NEWEST == (int)STORE_POSTGRES_NEWEST,
              "all stores use the same value");

/* The store whose schema is meant. */
struct migrate_store {
    struct clock *clock;
    struct buf text; /* holds the text of directory or url */
    const char *directory;
    const char *url; /* NULL: the embedded store */
};

static enum err migrate_store_init(struct migrate_store *p, struct cli *cli, const struct options *o, struct error *e)
{
    *p = (struct migrate_store){ .clock = cli->clock };
    buf_init(&p->text, 4096);
    if (store_url_read(o, "store", &p->text, e))
        return e->code;
    if (p->text.n) {
        p->url = buf_cstr(&p->text);
        return ERR_OK;
    }
    options_data_dir(o, &p->text);
    p->directory = buf_cstr(&p->text);
    return ERR_OK;
}

static void migrate_store_release(struct migrate_store *p)
{
    buf_release(&p->text);
}

struct migrate_versions {
    struct arena arena;
    struct store_migration *v;
    size_t n;
};

static void migrate_versions_release(struct migrate_versions *s)
{
    arena_release(&s->arena);
}

/* A directory that does not exist is most often a wrong path, not an empty store. */
static enum err migrate_check_directory(const struct migrate_store *p, struct error *e)
{
    if (p->url || access(p->directory, F_OK) == 0)
        return ERR_OK;
    return error_set(e, ERR_NOT_FOUND, "there is no data directory '%s': give --data-dir, or --store for a database",
                     p->directory);
}

static enum err migrate_versions_read(const struct migrate_store *p, struct migrate_versions *ret, struct error *e)
{
    arena_init(&ret->arena, ARENA_MAX);
    return p->url ? store_postgres_migrations(p->url, p->clock, &ret->arena, &ret->v, &ret->n, e)
                  : store_sqlite_migrations(p->directory, &ret->arena, &ret->v, &ret->n, e);
}

static enum err migrate_to_version(const struct migrate_store *p, int to, struct error *e)
{
    return p->url ? store_postgres_migrate(p->url, p->clock, to, e)
                  : store_sqlite_migrate(p->directory, to, clock_wall_ms(p->clock), e);
}

static int migrate_current_version(const struct migrate_versions *s)
{
    int at = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].applied)
            at = max_of(at, s->v[i].version);
    return at;
}

/* ---- status ---- */

static void migrate_applied_text(const struct store_migration *m, char out[RFC3339_TEXT + 1])
{
    if (m->applied && m->applied_ms)
        rfc3339_format(m->applied_ms, out);
    else
        snprintf(out, RFC3339_TEXT + 1, "%s", m->applied ? "yes" : "-");
}

static void migrate_write_json(const struct store_migration *m, struct buf *out)
{
    struct jw w;
    jw_init(&w, out);
    jw_object(&w);
    jw_kv_i64(&w, "version", m->version);
    jw_kv_str(&w, "name", m->name);
    jw_kv_bool(&w, "known", m->known);
    jw_kv_bool(&w, "applied", m->applied);
    if (m->applied && m->applied_ms)
        jw_kv_time(&w, "applied_at", m->applied_ms);
    jw_object_end(&w);
    buf_char(out, '\n');
}

static void migrate_print_status(struct cli *cli, const struct migrate_versions *s, bool json)
{
    cleanup_with(buf_release) struct buf out;
    cleanup_with(table_release) struct table t;
    buf_init(&out, OUT_MAX);
    table_init(&t, COLUMNS);
    table_row(&t, COLUMNS, "VERSION", "NAME", "APPLIED AT");
    for (size_t i = 0; i < s->n; i++) {
        char version[16], at[RFC3339_TEXT + 1];
        snprintf(version, sizeof version, "%04d", s->v[i].version);
        migrate_applied_text(&s->v[i], at);
        table_row(&t, COLUMNS, version, table_text(&t, s->v[i].name), at);
        if (json)
            migrate_write_json(&s->v[i], &out);
    }
    if (!json)
        table_print(&t, &out);
    cli_print(cli, &out);
}

/* ---- up and down ---- */

/* Determines the target version. */
static enum err migrate_choose_version(const struct options *o, const struct migrate_versions *s, bool up, int *ret,
                                       struct error *e)
{
    int at = migrate_current_version(s);
    int to = up ? NEWEST : max_of(at - 1, 0);
    if (option_given(o, "to"))
        to = (int)option_get(o, "to")->number;
    if (to != NEWEST && (up ? to < at : to > at))
        return error_field(e, "--to", "is %s the current version %d", up ? "below" : "above", at);
    if (!up && to < at && !option_get(o, "yes")->number)
        return error_set(e, ERR_INVALID, "going down from version %d to %d %s; add --yes to confirm", at, to,
                         to ? "loses data that only the newer version can hold" : "deletes every task");
    *ret = to;
    return ERR_OK;
}

static enum exit_code migrate_up_or_down(struct cli *cli, const struct options *o, const struct migrate_store *p,
                                         bool up)
{
    cleanup_with(migrate_versions_release) struct migrate_versions before = { 0 }, after = { 0 };
    struct error e;
    int to;
    if (migrate_versions_read(p, &before, &e))
        return cli_fail(cli, "migrate", &e, EXIT_REFUSED);
    if (migrate_choose_version(o, &before, up, &to, &e))
        return cli_fail(cli, "migrate", &e, EXIT_USAGE);
    if (migrate_to_version(p, to, &e) || migrate_versions_read(p, &after, &e))
        return cli_fail(cli, "migrate", &e, EXIT_REFUSED);
    migrate_print_status(cli, &after, option_get(o, "json")->number);
    return EXIT_DONE;
}

static enum exit_code command_migrate_run(struct cli *cli, const struct options *o)
{
    cleanup_with(migrate_store_release) struct migrate_store place = { 0 };
    cleanup_with(migrate_versions_release) struct migrate_versions s = { 0 };
    struct error e;
    if (migrate_store_init(&place, cli, o, &e))
        return cli_fail(cli, "migrate", &e, EXIT_USAGE);
    struct str word = o->word_count == 1 ? o->words[0] : S("");
    if (word.n && verb_check_options(o, word.p, &e))
        return cli_fail(cli, "migrate", &e, EXIT_USAGE);
    if (str_eq(word, S("up")) || str_eq(word, S("down")))
        return migrate_up_or_down(cli, o, &place, str_eq(word, S("up")));
    if (!str_eq(word, S("status"))) {
        error_set(&e, ERR_INVALID, "the verb must be status, up or down");
        return cli_fail(cli, "migrate", &e, EXIT_USAGE);
    }
    if (migrate_check_directory(&place, &e) || migrate_versions_read(&place, &s, &e))
        return cli_fail(cli, "migrate", &e, EXIT_REFUSED);
    migrate_print_status(cli, &s, option_get(o, "json")->number);
    return EXIT_DONE;
}

const struct command command_migrate = {
    .name = "migrate",
    .words = "status|up|down",
    .summary = "show or change the schema version of a store",
    .detail =
        "A server migrates its store up by itself when it starts. Before up or down on a data directory, stop its server and\n"
        "make a backup. status only reads.\n"
        "In a cluster, the first node of a new release migrates up while nodes of the release before keep running, if they\n"
        "can work with the new schema. If they cannot, it refuses to start: stop all nodes and run 'belfry migrate up'.\n"
        "Before 'belfry migrate down', stop all nodes, too.\n"
        "\n"
        "Examples:\n"
        "  belfry migrate status\n"
        "  belfry migrate status --data-dir /var/lib/belfry --json\n"
        "  belfry migrate status --store postgres://belfry@db.example/belfry\n"
        "  belfry migrate down --to 1 --yes     before going back to an older release\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_migrate_run,
    .asks_no_server = true,
};
