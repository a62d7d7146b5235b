/* belfry check-config - checks a configuration file of `belfry serve` and `belfry worker`. belfry __configuration -
 * prints the reference of all settings. */
#include <stdlib.h>
#include <string.h>

#include "base/json/jsonw.h"
#include "cli/command/check.h"
#include "cli/command/commands.h"
#include "server/settings/options.h"

enum { OUT_MAX = 64 * 1024 };

struct config_check {
    struct cli *cli;
    const char *path;
    const struct options *o; /* whose values are checked */
    struct buf places;       /* "KEY LINE" of each setting, one a line */
    size_t errors;
};

static void check_config_on_refused(void *context, const struct error *e)
{
    struct config_check *c = context;
    c->errors++;
    (void)cli_fail(c->cli, "check-config", e, EXIT_REFUSED);
}

static void check_config_on_placed(void *context, const char *key, size_t line)
{
    struct config_check *c = context;
    buf_printf(&c->places, "%s %zu\n", key, line);
}

/* The line of a setting; 0: it is not in the file. */
static size_t check_config_line(const struct config_check *c, struct str key)
{
    struct str rest = buf_str(&c->places), line, name;
    while (str_cut(&rest, '\n', &line))
        if (str_cut(&line, ' ', &name) && str_eq(name, key))
            return (size_t)strtoul(line.p, NULL, 10);
    return 0;
}

/* "api.listen" for "--listen". */
static const char *check_config_key(const struct config_check *c, const char *field)
{
    for (size_t i = 0; i < c->o->count && str_starts(str_from(field), S("--")); i++) {
        const struct option *row = &c->o->rows[i];
        if (row->flag && row->key && strcmp(row->flag, field + 2) == 0)
            return row->key;
    }
    return field;
}

/* A field may be a part of a setting: brokers.orders.cacert. */
static void check_config_on_value(void *context, const struct error *why)
{
    struct config_check *c = context;
    struct error e;
    const char *key = check_config_key(c, why->field);
    struct str setting = str_from(key);
    size_t line = 0;
    while (setting.n && (line = check_config_line(c, setting)) == 0)
        while (setting.n && setting.p[--setting.n] != '.')
            ;
    if (line)
        error_field(&e, key, "%s (%s:%zu)", why->text, c->path, line);
    else
        error_field(&e, key, "%s (%s)", why->text, c->path);
    check_config_on_refused(c, &e);
}

static void check_config_on_known(void *context, const struct error *e)
{
    (void)context;
    (void)e;
}

/* Reads the file once more, as one of the two commands does, and checks what that checks at its start. Lines that are
 * wrong were told before; their settings count as not given. */
static void check_config_as(struct config_check *c, const struct option *rows, size_t count, value_check *const *checks)
{
    cleanup_with(options_release) struct options o;
    struct error e;
    options_init(&o, rows, count);
    o.refused = check_config_on_known;
    o.context = c;
    (void)!options_read_config_file(&o, c->path, &e);
    o.refused = check_config_on_value;
    c->o = &o;
    for (; *checks; checks++)
        if ((*checks)(&o, &e))
            check_config_on_value(c, &e);
}

static void check_config_warn_together(const struct config_check *c)
{
    cleanup_with(options_release) struct options o;
    struct error e;
    options_init(&o, server_options, SERVER_OPTION_COUNT);
    if (options_read_config_file(&o, c->path, &e) == ERR_OK && serve_check_together(&o, &e))
        fprintf(c->cli->err, "belfry check-config: with this file alone, 'belfry serve' refuses it: %s: %s%s%s\n",
                c->path, e.field, e.field[0] ? " " : "", e.text);
}

/* Prints the errors of the file. */
static enum exit_code check_config_all(struct config_check *c, struct options *file)
{
    struct error e;
    buf_init(&c->places, OPTION_FILE_MAX);
    file->refused = check_config_on_refused;
    file->placed = check_config_on_placed;
    file->context = c;
    if (options_read_config_file(file, c->path, &e) && c->errors == 0) /* the file cannot be read */
        return cli_fail(c->cli, "check-config", &e, EXIT_REFUSED);
    check_config_as(c, server_options, SERVER_OPTION_COUNT, serve_value_checks);
    check_config_as(c, worker_options, WORKER_OPTION_COUNT, worker_value_checks);
    buf_release(&c->places);
    return c->errors ? EXIT_REFUSED : EXIT_DONE;
}

static enum exit_code command_check_config_run(struct cli *cli, const struct options *o)
{
    cleanup_with(options_release) struct options file;
    cleanup_with(buf_release) struct buf out;
    struct error e;
    options_init(&file, server_options, SETTING_COUNT);
    buf_init(&out, OUT_MAX);
    if (o->word_count != 1) {
        error_set(&e, ERR_INVALID, "give exactly one file");
        return cli_fail(cli, "check-config", &e, EXIT_USAGE);
    }
    struct config_check check = { .cli = cli, .path = o->words[0].p };
    enum exit_code code = check_config_all(&check, &file);
    if (code)
        return code;
    check_config_warn_together(&check);
    size_t given = 0;
    for (size_t i = 0; i < file.count; i++)
        given += file.values[i].source == FROM_FILE;
    if (option_get(o, "json")->number) {
        struct jw w;
        jw_init(&w, &out);
        jw_object(&w);
        jw_kv_bool(&w, "valid", true);
        jw_kv_i64(&w, "settings", (int64_t)given);
        jw_object_end(&w);
        buf_char(&out, '\n');
    } else {
        buf_printf(&out, "%s: %zu %s, all valid\n", o->words[0].p, given, given == 1 ? "setting" : "settings");
    }
    cli_print(cli, &out);
    return EXIT_DONE;
}

const struct command command_check_config = {
    .name = "check-config",
    .words = "FILE",
    .summary = "check a configuration file",
    .detail =
        "Prints all errors, each with its line. Checks every value as 'belfry serve' and 'belfry worker' do at their start, and\n"
        "reads the files that values name. Starts nothing, and ignores the environment. If 'belfry serve' needs settings\n"
        "that are not in the file, such as --queue for --events, says so on stderr.\n"
        "\n"
        "Examples:\n"
        "  belfry check-config /etc/belfry/belfry.conf\n",
    .run = command_check_config_run,
};

static enum exit_code command_configuration_run(struct cli *cli, const struct options *o)
{
    (void)o;
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    options_write_reference(&out);
    cli_print(cli, &out);
    return EXIT_DONE;
}

const struct command command_configuration = {
    .name = "__configuration",
    .words = "",
    .summary = "print the table of docs/CONFIGURATION.md",
    .run = command_configuration_run,
    .hidden = true,
};
