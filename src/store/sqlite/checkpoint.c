/* Copies the write-ahead log into the database file on a thread of its own, so that no commit does.
 *
 * A passive checkpoint copies what it can while the writer continues; but under steady load the log always has some new
 * pages when it ends, and would grow for ever. So beyond RESTART_PAGES the thread blocks the writer while it copies
 * these few pages, and the log restarts at its beginning. The log file keeps its size, because overwriting costs less
 * than growing, unless it became very large. While nothing is written, the thread sleeps. */
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store/sqlite/internal.h"

enum {
    PAGE_BYTES = 4096,
    COPY_PAGES = (16 << 20) / PAGE_BYTES,      /* from here on: copy at once, not after EVERY_MS */
    RESTART_PAGES = (32 << 20) / PAGE_BYTES,   /* from here on: block the writer shortly and restart the log */
    TRUNCATE_PAGES = (256 << 20) / PAGE_BYTES, /* from here on (readers prevented a restart): also truncate the file */
    EVERY_MS = 1000,
};

static void checkpointer_wake(struct checkpointer *k)
{
    uint64_t one = 1;
    (void)!write(k->wake_fd, &one, sizeof one);
}

/* Called by SQLite on the writer's thread after each commit. Wakes the thread at the first page, and at every further
 * COPY_PAGES. */
static int checkpointer_on_commit(void *context, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    struct checkpointer *k = context;
    int before = atomic_exchange(&k->wal_pages, pages);
    if (before == 0 || before / COPY_PAGES != pages / COPY_PAGES)
        checkpointer_wake(k);
    return SQLITE_OK;
}

/* A checkpoint that fails is repeated: after EVERY_MS, or when more pages were written. */
static bool checkpointer_checkpoint(struct checkpointer *k, int mode)
{
    int in_log = 0, copied = 0;
    return sqlite3_wal_checkpoint_v2(k->conn.db, NULL, mode, &in_log, &copied) == SQLITE_OK && in_log == copied;
}

static void checkpointer_restart(struct checkpointer *k, int pages)
{
    /* The pages written meanwhile: the fewer are left, the shorter the writer waits. */
    (void)checkpointer_checkpoint(k, SQLITE_CHECKPOINT_PASSIVE);
    pthread_mutex_lock(k->writing);
    if (checkpointer_checkpoint(k, pages >= TRUNCATE_PAGES ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_RESTART))
        atomic_store(&k->wal_pages, 0);
    pthread_mutex_unlock(k->writing);
}

static void checkpointer_copy(struct checkpointer *k)
{
    int pages = atomic_load(&k->wal_pages);
    if (pages == 0)
        return;
    if (checkpointer_checkpoint(k, SQLITE_CHECKPOINT_PASSIVE))
        (void)atomic_compare_exchange_strong(&k->wal_pages, &pages, 0); /* else more pages were written since */
    pages = atomic_load(&k->wal_pages);
    if (pages >= RESTART_PAGES)
        checkpointer_restart(k, pages);
}

/* Waits for a commit; if pages are not copied yet, at most EVERY_MS. */
static void checkpointer_wait(struct checkpointer *k)
{
    struct pollfd fd = { .fd = k->wake_fd, .events = POLLIN };
    uint64_t ignored;
    int timeout_ms = atomic_load(&k->wal_pages) ? EVERY_MS : -1;
    if (poll(&fd, 1, timeout_ms) > 0)
        (void)!read(k->wake_fd, &ignored, sizeof ignored);
}

static void *checkpointer_run(void *context)
{
    struct checkpointer *k = context;
    while (!atomic_load(&k->stop)) {
        checkpointer_wait(k);
        /* The first commit after a pause wakes the thread. It waits once more, so that one checkpoint copies the
         * commits that follow. */
        if (!atomic_load(&k->stop) && atomic_load(&k->wal_pages) < COPY_PAGES)
            checkpointer_wait(k);
        checkpointer_copy(k);
    }
    return NULL;
}

enum err checkpointer_start(struct checkpointer *k, const char *path, struct conn *writer, pthread_mutex_t *writing,
                            struct error *e)
{
    k->writing = writing;
    if (conn_open(&k->conn, path, CONN_CHECKPOINT, e))
        return e->code;
    sqlite3_busy_timeout(k->conn.db, 0);
    k->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (k->wake_fd < 0)
        return error_set(e, ERR_UNAVAILABLE, "eventfd: %s", strerror(errno));
    if (pthread_create(&k->thread, NULL, checkpointer_run, k) != 0)
        return error_set(e, ERR_UNAVAILABLE, "a thread for checkpoints could not be started");
    k->started = true;
    sqlite3_wal_hook(writer->db, checkpointer_on_commit, k);
    return ERR_OK;
}

void checkpointer_stop(struct checkpointer *k)
{
    if (k->started) {
        atomic_store(&k->stop, true);
        checkpointer_wake(k);
        pthread_join(k->thread, NULL);
        k->started = false;
        checkpointer_checkpoint(k, SQLITE_CHECKPOINT_TRUNCATE);
    }
    if (k->wake_fd >= 0)
        close(k->wake_fd);
    conn_release(&k->conn);
}
