#pragma once
/* store/common/migrations.h - the versions of a store's schema: those embedded in the binary, and those applied to a
 * database.
 *
 * Each version is a pair of files, migrations/STORE/NNNN_name.{up,down}.sql. Comments at the top of an up file set
 * options:
 * - `-- no transaction`: its statements run one by one. Each can be run again: after a crash the version starts from
 *   its first statement.
 * - `-- readers from N`: programs that know only version N may still use the database. Default: only programs that know
 *   this version may. */
#include "base/arena.h"
#include "base/embed.h"

struct schema {
    const struct embedded_file *files; /* sorted by name, so the down file comes before the up file */
    size_t file_count;
};

struct schema_step {
    int version;
    struct str name;     /* for example "start" */
    struct str up, down; /* SQL */
    bool alone;          /* `-- no transaction` */
    int readers_from;
};

int schema_newest(const struct schema *s);
struct schema_step schema_step_at(const struct schema *s, int version); /* version >= 1 */

/* Cuts the next statement off a file's text, without its ";", which stands at the end of a line. False: no statement is
 * left. */
bool schema_next_statement(struct str *rest, struct str *ret);

/* A version that this binary knows, or that was applied, or both. */
struct store_migration {
    int version;
    struct str name;
    bool known; /* false: applied by a newer binary */
    bool applied;
    int64_t applied_ms; /* 0: unknown */
};

/* Lists the known versions as not applied, with room for `more` entries behind them. */
enum err store_migrations_known(const struct schema *s, size_t more, struct arena *a, struct store_migration **ret,
                                struct error *e) must_use;
/* The database has this version: marks it as applied, or appends it if this binary does not know it. */
enum err store_migrations_mark(const struct schema *s, struct arena *a, struct store_migration *v, size_t *count,
                               int version, struct str name, int64_t applied_ms, struct error *e) must_use;
