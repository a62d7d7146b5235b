#pragma once
/* store/common/catalog_barrier.h - who heeds what: a node numbers the changes that others must heed, each of them says up to which number it does,
 * and whoever has changed something waits for all that live.
 *
 * Both sides are here: what this process told and who has heeded it, and what it has heard and owes a word on. Numbers are those of a
 * process, which has a name (16 hexadecimal digits, by chance). Any thread may call. */
#include <pthread.h>

#include "port/store.h"

enum { BARRIER_NAME = 16, BARRIER_OWED_MAX = 64 };

/* A word that is due: this node heeds what that process told, up to the number. */
struct barrier_word {
    char to[BARRIER_NAME + 1];
    uint64_t number;
};

struct barrier_peer {
    struct uuid node;
    uint64_t heeds;
};

struct barrier_owed {
    struct barrier_word word;
    uint64_t heard; /* our own count of what came */
};

struct catalog_barriers {
    pthread_mutex_t lock; /* over what follows */
    struct uuid self;
    uint64_t told; /* the number of the last change */
    struct barrier_peer *peers;
    size_t peer_count;
    struct list waiting;
    uint64_t heard;
    struct barrier_owed owed
        [BARRIER_OWED_MAX]; /* the oldest first; what does not fit is never answered, and its sender waits in vain */
    size_t owed_count;
};

void catalog_barriers_init(struct catalog_barriers *e);
void catalog_barriers_release(struct catalog_barriers *e);

/* ---- what we tell ---- */

void catalog_barriers_nodes(struct catalog_barriers *e, struct uuid self,
                            const struct node_rows *nodes);  /* those that there are; dead ones may be among them */
void catalog_barriers_on_change(struct catalog_barriers *e); /* others are to heed something more */
uint64_t catalog_barriers_on_sent(struct catalog_barriers *e);
void catalog_barriers_wait(struct catalog_barriers *e,
                           struct store_barrier *barrier); /* until all peers heed what was told so far */
bool catalog_barriers_cancel(struct catalog_barriers *e, struct store_barrier *barrier);
void catalog_barriers_give_up(struct catalog_barriers *e); /* whoever waits is told that it is over */
void catalog_barriers_applied(struct catalog_barriers *e, struct uuid node, uint64_t number); /* a peer's word */

/* ---- what we hear ---- */

struct uuid catalog_barriers_self(struct catalog_barriers *e);
uint64_t catalog_barriers_on_message(struct catalog_barriers *e, struct str from, uint64_t number);
/* All up to `heard` is taken in: the words that this makes due, one for each process; they are not owed any more. */
size_t catalog_barriers_messages(struct catalog_barriers *e, uint64_t heard, struct barrier_word ret[BARRIER_OWED_MAX]);
