#include "cli/cli.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "base/sentence.h"
#include "server/settings/options.h"

enum { HELP_MAX = 64 * 1024 };

const struct command *command_find(struct str name)
{
    for (const struct command *const *c = commands; *c; c++)
        if (str_eq(name, str_from((*c)->name)))
            return *c;
    return NULL;
}

static bool command_has_flag(const struct option *rows, size_t count, const char *flag)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].flag && strcmp(rows[i].flag, flag) == 0)
            return true;
    return false;
}

static size_t command_own_options(const struct command *c, struct option *ret, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < c->option_count && n < max; i++)
        ret[n++] = c->options[i];
    for (size_t i = 0; i < c->shared_count && n < max; i++)
        ret[n++] = c->shared_options[i];
    return n;
}

/* A command that asks no server refuses these options. Their variables may be set for other commands. */
static bool command_takes(const struct command *c, const struct option *common)
{
    static const char *const for_server[] = { "server", "key", "ca", "cert", "cert-key" };
    for (size_t i = 0; c->asks_no_server && i < array_count(for_server); i++)
        if (strcmp(common->flag, for_server[i]) == 0)
            return false;
    return true;
}

size_t command_options(const struct command *c, struct option *ret, size_t max)
{
    size_t own = command_own_options(c, ret, max), n = own;
    for (size_t i = 0; i < common_option_count && n < max; i++)
        if (!command_has_flag(ret, own, common_options[i].flag) && command_takes(c, &common_options[i]))
            ret[n++] = common_options[i];
    return n;
}

static void command_help(const struct command *c, struct buf *out)
{
    struct option rows[COMMAND_OPTIONS_MAX];
    size_t own = command_own_options(c, rows, array_count(rows)), n = command_options(c, rows, array_count(rows));
    buf_printf(out, "belfry %s - %s\n\nUsage: belfry %s [OPTION…]%s%s\n", c->name, c->summary, c->name,
               c->words[0] ? " " : "", c->words);
    if (strstr(c->words, "TASK"))
        buf_text(out, "\nTASK is the id of a task, the beginning of its id, or its name. Exactly one task must fit.\n");
    if (own)
        buf_text(out, "\nOptions:\n");
    options_help(rows, own, out);
    buf_text(out, "\nCommon options:\n");
    options_help(rows + own, n - own, out);
    if (c->detail)
        buf_printf(out, "\n%s", c->detail);
}

static void commands_help(struct buf *out)
{
    buf_text(out, "Belfry - a task scheduler: do this later, do this every morning, do this after that\n\n"
                  "Usage: belfry COMMAND [OPTION…] [ARGUMENT…]\n\nCommands:\n");
    for (const struct command *const *c = commands; *c; c++)
        if (!(*c)->hidden)
            buf_printf(out, "  %-12s %s\n", (*c)->name, (*c)->summary);
    buf_text(out, "\n'belfry COMMAND --help' explains a command.\n"
                  "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 server unreachable.\n");
}

/* An error text may contain user input, and may have been cut within a UTF-8 character. */
static void cli_print_escaped(FILE *out, struct str text)
{
    for (size_t i = 0; i < text.n;) {
        size_t n = str_utf8_at(text, i);
        bool is_control = (unsigned char)text.p[i] < ' ' || text.p[i] == 0x7F;
        if (n == 0 || is_control)
            fputc('?', out);
        else
            fwrite(text.p + i, 1, n, out);
        i += max_of(n, (size_t)1);
    }
}

enum exit_code cli_fail_at(struct cli *cli, const char *place, const struct error *e, enum exit_code code)
{
    /* "--count must be …" is a sentence; the name of a cron field or a JSON path is followed by a colon. */
    const char *between = e->field[0] == '\0' ? "" : e->field[0] == '-' ? " " : ": ";
    cli_print_escaped(cli->err, str_from(place));
    fputs(": ", cli->err);
    cli_print_escaped(cli->err, str_from(e->field));
    fputs(between, cli->err);
    cli_print_escaped(cli->err, str_from(e->text));
    fputc('\n', cli->err);
    return code;
}

enum exit_code cli_fail(struct cli *cli, const char *command, const struct error *e, enum exit_code code)
{
    fputs("belfry ", cli->err);
    return cli_fail_at(cli, command, e, code);
}

size_t cli_columns(const struct cli *cli)
{
    struct winsize size;
    return cli->out_is_terminal && ioctl(fileno(cli->out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool cli_print(struct cli *cli, const struct buf *text)
{
    errno = 0;
    bool written = fwrite(buf_cstr(text), 1, text->n, cli->out) == text->n && fflush(cli->out) == 0;
    if (!written && !cli->out_errno)
        cli->out_errno = errno ? errno : EIO;
    return !cli->out_errno;
}

enum exit_code cli_print_help(struct cli *cli, const struct command *c)
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

/* Lost output is a failure, even if the command itself succeeded. */
static int cli_check_output(struct cli *cli, const struct command *c, int code)
{
    if (!cli->out_errno || cli->out_errno == EPIPE)
        return code;
    struct error e;
    error_set(&e, ERR_UNAVAILABLE, "cannot write the output: %s", strerror(cli->out_errno));
    return (int)cli_fail(cli, c->name, &e, EXIT_REFUSED);
}

static int cli_refuse_usage(struct cli *cli, const struct command *c, const struct error *e)
{
    cli_fail(cli, c->name, e, EXIT_USAGE);
    fprintf(cli->err, "Try 'belfry %s --help'.\n", c->name);
    return EXIT_USAGE;
}

void cli_add_shell_word(struct buf *out, struct str word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-";
    bool is_plain = word.n > 0;
    for (size_t i = 0; i < word.n; i++)
        is_plain = is_plain && word.p[i] && strchr(plain, word.p[i]);
    if (is_plain) {
        buf_add(out, word);
        return;
    }
    buf_char(out, '\'');
    for (size_t i = 0; i < word.n; i++) {
        if (word.p[i] == '\'')
            buf_text(out, "'\\'");
        buf_char(out, word.p[i]);
    }
    buf_char(out, '\'');
}

static void cli_note_where(struct cli *cli, const struct options *o)
{
    static const char *const flags[] = { "server", "key", "ca", "cert", "cert-key", "data-dir" };
    cleanup_with(buf_release) struct buf where;
    buf_init(&where, sizeof cli->where - 1);
    for (size_t i = 0; i < array_count(flags); i++) {
        const struct option_value *v = option_get(o, flags[i]);
        bool is_secret = strcmp(flags[i], "key") == 0 && !str_starts(v->text, S("file:"));
        if (v->source != FROM_FLAG || is_secret)
            continue;
        buf_printf(&where, " --%s ", flags[i]);
        cli_add_shell_word(&where, v->text);
    }
    snprintf(cli->where, sizeof cli->where, "%s", where.full ? "" : buf_cstr(&where));
}

static int command_run_with(struct cli *cli, const struct command *c, int argc, char *const *argv)
{
    struct option rows[COMMAND_OPTIONS_MAX];
    cleanup_with(options_release) struct options o;
    options_init(&o, rows, command_options(c, rows, array_count(rows)));
    struct error e;
    cli->command = c;
    if (options_parse_flags(&o, argc, argv, &e) || options_parse_env(&o, options_getenv, &e))
        return cli_refuse_usage(cli, c, &e);
    if (option_get(&o, "help")->number)
        return cli_check_output(cli, c, (int)cli_print_help(cli, c));
    if (c->words[0] == '\0' && o.word_count) {
        char word[QUOTE_TEXT];
        quote_text(o.words[0], word);
        error_set(&e, ERR_INVALID, "takes no arguments, but got %s", word);
        return cli_refuse_usage(cli, c, &e);
    }
    if (command_has_flag(rows, o.count, "server"))
        cli_note_where(cli, &o);
    return cli_check_output(cli, c, (int)c->run(cli, &o));
}

void cli_on_unknown_variable(void *context, struct str name, struct str closest)
{
    struct cli *cli = context;
    char shown[QUOTE_TEXT];
    quote_text(name, shown);
    fprintf(cli->err, "belfry %s: the variable %s is no setting and has no effect", cli->command->name, shown);
    if (closest.n)
        fprintf(cli->err, "; did you mean " STR_FMT "?", STR_ARG(closest));
    fputc('\n', cli->err);
}

enum exit_code command_unknown(struct cli *cli, struct str name)
{
    struct suggest s;
    suggest_init(&s, name);
    for (const struct command *const *c = commands; *c; c++)
        if (!(*c)->hidden)
            suggest_offer(&s, str_from((*c)->name));
    char shown[QUOTE_TEXT];
    quote_text(name, shown);
    if (s.closest.p)
        fprintf(cli->err, "belfry: there is no command %s; did you mean '" STR_FMT "'?\n", shown, STR_ARG(s.closest));
    else
        fprintf(cli->err, "belfry: there is no command %s; 'belfry --help' lists them\n", shown);
    return EXIT_USAGE;
}

int cli_main(struct cli *cli, int argc, char *const *argv)
{
    cli->program = argc > 0 && argv[0][0] ? argv[0] : "belfry";
    if (argc < 2) {
        cleanup_with(buf_release) struct buf out;
        buf_init(&out, HELP_MAX);
        commands_help(&out);
        fputs(buf_cstr(&out), cli->err);
        return EXIT_USAGE;
    }
    struct str word = str_from(argv[1]);
    if (str_eq(word, S("--help")) || str_eq(word, S("-h")))
        return cli_check_output(cli, command_find(S("help")), (int)cli_print_help(cli, NULL));
    if (str_eq(word, S("--version")))
        return command_run_with(cli, command_find(S("version")), argc - 2, argv + 2);
    const struct command *c = command_find(word);
    return c ? command_run_with(cli, c, argc - 2, argv + 2) : (int)command_unknown(cli, word);
}
