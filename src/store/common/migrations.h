#pragma once
/* store/common/migrations.h - the versions of a store's schema, as the binary holds them and as a database has them.
 *
 * Each is a pair of files migrations/STORE/NNNN_name.{up,down}.sql inside the binary. Comments at the top of an up file say what else is to
 * be known of it:
 *   -- no transaction    its statements run one by one, and each may be run again: a crash between them begins the step anew
 *   -- readers from N    programs that know version N may work on it, next to those that know it; else only the latter may */
#include "base/arena.h"
#include "base/embed.h"

struct schema {
    const struct embedded_file *files; /* sorted by name: … down, up */
    size_t file_count;
};

struct schema_step {
    int version;
    struct str name;     /* "start" */
    struct str up, down; /* SQL */
    bool alone;          /* no transaction */
    int readers_from;
};

int schema_newest(const struct schema *s);
struct schema_step schema_step_at(const struct schema *s, int version); /* from 1 on */

/* The statements of a file, one after the other, without their ";", which stands at the end of a line; false: that was all. */
bool schema_next_statement(struct str *rest, struct str *ret);

/* A version that is known or applied. */
struct store_migration {
    int version;
    struct str name;
    bool known; /* false: applied by a newer binary */
    bool applied;
    int64_t applied_ms; /* 0: not told */
};

/* All that are known, none of them applied, with room for `more` behind them. */
enum err store_migrations_known(const struct schema *s, size_t more, struct arena *a, struct store_migration **ret,
                                struct error *e) must_use;
/* The database has this one: marks it, or puts it behind the others. */
enum err store_migrations_mark(const struct schema *s, struct arena *a, struct store_migration *v, size_t *count,
                               int version, struct str name, int64_t applied_ms, struct error *e) must_use;
