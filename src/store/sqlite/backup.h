#pragma once
/* store/sqlite/backup.h - a copy of the store, whole while a server runs, the proof that a copy is good, and the way back.
 *
 * SQLite itself writes the copy (VACUUM INTO), from one moment's view of the file: nobody waits for it, and the only price is a log that
 * grows meanwhile. The copy is compact and gives freed space back from then on, also where the original could not. It has its name
 * only once it was read back and found whole, so what bears the name is good.
 *
 * The store alone is of little use on another machine: API keys are hashed with the pepper that lies beside it. So a copy carries the
 * secrets of the directory too, in a table of its own that a restore takes out again. */
#include "base/err.h"
#include "core/task/task.h"

#include <stdbool.h>
#include <stdint.h>

enum backup_step { BACKUP_COPYING, BACKUP_VERIFYING };

/* Told now and then how far it is, in bytes; of a copy, more or less. Returns false to give up. */
struct backup_progress {
    bool (*tell)(void *context, enum backup_step step, int64_t done, int64_t total);
    void *context;
};

/* What a file holds that was found whole. */
struct store_sqlite_facts {
    int version; /* of its schema */
    int64_t bytes, tasks, executions;
    int64_t by_state[TASK_EXPIRED + 1]; /* of those not deleted */
};

struct backup_request {
    const char *directory;
    const char *path;
    bool replace;                           /* a file that has the name already; else that is ERR_CONFLICT */
    bool without_secrets;                   /* for a copy that others may have: keys do not work where it is restored */
    const struct backup_progress *progress; /* NULL: none */
};

/* Copies the store of a data directory, in use or not, to a file. */
enum err store_sqlite_backup(const struct backup_request *r, struct store_sqlite_facts *ret, struct error *e) must_use;

/* Reads the whole file: its structure and indexes, whether it is of ours and not too new, whether what it counts is there. */
enum err store_sqlite_verify(const char *path, const struct backup_progress *progress, struct store_sqlite_facts *ret,
                             struct error *e) must_use;

struct restore_request {
    const char *path;
    const char *directory; /* made if it is not there */
    bool replace;          /* what it holds, which is kept in a folder; else that is ERR_CONFLICT */
    int64_t now_ms;        /* names that folder */
    const struct backup_progress *progress;
};

enum { RESTORE_KEPT_TEXT = 40 };
struct restored {
    struct store_sqlite_facts facts;
    bool has_pepper;              /* false: no API key will work until somebody puts the file there */
    char kept[RESTORE_KEPT_TEXT]; /* the folder within the directory; empty: nothing was there */
};

/* Puts a copy in the place of a directory's store: the whole of it or nothing, whatever happens meanwhile. ERR_UNAVAILABLE when somebody
 * has the directory. */
enum err store_sqlite_restore(const struct restore_request *r, struct restored *ret, struct error *e) must_use;
