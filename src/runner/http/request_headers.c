/* Request headers beyond those that libcurl adds. The call holds the list and our own headers; its arena holds the
 * user's headers. */
#include <assert.h>
#include <stdio.h>

#include "base/rfc3339.h"
#include "core/task/trace.h"
#include "runner/http/internal.h"

static void http_call_link_header(struct http_call *c, size_t *n, const char *text)
{
    struct curl_slist *node = &c->headers[*n];
    union {
        const char *in;
        char *out;
    } data = { text }; /* libcurl's list is not const, but is only read */
    *node = (struct curl_slist){ .data = data.out };
    if (*n)
        c->headers[*n - 1].next = node;
    (*n)++;
}

/* Without printf, for speed: a call has ten headers. */
static void http_call_add_header(struct http_call *c, size_t *n, struct str name, struct str value)
{
    char *text = c->own_headers[*n];
    assert(name.n + value.n < HEADER_TEXT);
    memcpy(text, name.p, name.n);
    memcpy(text + name.n, value.p, value.n);
    text[name.n + value.n] = '\0';
    http_call_link_header(c, n, text);
}

static void http_call_add_number(struct http_call *c, size_t *n, struct str name, int64_t value)
{
    char text[24];
    int size = snprintf(text, sizeof text, "%lld", (long long)value);
    http_call_add_header(c, n, name, (struct str){ text, (size_t)size });
}

static void http_call_add_user_header(struct http_call *c, size_t *n, const struct webhook_header *h)
{
    size_t size = h->name.n + h->value.n + 3;
    char *text = arena_alloc(&c->texts, size);
    assert(text); /* webhook_read has checked the size */
    snprintf(text, size, STR_FMT "%s" STR_FMT, STR_ARG(h->name), h->value.n ? ": " : ";",
             STR_ARG(h->value)); /* "Name;" sends an empty value */
    http_call_link_header(c, n, text);
}

/* The call is a span of its own in the task's trace. */
static void http_call_add_traceparent(struct http_call *c, size_t *n)
{
    _Static_assert(sizeof c->trace_id == TRACE_ID + 1, "a trace id has 32 digits");
    char parent[TRACE_PARENT + 1];
    const struct task *t = c->run->task;
    struct trace trace = run_trace(c->run);
    memcpy(c->trace_id, trace.id, sizeof c->trace_id);
    trace_parent(&trace, trace_span(t->id, t->fence, TRACE_CALL), parent);
    http_call_add_header(c, n, S("traceparent: "), str_from(parent));
    if (c->runner->setup.sends_tracestate && trace.state.n)
        http_call_add_user_header(c, n, &(struct webhook_header){ S("tracestate"), trace.state });
}

/* Only for a call that has a key. The secrets have done their work then. */
static void http_call_add_signature(struct http_call *c, size_t *n, struct str id, int64_t now_us)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, SIGNER_TEXT_MAX);
    if (!c->signer.n)
        return;
    signer_write(&c->signer, id, now_us / 1000, c->webhook.body, &text);
    signer_wipe(&c->signer);
    http_call_add_user_header(c, n, &(struct webhook_header){ S("webhook-signature"), buf_str(&text) });
}

static struct str http_call_content_type(const struct webhook *w)
{
    if (!w->has_body)
        return S(""); /* no header, not even libcurl's default */
    return w->body_is_json ? S(" application/json") : S(" text/plain; charset=utf-8");
}

void http_call_set_headers(struct http_call *c, int64_t now_us)
{
    const struct task *t = c->run->task;
    char id_text[UUID_TEXT + 1], task_text[UUID_TEXT + 1], at[RFC3339_TEXT + 1];
    struct str id = { id_text, UUID_TEXT };
    uuid_format(t->id, id_text);
    uuid_format(t->kind == TASK_OCCURRENCE ? t->parent : t->id, task_text);
    rfc3339_format(t->scheduled_ms, at);
    size_t n = 0;
    http_call_add_header(c, &n, S("Expect:"), S("")); /* do not wait for 100 Continue */
    http_call_add_header(c, &n, S("webhook-id: "), id);
    http_call_add_number(c, &n, S("webhook-timestamp: "), now_us / 1000000);
    http_call_add_signature(c, &n, id, now_us);
    http_call_add_header(c, &n, S("Idempotency-Key: "), id);
    http_call_add_header(c, &n, S("X-Idempotency-Key: "), id);
    http_call_add_header(c, &n, S("Belfry-Task-Id: "), (struct str){ task_text, UUID_TEXT });
    http_call_add_number(c, &n, S("Belfry-Attempt: "), t->attempts + 1);
    http_call_add_number(c, &n, S("Belfry-Fence: "), t->fence);
    http_call_add_header(c, &n, S("Belfry-Scheduled-At: "), str_from(at));
    http_call_add_traceparent(c, &n);
    if (!c->webhook.has_content_type)
        http_call_add_header(c, &n, S("Content-Type:"), http_call_content_type(&c->webhook));
    for (size_t i = 0; i < c->webhook.header_count; i++)
        http_call_add_user_header(c, &n, &c->webhook.headers[i]);
}
