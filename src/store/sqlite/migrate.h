#pragma once
/* store/sqlite/migrate.h - the versions of the schema: listing those that are applied, and migrating up and down.
 *
 * Each version runs in one transaction with its row in table migrations. store_sqlite_open migrates up by itself. */
#include "store/common/migrations.h"

/* Lists all versions that are known or applied, by version. Only reads; a server may run. If the directory has no file,
 * none is applied. */
enum err store_sqlite_migrations(const char *directory, struct arena *a, struct store_migration **ret,
                                 size_t *ret_count, struct error *e) must_use;

enum { STORE_SQLITE_NEWEST = -1 };

/* Migrates up or down to a version (0: an empty file). The directory must not be in use. Migrating down loses data that
 * only the newer schema can hold. */
enum err store_sqlite_migrate(const char *directory, int to_version, int64_t now_ms, struct error *e) must_use;
