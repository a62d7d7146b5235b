/* On the loop: a run becomes a post, waits at its broker's office, and comes back through `done`. Its time and an abort end it at once; what
 * the thread has in its hands then is freed when it comes back. Of a post that was given, only what never changes is looked at here. */
#include "runner/message/runner_message.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "port/crypto.h"
#include "runner/message/internal.h"

static struct runner_message *self(struct runner *base)
{
    return container_of(base, struct runner_message, base);
}

static void on_time(uv_timer_t *timer);

static void set_timer(struct runner_message *r)
{
    struct heap_node *first = heap_peek(&r->due);
    int64_t left_ms = first ? first->key - clock_steady_ms(r->clock) : 0;
    if (first)
        uv_timer_start(r->timer, on_time, (uint64_t)max_of(left_ms, (int64_t)1), 0);
    else
        uv_timer_stop(r->timer);
    if (first)
        uv_ref((uv_handle_t *)r->back);
    else
        uv_unref((uv_handle_t *)r->back); /* a loop need not stay for us */
}

/* ---- the end of a run ---- */

/* Tells it, once. The post is another's still, if it was given. */
static void tell(struct runner_message *r, struct post *p, struct outcome o)
{
    struct run *run = p->run;
    o.retry_after_ms = -1;
    o.started_us = p->started_us;
    o.completed_us = max_of(clock_wall_us(r->clock), p->started_us);
    o.worker = run->worker;
    o.trace_id = str_from(p->trace_id);
    p->run = NULL;
    if (p->due.at)
        heap_remove(&r->due, &p->due);
    set_timer(r);
    run->done(run, &o);
}

static void end_early(struct runner_message *r, struct post *p, enum outcome_kind kind, enum failure failure,
                      const char *why)
{
    bool waits = broker_thread_take_back(r, p);
    tell(r, p, (struct outcome){ .kind = kind, .failure = failure, .sent = !waits, .error = str_from(why) });
    if (waits)
        post_free(p);
}

static void on_back(uv_async_t *handle)
{
    struct runner_message *r = handle->data;
    struct list done;
    list_init(&done);
    pthread_mutex_lock(&r->lock);
    list_append(&done, &r->done);
    pthread_mutex_unlock(&r->lock);
    while (!list_empty(&done)) {
        struct post *p = container_of(list_pop(&done), struct post, link);
        bool ok = p->failure == FAILURE_NONE;
        if (p->run)
            tell(r, p,
                 (struct outcome){ .kind = ok ? OUTCOME_OK : OUTCOME_FAILED,
                                   .failure = p->failure,
                                   .sent = ok || p->sent,
                                   .error = ok ? S("") : str_from(p->error),
                                   .output = ok ? str_from(p->output) : S("") });
        post_free(p);
    }
}

static void on_time(uv_timer_t *timer)
{
    struct runner_message *r = timer->data;
    int64_t now_ms = clock_steady_ms(r->clock);
    struct heap_node *first;
    while ((first = heap_peek(&r->due)) && first->key <= now_ms) {
        struct post *p = container_of(first, struct post, due);
        char limit[DURATION_TEXT], why[DURATION_TEXT + 32];
        duration_format(p->timeout_ms, limit);
        snprintf(why, sizeof why, "timed out after %s", limit);
        end_early(r, p, OUTCOME_FAILED, FAILURE_TIMEOUT, why);
    }
    set_timer(r);
}

/* ---- its beginning ---- */

static enum err find_broker(const struct runner_message *r, const struct message_target *l, struct str *ret_url,
                            struct error *e)
{
    *ret_url = l->broker;
    if (l->kind != MESSAGE_TARGET_NAMED)
        return ERR_OK;
    for (size_t i = 0; i < r->broker_count; i++) {
        if (str_eq(r->brokers[i].name, l->broker)) {
            *ret_url = r->brokers[i].url;
            return ERR_OK;
        }
    }
    return error_field(e, "broker", "there is none called '" STR_FMT "' here: the settings have no brokers." STR_FMT,
                       STR_ARG(l->broker), STR_ARG(l->broker));
}

static enum err send_post(struct runner_message *r, struct post *p, struct error *e)
{
    struct str url;
    if (post_read(p, e) || find_broker(r, &p->letter, &url, e))
        return e->code;
    heap_push(&r->due, &p->due, clock_steady_ms(r->clock) + p->timeout_ms);
    set_timer(r);
    return broker_thread_send(r, p, url, p->letter.kind == MESSAGE_TARGET_NAMED, e);
}

static void message_start(struct runner *base, struct run *run)
{
    struct runner_message *r = self(base);
    char trace_id[33], why[sizeof(struct error)];
    struct error e = { 0 };
    snprintf(trace_id, sizeof trace_id, "%016llx%016llx", (unsigned long long)prng_u64(&r->random),
             (unsigned long long)prng_u64(&r->random) | 1); /* all zeros is no trace */
    struct post *p = post_new(run, trace_id, clock_wall_us(r->clock));
    run->handle = p;
    if (send_post(r, p, &e) == ERR_OK)
        return;
    snprintf(why, sizeof why, "%s%s%s", e.field, e.field[0] ? ": " : "", e.text);
    enum failure failure = e.code == ERR_UNAVAILABLE ? FAILURE_CONNECT : FAILURE_REFUSED;
    tell(r, p, (struct outcome){ .kind = OUTCOME_FAILED, .failure = failure, .error = str_from(why) });
    post_free(p);
}

static void message_abort(struct runner *base, struct run *run)
{
    end_early(self(base), run->handle, OUTCOME_CANCELLED, FAILURE_NONE, "cancelled");
}

/* ---- the runner ---- */

static void on_closed(uv_handle_t *h)
{
    free(h);
}

static void message_free(struct runner *base)
{
    struct runner_message *r = self(base);
    broker_threads_close(r);
    while (!list_empty(&r->done))
        post_free(container_of(list_pop(&r->done), struct post, link));
    uv_close((uv_handle_t *)r->back, on_closed);
    uv_close((uv_handle_t *)r->timer, on_closed);
    for (size_t i = 0; i < r->broker_count; i++) {
        free_const(r->brokers[i].name.p);
        free_const(r->brokers[i].url.p);
    }
    free(r->brokers);
    heap_release(&r->due);
    map_release(&r->broker_threads);
    guard_release(&r->guard);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->empty);
    free(r);
}

static const struct runner_ops message_ops = { message_start, message_abort, message_free };

static struct str copied(struct str s)
{
    char *copy = xmalloc(s.n + 1);
    memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    return (struct str){ copy, s.n };
}

enum err message_broker_check(const struct message_broker *b, struct error *e)
{
    if (!message_target_is_name(b->name))
        return error_set(e, ERR_INVALID, "a broker's name has 1 to %d letters, digits, dashes and underscores",
                         MESSAGE_TARGET_NAME_MAX);
    return sender_check(b->url, e);
}

struct runner *runner_message_new(uv_loop_t *loop, struct clock *clock, const struct runner_message_setup *setup)
{
    struct runner_message *r = xnew(*r);
    struct hash_key key;
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    crypto_random(&key, sizeof key);
    r->base.ops = &message_ops;
    r->clock = clock;
    prng_init(&r->random, seed);
    guard_init(&r->guard, setup->allowed, setup->allowed_count, setup->allow_loopback);
    r->brokers = xcalloc(setup->broker_count + 1, sizeof *r->brokers);
    for (; r->broker_count < setup->broker_count; r->broker_count++)
        r->brokers[r->broker_count] = (struct message_broker){ copied(setup->brokers[r->broker_count].name),
                                                               copied(setup->brokers[r->broker_count].url) };
    heap_init(&r->due);
    map_init(&r->broker_threads, key);
    list_init(&r->done);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->empty, NULL);
    r->back = xnew(*r->back);
    r->timer = xnew(*r->timer);
    uv_async_init(loop, r->back, on_back);
    uv_timer_init(loop, r->timer);
    r->back->data = r->timer->data = r;
    uv_unref((uv_handle_t *)r->back);
    return &r->base;
}
