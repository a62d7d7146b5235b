#pragma once
/* cli/cli.h - the command line: a table of commands, each with a table of options and a function.
 *
 * Dispatch, --help and shell completion read the tables: a new command is a new file and a row in commands.c. Exit
 * codes never change: scripts rely on them. */
#include <stdio.h>

#include "base/option/option.h"
#include "port/clock.h"
#include "port/zoneinfo.h"

enum exit_code { EXIT_DONE = 0, EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_UNREACHABLE = 3 };

enum { CLI_WHERE_TEXT = 2048 };

/* Context that main.c gives to every command. */
struct cli {
    struct clock *clock;
    struct zoneinfo *zones;
    FILE *out, *err;
    bool out_is_terminal;
    int out_errno;                 /* error of the first failed write to out; 0: none */
    const char *program;           /* argv[0]: suggested commands begin with it */
    const struct command *command; /* the running command; several commands may share one function */
    /* " --server URL --data-dir DIR", as far as they were given by flags: a suggested command ends with it, so that it
     * asks the same server. A key is not repeated, unless it is the name of a file. */
    char where[CLI_WHERE_TEXT];
};

struct command {
    const char *name;
    const char *words;   /* arguments after the options: "EXPR", "[COMMAND]"; "": none */
    const char *summary; /* one line, no full stop */
    const char *detail;  /* text of --help below the options: paragraphs and examples */
    const struct option *options;
    size_t option_count;
    const struct option *shared_options; /* options that other commands have too; NULL: none */
    size_t shared_count;
    enum exit_code (*run)(struct cli *cli, const struct options *o);
    bool hidden;         /* from help and completion */
    bool asks_no_server; /* works on stored data, so --server and --key are unknown options */
};

extern const struct command *const commands[]; /* in the order of --help; NULL at the end */

/* Options that every command takes, unless it has an option of its own with the same name. */
extern const struct option common_options[];
extern const size_t common_option_count;

/* argv as main gets it. */
int cli_main(struct cli *cli, int argc, char *const *argv);

const struct command *command_find(struct str name);              /* NULL: there is none */
enum exit_code command_unknown(struct cli *cli, struct str name); /* prints an error with the closest name to stderr */
enum exit_code cli_print_help(struct cli *cli, const struct command *c); /* to stdout; NULL: of all commands */

/* Copies a command's own, shared and common options to ret; returns their number. */
enum { COMMAND_OPTIONS_MAX = 96 };
size_t command_options(const struct command *c, struct option *ret, size_t max);

/* Prints "belfry next: minute: 60 is not between 0 and 59" to stderr, with '?' for each control character and each
 * invalid byte. Returns code, for `return cli_fail(…)`. */
enum exit_code cli_fail(struct cli *cli, const char *command, const struct error *e, enum exit_code code);

/* The same with another beginning: "etl.yaml:12: steps[3].name: is missing". */
enum exit_code cli_fail_at(struct cli *cli, const char *place, const struct error *e, enum exit_code code);

/* Appends a word, quoted for a shell if necessary. */
void cli_add_shell_word(struct buf *out, struct str word);

/* For options_find_unknown_variables, with the struct cli as context: prints a warning. */
void cli_on_unknown_variable(void *context, struct str name, struct str closest);

/* The columns of the terminal that stdout is; 0: it is none, or its width is not known. */
size_t cli_columns(const struct cli *cli);

/* Writes the buffer to stdout. False: a write has failed, so the command should stop. If the reader closed the pipe
 * (| head), that is no failure; any other error is printed, and the exit code is EXIT_REFUSED, when the command
 * returns. */
bool cli_print(struct cli *cli, const struct buf *text);
