/* Runs on the loop's thread. A run becomes a message that waits for its broker's thread and returns through `done`. A
 * timeout or an abort ends the run at once; if the broker's thread has the message, it is freed when it returns. Of
 * such a message, this file reads only members that the broker's thread does not write. */
#include "runner/message/runner_message.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "port/crypto.h"
#include "runner/message/internal.h"

static struct runner_message *runner_message_of(struct runner *base)
{
    return container_of(base, struct runner_message, base);
}

static void runner_message_on_timeout(uv_timer_t *timer);

static void runner_message_set_timer(struct runner_message *r)
{
    struct heap_node *first = heap_peek(&r->due);
    int64_t left_ms = first ? first->key - clock_steady_ms(r->clock) : 0;
    if (first)
        uv_timer_start(r->timer, runner_message_on_timeout, (uint64_t)max_of(left_ms, (int64_t)1), 0);
    else
        uv_timer_stop(r->timer);
    if (first)
        uv_ref((uv_handle_t *)r->wakeup);
    else
        uv_unref((uv_handle_t *)r->wakeup); /* no run is open, so the loop need not stay alive */
}

/* ---- end of a run ---- */

/* Ends the run: reports its outcome once. Does not free the message, which the broker's thread may still have. */
static void runner_message_report(struct runner_message *r, struct message_in_flight *msg, struct outcome o)
{
    struct run *run = msg->run;
    assert_owned(&r->owner);
    o.retry_after_ms = o.kind == OUTCOME_HELD ? o.retry_after_ms : -1;
    bool never_began = o.kind == OUTCOME_CANCELLED && !o.sent; /* it waited for the connection to its broker */
    o.started_us = never_began ? 0 : msg->started_us;
    o.completed_us = max_of(clock_wall_us(r->clock), msg->started_us);
    o.worker = run->worker;
    o.trace_id = str_from(msg->trace.id);
    msg->run = NULL;
    if (msg->due.at)
        heap_remove(&r->due, &msg->due);
    runner_message_set_timer(r);
    run->done(run, &o);
}

static void runner_message_end_early(struct runner_message *r, struct message_in_flight *msg, enum outcome_kind kind,
                                     enum failure failure, const char *why)
{
    bool is_waiting = broker_thread_withdraw(r, msg);
    runner_message_report(
        r, msg, (struct outcome){ .kind = kind, .failure = failure, .sent = !is_waiting, .error = str_from(why) });
    if (is_waiting)
        message_free(msg);
}

static void runner_message_on_results(uv_async_t *handle)
{
    struct runner_message *r = handle->data;
    struct list done;
    list_init(&done);
    pthread_mutex_lock(&r->lock);
    list_append(&done, &r->done);
    pthread_mutex_unlock(&r->lock);
    while (!list_empty(&done)) {
        struct message_in_flight *msg = container_of(list_pop(&done), struct message_in_flight, link);
        bool ok = msg->failure == FAILURE_NONE;
        if (msg->run)
            runner_message_report(r, msg,
                                  (struct outcome){ .kind = ok ? OUTCOME_OK : OUTCOME_FAILED,
                                                    .failure = msg->failure,
                                                    .sent = ok || msg->sent,
                                                    .error = ok ? S("") : str_from(msg->error),
                                                    .output = ok ? str_from(msg->output) : S("") });
        message_free(msg);
    }
}

static void runner_message_on_timeout(uv_timer_t *timer)
{
    struct runner_message *r = timer->data;
    int64_t now_ms = clock_steady_ms(r->clock);
    struct heap_node *first;
    while ((first = heap_peek(&r->due)) && first->key <= now_ms) {
        struct message_in_flight *msg = container_of(first, struct message_in_flight, due);
        char limit[DURATION_TEXT], why[DURATION_TEXT + 32];
        duration_format(msg->timeout_ms, limit);
        snprintf(why, sizeof why, "timed out after %s", limit);
        runner_message_end_early(r, msg, OUTCOME_FAILED, FAILURE_TIMEOUT, why);
    }
    runner_message_set_timer(r);
}

/* ---- start of a run ---- */

static enum err runner_message_find_broker(const struct runner_message *r, const struct message_target *target,
                                           struct str *ret_url, struct error *e)
{
    *ret_url = target->broker;
    if (target->kind != MESSAGE_TARGET_NAMED)
        return ERR_OK;
    for (size_t i = 0; i < r->broker_count; i++) {
        if (str_eq(r->brokers[i].name, target->broker)) {
            *ret_url = r->brokers[i].url;
            return ERR_OK;
        }
    }
    return error_field(e, "broker", "no broker '" STR_FMT "' is configured: set brokers." STR_FMT,
                       STR_ARG(target->broker), STR_ARG(target->broker));
}

static enum err runner_message_check_rules(const struct runner_message *r, struct message_in_flight *msg,
                                           struct error *e)
{
    enum { DEFAULT_TENANT = 1 };
    const struct task *t = msg->run->task;
    struct str tenant = t->tenant == DEFAULT_TENANT ? S("default") : t->tenant_name;
    if (!tenant.n && r->tenant_name)
        tenant = r->tenant_name(r->context, t->tenant, &msg->texts);
    return broker_rules_check(r->rules, &msg->target, tenant, e);
}

/* ERR_UNAVAILABLE: this process lacks the key of a secret, or no connection is free (*ret_is_read). *ret_wait_ms says
 * when to try again. */
static enum err runner_message_send(struct runner_message *r, struct message_in_flight *msg, bool *ret_is_read,
                                    int64_t *ret_wait_ms, struct error *e)
{
    struct str url;
    *ret_wait_ms = SECRETS_RETRY_MS;
    if (message_read(msg, r->secrets, &r->signing, e))
        return e->code;
    *ret_is_read = true;
    if (runner_message_find_broker(r, &msg->target, &url, e) || runner_message_check_rules(r, msg, e))
        return e->code;
    heap_push(&r->due, &msg->due, clock_steady_ms(r->clock) + msg->timeout_ms);
    runner_message_set_timer(r);
    return broker_thread_send(r, msg, url, msg->target.kind == MESSAGE_TARGET_NAMED, ret_wait_ms, e);
}

static void runner_message_start(struct runner *base, struct run *run)
{
    struct runner_message *r = runner_message_of(base);
    assert_owned(&r->owner);
    thread_owner_take(&r->owner);
    char why[sizeof(struct error)];
    struct error e = { 0 };
    int64_t wait_ms = 0;
    bool is_read = false;
    struct message_in_flight *msg = message_new(run, r->sends_tracestate, clock_wall_us(r->clock));
    run->handle = msg;
    if (runner_message_send(r, msg, &is_read, &wait_ms, &e) == ERR_OK)
        return;
    snprintf(why, sizeof why, "%s%s%s", e.field, e.field[0] ? ": " : "", e.text);
    struct outcome refused = { .kind = OUTCOME_FAILED, .failure = FAILURE_REFUSED, .error = str_from(why) };
    struct outcome held = {
        .kind = OUTCOME_HELD, .retry_after_ms = wait_ms, .lacks_key = !is_read, .error = str_from(why)
    };
    runner_message_report(r, msg, e.code == ERR_UNAVAILABLE ? held : refused);
    message_free(msg);
}

static void runner_message_abort(struct runner *base, struct run *run)
{
    runner_message_end_early(runner_message_of(base), run->handle, OUTCOME_CANCELLED, FAILURE_NONE, "cancelled");
}

/* ---- construction and destruction ---- */

static void runner_message_on_closed(uv_handle_t *h)
{
    free(h);
}

static void runner_message_free(struct runner *base)
{
    struct runner_message *r = runner_message_of(base);
    thread_owner_drop(&r->owner); /* another thread may free the runner after the loop has ended */
    broker_threads_close(r);
    while (!list_empty(&r->done))
        message_free(container_of(list_pop(&r->done), struct message_in_flight, link));
    uv_close((uv_handle_t *)r->wakeup, runner_message_on_closed);
    uv_close((uv_handle_t *)r->timer, runner_message_on_closed);
    for (size_t i = 0; i < r->broker_count; i++) {
        free_const(r->brokers[i].name.p);
        free_const(r->brokers[i].url.p);
    }
    free(r->brokers);
    heap_release(&r->due);
    map_release(&r->broker_threads);
    map_each (&r->tenants, slot)
        free(slot->value);
    map_release(&r->tenants);
    guard_release(&r->guard);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->all_ended);
    free(r);
}

static const struct runner_ops runner_message_ops = { runner_message_start, runner_message_abort, runner_message_free };

static struct str runner_message_copy_str(struct str s)
{
    char *copy = xmalloc(s.n + 1);
    memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    return (struct str){ copy, s.n };
}

enum err message_broker_check(const struct message_broker *b, struct error *e)
{
    if (!message_target_is_name(b->name))
        return error_set(e, ERR_INVALID, "a broker's name must have 1 to %d letters, digits, dashes and underscores",
                         MESSAGE_TARGET_NAME_MAX);
    return message_sender_check(b->url, e);
}

struct runner *runner_message_new(uv_loop_t *loop, struct clock *clock, const struct runner_message_setup *setup)
{
    struct runner_message *r = xnew(*r);
    struct hash_key key;
    crypto_random(&key, sizeof key);
    r->base.ops = &runner_message_ops;
    r->clock = clock;
    r->sends_tracestate = setup->sends_tracestate;
    guard_init(&r->guard, &setup->guard);
    r->brokers = xcalloc(setup->broker_count + 1, sizeof *r->brokers);
    for (; r->broker_count < setup->broker_count; r->broker_count++)
        r->brokers[r->broker_count] =
            (struct message_broker){ runner_message_copy_str(setup->brokers[r->broker_count].name),
                                     runner_message_copy_str(setup->brokers[r->broker_count].url) };
    heap_init(&r->due);
    map_init(&r->broker_threads, key);
    map_init(&r->tenants, key);
    r->rules = setup->rules;
    r->broker_failed = setup->broker_failed;
    r->tenant_name = setup->tenant_name;
    r->secrets = setup->secrets;
    r->signing = setup->signing;
    r->context = setup->context;
    r->tenant_connections = setup->tenant_connections ? setup->tenant_connections : MESSAGE_TENANT_CONNECTIONS;
    list_init(&r->done);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->all_ended, NULL);
    r->wakeup = xnew(*r->wakeup);
    r->timer = xnew(*r->timer);
    uv_async_init(loop, r->wakeup, runner_message_on_results);
    uv_timer_init(loop, r->timer);
    r->wakeup->data = r->timer->data = r;
    uv_unref((uv_handle_t *)r->wakeup);
    return &r->base;
}
