/* The thread. It polls the store twice a second: an idle store is read and not written. */
#include "server/notify/notifier.h"

#include <stdlib.h>

#include "base/log.h"
#include "platform/clock_system.h"
#include "port/crypto.h"
#include "server/notify/internal.h"

enum { POLL_MS = 500, KEPT_DAYS = 90, PURGE_EVERY_MS = 3600000, PURGE_MAX = 500 };

static bool notifier_is_stopping(struct notifier *n)
{
    pthread_mutex_lock(&n->lock);
    bool stopping = n->stopping;
    pthread_mutex_unlock(&n->lock);
    return stopping;
}

/* ---- old records ---- */

static enum err notifier_purge_kind(struct turn *t, enum record_kind kind, struct error *e)
{
    struct record_filter f = { .kind = kind, .until_ms = t->now_ms - KEPT_DAYS * DAY_MS, .limit = PURGE_MAX };
    struct record_page page = { 0 };
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    for (size_t i = 0; i < page.n; i++)
        if (!page.v[i].next_ms)
            t->changes[t->change_count++] =
                (struct record_change){ .record = page.v[i], .version = page.v[i].version, .remove = true };
    return turn_write(t, NULL, 0, e);
}

static enum err notifier_purge(struct turn *t, struct error *e)
{
    struct notifier *n = t->notifier;
    if (t->now_ms < n->purged_ms + PURGE_EVERY_MS && t->now_ms >= n->purged_ms)
        return ERR_OK;
    n->purged_ms = t->now_ms;
    return notifier_purge_kind(t, RECORD_MESSAGE, e) ? e->code : notifier_purge_kind(t, RECORD_INCIDENT, e);
}

/* ---- one turn ---- */

/* *ret_more: there is more to do at once. */
static enum err notifier_turn(struct notifier *n, bool *ret_more, struct error *e)
{
    struct turn *t = xnew(*t);
    bool more_hits = false, more_incidents = false, more_checks = false;
    t->notifier = n;
    t->now_ms = clock_wall_ms(n->setup.clock);
    arena_init(&t->arena, TURN_ARENA);
    enum err rc = n->reader ? ERR_OK : store_reader(n->setup.store, &n->reader, e);
    rc = rc ? rc : notifier_fold(t, &more_hits, e);
    t->change_count = t->incident_count = 0;
    rc = rc && rc != ERR_CONFLICT ? rc : notifier_look_at_incidents(t, &more_incidents, e);
    t->change_count = 0;
    rc = rc && rc != ERR_CONFLICT ? rc : notifier_look_at_checks(t, &more_checks, e);
    t->change_count = t->incident_count = 0;
    rc = rc && rc != ERR_CONFLICT ? rc : notifier_take_messages(t, e);
    t->change_count = 0;
    rc = rc && rc != ERR_CONFLICT ? rc : notifier_purge(t, e);
    arena_release(&t->arena);
    free(t);
    *ret_more = more_hits || more_incidents || more_checks;
    return rc == ERR_CONFLICT ? ERR_OK : rc;
}

static void *notifier_thread(void *context)
{
    struct notifier *n = context;
    bool failed = false;
    thread_owner_take(&n->owner);
    while (!notifier_is_stopping(n)) {
        struct send_result results[SENDER_SLOTS];
        struct error e = { 0 };
        bool more = false, fails = notifier_turn(n, &more, &e) != ERR_OK;
        if (fails && !failed)
            log_warn("notifier_failed", kv_err(&e));
        failed = fails;
        size_t done = sender_poll(n->sender, more && !fails ? 0 : POLL_MS, clock_wall_ms(n->setup.clock), results);
        for (size_t i = 0; i < done; i++)
            notifier_on_result(n, &results[i]);
    }
    return NULL;
}

/* ---- the server ---- */

void notifier_wake(struct notifier *n)
{
    if (n)
        sender_wake(n->sender);
}

enum err notifier_new(const struct notifier_setup *setup, struct notifier **ret, struct error *e)
{
    struct notifier *n = xnew(*n);
    uint64_t seed;
    n->setup = *setup;
    n->sender = sender_new(&setup->sender);
    crypto_random(&seed, sizeof seed);
    uuid_gen_init(&n->ids, seed);
    pthread_mutex_init(&n->lock, NULL);
    clock_condition_init(&n->wakeup);
    int why = pthread_create(&n->thread, NULL, notifier_thread, n);
    if (why) {
        sender_free(n->sender);
        free(n);
        return error_set(e, ERR_UNAVAILABLE, "cannot start a thread: %s", strerror(why));
    }
    *ret = n;
    return ERR_OK;
}

void notifier_free(struct notifier *n)
{
    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    n->stopping = true;
    pthread_mutex_unlock(&n->lock);
    sender_wake(n->sender);
    pthread_join(n->thread, NULL);
    sender_free(n->sender);
    reader_free(n->reader);
    pthread_mutex_destroy(&n->lock);
    pthread_cond_destroy(&n->wakeup);
    free(n);
}
