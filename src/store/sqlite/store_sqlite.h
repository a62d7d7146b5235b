#pragma once
/* store/sqlite/store_sqlite.h - the embedded store: one SQLite file in a data directory, for a single machine.
 *
 * Write-ahead log with synchronous=FULL: when store_apply reports success, the transaction is on disk. One process owns
 * a data directory, by a lock file (belfry.lock, which holds the owner's pid). One connection writes; each reader has
 * its own; a thread copies the write-ahead log into the file (belfry.db), so that no commit waits for a checkpoint. A
 * copy of the file is complete only if SQLite made it, or if no process uses the directory. */
#include "port/store.h"

/* Creates the directory (mode 0700) and the file if they do not exist, and migrates an older schema. A directory in
 * use, a schema newer than this binary and a damaged file are refused; the error sentence names the remedy. Migrations
 * that it applies get the time now_ms. */
enum err store_sqlite_open(const char *directory, int64_t now_ms, struct store **ret, struct error *e) must_use;

/* ---- keys that encrypt secrets (reader_key_prints); any thread ---- */

/* From now on this key encrypts. */
enum err store_sqlite_key_use(struct store *s, const struct key_print *k, struct error *e) must_use;
enum err store_sqlite_key_drop(struct store *s, const struct key_print *k, struct error *e) must_use;
