/* belfry check-config - checks a configuration file of `belfry serve` and `belfry worker`. belfry __configuration -
 * prints the reference of all settings. */
#include "base/json/jsonw.h"
#include "cli/command/commands.h"
#include "server/options.h"

enum { OUT_MAX = 64 * 1024 };

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
    if (options_read_config_file(&file, o->words[0].p, &e))
        return cli_fail(cli, "check-config", &e, EXIT_REFUSED);
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
    .detail = "Prints each error with its line. Starts nothing, and ignores the environment.\n"
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
