#pragma once
/* node/recall.h - a user changes a task that is claimed.
 *
 * If it has not fired it is taken back and becomes `replace`, in one transaction with the record of the request's key (RECALL_DONE). If it
 * runs and abort is set, it is asked to end (RECALL_ABORTING): its outcome will be settled as cancelled, and the caller looks again. If
 * its key has a record by now, the task is let go and the stored answer holds (RECALL_ANSWERED). If another node held it and does not
 * any more, because it gave it back or because it has ended: RECALL_FREED, and the caller begins anew with the row as it is. Else nothing happens (RECALL_RUNNING). */
#include <stdatomic.h>

#include "port/async_io.h"
#include "port/store.h"

enum recall_result { RECALL_DONE, RECALL_ABORTING, RECALL_RUNNING, RECALL_ANSWERED, RECALL_FREED };

struct node;

/* The struct is the caller's until done. */
struct recall {
    const struct task *running; /* as it was claimed */
    const struct task *replace;
    const struct idempotency *idempotency; /* NULL: none */
    bool abort;
    const atomic_bool *given_up; /* NULL, or whether nobody waits for it any more: best leave the task as it is */
    void (*done)(struct recall *r);
    void *context;
    enum recall_result result;
    bool known;          /* RECALL_RUNNING: it runs or has just ended; else its claim has yet to arrive: ask again */
    struct op_settle op; /* from here on the node's */
    struct io_one asked;
    struct settlement settlement;
    struct node *node;
    struct list link;
    int64_t retry_at_ms; /* steady */
    bool tried;          /* and failed, or its answer was lost */
};
