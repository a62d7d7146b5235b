#pragma once
/* store/common/catalog_barrier.h - catalog barriers: a node that changed the catalog or an API key waits until every
 * live node has applied the change.
 *
 * A process numbers its changes. Every other node acknowledges up to which number it has applied them. A barrier is
 * over when all live peers have acknowledged its number.
 *
 * Both directions are here: the changes of this process with the acknowledgements of its peers, and the messages
 * received from other processes with the acknowledgements that this node owes them. Numbers belong to a process, which
 * has a random name of 16 hexadecimal digits. Any thread may call. */
#include <pthread.h>

#include "port/store.h"

enum { BARRIER_NAME = 16, BARRIER_OWED_MAX = 64 };

/* An acknowledgement to send: this node has applied the changes of process `to` up to `number`. */
struct barrier_word {
    char to[BARRIER_NAME + 1];
    uint64_t number;
};

struct barrier_peer {
    struct uuid node;
    uint64_t applied;
};

struct barrier_owed {
    struct barrier_word word;
    uint64_t heard; /* number of the message, counted by this process */
};

struct catalog_barriers {
    pthread_mutex_t lock; /* guards all members below */
    struct uuid self;
    uint64_t last_change; /* the number of this process's last change */
    struct barrier_peer *peers;
    size_t peer_count;
    struct list waiting;
    uint64_t heard;
    /* Oldest first. If the table is full, a message is never acknowledged, and its sender's barrier runs into its time
     * limit. */
    struct barrier_owed owed[BARRIER_OWED_MAX];
    size_t owed_count;
};

void catalog_barriers_init(struct catalog_barriers *e);
void catalog_barriers_release(struct catalog_barriers *e);

/* ---- own changes and the acknowledgements of peers ---- */

void catalog_barriers_nodes(struct catalog_barriers *e, struct uuid self,
                            const struct node_rows *nodes);  /* the known nodes; dead ones are ignored */
void catalog_barriers_on_change(struct catalog_barriers *e); /* one more change that others must apply */
uint64_t catalog_barriers_on_sent(struct catalog_barriers *e);
void catalog_barriers_wait(struct catalog_barriers *e,
                           struct store_barrier *barrier); /* until all peers have applied every change so far */
bool catalog_barriers_cancel(struct catalog_barriers *e, struct store_barrier *barrier);
/* Calls back every waiting barrier, without waiting for its peers. */
void catalog_barriers_give_up(struct catalog_barriers *e);
/* Records the acknowledgement of a peer. */
void catalog_barriers_applied(struct catalog_barriers *e, struct uuid node, uint64_t number);

/* ---- messages received and the acknowledgements owed ---- */

struct uuid catalog_barriers_self(struct catalog_barriers *e);
uint64_t catalog_barriers_on_message(struct catalog_barriers *e, struct str from, uint64_t number);
/* This node has applied every message up to `heard`. Returns the acknowledgements that are due now, one for each
 * process, and removes them from the table. */
size_t catalog_barriers_messages(struct catalog_barriers *e, uint64_t heard, struct barrier_word ret[BARRIER_OWED_MAX]);
