#pragma once
/* node/recall.h - a user changes a task that is claimed.
 *
 * The result is one of these:
 *  - RECALL_DONE: the task had not fired. It was taken back and has become `replace`, in one transaction with the
 *    record of the idempotency key and the audit row. If its run or its recurring task was called off meanwhile, its
 *    state may be another (`became`).
 *  - RECALL_ABORTING: the task runs, abort is set, and it was asked to end. Its outcome will be settled as
 *    cancelled; the caller looks again.
 *  - RECALL_ANSWERED: the idempotency key has a record by now. The task is returned, and the recorded answer holds.
 *  - RECALL_FREED: another node held the task and does not any more, because it returned the task or the task has
 *    ended. The caller begins anew with the row as it is.
 *  - RECALL_RUNNING: nothing was changed.
 *
 * The caller may stop waiting (RECALL_GIVEN_UP), unless the node has taken the task back before (RECALL_TAKEN): from
 * then on the task does not fire, and only the store's answer is missing. So a caller that gave up knows that nothing
 * was changed here. With `lasts`, the task is taken back all the same, as soon as the queue that has it answers, and is
 * returned: the recurring task, or the run, has been changed before, and decides what becomes of it (OP_SETTLE 10 and
 * 11, port/store/runs.h 7). Its worker is asked, too, and returns it unless it has started. One such recall of a
 * claimed task is enough: the later ones wait for the result of the first. If another one joins them, those whose
 * result nobody asks for any more end. */
#include <stdatomic.h>

#include "port/async_io.h"
#include "port/store.h"

enum recall_state { RECALL_OPEN, RECALL_TAKEN, RECALL_GIVEN_UP };
enum recall_result { RECALL_DONE, RECALL_ABORTING, RECALL_RUNNING, RECALL_ANSWERED, RECALL_FREED };

struct node;

/* The caller's memory, until done. */
struct recall {
    const struct task *running; /* as it was claimed */
    const struct task *replace;
    const struct idempotency *idempotency; /* NULL: none */
    const struct audit *audit;             /* NULL: none */
    bool abort;
    bool lasts; /* it is asked for as long as the queue does not answer, also if the caller has stopped waiting */
    atomic_int *state; /* enum recall_state; NULL: the caller waits as long as it takes */
    /* RECALL_GIVEN_UP: the caller asks for the result all the same, until this is true; NULL: it does not */
    const atomic_bool *over;
    void (*done)(struct recall *r);
    void *context;
    enum recall_result result;
    enum task_state became; /* RECALL_DONE: the state that was stored (settlement.ret_state); that of `replace`, if the
                               answer of the store was lost */
    /* RECALL_RUNNING: the task runs or has just ended; else its claim has yet to arrive, or to end: ask again */
    bool known;
    /* RECALL_RUNNING with `lasts`, and known: a worker was asked, and may be about to start it, for DELIVERY_HEARD_MS
     * at most (port/queue.h) */
    bool told;
    /* likewise: it may start at any time, as its queue cannot give it back, does not know it, or did not answer. Of
     * RECALL_FREED: it may have been claimed anew */
    bool unsure;
    struct op_settle op;                /* from here on the node's */
    void (*answered)(struct recall *r); /* called instead of done when the node that holds the task has answered */
    bool decided;                       /* it holds the task no more, or it runs the task, or the shared queue has it */
    struct recall *joined;              /* the next of the same claimed task, which gets this one's result */
    struct fenced_id key;
    bool in_window;
    struct io_one asked;
    struct io_want_back wanted;
    struct settlement settlement;
    struct node *node;
    struct list link;
    int64_t retry_at_ms; /* steady */
    bool tried;          /* and failed, or the answer was lost */
    bool asks_again;     /* the queue has not answered: it is asked again at retry_at_ms */
};

/* False: the caller has stopped waiting, and the task is to stay as it is. */
static inline bool recall_take(const struct recall *r)
{
    int before = RECALL_OPEN;
    return !r->state || atomic_compare_exchange_strong(r->state, &before, RECALL_TAKEN) || before == RECALL_TAKEN;
}

static inline bool recall_is_given_up(const struct recall *r)
{
    return r->state && atomic_load(r->state) == RECALL_GIVEN_UP;
}

/* Somebody asks for the result. */
static inline bool recall_is_awaited(const struct recall *r)
{
    return !recall_is_given_up(r) || (r->over && !atomic_load(r->over));
}
