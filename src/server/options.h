#pragma once
/* server/options.h - the options of serve and worker, a row each, and where things are when nobody says so.
 *
 * Order of weight: flag, environment, file, default (base/option/option.h). A row is all that a new option takes; --help and the
 * configuration reference are printed from the rows. */
#include "base/option/option.h"

/* Some are of serve alone, some of worker alone, and those between are of both: each sees a slice. One file may have the settings of both. */
enum {
    SERVE_ALONE = 18,
    SERVE_AND_WORKER = 10,
    WORKER_ALONE = 7,
    SERVER_OPTION_COUNT = SERVE_ALONE + SERVE_AND_WORKER,
    WORKER_OPTION_COUNT = SERVE_AND_WORKER + WORKER_ALONE,
    SETTING_COUNT = SERVE_ALONE + SERVE_AND_WORKER + WORKER_ALONE,
};
extern const struct option server_options[SETTING_COUNT];
#define worker_options (&server_options[SERVE_ALONE])

/* For options_parse_env: the environment, where an empty variable counts as none. */
const char *options_getenv(const char *name);

/* What --data-dir or BELFRY_DATA_DIR says, else $XDG_DATA_HOME/belfry, else ~/.local/share/belfry. o has a "data-dir". */
void options_data_dir(const struct options *o, struct buf *out);

/* Reads the settings of a file into the server's options. The sentence of an error names file and line. */
enum err options_read_config_file(struct options *o, const char *path, struct error *e) must_use;

/* How a server or a worker begins: the file that --config names is read into its options, and what BELFRY_FAILPOINT says is armed. */
enum err options_begin_process(const struct options *given, struct options **ret, struct error *e) must_use;

/* The table as Markdown, for docs/CONFIGURATION.md. */
void options_write_reference(struct buf *out);

/* A secret as it is given: itself, or "file:/path", of which blanks and line ends around it are cut off. */
enum err options_read_secret(struct str given, const char *field, struct buf *out, struct error *e) must_use;
enum err options_read_secret_file(const char *path, struct buf *out,
                                  struct error *e) must_use; /* ERR_NOT_FOUND: no such file */
