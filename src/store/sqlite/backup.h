#pragma once
/* store/sqlite/backup.h - backup of the store, also while a server runs; verification of a backup; restore.
 *
 * SQLite writes the copy (VACUUM INTO) from one snapshot of the file: nobody waits for it, and the only cost is a
 * write-ahead log that grows meanwhile. The copy is compact. It has incremental auto_vacuum, so it returns freed space
 * to the file system from then on, even if the original could not. The copy gets its name only after it was read back
 * and found intact: a file with that name is good.
 *
 * The store alone is of little use on another machine, because API keys are hashed with the pepper that lies beside it.
 * So a copy also holds the secret files of the directory, in a table of its own, which a restore removes. */
#include "base/err.h"
#include "core/task/task.h"

#include <stdbool.h>
#include <stdint.h>

enum backup_step { BACKUP_COPYING, BACKUP_VERIFYING };

/* tell() is called now and then with the progress in bytes; for a copy it is an estimate. It returns false to
 * cancel. */
struct backup_progress {
    bool (*tell)(void *context, enum backup_step step, int64_t done, int64_t total);
    void *context;
};

enum { BACKUP_KEY_TEXT = 16 };

/* Facts about a file that was found intact. */
struct store_sqlite_facts {
    int version; /* schema version */
    int64_t bytes, tasks, executions;
    int64_t by_state[TASK_EXPIRED + 1]; /* tasks that are not deleted */
    /* of a copy that was just made: the id of a key that its secrets need, and that it does not hold; "": none */
    char needs_key[BACKUP_KEY_TEXT];
};

struct backup_request {
    const char *directory;
    const char *path;
    bool replace;                           /* replaces an existing file; false: an existing file is ERR_CONFLICT */
    bool with_keys;                         /* the key file, too: who has the copy can decrypt its secrets */
    bool without_secrets;                   /* for a copy that others may get; after its restore API keys do not work */
    const struct backup_progress *progress; /* NULL: none */
};

/* Copies the store of a data directory to a file. A server may use the directory. */
enum err store_sqlite_backup(const struct backup_request *r, struct store_sqlite_facts *ret, struct error *e) must_use;

/* Reads the whole file. Checks its structure and indexes, that it is a file of Belfry with a known schema version, and
 * that its counts match its tasks. */
enum err store_sqlite_verify(const char *path, const struct backup_progress *progress, struct store_sqlite_facts *ret,
                             struct error *e) must_use;

struct restore_request {
    const char *path;
    const char *directory; /* created if it does not exist */
    bool replace;          /* keeps an existing store in a folder; false: an existing store is ERR_CONFLICT */
    int64_t now_ms;        /* names that folder */
    const struct backup_progress *progress;
};

enum { RESTORE_KEPT_TEXT = 40 };
struct restored {
    struct store_sqlite_facts facts;
    bool has_pepper;                 /* false: no API key works until the file is put there */
    char needs_key[BACKUP_KEY_TEXT]; /* the id of a key that its secrets need, and no key file has; "": none */
    char kept[RESTORE_KEPT_TEXT];    /* the folder within the directory; empty: there was no store */
};

/* Replaces the store of a directory by a copy: completely or not at all, even if the process is killed meanwhile.
 * ERR_UNAVAILABLE: a process uses the directory. */
enum err store_sqlite_restore(const struct restore_request *r, struct restored *ret, struct error *e) must_use;
