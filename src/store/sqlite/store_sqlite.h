#pragma once
/* store/sqlite/store_sqlite.h - the store in one file of a data directory: what a single machine needs.
 *
 * Write-ahead log, synchronous=FULL: what store_apply reported is on the disk. One process owns a data directory, which a
 * lock file says (belfry.lock, with the owner's pid); one connection writes, each reader has its own, and a thread of its own
 * carries the log into the file (belfry.db) so that no commit pays for it. Copies of the file are whole only when made by
 * SQLite itself, or while nobody runs. */
#include "port/store.h"

/* Makes the directory (mode 0700) and the file if they are missing, and brings an older schema up to date. A directory in
 * use, a schema newer than this binary and a damaged file are refused with a sentence that says what to do. */
enum err store_sqlite_open(const char *directory, struct store **ret, struct error *e) must_use;
/* The same, and migrations that it applies are marked with the time. */
enum err store_sqlite_open_at(const char *directory, int64_t now_ms, struct store **ret, struct error *e) must_use;
