/* One that is asked for has an operation with the writer, or waits in a list for its time. What it becomes is not for us to put: it may
 * have run meanwhile, and wait for its next attempt under the fence that it had. */
#include "node/cluster/recall_requests.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum { RESULTS_MAX = 64 << 10, RECALL_REQUESTS_ARENA = 64 << 10, RETRY_MS = 200 };

/* One that another node holds. */
struct asked {
    struct op_recall recall_request;
    struct recall_requests *recall_requests;
    struct recall *recall; /* NULL: nobody waits for what comes of it */
    struct uuid id;
    int64_t fence;
    bool abort;
    int64_t by_scheduled_ms; /* 0: it is not replaced */
    int looks;
    int64_t until_ms, retry_at_ms; /* steady */
    struct list link;              /* while it waits */
};

struct recall_requests {
    struct recall_requests_setup setup;
    struct list waiting;
    size_t in_flight;
    struct op_recall_list look;
    bool looking, is_recalled;
    int64_t look_at_ms, look_until_ms; /* steady */
    struct moment now;
};

struct recall_requests *recall_requests_new(const struct recall_requests_setup *setup)
{
    struct recall_requests *w = xnew(*w);
    w->setup = *setup;
    list_init(&w->waiting);
    return w;
}

void recall_requests_free(struct recall_requests *w)
{
    assert(!w || recall_requests_is_idle(w));
    free(w);
}

bool recall_requests_is_idle(const struct recall_requests *w)
{
    return w->in_flight == 0 && !w->looking && list_empty(&w->waiting);
}

/* ---- what others hold ---- */

static void finish(struct asked *a, enum recall_result result, bool known)
{
    struct recall *r = a->recall;
    free(a);
    if (!r)
        return;
    r->result = result;
    r->known = known;
    r->done(r);
}

static bool is_over(const struct asked *a)
{
    const struct recall *r = a->recall;
    return a->recall_requests->now.steady_ms >= a->until_ms || (r && r->given_up && atomic_load(r->given_up));
}

static void wait(struct asked *a, int64_t ms)
{
    a->retry_at_ms = a->recall_requests->now.steady_ms + ms;
    list_push(&a->recall_requests->waiting, &a->link);
}

static void recall_request_done(struct op *op)
{
    struct asked *a = container_of(op, struct asked, recall_request.op);
    struct recall_requests *w = a->recall_requests;
    w->in_flight--;
    arena_release(&op->arena);
    if (op->rc == ERR_CONFLICT || op->rc == ERR_NOT_FOUND)
        finish(a, RECALL_FREED, true);
    else if (op->rc == ERR_OK && uuid_eq(a->recall_request.ret_owner, *w->setup.node))
        finish(a, RECALL_RUNNING, false);
    else if (is_over(a) || (op->rc == ERR_OK && !a->recall)) /* it is left with the task: its owner will see it */
        finish(a, RECALL_RUNNING, true);
    else
        wait(a, op->rc ? RETRY_MS : a->looks++ ? RECALL_REQUESTS_AGAIN_MS : RECALL_REQUESTS_FIRST_MS);
}

static void recall_request(struct asked *a)
{
    a->recall_request = (struct op_recall){
        .op = { .kind = OP_RECALL, .done = recall_request_done },
        .id = a->id,
        .fence = a->fence,
        .abort = a->abort,
        .by_scheduled_ms = a->by_scheduled_ms,
        .now_ms = a->recall_requests->now.wall_ms,
    };
    a->recall_requests->in_flight++;
    arena_init(&a->recall_request.op.arena, RESULTS_MAX);
    writer_submit(a->recall_requests->setup.writer, &a->recall_request.op);
}

static struct asked *new_asked(struct recall_requests *w, struct uuid id, int64_t fence, bool abort)
{
    struct asked *a = xnew(*a);
    a->recall_requests = w;
    a->id = id;
    a->fence = fence;
    a->abort = abort;
    a->until_ms = w->now.steady_ms + RECALL_REQUESTS_GIVE_UP_MS;
    return a;
}

void recall_requests_ask(struct recall_requests *w, struct recall *r)
{
    struct asked *a = new_asked(w, r->running->id, r->running->fence, r->abort);
    a->recall = r;
    recall_request(a);
}

void recall_requests_replace(struct recall_requests *w, struct uuid task, int64_t fence, int64_t by_scheduled_ms)
{
    struct asked *a = new_asked(w, task, fence, true);
    a->by_scheduled_ms = by_scheduled_ms;
    recall_request(a);
}

void recall_requests_returned(struct recall_requests *w)
{
    list_each (&w->waiting, link)
        container_of(link, struct asked, link)->retry_at_ms = w->now.steady_ms;
}

static int64_t ask_again(struct recall_requests *w)
{
    int64_t wake = INT64_MAX;
    list_each (&w->waiting, link) {
        struct asked *a = container_of(link, struct asked, link);
        if (a->retry_at_ms > w->now.steady_ms) {
            wake = min_of(wake, moment_wall_at(w->now, a->retry_at_ms));
            continue;
        }
        list_remove(link);
        if (is_over(a))
            finish(a, RECALL_RUNNING, true);
        else
            recall_request(a);
    }
    return wake;
}

/* ---- what others want of us ---- */

static void looked(struct op *op)
{
    struct recall_requests *w = op->context;
    bool again = op->rc || w->look.ret_count == RECALL_REQUESTS_MAX;
    w->looking = false;
    if (op->rc)
        log_warn("wishes_failed", kv_err(&op->error));
    for (size_t i = 0; op->rc == ERR_OK && i < w->look.ret_count; i++)
        if (w->setup.grant(w->setup.context, &w->look.ret[i]) == RECALL_REQUEST_UNKNOWN)
            again = true;
    arena_release(&op->arena);
    if (!again || w->now.steady_ms >= w->look_until_ms) /* then a beat will tell of it */
        return;
    w->is_recalled = true;
    w->look_at_ms = w->now.steady_ms + (op->rc ? RETRY_MS : RECALL_REQUESTS_AGAIN_MS);
}

static int64_t look(struct recall_requests *w)
{
    if (!w->is_recalled || w->looking)
        return INT64_MAX;
    if (w->now.steady_ms < w->look_at_ms)
        return moment_wall_at(w->now, w->look_at_ms);
    w->is_recalled = false;
    w->looking = true;
    w->look = (struct op_recall_list){ .op = { .kind = OP_RECALL_LIST, .done = looked, .context = w },
                                       .node = *w->setup.node,
                                       .max = RECALL_REQUESTS_MAX };
    arena_init(&w->look.op.arena, RECALL_REQUESTS_ARENA);
    writer_submit(w->setup.writer, &w->look.op);
    return INT64_MAX;
}

void recall_requests_on_notice(struct recall_requests *w)
{
    w->is_recalled = true;
    w->look_at_ms = w->now.steady_ms;
    w->look_until_ms = w->now.steady_ms + RECALL_REQUESTS_GIVE_UP_MS;
}

/* ---- doors ---- */

int64_t recall_requests_step(struct recall_requests *w, struct moment now)
{
    w->now = now;
    int64_t wake = ask_again(w);
    return min_of(wake, look(w));
}
