/* The thread. It polls the store twice a second: an idle store is read and not written. */
#include "server/notify/notifier.h"

#include <stdlib.h>

#include "base/log.h"
#include "platform/clock_system.h"
#include "port/crypto.h"
#include "server/notify/internal.h"
#include "server/pause/pause_ends.h"

enum { POLL_MS = 500, BEAT_EVERY_MS = 60000, KEPT_DAYS = 90, PURGE_EVERY_MS = 3600000, PURGE_MAX = 500 };

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

/* ---- pauses that end ---- */

static enum err notifier_apply_for_pause(void *context, struct op *op, struct error *e)
{
    return notifier_apply(((struct turn *)context)->notifier, op, e);
}

static enum err notifier_write_pause(void *context, const struct record_change *c, struct error *e)
{
    struct turn *t = context;
    turn_reset(t);
    t->changes[t->change_count++] = *c;
    return turn_write(t, NULL, 0, e);
}

static void notifier_on_resumed(void *context, const struct task *t)
{
    const struct notifier_setup *setup = &((struct turn *)context)->notifier->setup;
    if (setup->resumed)
        setup->resumed(setup->context, t);
}

static void notifier_on_pause_changed(void *context, const struct task *t)
{
    notifier_tell_task(((struct turn *)context)->notifier, t);
}

static enum err notifier_end_pauses(struct turn *t, bool *ret_more, struct error *e)
{
    struct pause_turn p = { .reader = t->notifier->reader,
                            .arena = &t->arena,
                            .now_ms = t->now_ms,
                            .apply = notifier_apply_for_pause,
                            .write = notifier_write_pause,
                            .resumed = notifier_on_resumed,
                            .changed = notifier_on_pause_changed,
                            .context = t };
    return pause_ends_step(&p, ret_more, e);
}

/* ---- one turn ---- */

/* *ret_more: there is more to do at once. */
static enum err notifier_turn(struct notifier *n, bool *ret_more, struct error *e)
{
    struct turn *t = xnew(*t);
    bool more_hits = false, more_incidents = false, more_checks = false, more_pauses = false;
    t->notifier = n;
    t->now_ms = clock_wall_ms(n->setup.clock);
    arena_init(&t->arena, TURN_ARENA);
    enum err rc = n->reader ? ERR_OK : store_reader(n->setup.store, &n->reader, e);
    rc = rc ? rc : notifier_end_pauses(t, &more_pauses, e);
    rc = rc ? rc : notifier_fold(t, &more_hits, e);
    t->incident_count = 0;
    turn_reset(t);
    rc = rc && rc != ERR_CONFLICT ? rc : notifier_fold_alerts(t, e);
    turn_reset(t);
    rc = rc && rc != ERR_CONFLICT ? rc : notifier_replan(t, e);
    turn_reset(t);
    rc = rc && rc != ERR_CONFLICT ? rc : notifier_look_at_incidents(t, &more_incidents, e);
    turn_reset(t);
    rc = rc && rc != ERR_CONFLICT ? rc : notifier_look_at_checks(t, &more_checks, e);
    t->incident_count = 0;
    turn_reset(t);
    rc = rc && rc != ERR_CONFLICT ? rc : notifier_take_messages(t, e);
    turn_reset(t);
    rc = rc && rc != ERR_CONFLICT ? rc : notifier_purge(t, e);
    arena_release(&t->arena);
    free(t);
    *ret_more = more_hits || more_incidents || more_checks || more_pauses;
    return rc == ERR_CONFLICT ? ERR_OK : rc;
}

/* ---- the heartbeat ---- */

/* Once a minute, if turns succeed and the server says that it is well. A call that fails is not repeated. */
static void notifier_beat(struct notifier *n)
{
    int64_t now_ms = clock_wall_ms(n->setup.clock);
    bool is_due = now_ms >= n->beat_ms + BEAT_EVERY_MS || now_ms < n->beat_ms;
    if (!n->setup.heartbeat_url.n || !is_due || n->beat_is_under_way || !sender_room(n->sender))
        return;
    if (n->failing_ms || !n->setup.is_well(n->setup.context))
        return;
    n->beat_ms = now_ms;
    n->beat_is_under_way = true;
    sender_start(n->sender, &(struct send_request){ .url = n->setup.heartbeat_url,
                                                    .is_heartbeat = true,
                                                    .timeout_ms = MESSAGE_TIMEOUT_MS,
                                                    .context = &n->beat_ms });
}

static void notifier_on_beat(struct notifier *n, const struct send_result *r)
{
    n->beat_is_under_way = false;
    if (log_first_failure(&n->beat_failed, !r->ok))
        log_warn("heartbeat_url_failed", kv_cstr("error", r->error));
}

/* ---- the thread ---- */

/* Since when something waits. If turns fail, at least since then: the store may hold more than was read. */
static void notifier_note_oldest(struct notifier *n, bool fails)
{
    int64_t oldest_ms = 0;
    n->failing_ms = !fails ? 0 : n->failing_ms ? n->failing_ms : clock_wall_ms(n->setup.clock);
    const int64_t since[] = { n->oldest_hit_ms, n->oldest_message_ms, n->failing_ms };
    for (size_t i = 0; i < array_count(since); i++)
        if (since[i] && (!oldest_ms || since[i] < oldest_ms))
            oldest_ms = since[i];
    pthread_mutex_lock(&n->lock);
    n->oldest_ms = oldest_ms;
    pthread_mutex_unlock(&n->lock);
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
        if (log_first_failure(&failed, fails))
            log_warn("notifier_failed", kv_err(&e));
        notifier_note_oldest(n, fails);
        notifier_beat(n);
        size_t done = sender_poll(n->sender, more && !fails ? 0 : POLL_MS, clock_wall_ms(n->setup.clock), results);
        for (size_t i = 0; i < done; i++)
            if (results[i].context == &n->beat_ms)
                notifier_on_beat(n, &results[i]);
            else
                notifier_on_result(n, &results[i]);
    }
    return NULL;
}

/* ---- the server ---- */

bool notifier_may_fold(const struct notifier *n)
{
    return !n->setup.may_fold || n->setup.may_fold(n->setup.context);
}

void notifier_listen(struct notifier *n, const struct notifier_listener *listener, void *context)
{
    if (!n)
        return;
    pthread_mutex_lock(&n->listener_lock);
    n->listener = listener;
    n->listener_context = context;
    pthread_mutex_unlock(&n->listener_lock);
}

int64_t notifier_oldest_ms(struct notifier *n)
{
    if (!n)
        return 0;
    pthread_mutex_lock(&n->lock);
    int64_t oldest_ms = n->oldest_ms;
    pthread_mutex_unlock(&n->lock);
    return oldest_ms;
}

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
    pthread_mutex_init(&n->listener_lock, NULL);
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
    for (size_t i = 0; i < SENDER_SLOTS; i++)
        free(n->deliveries[i].doc);
    reader_free(n->reader);
    pthread_mutex_destroy(&n->lock);
    pthread_mutex_destroy(&n->listener_lock);
    pthread_cond_destroy(&n->wakeup);
    free(n);
}
