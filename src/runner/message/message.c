#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rfc3339.h"
#include "runner/message/internal.h"

enum { DEFAULT_TIMEOUT_MS = 30000 };

struct post *post_new(struct run *run, const char *trace_id, int64_t now_us)
{
    struct post *p = xnew(*p);
    list_init(&p->link);
    arena_init(&p->texts, POST_TEXTS_MAX);
    p->run = run;
    p->started_us = now_us;
    p->failure = FAILURE_INTERNAL; /* until somebody says otherwise */
    snprintf(p->trace_id, sizeof p->trace_id, "%s", trace_id);
    return p;
}

void post_free(struct post *p)
{
    arena_release(&p->texts);
    free(p);
}

__attribute__((format(printf, 3, 4))) static void add_own(struct post *p, const char *name, const char *fmt, ...)
{
    va_list args;
    assert(p->header_count < POST_OWN_HEADERS);
    char *text = p->own[p->header_count];
    va_start(args, fmt);
    vsnprintf(text, POST_HEADER_TEXT, fmt, args);
    va_end(args);
    p->headers[p->header_count++] = (struct webhook_header){ str_from(name), str_from(text) };
}

/* What a webhook would get, and what the user gave. */
static void add_headers(struct post *p, const struct task *t)
{
    char task_id[UUID_TEXT + 1], at[RFC3339_TEXT + 1];
    uuid_format(t->id, p->id);
    uuid_format(t->kind == TASK_OCCURRENCE ? t->parent : t->id, task_id);
    rfc3339_format(t->scheduled_ms, at);
    add_own(p, "webhook-id", "%s", p->id);
    add_own(p, "webhook-timestamp", "%lld", (long long)(p->started_us / 1000000));
    add_own(p, "Belfry-Task-Id", "%s", task_id);
    add_own(p, "Belfry-Attempt", "%d", t->attempts + 1);
    add_own(p, "Belfry-Fence", "%lld", (long long)t->fence);
    add_own(p, "Belfry-Scheduled-At", "%s", at);
    add_own(p, "traceparent", "00-%s-%.16s-01", p->trace_id, p->trace_id);
    for (size_t i = 0; i < p->letter.content.header_count; i++)
        p->headers[p->header_count++] = p->letter.content.headers[i];
}

/* It stands among the headers, and beside them where a broker has a place for it. */
static void set_content_type(struct post *p)
{
    const struct webhook *w = &p->letter.content;
    p->content_type = w->body_is_json || !w->has_body ? "application/json" : "text/plain; charset=utf-8";
    for (size_t i = 0; i < w->header_count; i++)
        if (str_eq_nocase(w->headers[i].name, S("content-type")))
            p->content_type = w->headers[i].value.p;
    if (!w->has_content_type)
        add_own(p, "content-type", "%s", p->content_type);
}

enum err post_read(struct post *p, struct error *e)
{
    const struct task *t = p->run->task;
    struct webhook *w = &p->letter.content;
    if (message_target_read(t, &p->texts, &p->letter, e))
        return e->code;
    /* The thread may have it longer than the task is there. */
    if (!arena_str(&p->texts, w->body, &w->body))
        return error_set(e, ERR_LIMIT, "the message is too large");
    p->timeout_ms = t->timeout_ms > 0 ? t->timeout_ms : DEFAULT_TIMEOUT_MS;
    if (w->timeout_ms > 0)
        p->timeout_ms = min_of(p->timeout_ms, w->timeout_ms);
    set_content_type(p);
    add_headers(p, t);
    return ERR_OK;
}

void post_failed(struct post *p, enum failure failure, bool sent, const char *why)
{
    p->failure = failure;
    p->sent = sent;
    snprintf(p->error, sizeof p->error, "%s", why);
}

void post_lost(struct post *p, const struct judge *j, bool sent, const char *why)
{
    if (j->blocked)
        post_failed(p, FAILURE_REFUSED, sent, "address is not allowed");
    else if (sent)
        post_failed(p, FAILURE_NETWORK, true, j->guard ? "connection broke off" : why);
    else
        post_failed(p, FAILURE_CONNECT, false, j->guard ? "could not connect" : why);
}
