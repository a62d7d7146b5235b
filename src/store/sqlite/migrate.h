#pragma once
/* store/sqlite/migrate.h - the versions of the schema: which are applied, and going up and down.
 *
 * Each runs in one transaction with the row that says so. store_sqlite_open goes up by itself; unless it is told the time, those rows have applied_ms 0. */
#include "store/common/migrations.h"

/* All that are known or applied, by version. Reads only, also while a server runs; a directory without a file has none applied. */
enum err store_sqlite_migrations(const char *directory, struct arena *a, struct store_migration **ret,
                                 size_t *ret_count, struct error *e) must_use;

enum { STORE_SQLITE_NEWEST = -1 };

/* Up or down to a version (0: an empty file). The directory must not be in use. Going down loses what only the newer schema
 * could hold. */
enum err store_sqlite_migrate(const char *directory, int to_version, int64_t now_ms, struct error *e) must_use;
