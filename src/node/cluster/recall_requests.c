/* A request of ours has an operation with the writer, or waits in a list for its time. It does not change the task: the
 * task may have run meanwhile, and wait for its next attempt under the fence that it had. */
#include "node/cluster/recall_requests.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/pending_op.h"

enum {
    RECALL_REQUEST_ARENA = 64 << 10,
    RECALL_LIST_ARENA = 64 << 10,
    RECALL_REQUESTS_RETRY_MS = 200,
    CHECKS_DOUBLED_MAX = 6,
    LISTS_SOON_MAX = 5, /* before the wait is doubled: most claims arrive by then */
    LISTS_DOUBLED_MAX = 3
};

/* A request for a task that another node holds. */
struct sent_request {
    struct op_recall op;
    struct recall_requests *requests;
    struct recall *recall; /* NULL: nobody waits for the result */
    struct uuid id;
    int64_t fence;
    bool abort;
    int64_t by_scheduled_ms; /* 0: the task is not replaced */
    bool once;               /* the first answer is passed on */
    bool stored;             /* the store has the request */
    int checks;
    struct pending_op pending;
    int64_t until_ms; /* steady: when to give up */
    struct list link; /* while it waits */
};

struct recall_requests {
    struct recall_requests_setup setup;
    struct list waiting;
    size_t in_flight;
    bool stops;
    struct op_recall_list list; /* a page */
    struct pending_op listing;  /* its next_at_ms is INT64_MAX while no notice is to be followed */
    bool has_more;              /* the list goes on behind the page that was read last, whose last task is `after` */
    struct uuid after;
    bool is_unknown;       /* the claim of a task in the list has yet to arrive, or it may still start */
    int unknown_lists;     /* so many lists had such a task, one after the other */
    int64_t list_until_ms; /* steady: until then the list is read again if need be */
    int64_t list_sent_ms;  /* steady: when its first page was asked for */
    int64_t read_ms;       /* steady: when a list was asked for that has come whole */
    int64_t granted_ms;    /* the same, and all its tasks were known here */
    struct moment now;
    size_t refused_count; /* the next page tells the store */
    struct fenced_id refused[RECALL_REQUESTS_MAX];
};

struct recall_requests *recall_requests_new(const struct recall_requests_setup *setup)
{
    struct recall_requests *q = xnew(*q);
    q->setup = *setup;
    q->listing.next_at_ms = INT64_MAX;
    list_init(&q->waiting);
    return q;
}

void recall_requests_free(struct recall_requests *q)
{
    assert(!q || recall_requests_is_idle(q));
    free(q);
}

bool recall_requests_is_idle(const struct recall_requests *q)
{
    return q->in_flight == 0 && !q->listing.in_flight && list_empty(&q->waiting);
}

/* ---- requests of this node ---- */

static void sent_request_finish(struct sent_request *s, enum recall_result result, bool known)
{
    struct recall *r = s->recall;
    free(s);
    if (!r)
        return;
    r->result = result;
    r->known = known;
    if (r->answered)
        r->answered(r);
    else
        r->done(r);
}

static bool sent_request_lasts(const struct sent_request *s)
{
    return s->recall && s->recall->lasts;
}

/* The store is asked until it has a request that lasts: only then does the task's node hear of it. */
static bool sent_request_is_over(const struct sent_request *s)
{
    const struct recall *r = s->recall;
    if (sent_request_lasts(s) && !s->stored)
        return s->requests->stops;
    return s->requests->now.steady_ms >= s->until_ms || (r && !r->lasts && recall_is_given_up(r));
}

static void sent_request_wait(struct sent_request *s, int64_t ms)
{
    pending_op_wait(&s->pending, s->requests->now, ms);
    list_push(&s->requests->waiting, &s->link);
}

/* Many requests that last may be made at once, and a refusal is no notice: each is checked less and less often. */
static int64_t sent_request_wait_ms(struct sent_request *s)
{
    int before = s->checks++;
    if (sent_request_lasts(s))
        return (int64_t)RECALL_REQUESTS_FIRST_MS << min_of(before, CHECKS_DOUBLED_MAX);
    return before ? RECALL_REQUESTS_AGAIN_MS : RECALL_REQUESTS_FIRST_MS;
}

static void sent_request_on_stored(struct sent_request *s)
{
    struct recall_requests *q = s->requests;
    if (sent_request_lasts(s) && !s->stored)
        s->until_ms = q->now.steady_ms + RECALL_REQUESTS_GIVE_UP_MS;
    s->stored = true;
    if (s->recall)
        s->recall->decided = s->op.ret_refused || s->op.ret_handed_off;
}

/* The request stays with the task for its owner, whoever is still waiting. */
static void sent_request_go_on(struct sent_request *s)
{
    const struct recall *r = s->recall;
    bool lasts = sent_request_lasts(s);
    bool is_own = uuid_eq(s->op.ret_owner, *s->requests->setup.node); /* and its claim has yet to arrive here */
    if (lasts && r->decided)
        sent_request_finish(s, RECALL_RUNNING, true);
    else if (!r || s->once || (is_own && !lasts))
        sent_request_finish(s, RECALL_RUNNING, !is_own);
    else if (sent_request_is_over(s))
        sent_request_finish(s, RECALL_RUNNING, !lasts);
    else
        sent_request_wait(s, sent_request_wait_ms(s));
}

static void sent_request_on_answer(struct op *op)
{
    struct sent_request *s = container_of(op, struct sent_request, op.op);
    struct recall_requests *q = s->requests;
    q->in_flight--;
    pending_op_end(&s->pending, op);
    if (op->rc == ERR_CONFLICT || op->rc == ERR_NOT_FOUND) {
        sent_request_finish(s, RECALL_FREED, true);
        return;
    }
    if (op->rc == ERR_OK) {
        sent_request_on_stored(s);
        if (uuid_eq(s->op.ret_owner, *q->setup.node))
            recall_requests_on_notice(q); /* a change of one's own causes none */
        sent_request_go_on(s);
    } else if (s->once || sent_request_is_over(s)) {
        sent_request_finish(s, RECALL_RUNNING, !sent_request_lasts(s));
    } else {
        sent_request_wait(s, RECALL_REQUESTS_RETRY_MS);
    }
}

static void sent_request_submit(struct sent_request *s)
{
    s->op = (struct op_recall){
        .op = { .kind = OP_RECALL, .done = sent_request_on_answer },
        .id = s->id,
        .fence = s->fence,
        .abort = s->abort,
        .by_scheduled_ms = s->by_scheduled_ms,
        .now_ms = s->requests->now.wall_ms,
    };
    s->requests->in_flight++;
    pending_op_send(&s->pending, s->requests->setup.writer, &s->op.op, RECALL_REQUEST_ARENA);
}

static struct sent_request *sent_request_new(struct recall_requests *q, struct uuid id, int64_t fence, bool abort)
{
    struct sent_request *s = xnew(*s);
    s->requests = q;
    s->id = id;
    s->fence = fence;
    s->abort = abort;
    s->until_ms = q->now.steady_ms + RECALL_REQUESTS_GIVE_UP_MS;
    return s;
}

static void recall_requests_send(struct recall_requests *q, struct recall *r, bool once)
{
    struct sent_request *s = sent_request_new(q, r->running->id, r->running->fence, r->abort);
    s->recall = r;
    s->once = once;
    s->until_ms = q->now.steady_ms + RECALL_REQUESTS_WAIT_MS;
    r->decided = false;
    sent_request_submit(s);
}

void recall_requests_ask(struct recall_requests *q, struct recall *r)
{
    recall_requests_send(q, r, false);
}

void recall_requests_tell(struct recall_requests *q, struct recall *r)
{
    recall_requests_send(q, r, true);
}

void recall_requests_replace(struct recall_requests *q, struct uuid task, int64_t fence, int64_t by_scheduled_ms)
{
    struct sent_request *s = sent_request_new(q, task, fence, true);
    s->by_scheduled_ms = by_scheduled_ms;
    sent_request_submit(s);
}

void recall_requests_on_returned(struct recall_requests *q)
{
    list_each (&q->waiting, link) {
        struct sent_request *s = container_of(link, struct sent_request, link);
        if (!sent_request_lasts(s)) /* of those there may be many */
            pending_op_wait(&s->pending, q->now, 0);
    }
}

void recall_requests_stop(struct recall_requests *q)
{
    q->stops = true;
    list_each (&q->waiting, link)
        pending_op_wait(&container_of(link, struct sent_request, link)->pending, q->now, 0);
}

static int64_t recall_requests_check_sent(struct recall_requests *q)
{
    int64_t wake = INT64_MAX;
    list_each (&q->waiting, link) {
        struct sent_request *s = container_of(link, struct sent_request, link);
        if (!pending_op_may_send(&s->pending, q->now)) {
            wake = min_of(wake, pending_op_wake(&s->pending, q->now));
            continue;
        }
        list_remove(link);
        if (sent_request_is_over(s))
            sent_request_finish(s, RECALL_RUNNING, !sent_request_lasts(s));
        else
            sent_request_submit(s);
    }
    return wake;
}

/* ---- requests of other nodes ---- */

static void recall_requests_answer_page(struct recall_requests *q)
{
    q->refused_count = 0;
    for (size_t i = 0; i < q->list.ret_count; i++) {
        const struct recall_request *r = &q->list.ret[i];
        enum recall_grant grant = q->setup.grant(q->setup.context, r);
        q->is_unknown = q->is_unknown || grant == RECALL_REQUEST_UNKNOWN;
        if (grant == RECALL_REQUEST_REFUSED)
            q->refused[q->refused_count++] = (struct fenced_id){ r->id, r->fence };
        q->after = r->id;
    }
    q->has_more = q->list.ret_count == RECALL_REQUESTS_MAX;
}

/* The list has come whole. After list_until_ms a heartbeat tells of what is left. */
static void recall_requests_end_list(struct recall_requests *q)
{
    bool has_told = q->list.refused_count > 0; /* and what it told may be in the list again */
    q->read_ms = q->list_sent_ms;
    int doubled = min_of(max_of(q->unknown_lists - LISTS_SOON_MAX, 0), LISTS_DOUBLED_MAX);
    q->unknown_lists = q->is_unknown ? q->unknown_lists + 1 : 0;
    if (!q->is_unknown)
        q->granted_ms = q->list_sent_ms;
    if (q->refused_count)
        pending_op_wait(&q->listing, q->now, has_told ? RECALL_REQUESTS_AGAIN_MS : 0);
    else if (q->is_unknown && q->now.steady_ms < q->list_until_ms)
        pending_op_wait(&q->listing, q->now, (int64_t)RECALL_REQUESTS_AGAIN_MS << doubled);
}

static void recall_requests_on_list(struct op *op)
{
    struct recall_requests *q = op->context;
    q->has_more = false;
    if (op->rc == ERR_OK)
        recall_requests_answer_page(q);
    else
        log_warn("recall_requests_failed", kv_err(&op->error));
    pending_op_end(&q->listing, op);
    if (op->rc == ERR_OK && !q->has_more)
        recall_requests_end_list(q);
    else if (op->rc && q->now.steady_ms < q->list_until_ms)
        pending_op_wait(&q->listing, q->now, RECALL_REQUESTS_RETRY_MS);
}

static void recall_requests_begin_list(struct recall_requests *q)
{
    q->after = (struct uuid){ 0 };
    q->is_unknown = false;
    q->listing.next_at_ms = INT64_MAX; /* a notice that comes while it is read begins another */
    q->list_sent_ms = q->now.steady_ms;
}

static int64_t recall_requests_read_list(struct recall_requests *q)
{
    if (q->listing.in_flight || (!q->has_more && !pending_op_may_send(&q->listing, q->now)))
        return pending_op_wake(&q->listing, q->now);
    if (!q->has_more)
        recall_requests_begin_list(q);
    q->list = (struct op_recall_list){ .op = { .kind = OP_RECALL_LIST, .done = recall_requests_on_list, .context = q },
                                       .node = *q->setup.node,
                                       .after = q->after,
                                       .max = RECALL_REQUESTS_MAX,
                                       .refused = q->refused,
                                       .refused_count = q->refused_count };
    pending_op_send(&q->listing, q->setup.writer, &q->list.op, RECALL_LIST_ARENA);
    return INT64_MAX;
}

void recall_requests_on_notice(struct recall_requests *q)
{
    pending_op_wait(&q->listing, q->now, 0);
    q->list_until_ms = q->now.steady_ms + RECALL_REQUESTS_GIVE_UP_MS;
}

bool recall_requests_has_read(const struct recall_requests *q, int64_t at_ms)
{
    return q->granted_ms >= at_ms || q->read_ms >= at_ms + RECALL_REQUESTS_GIVE_UP_MS;
}

int64_t recall_requests_step(struct recall_requests *q, struct moment now)
{
    q->now = now;
    int64_t wake = recall_requests_check_sent(q);
    return min_of(wake, recall_requests_read_list(q));
}
