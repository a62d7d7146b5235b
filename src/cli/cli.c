#include "cli/cli.h"

#include "cli/commands.h"

enum { HELP_MAX = 64 * 1024, OPTIONS_MAX = 64, SUGGEST_DISTANCE = 2 };

const struct command *command_find(struct str name)
{
    for (const struct command *const *c = commands; *c; c++)
        if (str_eq(name, str_from((*c)->name)))
            return *c;
    return NULL;
}

static const struct command *closest_command(struct str name)
{
    const struct command *best = NULL;
    size_t least = SUGGEST_DISTANCE + 1;
    for (const struct command *const *c = commands; *c; c++) {
        size_t distance = str_distance(name, str_from((*c)->name));
        if (!(*c)->hidden && distance < least) {
            least = distance;
            best = *c;
        }
    }
    return best;
}

size_t command_options(const struct command *c, struct option *ret, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < c->option_count && n < max; i++)
        ret[n++] = c->options[i];
    for (size_t i = 0; i < common_option_count && n < max; i++)
        ret[n++] = common_options[i];
    return n;
}

void command_help(const struct command *c, struct buf *out)
{
    struct option rows[OPTIONS_MAX];
    size_t n = command_options(c, rows, array_count(rows));
    buf_printf(out, "belfry %s - %s\n\nUsage: belfry %s [OPTION…] %s\n\nOptions:\n", c->name, c->summary, c->name,
               c->words);
    options_help(rows, n, out);
    if (c->detail)
        buf_printf(out, "\n%s", c->detail);
}

void commands_help(struct buf *out)
{
    buf_text(out, "Belfry - do this later, do this every morning, do this after that\n\n"
                  "Usage: belfry COMMAND [OPTION…] [WORD…]\n\nCommands:\n");
    for (const struct command *const *c = commands; *c; c++)
        if (!(*c)->hidden)
            buf_printf(out, "  %-12s %s\n", (*c)->name, (*c)->summary);
    buf_text(out, "\n'belfry COMMAND --help' explains a command.\n"
                  "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 server unreachable.\n");
}

enum exit_code cli_fail(struct cli *cli, const char *command, const struct error *e, enum exit_code code)
{
    /* "--count must be …" reads as a sentence; the name of a cron field or a JSON path stands in front of one. */
    const char *between = e->field[0] == '\0' ? "" : e->field[0] == '-' ? " " : ": ";
    fprintf(cli->err, "belfry %s: %s%s%s\n", command, e->field, between, e->text);
    return code;
}

void cli_print(struct cli *cli, const struct buf *text)
{
    fwrite(buf_cstr(text), 1, text->n, cli->out);
    fflush(cli->out);
}

static int print_help(struct cli *cli, const struct command *c)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, HELP_MAX);
    if (c)
        command_help(c, &out);
    else
        commands_help(&out);
    cli_print(cli, &out);
    return EXIT_DONE;
}

static int run_command(struct cli *cli, const struct command *c, int argc, char *const *argv)
{
    struct option rows[OPTIONS_MAX];
    cleanup_with(options_release) struct options o;
    options_init(&o, rows, command_options(c, rows, array_count(rows)));
    struct error e;
    if (options_parse_flags(&o, argc, argv, &e)) {
        cli_fail(cli, c->name, &e, EXIT_USAGE);
        fprintf(cli->err, "Try 'belfry %s --help'.\n", c->name);
        return EXIT_USAGE;
    }
    if (option_get(&o, "help")->number)
        return print_help(cli, c);
    return (int)c->run(cli, &o);
}

static int unknown_command(struct cli *cli, const char *name)
{
    const struct command *close = closest_command(str_from(name));
    if (close)
        fprintf(cli->err, "belfry: there is no command '%s'; did you mean '%s'?\n", name, close->name);
    else
        fprintf(cli->err, "belfry: there is no command '%s'; 'belfry --help' lists them\n", name);
    return EXIT_USAGE;
}

int cli_main(struct cli *cli, int argc, char *const *argv)
{
    if (argc < 2) {
        cleanup_with(buf_release) struct buf out;
        buf_init(&out, HELP_MAX);
        commands_help(&out);
        fputs(buf_cstr(&out), cli->err);
        return EXIT_USAGE;
    }
    struct str word = str_from(argv[1]);
    if (str_eq(word, S("--help")) || str_eq(word, S("-h")))
        return print_help(cli, NULL);
    if (str_eq(word, S("--version")))
        return run_command(cli, &command_version, argc - 2, argv + 2);
    const struct command *c = command_find(word);
    return c ? run_command(cli, c, argc - 2, argv + 2) : unknown_command(cli, argv[1]);
}
