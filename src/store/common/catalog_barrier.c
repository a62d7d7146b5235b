#include "store/common/catalog_barrier.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void catalog_barriers_init(struct catalog_barriers *e)
{
    *e = (struct catalog_barriers){ 0 };
    pthread_mutex_init(&e->lock, NULL);
    list_init(&e->waiting);
}

/* ---- own changes and the acknowledgements of peers ---- */

static bool catalog_barriers_all_applied(const struct catalog_barriers *e, uint64_t number)
{
    for (size_t i = 0; i < e->peer_count; i++)
        if (e->peers[i].applied < number)
            return false;
    return true;
}

/* Unlocks. The callbacks run without the lock, because they may call this module again. */
static void catalog_barriers_finish_and_unlock(struct catalog_barriers *e, bool everyone)
{
    struct list over;
    list_init(&over);
    list_each (&e->waiting, link) {
        const struct store_barrier *barrier = container_of(link, struct store_barrier, link);
        if (!everyone && !catalog_barriers_all_applied(e, barrier->number))
            continue;
        list_remove(link);
        list_push(&over, link);
    }
    pthread_mutex_unlock(&e->lock);
    for (struct list *link; (link = list_pop(&over));) {
        struct store_barrier *barrier = container_of(link, struct store_barrier, link);
        barrier->done(barrier);
    }
}

static uint64_t catalog_barriers_applied_by(const struct catalog_barriers *e, struct uuid node)
{
    for (size_t i = 0; i < e->peer_count; i++)
        if (uuid_eq(e->peers[i].node, node))
            return e->peers[i].applied;
    return 0;
}

void catalog_barriers_nodes(struct catalog_barriers *e, struct uuid self, const struct node_rows *nodes)
{
    struct barrier_peer *peers = xcalloc(nodes->n + 1, sizeof *peers);
    size_t n = 0;
    pthread_mutex_lock(&e->lock);
    for (size_t i = 0; i < nodes->n; i++)
        if (!nodes->v[i].dead && !uuid_eq(nodes->v[i].id, self))
            peers[n++] = (struct barrier_peer){ nodes->v[i].id, catalog_barriers_applied_by(e, nodes->v[i].id) };
    free(e->peers);
    e->self = self;
    e->peers = peers;
    e->peer_count = n;
    catalog_barriers_finish_and_unlock(e, false);
}

void catalog_barriers_on_change(struct catalog_barriers *e)
{
    pthread_mutex_lock(&e->lock);
    e->last_change++;
    pthread_mutex_unlock(&e->lock);
}

uint64_t catalog_barriers_on_sent(struct catalog_barriers *e)
{
    pthread_mutex_lock(&e->lock);
    uint64_t number = e->last_change;
    pthread_mutex_unlock(&e->lock);
    return number;
}

void catalog_barriers_wait(struct catalog_barriers *e, struct store_barrier *barrier)
{
    pthread_mutex_lock(&e->lock);
    barrier->number = e->last_change;
    list_push(&e->waiting, &barrier->link);
    catalog_barriers_finish_and_unlock(e, false);
}

bool catalog_barriers_cancel(struct catalog_barriers *e, struct store_barrier *barrier)
{
    bool found = false;
    pthread_mutex_lock(&e->lock);
    list_each (&e->waiting, link)
        found = found || link == &barrier->link;
    if (found)
        list_remove(&barrier->link);
    pthread_mutex_unlock(&e->lock);
    return found;
}

void catalog_barriers_applied(struct catalog_barriers *e, struct uuid node, uint64_t number)
{
    pthread_mutex_lock(&e->lock);
    for (size_t i = 0; i < e->peer_count; i++)
        if (uuid_eq(e->peers[i].node, node))
            e->peers[i].applied = max_of(e->peers[i].applied, number);
    catalog_barriers_finish_and_unlock(e, false);
}

void catalog_barriers_give_up(struct catalog_barriers *e)
{
    pthread_mutex_lock(&e->lock);
    catalog_barriers_finish_and_unlock(e, true);
}

void catalog_barriers_release(struct catalog_barriers *e)
{
    assert(list_empty(&e->waiting));
    free(e->peers);
    pthread_mutex_destroy(&e->lock);
}

/* ---- messages received and the acknowledgements owed ---- */

struct uuid catalog_barriers_self(struct catalog_barriers *e)
{
    pthread_mutex_lock(&e->lock);
    struct uuid self = e->self;
    pthread_mutex_unlock(&e->lock);
    return self;
}

uint64_t catalog_barriers_on_message(struct catalog_barriers *e, struct str from, uint64_t number)
{
    pthread_mutex_lock(&e->lock);
    uint64_t heard = ++e->heard;
    if (e->owed_count < BARRIER_OWED_MAX && from.n == BARRIER_NAME) {
        struct barrier_owed *o = &e->owed[e->owed_count++];
        *o = (struct barrier_owed){ .word.number = number, .heard = heard };
        memcpy(o->word.to, from.p, from.n);
    }
    pthread_mutex_unlock(&e->lock);
    return heard;
}

static struct barrier_word *catalog_barriers_word_to(struct barrier_word *v, size_t *n, const char *to)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(v[i].to, to) == 0)
            return &v[i];
    struct barrier_word *w = &v[(*n)++];
    *w = (struct barrier_word){ 0 };
    memcpy(w->to, to, sizeof w->to);
    return w;
}

size_t catalog_barriers_messages(struct catalog_barriers *e, uint64_t heard, struct barrier_word ret[BARRIER_OWED_MAX])
{
    size_t n = 0, done = 0;
    pthread_mutex_lock(&e->lock);
    for (; done < e->owed_count && e->owed[done].heard <= heard; done++) {
        struct barrier_word *w = catalog_barriers_word_to(ret, &n, e->owed[done].word.to);
        w->number = max_of(w->number, e->owed[done].word.number);
    }
    e->owed_count -= done;
    memmove(e->owed, e->owed + done, e->owed_count * sizeof *e->owed);
    pthread_mutex_unlock(&e->lock);
    return n;
}
