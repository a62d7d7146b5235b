#pragma once
/* node/cluster/recall_requests.h - tasks that one node holds and another wants back (DESIGN §4.7).
 *
 * Who wants one leaves a wish with it in the store, again and again until nobody holds the task under that fence any more, and then begins
 * its change anew, on the row as it is then. Who holds it gives it back if it has not fired: SCHEDULED, and not due for a second, so
 * that the other has time for its change and nothing is lost should it die. With `abort` it is cancelled, whether it has fired or not.
 * Else it stays where it is. */
#include "core/time/moment.h"
#include "node/recall.h"

enum {
    RECALL_REQUESTS_FIRST_MS = 10,     /* until the first look at what was wished */
    RECALL_REQUESTS_AGAIN_MS = 25,     /* and between two more */
    RECALL_REQUESTS_GIVE_UP_MS = 1000, /* whoever asked has been told long before */
    RECALL_REQUESTS_BACK_MS = 1000,    /* what is given back is not due before */
    RECALL_REQUESTS_MAX = 256,         /* read at once */
};

enum recall_grant {
    RECALL_REQUEST_DONE,
    RECALL_REQUEST_REFUSED,
    RECALL_REQUEST_UNKNOWN /* its claim has yet to arrive here: ask again */
};

struct recall_requests_setup {
    struct writer *writer;
    const struct uuid *node; /* it may change */
    enum recall_grant (*grant)(void *context, const struct recall_request *w);
    void *context;
};

struct recall_requests;

struct recall_requests *recall_requests_new(const struct recall_requests_setup *setup);
void recall_requests_free(struct recall_requests *w); /* idle; NULL is fine */

/* Wants one back that this node does not hold: r->done is told RECALL_FREED or RECALL_RUNNING. */
void recall_requests_ask(struct recall_requests *w, struct recall *r);

/* The run that was to begin then replaces one: it is to end, wherever it is; nobody waits for that. */
void recall_requests_replace(struct recall_requests *w, struct uuid task, int64_t fence, int64_t by_scheduled_ms);

/* Something of this node's is wished back; something that was wished was given back. Both may be said for nothing. */
void recall_requests_on_notice(struct recall_requests *w);
void recall_requests_returned(struct recall_requests *w);

int64_t recall_requests_step(struct recall_requests *w, struct moment now);
bool recall_requests_is_idle(const struct recall_requests *w);
