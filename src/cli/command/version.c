/* belfry version and belfry help. */
#include "base/json/jsonw.h"
#include "cli/command/commands.h"

static enum exit_code command_version_run(struct cli *cli, const struct options *o)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, 4096);
    if (option_get(o, "json")->number) {
        struct jw w;
        jw_init(&w, &out);
        jw_object(&w);
        jw_kv_cstr(&w, "version", BELFRY_VERSION);
        jw_kv_cstr(&w, "compiler", __VERSION__);
        jw_object_end(&w);
        buf_char(&out, '\n');
    } else {
        buf_printf(&out, "belfry %s\n", BELFRY_VERSION);
    }
    cli_print(cli, &out);
    return EXIT_DONE;
}

const struct command command_version = {
    .name = "version",
    .words = "",
    .summary = "print the version",
    .run = command_version_run,
};

static enum exit_code command_help_run(struct cli *cli, const struct options *o)
{
    const struct command *c = o->word_count ? command_find(o->words[0]) : NULL;
    return o->word_count && !c ? command_unknown(cli, o->words[0]) : cli_print_help(cli, c);
}

const struct command command_help_ = {
    .name = "help",
    .words = "[COMMAND]",
    .summary = "explain a command",
    .run = command_help_run,
};
