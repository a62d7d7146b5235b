#pragma once
/* node/cluster/recall_requests.h - takes back tasks that another node holds, and returns tasks that others want back.
 *
 * A node that wants a task writes a recall request to the store, again and again until nobody holds the task under
 * that fence any more. Then its caller begins the change anew, on the row as it is by then.
 *
 * The node that holds the task answers a request as follows:
 *  - a task that has not fired is returned: SCHEDULED, and not due for RECALL_REQUESTS_BACK_MS, so that the other
 *    node has time for its change and nothing is lost if that node dies;
 *  - with `abort`, the task is cancelled, whether it has fired or not;
 *  - a task that it may still start, but cannot take back at this moment, is looked at again;
 *  - otherwise the task stays where it is, and the request is refused: the task has started. */
#include "core/time/moment.h"
#include "node/recall.h"

enum {
    RECALL_REQUESTS_FIRST_MS = 10,     /* from a request to the first check whether the task was returned */
    RECALL_REQUESTS_AGAIN_MS = 25,     /* between two more checks */
    RECALL_REQUESTS_GIVE_UP_MS = 1000, /* for a request that nobody waits for */
    RECALL_REQUESTS_WAIT_MS = 12000,   /* then the caller has been answered long before */
    RECALL_REQUESTS_BACK_MS = 1000,    /* a returned task is not due before */
    RECALL_REQUESTS_MAX = 256,         /* read at once: a page */
};

enum recall_grant {
    RECALL_REQUEST_DONE,
    RECALL_REQUEST_REFUSED,
    RECALL_REQUEST_UNKNOWN /* the claim of this task has yet to arrive here, or it may still start: ask again */
};

struct recall_requests_setup {
    struct writer *writer;
    const struct uuid *node; /* this node's id. It changes when the node rejoins */
    enum recall_grant (*grant)(void *context, const struct recall_request *r);
    void *context;
};

struct recall_requests;

struct recall_requests *recall_requests_new(const struct recall_requests_setup *setup);
void recall_requests_free(struct recall_requests *q); /* idle; NULL is fine */

/* Requests a task that this node does not hold. r->answered gets RECALL_FREED or RECALL_RUNNING, or r->done, if that
 * is NULL. With r->lasts, it gets RECALL_RUNNING as soon as r->decided is known, or, with known false, if the owner has
 * not answered for RECALL_REQUESTS_GIVE_UP_MS since the store has the request. The request stays with the task. */
void recall_requests_ask(struct recall_requests *q, struct recall *r);

/* The same, but the first answer of the store is passed on: with r->lasts, and unless r->decided, ask again. */
void recall_requests_tell(struct recall_requests *q, struct recall *r);

/* Another run, scheduled for by_scheduled_ms, replaces the task: it is to be cancelled, wherever it is. 0: a user
 * cancels it. Nobody waits for the result. */
void recall_requests_replace(struct recall_requests *q, struct uuid task, int64_t fence, int64_t by_scheduled_ms);

/* Notices, each perhaps for nothing: others have requested tasks of this node; another node has returned one. */
void recall_requests_on_notice(struct recall_requests *q);
void recall_requests_on_returned(struct recall_requests *q);
/* All requests that were in the store at this time (steady) have been granted or refused. A claim that has not come a
 * while later does not come any more. */
bool recall_requests_has_read(const struct recall_requests *q, int64_t at_ms);

/* From here on the store is not asked again if it fails. */
void recall_requests_stop(struct recall_requests *q);

int64_t recall_requests_step(struct recall_requests *q, struct moment now); /* when to call again */
bool recall_requests_is_idle(const struct recall_requests *q);
