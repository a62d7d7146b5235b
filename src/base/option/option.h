#pragma once
/* base/option/option.h - options as a table: flags, environment, file and defaults, in that order of weight.
 *
 * A row says everything about an option; parsing, range checks, --help, the configuration reference and shell completion
 * all read the rows. What is not in a table is refused by name, with the closest known one suggested. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"

enum option_type {
    OPTION_TEXT,
    OPTION_FLAG,     /* no value on the command line; true or false elsewhere */
    OPTION_INT,      /* within [min, max] */
    OPTION_DURATION, /* milliseconds, within [min, max] */
    OPTION_TIME,     /* RFC 3339 and nothing else; stored as milliseconds */
    OPTION_CHOICE,   /* one of choices, case ignored; stored as its index */
    OPTION_LIST,     /* text that may be given several times on the command line; elsewhere it is one text */
};

struct option {
    /* In the file: "api.listen"; from it the variable: BELFRY_API_LISTEN. NULL: flag only. "brokers.*" of a list: each "brokers.NAME = text" of
     * the file is one more of it, "NAME=text". */
    const char *key;
    const char *flag; /* "listen" for --listen; NULL: none */
    char letter;      /* 'X' for -X; 0: none */
    enum option_type type;
    const char *value;   /* what help calls the value: "ADDRESS" */
    const char *preset;  /* the default as text; NULL: none */
    int64_t min, max;    /* both 0: the type's own */
    const char *choices; /* "shift|skip" */
    const char *help;    /* one line, no full stop */
};

enum option_source { FROM_NOWHERE, FROM_PRESET, FROM_FILE, FROM_ENV, FROM_FLAG }; /* weightier last */

enum { OPTION_LIST_MAX = 64, OPTION_ENV_TEXT = 96, OPTION_FILE_MAX = 1 << 20 };

struct option_value {
    struct str text; /* as given; p NULL when neither given nor preset */
    int64_t number;  /* OPTION_FLAG 0/1, INT, DURATION and TIME in ms, CHOICE's index */
    struct str list[OPTION_LIST_MAX];
    size_t list_count;
    enum option_source source;
};

/* Values beside their table: values[i] belongs to rows[i]. Texts are borrowed from argv, environment and table, or copied
 * from the file; a NUL stands behind each. */
struct options {
    const struct option *rows;
    size_t count;
    struct option_value *values;
    struct str *words; /* what was no option, in order; everything behind "--" */
    size_t word_count;
    struct arena texts;          /* the file's values */
    const struct option *beside; /* rows of who shares the file: what is theirs is passed over. NULL: nobody does */
    size_t beside_count;
};

void options_init(struct options *o, const struct option *rows, size_t count); /* and sets the presets */
void options_release(struct options *o);

/* Each refuses with a sentence that names the option and the remedy. A later source never overrules a weightier one, so
 * the order of the calls does not matter. Errors have the option as their field: "--count", "BELFRY_API_LISTEN",
 * "api.listen". */
enum err options_parse_flags(struct options *o, int argc, char *const *argv,
                             struct error *e) must_use; /* argv[0] is the first argument */
enum err options_parse_env(struct options *o, const char *(*lookup)(const char *name), struct error *e) must_use;

/* key = value lines, [section] headers that stand in front of their keys ("[api]" and "listen" are api.listen), # comments
 * at a line's start or behind a blank, values bare or in double quotes (\" \\ \n \t). name is the file's, for errors. */
enum err options_parse_file(struct options *o, const char *name, struct str text, struct error *e) must_use;

/* BELFRY_API_LISTEN, from "api.listen". */
void option_env_name(const char *key, char out[OPTION_ENV_TEXT]);

/* By flag, or by key where there is no flag; the name must be in the table. */
const struct option_value *option_get(const struct options *o, const char *name);
bool option_given(const struct options *o, const char *name); /* by anyone but the preset */

/* The options' part of --help: one line each, aligned, wrapped at 100 columns, with default and range. */
void options_help(const struct option *rows, size_t count, struct buf *out);
