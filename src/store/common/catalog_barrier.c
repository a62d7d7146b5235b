#include "store/common/catalog_barrier.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void echoes_init(struct echoes *e)
{
    *e = (struct echoes){ 0 };
    pthread_mutex_init(&e->lock, NULL);
    list_init(&e->waiting);
}

/* ---- what we tell ---- */

static bool all_heed(const struct echoes *e, uint64_t number)
{
    for (size_t i = 0; i < e->peer_count; i++)
        if (e->peers[i].heeds < number)
            return false;
    return true;
}

/* Takes the lock off. Those that are over are told without it: they may ask for something. */
static void tell_and_unlock(struct echoes *e, bool everyone)
{
    struct list over;
    list_init(&over);
    list_each (&e->waiting, link) {
        const struct store_echo *echo = container_of(link, struct store_echo, link);
        if (!everyone && !all_heed(e, echo->number))
            continue;
        list_remove(link);
        list_push(&over, link);
    }
    pthread_mutex_unlock(&e->lock);
    for (struct list *link; (link = list_pop(&over));) {
        struct store_echo *echo = container_of(link, struct store_echo, link);
        echo->done(echo);
    }
}

static uint64_t heeds_of(const struct echoes *e, struct uuid node)
{
    for (size_t i = 0; i < e->peer_count; i++)
        if (uuid_eq(e->peers[i].node, node))
            return e->peers[i].heeds;
    return 0;
}

void echoes_nodes(struct echoes *e, struct uuid self, const struct node_rows *nodes)
{
    struct echo_peer *peers = xcalloc(nodes->n + 1, sizeof *peers);
    size_t n = 0;
    pthread_mutex_lock(&e->lock);
    for (size_t i = 0; i < nodes->n; i++)
        if (!nodes->v[i].dead && !uuid_eq(nodes->v[i].id, self))
            peers[n++] = (struct echo_peer){ nodes->v[i].id, heeds_of(e, nodes->v[i].id) };
    free(e->peers);
    e->self = self;
    e->peers = peers;
    e->peer_count = n;
    tell_and_unlock(e, false);
}

void echoes_changed(struct echoes *e)
{
    pthread_mutex_lock(&e->lock);
    e->told++;
    pthread_mutex_unlock(&e->lock);
}

uint64_t echoes_told(struct echoes *e)
{
    pthread_mutex_lock(&e->lock);
    uint64_t number = e->told;
    pthread_mutex_unlock(&e->lock);
    return number;
}

void echoes_await(struct echoes *e, struct store_echo *echo)
{
    pthread_mutex_lock(&e->lock);
    echo->number = e->told;
    list_push(&e->waiting, &echo->link);
    tell_and_unlock(e, false);
}

bool echoes_forget(struct echoes *e, struct store_echo *echo)
{
    bool found = false;
    pthread_mutex_lock(&e->lock);
    list_each (&e->waiting, link)
        found = found || link == &echo->link;
    if (found)
        list_remove(&echo->link);
    pthread_mutex_unlock(&e->lock);
    return found;
}

void echoes_heed(struct echoes *e, struct uuid node, uint64_t number)
{
    pthread_mutex_lock(&e->lock);
    for (size_t i = 0; i < e->peer_count; i++)
        if (uuid_eq(e->peers[i].node, node))
            e->peers[i].heeds = max_of(e->peers[i].heeds, number);
    tell_and_unlock(e, false);
}

void echoes_give_up(struct echoes *e)
{
    pthread_mutex_lock(&e->lock);
    tell_and_unlock(e, true);
}

void echoes_release(struct echoes *e)
{
    assert(list_empty(&e->waiting));
    free(e->peers);
    pthread_mutex_destroy(&e->lock);
}

/* ---- what we hear ---- */

struct uuid echoes_self(struct echoes *e)
{
    pthread_mutex_lock(&e->lock);
    struct uuid self = e->self;
    pthread_mutex_unlock(&e->lock);
    return self;
}

uint64_t echoes_heard(struct echoes *e, struct str from, uint64_t number)
{
    pthread_mutex_lock(&e->lock);
    uint64_t heard = ++e->heard;
    if (e->owed_count < ECHO_OWED_MAX && from.n == ECHO_NAME) {
        struct echo_owed *o = &e->owed[e->owed_count++];
        *o = (struct echo_owed){ .word.number = number, .heard = heard };
        memcpy(o->word.to, from.p, from.n);
    }
    pthread_mutex_unlock(&e->lock);
    return heard;
}

static struct echo_word *word_to(struct echo_word *v, size_t *n, const char *to)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(v[i].to, to) == 0)
            return &v[i];
    struct echo_word *w = &v[(*n)++];
    *w = (struct echo_word){ 0 };
    memcpy(w->to, to, sizeof w->to);
    return w;
}

size_t echoes_words(struct echoes *e, uint64_t heard, struct echo_word ret[ECHO_OWED_MAX])
{
    size_t n = 0, done = 0;
    pthread_mutex_lock(&e->lock);
    for (; done < e->owed_count && e->owed[done].heard <= heard; done++) {
        struct echo_word *w = word_to(ret, &n, e->owed[done].word.to);
        w->number = max_of(w->number, e->owed[done].word.number);
    }
    e->owed_count -= done;
    memmove(e->owed, e->owed + done, e->owed_count * sizeof *e->owed);
    pthread_mutex_unlock(&e->lock);
    return n;
}
