#include "node/scheduler/catch_up.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/pending_op.h"

enum { CATCH_UP_BATCH = 500, CATCH_UP_RETRY_MS = 500, CATCH_UP_ARENA = 4096 };

struct catch_up_run {
    struct catch_up_setup setup;
    struct op_catch_up op;
    struct pending_op pending;
    struct moment now;
    bool over, stopped;
    bool waits; /* it is not known whether there was an outage */
    bool anew;  /* there was another outage while an operation was in flight: begin at the first occurrence */
};

struct catch_up_run *catch_up_new(const struct catch_up_setup *setup, struct moment now)
{
    struct catch_up_run *c = xnew(*c);
    c->setup = *setup;
    c->now = now;
    pending_op_wait(&c->pending, now, 0);
    return c;
}

void catch_up_free(struct catch_up_run *c)
{
    assert(!c || !c->pending.in_flight);
    free(c);
}

static void catch_up_end(struct catch_up_run *c)
{
    c->over = true;
    c->setup.over(c->setup.context);
}

static void catch_up_on_answer(struct op *op)
{
    struct catch_up_run *c = op->context;
    pending_op_end(&c->pending, op);
    if (c->waits || c->over) { /* the result is of no interest any more */
        c->op.after = (struct uuid){ 0 };
        c->anew = false;
        return;
    }
    if (op->rc == ERR_OK) {
        c->op.after = c->anew ? (struct uuid){ 0 } : c->op.ret_after;
        if (uuid_is_nil(c->op.after) && !c->anew)
            catch_up_end(c);
        c->anew = false;
        return;
    }
    log_warn("missed_failed", kv_err(&op->error));
    pending_op_wait(&c->pending, c->now, CATCH_UP_RETRY_MS);
    if (op->rc != ERR_UNAVAILABLE) /* the next try would fail as well: late tasks are better than none */
        catch_up_end(c);
}

static bool catch_up_wants_to_send(const struct catch_up_run *c)
{
    return !c->over && !c->waits && !c->stopped;
}

void catch_up_step(struct catch_up_run *c, struct moment now, bool may_ask)
{
    c->now = now;
    if (!catch_up_wants_to_send(c) || !may_ask || !pending_op_may_send(&c->pending, now))
        return;
    c->op.op = (struct op){ .kind = OP_CATCH_UP, .done = catch_up_on_answer, .context = c };
    c->op.before_ms = now.wall_ms - MISSED_MS;
    c->op.max = CATCH_UP_BATCH;
    pending_op_send(&c->pending, c->setup.writer, &c->op.op, CATCH_UP_ARENA);
}

int64_t catch_up_next_ms(const struct catch_up_run *c)
{
    return catch_up_wants_to_send(c) ? pending_op_wake(&c->pending, c->now) : INT64_MAX;
}

void catch_up_begin(struct catch_up_run *c, struct moment now)
{
    c->over = c->waits = false;
    c->anew = c->pending.in_flight;
    if (!c->pending.in_flight)
        c->op.after = (struct uuid){ 0 };
    pending_op_wait(&c->pending, now, 0);
}

void catch_up_wait(struct catch_up_run *c)
{
    c->over = false;
    c->waits = true;
}

void catch_up_skip(struct catch_up_run *c)
{
    c->waits = false;
    catch_up_end(c);
}

void catch_up_stop(struct catch_up_run *c)
{
    c->stopped = true;
}

bool catch_up_is_over(const struct catch_up_run *c)
{
    return c->over;
}

bool catch_up_in_flight(const struct catch_up_run *c)
{
    return c->pending.in_flight;
}
