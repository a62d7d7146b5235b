#pragma once
/* node/scheduler/limit_shares.h - this node's part of limits that hold for all nodes together: tokens of a rate,
 * places of a concurrency limit.
 *
 * Only limited queues and tenants have a share. A node asks the store for more when it has something due, in slices
 * of 100 ms, which double while they are used up. What was not wanted for LIMIT_SHARES_KEEP_MS is given back. One
 * operation carries the requests of all shares.
 *
 * There are never too many, even if an answer is lost or the process is stopped for a while:
 *  - Tokens that are given back are gone when the operation is sent, and new ones count when its answer comes.
 *    Tokens that are lost on the way are lost.
 *  - A token is good for LIMIT_SHARES_STALE_MS. Meanwhile the store goes on filling the bucket, and other nodes use
 *    what is in it: tokens that a node kept and used later would come on top. Of the stale tokens, as many are lost as
 *    the bucket has got since they were given; the others are given back with the next operation. So a slow rate is
 *    reached although its tokens go stale, and a fast one loses a slice at most when a node is stopped.
 *  - Places are asked for as a total. A smaller total counts from the moment it is sent, a larger one from its
 *    answer. */
#include "base/heap.h"
#include "core/time/moment.h"
#include "port/store.h"

enum {
    LIMIT_SHARES_SLICE_MS = 100,
    LIMIT_SHARES_KEEP_MS = 50,     /* what was not wanted for so long is given back */
    LIMIT_SHARES_STALE_MS = 200,   /* tokens that were not used for so long are not used any more */
    LIMIT_SHARES_STALE_SLICES = 8, /* that time is cut into this many: a token is good for 175 to 200 ms */
    LIMIT_SHARES_LOOK_MS = 50,     /* between two steps while an operation is in flight, to notice a stop */
    LIMIT_SHARES_TOKENS_MS = 20,   /* between two requests for tokens while there are too few */
    LIMIT_SHARES_PLACES_MS = 40,   /* between two requests for places while there are too few; then twice as long … */
    LIMIT_SHARES_PLACES_MAX_MS = 320, /* … up to this, as long as none comes: each locks the limit's row */
    LIMIT_SHARES_AGAIN_MS = 200,      /* after a failure */
    LIMIT_SHARES_BATCH = 256,         /* in one operation */
    LIMIT_SHARES_TAKE_AGAIN_MS = 2,   /* for a task that found no token */
};

/* Tokens of about the same age. */
struct limit_tokens {
    int64_t slice; /* steady time / slice length */
    int64_t n;
};

/* One limit, as this node has it. Its owner counts tasks in `armed` (each will take a token) and `held` (each has a
 * place). */
struct limit_share {
    struct share share; /* the request in flight */
    double rate;        /* the rules as they are now, like the next two; 0: no limit */
    int64_t burst, concurrency;
    int64_t released; /* a concurrency limit that was removed and whose places are to be given back; 0: none */
    const size_t *armed, *held; /* counted by the owner */
    /* Tokens of this node. Those of a slice are at its number modulo LIMIT_SHARES_STALE_SLICES. */
    struct limit_tokens tokens[LIMIT_SHARES_STALE_SLICES];
    int64_t stale;                        /* tokens that are to be given back */
    int64_t stale_ms;                     /* steady: when the oldest of these was given */
    int64_t taken_ms;                     /* steady: when a token was last taken */
    int64_t owed;                         /* tokens that were used before they came */
    int64_t places;                       /* of this node */
    int64_t spent;                        /* places that leases use from now on, which the store was not told yet */
    int64_t sent_spent;                   /* those of them that the request in flight tells it */
    bool waits_tokens, waits_places;      /* something due waits for one */
    bool unsure;                          /* an answer was lost: it is not known what the store has for this node */
    bool asking;                          /* in the operation in flight */
    int64_t want_ms;                      /* steady: when it was last wanted */
    int64_t ask_tokens_ms, ask_places_ms; /* steady: more is not asked for before these times */
    int64_t places_wait_ms;               /* between two requests for places; 0: the last one was granted in full */
    int64_t next_ms;                      /* wall: when the store expects a token */
    int64_t full_ms;                      /* steady: when all that was asked for was given */
    int64_t boost;                        /* slices at a time */
    struct heap_node act;                 /* when there is something to do for it */
    const struct limit_shares *shares;
    void *owner;
    char key[SHARE_KEY_MAX];
    size_t key_size;
};

struct limit_shares_setup {
    struct writer *writer;
    const struct uuid *node;                               /* this node's id. When it changes, all shares are gone */
    void (*changed)(void *context, struct limit_share *e); /* there is more than before */
    void *context;
};

struct limit_shares;

struct limit_shares *limit_shares_new(const struct limit_shares_setup *setup);
void limit_shares_free(struct limit_shares *s); /* NULL is fine; nothing is in flight */

struct limit_share *limit_shares_add(struct limit_shares *s, struct str key, void *owner, const size_t *armed,
                                     const size_t *held);

/* The limits of the rules. With a rate of 0 there are no tokens, with a concurrency of 0 no places. */
void limit_shares_set_limits(struct limit_shares *s, struct limit_share *e, double rate, int64_t burst,
                             int64_t concurrency);

/* Each step begins with this: what follows happens at that time. */
void limit_shares_set_time(struct limit_shares *s, struct moment now);

/* Something of it is due. */
void limit_shares_want(struct limit_shares *s, struct limit_share *e, struct moment now);
int64_t limit_shares_tokens(const struct limit_share *e); /* that are not stale */
/* Without those of armed tasks. May be negative: tasks are armed ahead of their tokens. */
int64_t limit_shares_tokens_left(const struct limit_share *e);
int64_t limit_shares_places_left(const struct limit_share *e);
void limit_shares_wait_for_tokens(struct limit_shares *s, struct limit_share *e);
void limit_shares_wait_for_places(struct limit_shares *s, struct limit_share *e);

bool limit_shares_take_token(struct limit_shares *s, struct limit_share *e);
/* For something that has started already: takes a stale token, too, or owes one. */
void limit_shares_use_token(struct limit_shares *s, struct limit_share *e);
/* It was taken and not used: it is given back to the store, as stale tokens are. Its age is not known; it was taken
 * when the last one was, or before. */
void limit_shares_put_back_token(struct limit_shares *s, struct limit_share *e);
void limit_shares_on_used_less(struct limit_shares *s, struct limit_share *e); /* armed or held has become less */
/* n tasks run as leases from now on, and the store counts them: their places are not this node's any more. */
void limit_shares_spend(struct limit_shares *s, struct limit_share *e, int64_t n);

/* Asks for what is wanted and gives back what is not. Which places are in use is known only while no claim is in
 * flight (may_give_back). Returns when to call again. */
int64_t limit_shares_step(struct limit_shares *s, struct moment now, bool may_give_back);
bool limit_shares_is_idle(const struct limit_shares *s); /* nothing is in flight */
