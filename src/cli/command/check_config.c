/* belfry check-config - checks a configuration file of `belfry serve` and `belfry worker`. belfry __configuration -
 * prints the reference of all settings. */
#include "base/json/jsonw.h"
#include "cli/command/check.h"
#include "cli/command/commands.h"
#include "server/options.h"

enum { OUT_MAX = 64 * 1024 };

/* Reads the file once more, as one of the two commands does, and checks what that checks at its start. */
static enum err check_config_as(const struct option *rows, size_t count, const char *path,
                                enum err (*check)(const struct options *o, struct error *e), struct error *e)
{
    cleanup_with(options_release) struct options o;
    options_init(&o, rows, count);
    if (options_read_config_file(&o, path, e))
        return e->code;
    struct error why;
    if (!check(&o, &why))
        return ERR_OK;
    return error_set(e, ERR_INVALID, "%s: %s%s%s", path, why.field, why.field[0] ? " " : "", why.text);
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
    const char *path = o->words[0].p;
    if (options_read_config_file(&file, path, &e) ||
        check_config_as(server_options, SERVER_OPTION_COUNT, path, serve_check_values, &e) ||
        check_config_as(worker_options, WORKER_OPTION_COUNT, path, worker_check_values, &e))
        return cli_fail(cli, "check-config", &e, EXIT_REFUSED);
    if (check_config_as(server_options, SERVER_OPTION_COUNT, path, serve_check_together, &e))
        fprintf(cli->err, "belfry check-config: with this file alone, 'belfry serve' refuses it: %s\n", e.text);
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
        "Prints each error with its line. Checks every value as 'belfry serve' and 'belfry worker' do at their start, and\n"
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
