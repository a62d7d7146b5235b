/* Shell completion. The scripts are short and call the binary (belfry __complete WORD…, where the last word is being
 * typed), so that they always match the tables. Each line of output is a candidate, a tab, and its description. */
#include "cli/command/completion.h"

#include "cli/command/commands.h"
#include "cli/table.h"
#include "cli/task_body.h"

enum { OUT_MAX = 256 * 1024 };

static const struct {
    const char *shell, *script;
} scripts[] = {
    { "bash", "_belfry() {\n"
              "    local IFS=$'\\n'\n"
              "    COMPREPLY=($(belfry __complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null | cut -f1))\n"
              "}\n"
              "complete -o default -F _belfry belfry\n" },
    { "zsh", "#compdef belfry\n"
             "_belfry() {\n"
             "    local -a lines; local line\n"
             "    for line in ${(f)\"$(belfry __complete -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"}; do\n"
             "        lines+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
             "    done\n"
             "    (( $#lines )) && _describe belfry lines || _files\n"
             "}\n"
             "_belfry \"$@\"\n" },
    { "fish", "complete -c belfry -f -a '(set -l words (commandline -opc) (commandline -ct); "
              "belfry __complete -- $words[2..-1] 2>/dev/null)'\n" },
};

static enum exit_code command_completion_run(struct cli *cli, const struct options *o)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    for (size_t i = 0; o->word_count == 1 && i < array_count(scripts); i++) {
        if (str_eq(o->words[0], str_from(scripts[i].shell))) {
            buf_text(&out, scripts[i].script);
            cli_print(cli, &out);
            return EXIT_DONE;
        }
    }
    struct error e;
    error_set(&e, ERR_INVALID, "give one shell: bash, zsh or fish");
    return cli_fail(cli, "completion", &e, EXIT_USAGE);
}

const struct command command_completion = {
    .name = "completion",
    .words = "bash|zsh|fish",
    .summary = "print a completion script for a shell",
    .detail = "Examples:\n"
              "  belfry completion bash > /etc/bash_completion.d/belfry\n"
              "  belfry completion zsh > \"${fpath[1]}/_belfry\"\n"
              "  belfry completion fish > ~/.config/fish/completions/belfry.fish\n",
    .run = command_completion_run,
};

static void completion_offer(struct buf *out, struct str typed, const char *before, struct str word, const char *what)
{
    cleanup_with(buf_release) struct buf candidate;
    buf_init(&candidate, 256);
    buf_printf(&candidate, "%s" STR_FMT, before, STR_ARG(word));
    if (!candidate.full && str_starts(buf_str(&candidate), typed))
        buf_printf(out, "%s\t%s\n", buf_cstr(&candidate), what);
}

static void completion_offer_commands(struct buf *out, struct str typed)
{
    for (const struct command *const *c = commands; *c; c++)
        if (!(*c)->hidden)
            completion_offer(out, typed, "", str_from((*c)->name), (*c)->summary);
}

static void completion_offer_choices(struct buf *out, struct str typed, const char *alternatives)
{
    struct str rest = str_from(alternatives), choice;
    while (str_cut(&rest, '|', &choice))
        completion_offer(out, typed, "", choice, "");
}

/* The option before the cursor whose value is being typed; NULL: none. */
static const struct option *completion_option_before_cursor(const struct option *rows, size_t n, struct str before)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].type != OPTION_FLAG && rows[i].flag && str_starts(before, S("--")) &&
            str_eq(str_sub(before, 2, before.n), str_from(rows[i].flag)))
            return &rows[i];
    return NULL;
}

/* Offers the verbs of "list|show|set [NAME]" for the first argument. completion_names offers the names after a verb. */
static void completion_offer_verbs(struct buf *out, struct str typed, const struct command *c, struct str before)
{
    struct str rest = str_from(c->words), choice;
    if (!str_cut(&rest, ' ', &choice) || !str_eq(before, str_from(c->name)))
        return;
    while (str_cut(&choice, '|', &rest))
        completion_offer(out, typed, "", rest, "");
}

struct completion_word {
    struct buf *out;
    struct str typed;
};

static void completion_on_name(void *context, struct str name, struct str what)
{
    const struct completion_word *t = context;
    char text[CELL_TEXT];
    completion_offer(t->out, t->typed, "", name, table_cell(what, text));
}

static void completion_offer_names(struct cli *cli, struct buf *out, const struct options *o, const char *flag)
{
    struct completion_word t = { out, o->words[o->word_count - 1] };
    if (!str_starts(t.typed, S("-")))
        completion_names(cli, o->words, o->word_count, flag, &(struct completion_callback){ completion_on_name, &t });
}

/* Offers "priority=" with the flag that means the same. */
static void completion_offer_fields(struct buf *out, struct str typed)
{
    const char *path, *flag;
    for (size_t i = 0; (path = task_field_path(i, &flag)); i++) {
        char field[64], what[64] = "";
        snprintf(field, sizeof field, "%s=", path);
        if (flag)
            snprintf(what, sizeof what, "the same as --%s", flag);
        completion_offer(out, typed, "", str_from(field), what);
    }
}

static void completion_offer_for_command(struct cli *cli, struct buf *out, const struct command *c,
                                         const struct options *o)
{
    struct str before = o->words[o->word_count - 2], typed = o->words[o->word_count - 1];
    struct option rows[COMMAND_OPTIONS_MAX];
    size_t n = command_options(c, rows, array_count(rows));
    const struct option *awaiting = completion_option_before_cursor(rows, n, before);
    if (awaiting && awaiting->choices)
        completion_offer_choices(out, typed, awaiting->choices);
    else if (awaiting && str_eq(str_from(awaiting->value), S("ZONE")))
        zoneinfo_names(cli->zones, typed, out);
    else if (awaiting && str_eq(str_from(awaiting->value), S("FIELD=JSON")))
        completion_offer_fields(out, typed);
    else if (awaiting)
        completion_offer_names(cli, out, o, awaiting->flag);
    if (awaiting)
        return;
    for (size_t i = 0; i < n; i++)
        if (rows[i].flag)
            completion_offer(out, typed, "--", str_from(rows[i].flag), rows[i].help);
    if (str_find(str_from(c->words), '|', 0) < strlen(c->words))
        completion_offer_verbs(out, typed, c, before);
    if (c == &command_help_)
        completion_offer_commands(out, typed);
    else
        completion_offer_names(cli, out, o, NULL);
}

static enum exit_code command_complete_run(struct cli *cli, const struct options *o)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    struct str typed = o->word_count ? o->words[o->word_count - 1] : S("");
    const struct command *c = o->word_count > 1 ? command_find(o->words[0]) : NULL;
    if (o->word_count <= 1)
        completion_offer_commands(&out, typed);
    else if (c)
        completion_offer_for_command(cli, &out, c, o);
    cli_print(cli, &out);
    return EXIT_DONE;
}

const struct command command_complete = {
    .name = "__complete",
    .words = "-- WORD…",
    .summary = "print candidates for a completion script",
    .run = command_complete_run,
    .hidden = true,
};
