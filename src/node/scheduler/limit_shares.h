#pragma once
/* node/scheduler/limit_shares.h - this node's part of limits that hold for all nodes together (R3.7): tokens of a rate, places of a concurrency.
 *
 * Only what is limited has a share. A node asks the store for more when it has something due, in slices of what 100 ms bring, which double
 * while they are used up; what has not been wanted for LIMIT_SHARES_KEEP_MS goes back. One operation carries what all shares need.
 *
 * Never too many, whatever becomes of an answer: of tokens, those given back are gone when they are sent and those asked for are there
 * when they come, so what is lost on the way is lost; places are asked for as a total, of which a smaller one counts from the moment
 * it is sent and a larger one from its answer. */
#include "base/heap.h"
#include "core/time/moment.h"
#include "port/store.h"

enum {
    LIMIT_SHARES_SLICE_MS = 100,
    LIMIT_SHARES_KEEP_MS = 50,      /* what nobody wanted for so long goes back */
    LIMIT_SHARES_TOKENS_MS = 20,    /* between two questions for tokens while there are too few */
    LIMIT_SHARES_PLACES_MS = 40,    /* the same for places */
    LIMIT_SHARES_AGAIN_MS = 200,    /* after a failure */
    LIMIT_SHARES_BATCH = 256,       /* in one operation */
    LIMIT_SHARES_TAKE_AGAIN_MS = 2, /* for whoever found no token */
};

/* One limit, as this node has it. Who uses it counts in `armed` (each will take a token) and `held` (each has a place). */
struct limit_share {
    struct share share; /* of the operation that is under way */
    double rate;        /* what the rules say now, like the next two; 0: no limit */
    int64_t burst, concurrency;
    int64_t released;           /* a concurrency that is no limit any more, and whose places go back; 0: none */
    const size_t *armed, *held; /* the owner's */
    int64_t tokens, places;     /* ours */
    int64_t spent,
        sent_spent; /* places that are no more, of which the store was not told yet; of them, those that it is */
    bool waits_tokens, waits_places;      /* something due waits for one */
    bool unsure;                          /* an answer was lost: what the store thinks that we have is not known */
    bool asking;                          /* it is in the operation that is under way */
    int64_t want_ms;                      /* steady: when it was last wanted */
    int64_t ask_tokens_ms, ask_places_ms; /* steady: not before these times is more asked for */
    int64_t next_ms;                      /* wall: when the store expects a token */
    int64_t full_ms;                      /* steady: when all that was asked for was there */
    int64_t boost;                        /* slices at once */
    struct heap_node act;                 /* when there is something to do for it */
    void *owner;
    char key[SHARE_KEY_MAX];
    size_t key_size;
};

struct limit_shares_setup {
    struct writer *writer;
    const struct uuid *node; /* it may change: all that was had under the one before is gone then */
    void (*changed)(void *context, struct limit_share *e); /* there is more than there was */
    void *context;
};

struct limit_shares;

struct limit_shares *limit_shares_new(const struct limit_shares_setup *setup);
void limit_shares_free(struct limit_shares *s); /* NULL is fine; nothing under way */

struct limit_share *limit_shares_add(struct limit_shares *s, struct str key, void *owner, const size_t *armed,
                                     const size_t *held);

/* What the rules say. A rate of 0 has no tokens, a concurrency of 0 no places. */
void limit_shares_set_limits(struct limit_shares *s, struct limit_share *e, double rate, int64_t burst,
                             int64_t concurrency);

/* Something of it is due: so many may be claimed that will take a token, or have a place. */
void limit_shares_want(struct limit_shares *s, struct limit_share *e, struct moment now);
int64_t limit_shares_tokens_left(const struct limit_share *e); /* may be negative: armed ahead of its token */
int64_t limit_shares_places_left(const struct limit_share *e);
void limit_shares_wait_for_tokens(struct limit_shares *s, struct limit_share *e);
void limit_shares_wait_for_places(struct limit_shares *s, struct limit_share *e);

bool limit_shares_take_token(struct limit_shares *s, struct limit_share *e);
void limit_shares_put_back_token(struct limit_shares *s, struct limit_share *e);
void limit_shares_on_used_less(struct limit_shares *s, struct limit_share *e); /* armed or held has become less */
/* So many run from now on without this node (a lease), and the store counts them: their places are not ours any more. */
void limit_shares_spend(struct limit_shares *s, struct limit_share *e, int64_t n);

/* Asks for what is wanted and gives back what is not. Places in use are known only while no claim is under way: nothing is given back
 * meanwhile (may_give_back). Answers when to call again. */
int64_t limit_shares_step(struct limit_shares *s, struct moment now, bool may_give_back);
bool limit_shares_is_idle(const struct limit_shares *s); /* nothing is under way */
