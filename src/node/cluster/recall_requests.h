#pragma once
/* node/cluster/recall_requests.h - tasks that one node holds and another wants back (DESIGN §4.7).
 *
 * Who wants one leaves a wish with it in the store, again and again until nobody holds the task under that fence any more, and then begins
 * its change anew, on the row as it is then. Who holds it gives it back if it has not fired: SCHEDULED, and not due for a second, so
 * that the other has time for its change and nothing is lost should it die. With `abort` it is cancelled, whether it has fired or not.
 * Else it stays where it is. */
#include "node/recall.h"

enum {
    WISHES_FIRST_MS = 10,     /* until the first look at what was wished */
    WISHES_AGAIN_MS = 25,     /* and between two more */
    WISHES_GIVE_UP_MS = 1000, /* whoever asked has been told long before */
    WISHES_BACK_MS = 1000,    /* what is given back is not due before */
    WISHES_MAX = 256,         /* read at once */
};

enum wish_grant { WISH_DONE, WISH_REFUSED, WISH_UNKNOWN /* its claim has yet to arrive here: ask again */ };

struct wishes_setup {
    struct writer *writer;
    const struct uuid *node; /* it may change */
    enum wish_grant (*grant)(void *context, const struct wish *w);
    void *context;
};

struct wishes;

struct wishes *wishes_new(const struct wishes_setup *setup);
void wishes_free(struct wishes *w); /* idle; NULL is fine */

/* Wants one back that this node does not hold: r->done is told RECALL_FREED or RECALL_RUNNING. */
void wishes_ask(struct wishes *w, struct recall *r);

/* The run that was to begin then replaces one: it is to end, wherever it is; nobody waits for that. */
void wishes_replace(struct wishes *w, struct uuid task, int64_t fence, int64_t by_scheduled_ms);

/* Something of this node's is wished back; something that was wished was given back. Both may be said for nothing. */
void wishes_heard(struct wishes *w);
void wishes_given_back(struct wishes *w);

int64_t wishes_step(struct wishes *w, int64_t now_ms);
void wishes_clock_set_back(struct wishes *w, int64_t now_ms);
bool wishes_is_idle(const struct wishes *w);
