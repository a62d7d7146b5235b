/* Carries the log into the file, so that no commit does.
 *
 * A passive checkpoint copies what it can while the writer goes on; but under steady load there is always a little more in the
 * log by the time it ends, and the log would grow for ever. So past a limit the writer is held back for the moment it takes to
 * copy that little, and the log starts again at its beginning. The log's file keeps its size, because writing over it costs
 * less than growing it, unless it became very large. Nothing is written: the thread sleeps. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store/sqlite/internal.h"

enum {
    PAGE_BYTES = 4096,
    COPY_PAGES = (16 << 20) / PAGE_BYTES,      /* from here on at once, not at the next second */
    RESTART_PAGES = (32 << 20) / PAGE_BYTES,   /* from here on the writer waits for us, shortly */
    TRUNCATE_PAGES = (256 << 20) / PAGE_BYTES, /* something kept us from it for long: give the space back */
    EVERY_MS = 1000,
};

static void wake(struct checkpointer *k)
{
    uint64_t one = 1;
    (void)!write(k->wake_fd, &one, sizeof one);
}

/* Called by SQLite on the writer's thread after each commit: wakes us for the first page, and for every COPY_PAGES more. */
static int committed(void *context, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    struct checkpointer *k = context;
    int before = atomic_exchange(&k->wal_pages, pages);
    if (before == 0 || before / COPY_PAGES != pages / COPY_PAGES)
        wake(k);
    return SQLITE_OK;
}

/* What fails is tried again: at the next second, or when more has come. */
static bool checkpoint(struct checkpointer *k, int mode)
{
    int in_log = 0, copied = 0;
    return sqlite3_wal_checkpoint_v2(k->conn.db, NULL, mode, &in_log, &copied) == SQLITE_OK && in_log == copied;
}

static void restart(struct checkpointer *k, int pages)
{
    (void)checkpoint(k, SQLITE_CHECKPOINT_PASSIVE); /* what came meanwhile: the less is left, the shorter the wait */
    pthread_mutex_lock(k->writing);
    if (checkpoint(k, pages >= TRUNCATE_PAGES ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_RESTART))
        atomic_store(&k->wal_pages, 0);
    pthread_mutex_unlock(k->writing);
}

static void copy(struct checkpointer *k)
{
    int pages = atomic_load(&k->wal_pages);
    if (pages == 0)
        return;
    if (checkpoint(k, SQLITE_CHECKPOINT_PASSIVE))
        (void)atomic_compare_exchange_strong(&k->wal_pages, &pages, 0); /* else more has come since */
    pages = atomic_load(&k->wal_pages);
    if (pages >= RESTART_PAGES)
        restart(k, pages);
}

/* Until somebody commits, if nothing waits; a while, if something does. */
static void wait_for_work(struct checkpointer *k)
{
    struct pollfd fd = { .fd = k->wake_fd, .events = POLLIN };
    uint64_t ignored;
    int timeout_ms = atomic_load(&k->wal_pages) ? EVERY_MS : -1;
    if (poll(&fd, 1, timeout_ms) > 0)
        (void)!read(k->wake_fd, &ignored, sizeof ignored);
}

static void *run(void *context)
{
    struct checkpointer *k = context;
    while (!atomic_load(&k->stop)) {
        wait_for_work(k);
        /* The first commit after a rest wakes us; what follows it comes in the same second. */
        if (!atomic_load(&k->stop) && atomic_load(&k->wal_pages) < COPY_PAGES)
            wait_for_work(k);
        copy(k);
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
    if (pthread_create(&k->thread, NULL, run, k) != 0)
        return error_set(e, ERR_UNAVAILABLE, "a thread for checkpoints could not be started");
    k->started = true;
    sqlite3_wal_hook(writer->db, committed, k);
    return ERR_OK;
}

void checkpointer_stop(struct checkpointer *k)
{
    if (k->started) {
        atomic_store(&k->stop, true);
        wake(k);
        pthread_join(k->thread, NULL);
        k->started = false;
        checkpoint(k, SQLITE_CHECKPOINT_TRUNCATE);
    }
    if (k->wake_fd >= 0)
        close(k->wake_fd);
    conn_release(&k->conn);
}
