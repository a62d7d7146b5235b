/* Encrypts the secrets of tasks, notification settings, signing keys and definitions of workflows again, after another
 * key came to the front of the key file, so that an older key can leave the file (port/secrets.h).
 *
 * One node does it for all: the leader, or the only one. While the store knows other keys than the first one of the
 * file, a thread walks through all tasks in batches, and pauses after each for as long as the batch took. If a walk
 * finds no secret of a key, the store drops that key. A walk that changed rows is followed by another one 10 s later: a
 * request that had read a task before may have written its older secrets back. If the store knows one key only, no task
 * is read.
 *
 * Every node looks whether the store knows the key that it encrypts with, and notes it again if not. So a node that has
 * not read the new file yet keeps the older key known.
 *
 * Definitions that an earlier version has stored as they are get encrypted, too: by a single node after its start, by a
 * cluster when it changes its key, because nodes of the earlier version could not read them. */

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "api/task/secret_headers.h"
#include "base/log.h"
#include "platform/clock_system.h"
#include "server/reseal_catalog.h"
#include "server/server_internal.h"
#include "workflow/definition_reseal.h"

enum {
    BATCH = 100,
    BATCH_ARENA = 32 << 20, /* old and new configurations of a batch */
    ENTRY_ARENA = 4096,
    PAUSE_MAX_MS = 1000,
    EVERY_MS = 10000,
    EVERY_WALKS = 10, /* the next walk starts after ten times the time of the last one */
    NS_PER_MS = 1000000,
};

struct reencryption {
    struct server *server;
    struct reader *reader;
    pthread_t thread;
    struct thread_owner owner; /* the thread: it uses the reader */
    pthread_mutex_t lock;      /* guards everything below */
    pthread_cond_t wakeup;
    bool stopping, applied;
    struct key_prints known; /* as read last */
    bool has_seen_plain;     /* the thread's: definitions that were not encrypted are encrypted */
};

/* One walk through all tasks. */
struct reencryption_walk {
    struct reencryption *x;
    struct key_prints known;
    bool found[KEY_PRINTS_MAX]; /* tasks need this key */
    int64_t changed, left, definitions;
};

static struct str reencryption_key(const struct reencryption *x)
{
    return str_from(x->server->secrets.keys[0].id);
}

/* False: the server stops. */
static bool reencryption_pause(struct reencryption *x, int64_t ms)
{
    return !clock_condition_pause(&x->wakeup, &x->lock, &x->stopping, ms);
}

/* ---- one batch ---- */

static void reencryption_on_applied(struct op *op)
{
    struct reencryption *x = op->context;
    pthread_mutex_lock(&x->lock);
    x->applied = true;
    pthread_cond_signal(&x->wakeup);
    pthread_mutex_unlock(&x->lock);
}

static enum err reencryption_apply(struct reencryption *x, struct op *op, struct error *e)
{
    op->done = reencryption_on_applied;
    op->context = x;
    pthread_mutex_lock(&x->lock);
    x->applied = false;
    pthread_mutex_unlock(&x->lock);
    writer_submit(batcher_writer(x->server->batchers[OP_VIA_ALL]), op);
    pthread_mutex_lock(&x->lock);
    while (!x->applied)
        pthread_cond_wait(&x->wakeup, &x->lock);
    pthread_mutex_unlock(&x->lock);
    if (op->rc)
        *e = op->error;
    return op->rc;
}

/* Whether the task has secrets of other keys than the first one; notes which of the known ones they are. */
static bool reencryption_find_keys(struct reencryption_walk *walk, struct str config)
{
    struct json_cursor c = secret_headers_keys(config);
    struct str id;
    bool others = false;
    while (secret_headers_next_key(&c, &id)) {
        others = others || !str_eq(id, reencryption_key(walk->x));
        for (size_t i = 0; i < walk->known.n; i++)
            walk->found[i] = walk->found[i] || str_eq(id, str_from(walk->known.v[i].id));
    }
    return others;
}

/* Encrypts a task's secrets with the first key. False: it has to stay as it is, because it runs, its key is lost, or a
 * secret was changed. */
static bool reencryption_seal(struct reencryption_walk *walk, const struct task *t, struct arena *a,
                              struct resealed *ret)
{
    struct error why;
    struct secret_sealer sealer = { &walk->x->server->secrets, t->tenant, task_secrets_row(t) };
    *ret = (struct resealed){ .id = t->id, .was = t->target_config };
    return t->state != TASK_RUNNING &&
           !secret_headers_move(&sealer, sealer.row, t->target_config, S(""), a, &ret->becomes, &why);
}

static enum err reencryption_change(struct reencryption_walk *walk, const struct tasks *tasks, struct arena *a,
                                    struct error *e)
{
    struct resealed v[BATCH];
    struct op_reseal op = { .op = { .kind = OP_RESEAL }, .v = v };
    size_t wanted = 0;
    for (size_t i = 0; i < tasks->n; i++) {
        bool wants = reencryption_find_keys(walk, tasks->v[i].target_config);
        wanted += wants;
        op.n += wants && reencryption_seal(walk, &tasks->v[i], a, &v[op.n]);
    }
    if (op.n && reencryption_apply(walk->x, &op.op, e))
        return e->code;
    walk->changed += (int64_t)op.ret_changed;
    walk->left += (int64_t)(wanted - op.ret_changed);
    return ERR_OK;
}

/* ---- one walk ---- */

static enum err reencryption_walk_all(struct reencryption_walk *walk, struct error *e)
{
    struct reencryption *x = walk->x;
    struct sealed_page page = { .more = true };
    while (page.more) {
        cleanup_with(arena_release) struct arena a;
        int64_t begun_ns = clock_steady_ns(x->server->setup.clock);
        arena_init(&a, BATCH_ARENA);
        if (reader_sealed_page(x->reader, reencryption_key(x), page.next_after, BATCH, &a, &page, e) ||
            reencryption_change(walk, &page.tasks, &a, e))
            return e->code;
        int64_t took_ms = (clock_steady_ns(x->server->setup.clock) - begun_ns) / NS_PER_MS + 1;
        if (page.more && !reencryption_pause(x, min_of(took_ms, (int64_t)PAUSE_MAX_MS)))
            return error_set(e, ERR_UNAVAILABLE, "the server stops");
    }
    return ERR_OK;
}

/* ---- entries of the catalog ---- */

static void reencryption_on_key(void *context, struct str key_id)
{
    struct reencryption_walk *walk = context;
    for (size_t i = 0; i < walk->known.n; i++)
        walk->found[i] = walk->found[i] || str_eq(key_id, str_from(walk->known.v[i].id));
}

/* This node signs with what it caches. */
static enum err reencryption_on_entry(void *context, struct op *op, struct error *e)
{
    struct server *a = ((struct reencryption_walk *)context)->x->server;
    const struct catalog_change *c = ((struct op_catalog *)op)->v;
    struct catalog_entry entry = c->entry;
    struct error why;
    arena_init(&op->arena, ENTRY_ARENA);
    enum err rc = reencryption_apply(((struct reencryption_walk *)context)->x, op, e);
    arena_release(&op->arena);
    entry.version = c->ret_version;
    entry.created_ms = c->ret_created_ms;
    if (rc == ERR_OK && catalog_cache_put(a->catalog, &entry, &why))
        log_error("catalog_cache_failed", kv_str("name", entry.name), kv_err(&why));
    return rc;
}

/* A key that was found here is dropped by the next walk: then no entry needs it. */
static enum err reencryption_walk_entries(struct reencryption_walk *walk, struct error *e)
{
    struct server *a = walk->x->server;
    struct reseal_setup setup = { .secrets = &a->secrets,
                                  .reader = walk->x->reader,
                                  .found = reencryption_on_key,
                                  .apply = reencryption_on_entry,
                                  .context = walk };
    return reseal_catalog(&setup, clock_wall_ms(a->setup.clock), e);
}

/* ---- definitions of workflows ---- */

static enum err reencryption_on_definitions(void *context, struct op *op, struct error *e)
{
    return reencryption_apply(((struct reencryption_walk *)context)->x, op, e);
}

static enum err reencryption_on_page(void *context, struct error *e)
{
    bool goes_on = reencryption_pause(((struct reencryption_walk *)context)->x, 1);
    return goes_on ? ERR_OK : error_set(e, ERR_UNAVAILABLE, "the server stops");
}

static enum err reencryption_walk_definitions(struct reencryption_walk *walk, struct error *e)
{
    struct definition_reseal r = { .secrets = &walk->x->server->secrets,
                                   .reader = walk->x->reader,
                                   .found = reencryption_on_key,
                                   .apply = reencryption_on_definitions,
                                   .pause = reencryption_on_page,
                                   .context = walk };
    enum err rc = definition_reseal(&r, e);
    walk->definitions += r.ret_changed;
    walk->left += r.ret_left;
    walk->x->has_seen_plain = walk->x->has_seen_plain || !rc;
    return rc;
}

/* ---- keys ---- */

/* Keys that no task needs. A key that another node encrypts with comes back: that node notes it again. */
static enum err reencryption_drop_keys(struct reencryption_walk *walk, int64_t *ret_dropped, struct error *e)
{
    for (size_t i = 0; i < walk->known.n; i++) {
        if (walk->found[i] || str_eq(str_from(walk->known.v[i].id), reencryption_key(walk->x)))
            continue;
        if (server_keys_drop(walk->x->server, &walk->known.v[i], e))
            return e->code;
        ++*ret_dropped;
    }
    return ERR_OK;
}

/* In a cluster, only a node whose first key is the newest one encrypts again: two nodes with different files would undo
 * each other's work. */
static bool reencryption_is_needed(const struct reencryption *x, const struct key_prints *known)
{
    struct key_print own = secrets_print(&x->server->secrets, 0);
    bool newest = !store_is_shared(x->server->store) || memcmp(own.print, known->current, SECRETS_PRINT) == 0;
    return known->n > 1 && newest && server_acts_for_all(x->server);
}

static enum err reencryption_read_known(struct reencryption *x, struct key_prints *ret, struct error *e)
{
    struct key_print own = secrets_print(&x->server->secrets, 0);
    assert_owned(&x->owner);
    if ((!x->reader && store_reader(x->server->store, &x->reader, e)) || reader_key_prints(x->reader, ret, e))
        return e->code;
    if (!key_prints_find(ret, reencryption_key(x)) &&
        (server_keys_note(x->server, &own, e) || reader_key_prints(x->reader, ret, e)))
        return e->code;
    pthread_mutex_lock(&x->lock);
    x->known = *ret;
    pthread_mutex_unlock(&x->lock);
    return ERR_OK;
}

/* Whether definitions of an earlier version are to be looked at. */
static bool reencryption_seeks_plain(const struct reencryption *x)
{
    return !x->has_seen_plain && !store_is_shared(x->server->store) && server_acts_for_all(x->server);
}

static enum err reencryption_run(struct reencryption *x, struct error *e)
{
    struct reencryption_walk walk = { .x = x };
    int64_t dropped = 0;
    if (reencryption_read_known(x, &walk.known, e))
        return e->code;
    bool needed = reencryption_is_needed(x, &walk.known);
    if (!needed && !reencryption_seeks_plain(x))
        return ERR_OK;
    if ((needed && (reencryption_walk_all(&walk, e) || reencryption_walk_entries(&walk, e))) ||
        reencryption_walk_definitions(&walk, e) || (needed && reencryption_drop_keys(&walk, &dropped, e)))
        return e->code;
    if (walk.changed || walk.definitions || dropped)
        log_info("secrets_reencrypted", kv_str("key", reencryption_key(x)), kv_i64("tasks", walk.changed),
                 kv_i64("definitions", walk.definitions), kv_i64("left", walk.left), kv_i64("keys_dropped", dropped));
    return dropped ? reencryption_read_known(x, &walk.known, e) : ERR_OK;
}

static void *reencryption_thread(void *context)
{
    struct reencryption *x = context;
    int64_t pause_ms = 0;
    thread_owner_take(&x->owner);
    while (reencryption_pause(x, pause_ms)) {
        struct error e = { 0 };
        int64_t begun_ns = clock_steady_ns(x->server->setup.clock);
        if (reencryption_run(x, &e) && reencryption_pause(x, 0)) /* it does not fail because the server stops */
            log_warn("secrets_not_reencrypted", kv_err(&e));
        int64_t took_ms = (clock_steady_ns(x->server->setup.clock) - begun_ns) / NS_PER_MS;
        pause_ms = max_of(took_ms * EVERY_WALKS, (int64_t)EVERY_MS);
    }
    return NULL;
}

/* ---- the server ---- */

static void reencryption_write_keys(struct reencryption *x, struct jw *w)
{
    pthread_mutex_lock(&x->lock);
    struct key_prints known = x->known;
    pthread_mutex_unlock(&x->lock);
    jw_kv_str(w, "key", reencryption_key(x));
    jw_key(w, "older_keys");
    jw_array(w);
    for (size_t i = 0; i < known.n; i++)
        if (!str_eq(str_from(known.v[i].id), reencryption_key(x)))
            jw_str(w, str_from(known.v[i].id));
    jw_array_end(w);
}

void server_write_secrets_status(struct server *a, struct jw *w)
{
    jw_key(w, "secrets");
    jw_object(w);
    jw_kv_bool(w, "encrypted", a->secrets.n > 0);
    if (a->reencryption)
        reencryption_write_keys(a->reencryption, w);
    jw_object_end(w);
}

enum err server_start_reencryption(struct server *a, struct error *e)
{
    if (!a->secrets.n)
        return ERR_OK;
    struct reencryption *x = xnew(*x);
    x->server = a;
    pthread_mutex_init(&x->lock, NULL);
    clock_condition_init(&x->wakeup);
    int why = server_keys_known(a, &x->known, e) ? -1 : pthread_create(&x->thread, NULL, reencryption_thread, x);
    if (why) {
        free(x);
        return why < 0 ? e->code : error_set(e, ERR_UNAVAILABLE, "cannot start a thread: %s", strerror(why));
    }
    a->reencryption = x;
    return ERR_OK;
}

void server_stop_reencryption(struct server *a)
{
    struct reencryption *x = a->reencryption;
    if (!x)
        return;
    pthread_mutex_lock(&x->lock);
    x->stopping = true;
    pthread_cond_signal(&x->wakeup);
    pthread_mutex_unlock(&x->lock);
    pthread_join(x->thread, NULL);
    reader_free(x->reader);
    pthread_mutex_destroy(&x->lock);
    pthread_cond_destroy(&x->wakeup);
    free(x);
    a->reencryption = NULL;
}
