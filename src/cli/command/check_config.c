/* belfry check-config - checks a configuration file of `belfry serve` and `belfry worker`. belfry __configuration -
 * prints the reference of all settings. */
#include "base/json/jsonw.h"
#include "cli/command/check.h"
#include "cli/command/commands.h"
#include "server/options.h"

enum { OUT_MAX = 64 * 1024 };

struct config_check {
    struct cli *cli;
    const char *path;
    size_t errors;
};

static void check_config_on_refused(void *context, const struct error *e)
{
    struct config_check *c = context;
    c->errors++;
    (void)cli_fail(c->cli, "check-config", e, EXIT_REFUSED);
}

static void check_config_add(struct config_check *c, const struct error *why)
{
    struct error e;
    error_set(&e, ERR_INVALID, "%s: %s%s%s", c->path, why->field, why->field[0] ? " " : "", why->text);
    check_config_on_refused(c, &e);
}

/* Reads the file once more, as one of the two commands does, and checks what that checks at its start. */
static void check_config_as(struct config_check *c, const struct option *rows, size_t count, value_check *const *checks)
{
    cleanup_with(options_release) struct options o;
    struct error e;
    options_init(&o, rows, count);
    if (options_read_config_file(&o, c->path, &e)) {
        check_config_on_refused(c, &e);
        return;
    }
    for (; *checks; checks++)
        if ((*checks)(&o, &e))
            check_config_add(c, &e);
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
    file.refused = check_config_on_refused;
    file.context = &check;
    if (options_read_config_file(&file, check.path, &e) && check.errors == 0) /* the file cannot be read */
        return cli_fail(cli, "check-config", &e, EXIT_REFUSED);
    if (check.errors == 0) {
        check_config_as(&check, server_options, SERVER_OPTION_COUNT, serve_value_checks);
        check_config_as(&check, worker_options, WORKER_OPTION_COUNT, worker_value_checks);
    }
    if (check.errors)
        return EXIT_REFUSED;
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
