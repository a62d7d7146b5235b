#pragma once
/* server/settings/options.h - the options of `belfry serve` and `belfry worker`, and their default locations.
 *
 * Flags override the environment, which overrides the file, which overrides the defaults (base/option/option.h). A new
 * option is a new row: --help and docs/CONFIGURATION.md are printed from the rows. */
#include "base/option/option.h"
#include "server/process.h"

/* The table holds the options of serve only, then those of both commands, then those of worker only: each command
 * uses a slice. One file may contain the settings of both commands. */
enum {
    SERVE_ALONE = 51,
    SERVE_AND_WORKER = 18,
    WORKER_ALONE = 7,
    SERVER_OPTION_COUNT = SERVE_ALONE + SERVE_AND_WORKER,
    WORKER_OPTION_COUNT = SERVE_AND_WORKER + WORKER_ALONE,
    SETTING_COUNT = SERVE_ALONE + SERVE_AND_WORKER + WORKER_ALONE,
};
extern const struct option server_options[SETTING_COUNT];
#define worker_options (&server_options[SERVE_ALONE])

/* For options_parse_env: getenv, but NULL for an empty variable. */
const char *options_getenv(const char *name);

/* Calls `found` for each variable BELFRY_… of the environment that no setting has, and that therefore has no effect,
 * with the closest known name (empty: none is close). Variables of tests and builds are passed over. */
void options_find_unknown_variables(void (*found)(void *context, struct str name, struct str closest), void *context);

/* Appends the data directory: --data-dir or BELFRY_DATA_DIR, else $XDG_DATA_HOME/belfry, else ~/.local/share/belfry,
 * else /var/lib/belfry. o must have a row "data-dir". */
void options_data_dir(const struct options *o, struct buf *out);

/* Reads the settings of a file into o. Errors name file and line. */
enum err options_read_config_file(struct options *o, const char *path, struct error *e) must_use;

/* First step of a server or worker process: reads the file of --config, and arms the failpoint of BELFRY_FAILPOINT.
 * *ret is `given`, writable. */
enum err options_begin_process(const struct options *given, struct options **ret, struct error *e) must_use;

enum err options_check_origins(const struct options *o, struct error *e) must_use;    /* api.cors_origins */
enum err options_check_public_url(const struct options *o, struct error *e) must_use; /* api.public_url */

enum err options_check_trace(const struct options *o, struct error *e) must_use; /* trace.* */
struct trace_setup options_trace(const struct options *o);                       /* trace.* (server/process.h) */

/* Checks the form of an address to listen on, if it is given: "listen", "api.admin_listen". */
enum err options_check_listen(const struct options *o, const char *name, struct error *e) must_use;

/* Whether only this machine can reach such an address, or it is not set. o must have that row. */
bool options_listen_is_loopback(const struct options *o, const char *name);

/* Appends the table as Markdown, for docs/CONFIGURATION.md. */
void options_write_reference(struct buf *out);

/* Reads a secret: the text itself, or the file in "file:/path" without surrounding blanks and line ends. */
enum err options_read_secret(struct str given, const char *field, struct buf *out, struct error *e) must_use;
enum err options_read_secret_file(const char *path, struct buf *out,
                                  struct error *e) must_use; /* ERR_NOT_FOUND: no such file */
