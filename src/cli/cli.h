#pragma once
/* cli/cli.h - the command line: a table of commands, each a table of options and a function.
 *
 * Dispatch, --help and shell completion read the tables: a new command is a file of its own and a row in commands.c. Exit codes
 * are fixed (API.md): scripts rely on them. */
#include <stdio.h>

#include "base/option/option.h"
#include "port/clock.h"
#include "port/zoneinfo.h"

enum exit_code { EXIT_DONE = 0, EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_UNREACHABLE = 3 };

/* What main.c gives to every command. */
struct cli {
    struct clock *clock;
    struct zoneinfo *zones;
    FILE *out, *err;
    bool out_is_terminal;
    int out_errno;                 /* why out takes no more; 0: it does */
    const char *program;           /* as it was called: what commands that we propose begin with */
    const struct command *command; /* the one that runs: several may share a function */
};

struct command {
    const char *name;
    const char *words;   /* what stands behind the options: "EXPR", "[COMMAND]" */
    const char *summary; /* one line, no full stop */
    const char *detail;  /* what --help teaches below the options: paragraphs and examples */
    const struct option *options;
    size_t option_count;
    const struct option *shared_options; /* those it has together with other commands; NULL: none */
    size_t shared_count;
    enum exit_code (*run)(struct cli *cli, const struct options *o);
    bool hidden; /* from help and completion */
};

extern const struct command *const commands[]; /* in the order of help; NULL at the end */

/* Options that every command takes, unless it has its own of that name. */
extern const struct option common_options[];
extern const size_t common_option_count;

/* argv as main gets it. */
int cli_main(struct cli *cli, int argc, char *const *argv);

const struct command *command_find(struct str name);              /* NULL: there is none */
enum exit_code command_unknown(struct cli *cli, struct str name); /* says so on stderr, with the closest one */
void command_help(const struct command *c, struct buf *out);
void commands_help(struct buf *out);

/* A command's own options, those it shares, and the common ones, into ret; returns how many. */
enum { COMMAND_OPTIONS_MAX = 64 };
size_t command_options(const struct command *c, struct option *ret, size_t max);

/* "belfry next: minute: 60 is not between 0 and 59", on stderr; what would garble a terminal is shown as '?'. Returns code,
 * for `return cli_fail(…)`. */
enum exit_code cli_fail(struct cli *cli, const char *command, const struct error *e, enum exit_code code);

/* Writes the buffer to stdout. False: nobody takes it any more, stop. A reader that went away (| head) is no failure;
 * any other reason becomes a sentence and EXIT_REFUSED when the command returns. */
bool cli_print(struct cli *cli, const struct buf *text);
