#pragma once
/* store/common/catalog_barrier.h - who heeds what: a node numbers the changes that others must heed, each of them says up to which number it does,
 * and whoever has changed something waits for all that live.
 *
 * Both sides are here: what this process told and who has heeded it, and what it has heard and owes a word on. Numbers are those of a
 * process, which has a name (16 hexadecimal digits, by chance). Any thread may call. */
#include <pthread.h>

#include "port/store.h"

enum { ECHO_NAME = 16, ECHO_OWED_MAX = 64 };

/* A word that is due: this node heeds what that process told, up to the number. */
struct echo_word {
    char to[ECHO_NAME + 1];
    uint64_t number;
};

struct echo_peer {
    struct uuid node;
    uint64_t heeds;
};

struct echo_owed {
    struct echo_word word;
    uint64_t heard; /* our own count of what came */
};

struct echoes {
    pthread_mutex_t lock; /* over what follows */
    struct uuid self;
    uint64_t told; /* the number of the last change */
    struct echo_peer *peers;
    size_t peer_count;
    struct list waiting;
    uint64_t heard;
    struct echo_owed
        owed[ECHO_OWED_MAX]; /* the oldest first; what does not fit is never answered, and its sender waits in vain */
    size_t owed_count;
};

void echoes_init(struct echoes *e);
void echoes_release(struct echoes *e);

/* ---- what we tell ---- */

void echoes_nodes(struct echoes *e, struct uuid self,
                  const struct node_rows *nodes); /* those that there are; dead ones may be among them */
void echoes_changed(struct echoes *e);            /* others are to heed something more */
uint64_t echoes_told(struct echoes *e);
void echoes_await(struct echoes *e, struct store_echo *echo); /* until all peers heed what was told so far */
bool echoes_forget(struct echoes *e, struct store_echo *echo);
void echoes_give_up(struct echoes *e);                                 /* whoever waits is told that it is over */
void echoes_heed(struct echoes *e, struct uuid node, uint64_t number); /* a peer's word */

/* ---- what we hear ---- */

struct uuid echoes_self(struct echoes *e);
uint64_t echoes_heard(struct echoes *e, struct str from, uint64_t number);
/* All up to `heard` is taken in: the words that this makes due, one for each process; they are not owed any more. */
size_t echoes_words(struct echoes *e, uint64_t heard, struct echo_word ret[ECHO_OWED_MAX]);
