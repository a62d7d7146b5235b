/* One that is asked for has an operation with the writer, or waits in a list for its time. What it becomes is not for us to put: it may
 * have run meanwhile, and wait for its next attempt under the fence that it had. */
#include "node/cluster/recall_requests.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum { RESULTS_MAX = 64 << 10, WISHES_ARENA = 64 << 10, RETRY_MS = 200 };

/* One that another node holds. */
struct asked {
    struct op_wish wish;
    struct wishes *wishes;
    struct recall *recall; /* NULL: nobody waits for what comes of it */
    struct uuid id;
    int64_t fence;
    bool abort;
    int64_t by_scheduled_ms; /* 0: it is not replaced */
    int looks;
    int64_t until_ms, retry_at_ms;
    struct list link; /* while it waits */
};

struct wishes {
    struct wishes_setup setup;
    struct list waiting;
    size_t in_flight;
    struct op_wishes look;
    bool looking, is_wished;
    int64_t look_at_ms, look_until_ms;
    int64_t now_ms;
};

struct wishes *wishes_new(const struct wishes_setup *setup)
{
    struct wishes *w = xnew(*w);
    w->setup = *setup;
    list_init(&w->waiting);
    return w;
}

void wishes_free(struct wishes *w)
{
    assert(!w || wishes_is_idle(w));
    free(w);
}

bool wishes_is_idle(const struct wishes *w)
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
    return a->wishes->now_ms >= a->until_ms || (r && r->given_up && atomic_load(r->given_up));
}

static void wait(struct asked *a, int64_t ms)
{
    a->retry_at_ms = a->wishes->now_ms + ms;
    list_push(&a->wishes->waiting, &a->link);
}

static void wish_done(struct op *op)
{
    struct asked *a = container_of(op, struct asked, wish.op);
    struct wishes *w = a->wishes;
    w->in_flight--;
    arena_release(&op->arena);
    if (op->rc == ERR_CONFLICT || op->rc == ERR_NOT_FOUND)
        finish(a, RECALL_FREED, true);
    else if (op->rc == ERR_OK && uuid_eq(a->wish.ret_owner, *w->setup.node))
        finish(a, RECALL_RUNNING, false);
    else if (is_over(a) || (op->rc == ERR_OK && !a->recall)) /* it is left with the task: its owner will see it */
        finish(a, RECALL_RUNNING, true);
    else
        wait(a, op->rc ? RETRY_MS : a->looks++ ? WISHES_AGAIN_MS : WISHES_FIRST_MS);
}

static void wish(struct asked *a)
{
    a->wish = (struct op_wish){
        .op = { .kind = OP_WISH, .done = wish_done },
        .id = a->id,
        .fence = a->fence,
        .abort = a->abort,
        .by_scheduled_ms = a->by_scheduled_ms,
        .now_ms = a->wishes->now_ms,
    };
    a->wishes->in_flight++;
    arena_init(&a->wish.op.arena, RESULTS_MAX);
    writer_submit(a->wishes->setup.writer, &a->wish.op);
}

static struct asked *new_asked(struct wishes *w, struct uuid id, int64_t fence, bool abort)
{
    struct asked *a = xnew(*a);
    a->wishes = w;
    a->id = id;
    a->fence = fence;
    a->abort = abort;
    a->until_ms = w->now_ms + WISHES_GIVE_UP_MS;
    return a;
}

void wishes_ask(struct wishes *w, struct recall *r)
{
    struct asked *a = new_asked(w, r->running->id, r->running->fence, r->abort);
    a->recall = r;
    wish(a);
}

void wishes_replace(struct wishes *w, struct uuid task, int64_t fence, int64_t by_scheduled_ms)
{
    struct asked *a = new_asked(w, task, fence, true);
    a->by_scheduled_ms = by_scheduled_ms;
    wish(a);
}

void wishes_given_back(struct wishes *w)
{
    list_each (&w->waiting, link)
        container_of(link, struct asked, link)->retry_at_ms = w->now_ms;
}

static int64_t ask_again(struct wishes *w)
{
    int64_t wake = INT64_MAX;
    list_each (&w->waiting, link) {
        struct asked *a = container_of(link, struct asked, link);
        if (a->retry_at_ms > w->now_ms) {
            wake = min_of(wake, a->retry_at_ms);
            continue;
        }
        list_remove(link);
        if (is_over(a))
            finish(a, RECALL_RUNNING, true);
        else
            wish(a);
    }
    return wake;
}

/* ---- what others want of us ---- */

static void looked(struct op *op)
{
    struct wishes *w = op->context;
    bool again = op->rc || w->look.ret_count == WISHES_MAX;
    w->looking = false;
    if (op->rc)
        log_warn("wishes_failed", kv_err(&op->error));
    for (size_t i = 0; op->rc == ERR_OK && i < w->look.ret_count; i++)
        if (w->setup.grant(w->setup.context, &w->look.ret[i]) == WISH_UNKNOWN)
            again = true;
    arena_release(&op->arena);
    if (!again || w->now_ms >= w->look_until_ms) /* then a beat will tell of it */
        return;
    w->is_wished = true;
    w->look_at_ms = w->now_ms + (op->rc ? RETRY_MS : WISHES_AGAIN_MS);
}

static int64_t look(struct wishes *w)
{
    if (!w->is_wished || w->looking)
        return INT64_MAX;
    if (w->now_ms < w->look_at_ms)
        return w->look_at_ms;
    w->is_wished = false;
    w->looking = true;
    w->look = (struct op_wishes){ .op = { .kind = OP_WISHES, .done = looked, .context = w },
                                  .node = *w->setup.node,
                                  .max = WISHES_MAX };
    arena_init(&w->look.op.arena, WISHES_ARENA);
    writer_submit(w->setup.writer, &w->look.op);
    return INT64_MAX;
}

void wishes_heard(struct wishes *w)
{
    w->is_wished = true;
    w->look_at_ms = w->now_ms;
    w->look_until_ms = w->now_ms + WISHES_GIVE_UP_MS;
}

/* ---- doors ---- */

int64_t wishes_step(struct wishes *w, int64_t now_ms)
{
    w->now_ms = now_ms;
    int64_t wake = ask_again(w);
    return min_of(wake, look(w));
}

void wishes_clock_set_back(struct wishes *w, int64_t now_ms)
{
    w->now_ms = w->look_at_ms = now_ms;
    w->look_until_ms = now_ms + WISHES_GIVE_UP_MS;
    list_each (&w->waiting, link) {
        struct asked *a = container_of(link, struct asked, link);
        a->retry_at_ms = now_ms;
        a->until_ms = now_ms + WISHES_GIVE_UP_MS;
    }
}
