#pragma once
/* base/option/option.h - options as a table, read from flags, environment, configuration file and defaults.
 *
 * The first source in this order that gives a value wins. A row describes an option completely: parsing, range checks,
 * --help, the configuration reference and shell completion all read the rows. An unknown option is an error that
 * suggests the closest known name. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"

enum option_type {
    OPTION_TEXT,
    OPTION_FLAG,     /* takes no value on the command line; true or false elsewhere */
    OPTION_INT,      /* within [min, max] */
    OPTION_DURATION, /* milliseconds, within [min, max] */
    OPTION_TIME,     /* RFC 3339 only; stored as milliseconds */
    OPTION_DAY,      /* of a range: also a date, which is its first moment in UTC */
    OPTION_PAST,   /* of a range that is over: also a duration, how long ago; stored as its negative (option_past_ms) */
    OPTION_CHOICE, /* one of choices, ignoring case; stored as its index */
    OPTION_LIST,   /* text; a flag may be repeated, other sources give one text */
};

struct option {
    /* Name in the file: "api.listen". The environment variable follows from it: BELFRY_API_LISTEN. NULL: flag only. A
     * list's key may be "brokers.*": each line "brokers.NAME = text" of the file then adds "NAME=text" to the list. */
    const char *key;
    const char *flag; /* "listen" for --listen; NULL: none */
    char letter;      /* 'X' for -X; 0: none */
    enum option_type type;
    const char *value;   /* the value's name in --help: "ADDRESS" */
    const char *preset;  /* the default as text; NULL: none */
    int64_t min, max;    /* both 0: the type's own range */
    const char *choices; /* "shift|skip" */
    const char *help;    /* one line, no full stop */
    const char *only;    /* verbs of the command that take it: "create|set"; NULL: all. --help prints them first */
};

enum option_source { FROM_NOWHERE, FROM_PRESET, FROM_FILE, FROM_ENV, FROM_FLAG }; /* in ascending priority */

enum { OPTION_LIST_MAX = 64, OPTION_ENV_TEXT = 96, OPTION_FILE_MAX = 1 << 20 };

struct option_value {
    struct str text; /* as given; p is NULL if neither given nor preset */
    int64_t number;  /* OPTION_FLAG 0/1, INT, DURATION, TIME, DAY and PAST in ms, CHOICE's index */
    struct str list[OPTION_LIST_MAX];
    size_t list_count;
    enum option_source source;
};

/* values[i] belongs to rows[i]. Texts are borrowed from argv, environment and table, or copied from the file; each ends
 * in NUL. */
struct options {
    const struct option *rows;
    size_t count;
    struct option_value *values;
    struct str *words; /* arguments that are not options, in order; all after "--" */
    size_t word_count;
    struct arena texts;          /* values from the file */
    const struct option *beside; /* rows of other commands that read the same file; their keys are skipped */
    size_t beside_count;
    /* Told of each line of the file, and of each value, that is wrong. NULL: the first one ends the reading. */
    void (*refused)(void *context, const struct error *e);
    void (*placed)(void *context, const char *key, size_t line); /* told where each setting is; NULL: nobody */
    void *context;
};

void options_init(struct options *o, const struct option *rows, size_t count); /* also sets the presets */
void options_release(struct options *o);

/* Each fails with a sentence that names the option and the remedy. A source never overrides one of higher priority, so
 * the order of the calls does not matter. The error's field is the option as its source names it: "--count",
 * "BELFRY_API_LISTEN", "api.listen". */
enum err options_parse_flags(struct options *o, int argc, char *const *argv,
                             struct error *e) must_use; /* argv[0] is the first argument */
enum err options_parse_env(struct options *o, const char *(*lookup)(const char *name), struct error *e) must_use;

/* Reads lines "key = value". A header "[section]" prefixes the following keys: "[api]" and "listen" make api.listen. A
 * comment starts with # at the start of a line or after a blank. Values are bare or in double quotes (\" \\ \n \t).
 * name is the file's name, for errors. */
enum err options_parse_file(struct options *o, const char *name, struct str text, struct error *e) must_use;

/* A value is wrong by itself, and others may be, too. False: `refused` was told, so read on. */
bool options_end_at(const struct options *o, const struct error *e);

/* "api.listen" becomes BELFRY_API_LISTEN. */
void option_env_name(const char *key, char out[OPTION_ENV_TEXT]);

/* name is the flag, or the key if the option has no flag. It must be in the table. */
const struct option_value *option_get(const struct options *o, const char *name);
bool option_given(const struct options *o, const char *name);                      /* by any source but the preset */
int64_t option_past_ms(const struct options *o, const char *name, int64_t now_ms); /* of an OPTION_PAST that is given */
bool option_known(const struct options *o, const char *flag);                      /* whether the table has it */

/* Writes the option list of --help: one line each, aligned, wrapped at 100 columns, with default and range. */
void options_help(const struct option *rows, size_t count, struct buf *out);
