/* One message on its way to a broker: its texts, headers and signature, and how it ended. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rfc3339.h"
#include "platform/clock_system.h"
#include "runner/message/internal.h"

enum { DEFAULT_TIMEOUT_MS = 30000, TELL_AGAIN_MS = 60000 };

struct message_in_flight *message_new(struct run *run, bool sends_tracestate, int64_t now_us)
{
    struct message_in_flight *msg = xnew(*msg);
    list_init(&msg->link);
    arena_init(&msg->texts, MESSAGE_TEXTS_MAX);
    msg->run = run;
    msg->started_us = now_us;
    msg->failure = FAILURE_INTERNAL; /* until a result is set */
    msg->trace = run_trace(run);
    if (!sends_tracestate || !arena_str(&msg->texts, msg->trace.state, &msg->trace.state)) /* it may outlive the task */
        msg->trace.state = S("");
    return msg;
}

void message_free(struct message_in_flight *msg)
{
    arena_release(&msg->texts);
    free(msg);
}

__attribute__((format(printf, 3, 4))) static void message_add_own_header(struct message_in_flight *msg,
                                                                         const char *name, const char *fmt, ...)
{
    va_list args;
    assert(msg->header_count < MESSAGE_OWN_HEADERS);
    char *text = msg->own[msg->header_count];
    va_start(args, fmt);
    vsnprintf(text, MESSAGE_HEADER_TEXT, fmt, args);
    va_end(args);
    msg->headers[msg->header_count++] = (struct webhook_header){ str_from(name), str_from(text) };
}

/* Adds the headers that a webhook would get, and the user's headers. */
static void message_add_headers(struct message_in_flight *msg, const struct task *t)
{
    char task_id[UUID_TEXT + 1], at[RFC3339_TEXT + 1], parent[TRACE_PARENT + 1];
    uuid_format(t->id, msg->id);
    uuid_format(t->kind == TASK_OCCURRENCE ? t->parent : t->id, task_id);
    rfc3339_format(t->scheduled_ms, at);
    message_add_own_header(msg, "webhook-id", "%s", msg->id);
    message_add_own_header(msg, "webhook-timestamp", "%lld", (long long)(msg->started_us / 1000000));
    message_add_own_header(msg, "Belfry-Task-Id", "%s", task_id);
    message_add_own_header(msg, "Belfry-Attempt", "%d", t->attempts + 1);
    message_add_own_header(msg, "Belfry-Fence", "%lld", (long long)t->fence);
    message_add_own_header(msg, "Belfry-Scheduled-At", "%s", at);
    trace_parent(&msg->trace, trace_span(t->id, t->fence, TRACE_CALL), parent);
    message_add_own_header(msg, "traceparent", "%s", parent);
    if (msg->trace.state.n)
        msg->headers[msg->header_count++] = (struct webhook_header){ S("tracestate"), msg->trace.state };
    for (size_t i = 0; i < msg->target.content.header_count; i++)
        msg->headers[msg->header_count++] = msg->target.content.headers[i];
}

/* The content type is a header, and also a property where the broker has one (AMQP). */
static void message_set_content_type(struct message_in_flight *msg)
{
    const struct webhook *w = &msg->target.content;
    msg->content_type = w->body_is_json || !w->has_body ? "application/json" : "text/plain; charset=utf-8";
    for (size_t i = 0; i < w->header_count; i++)
        if (str_eq_nocase(w->headers[i].name, S("content-type")))
            msg->content_type = w->headers[i].value.p;
    if (!w->has_content_type)
        message_add_own_header(msg, "content-type", "%s", msg->content_type);
}

/* Only a message that has a key. */
static enum err message_sign(struct message_in_flight *msg, const struct secrets *secrets,
                             const struct signing_source *signing, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    struct signer signer;
    struct str value;
    buf_init(&text, SIGNER_TEXT_MAX);
    if (signer_of_task(signing, secrets, msg->run->task, &signer, e))
        return e->code;
    if (!signer.n)
        return ERR_OK;
    signer_write(&signer, str_from(msg->id), msg->started_us / 1000, msg->target.content.body, &text);
    signer_wipe(&signer);
    if (!arena_str(&msg->texts, buf_str(&text), &value))
        return error_set(e, ERR_LIMIT, "the message is too large");
    msg->headers[msg->header_count++] = (struct webhook_header){ S("webhook-signature"), value };
    return ERR_OK;
}

enum err message_read(struct message_in_flight *msg, const struct secrets *secrets,
                      const struct signing_source *signing, struct error *e)
{
    const struct task *t = msg->run->task;
    struct webhook *w = &msg->target.content;
    if (message_target_read(t, &msg->texts, &msg->target, e) || secret_headers_open(secrets, t, w, &msg->texts, e))
        return e->code;
    /* Copied, because the broker's thread may have the message longer than the task exists. */
    if (!arena_str(&msg->texts, w->body, &w->body))
        return error_set(e, ERR_LIMIT, "the message is too large");
    msg->timeout_ms = t->timeout_ms > 0 ? t->timeout_ms : DEFAULT_TIMEOUT_MS;
    if (w->timeout_ms > 0)
        msg->timeout_ms = min_of(msg->timeout_ms, w->timeout_ms);
    message_set_content_type(msg);
    message_add_headers(msg, t);
    return message_sign(msg, secrets, signing, e);
}

void message_set_failed(struct message_in_flight *msg, enum failure failure, bool sent, const char *why)
{
    msg->failure = failure;
    msg->sent = sent;
    snprintf(msg->error, sizeof msg->error, "%s", why);
}

void message_tell_detail(struct peer_check *check, const char *why)
{
    int64_t now_ms = clock_steady_ms(clock_system());
    if (!check->tell || !check->broker[0] ||
        (now_ms - check->told_ms < TELL_AGAIN_MS && strncmp(check->told, why, sizeof check->told - 1) == 0))
        return;
    snprintf(check->told, sizeof check->told, "%s", why);
    check->told_ms = now_ms;
    check->tell(check->broker, why);
}

void message_set_lost(struct message_in_flight *msg, struct peer_check *check, bool sent, const char *why)
{
    if (!check->blocked)
        message_tell_detail(check, why);
    if (check->blocked && !check->has_names)
        message_set_failed(msg, FAILURE_REFUSED, sent, GUARD_REFUSED);
    else if (sent)
        message_set_failed(msg, FAILURE_NETWORK, true, "connection was lost");
    else
        message_set_failed(msg, FAILURE_CONNECT, false, "could not connect");
}
