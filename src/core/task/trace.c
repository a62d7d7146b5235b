#include "core/task/trace.h"

#include "base/hash.h"

/* The text of task.trace: "<traceparent or -> <request id or -> <tracestate>"; a state may hold spaces. */
static const struct str none = { "-", 1 };

static bool trace_is_hex(struct str s)
{
    bool zeros = true;
    for (size_t i = 0; i < s.n; i++) {
        if (!is_digit(s.p[i]) && (s.p[i] < 'a' || s.p[i] > 'f'))
            return false;
        zeros = zeros && s.p[i] == '0';
    }
    return !zeros;
}

static int trace_digit(char c)
{
    return is_digit(c) ? c - '0' : c - 'a' + 10;
}

/* Versions after 00 may be longer: what follows the flags is not for us. */
bool trace_parse(struct str traceparent, struct trace *ret)
{
    struct str s = traceparent, version = str_sub(s, 0, 2);
    if (s.n < TRACE_PARENT || s.p[2] != '-' || s.p[3 + TRACE_ID] != '-' || s.p[TRACE_PARENT - 3] != '-')
        return false;
    struct str id = str_sub(s, 3, 3 + TRACE_ID), span = str_sub(s, 4 + TRACE_ID, TRACE_PARENT - 3);
    struct str flags = str_sub(s, TRACE_PARENT - 2, TRACE_PARENT);
    bool first = str_eq(version, S("00"));
    if (str_eq(version, S("ff")) || (first ? s.n != TRACE_PARENT : s.n > TRACE_PARENT && s.p[TRACE_PARENT] != '-'))
        return false;
    if ((!first && !trace_is_hex(version)) || !trace_is_hex(id) || !trace_is_hex(span) ||
        (!str_eq(flags, S("00")) && !trace_is_hex(flags)))
        return false;
    *ret = (struct trace){ .sampled = trace_digit(flags.p[1]) & 1 };
    memcpy(ret->id, id.p, TRACE_ID);
    memcpy(ret->span, span.p, TRACE_SPAN);
    return true;
}

static bool trace_is_text(struct str s, size_t max, char lowest)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < lowest || s.p[i] > '~')
            return false;
    return s.n > 0 && s.n <= max;
}

bool trace_request_is_valid(struct str id)
{
    return trace_is_text(id, TRACE_REQUEST_MAX, '!');
}

bool trace_keep(struct str traceparent, struct str state, struct str request, struct arena *a, struct str *ret)
{
    struct trace parsed;
    bool traced = trace_parse(traceparent, &parsed), named = trace_request_is_valid(request);
    *ret = (struct str){ NULL, 0 };
    if (!traced && !named)
        return true;
    struct str parts[] = { traced ? str_sub(traceparent, 0, TRACE_PARENT) : none, named ? request : none,
                           traced && trace_is_text(state, TRACE_STATE_MAX, ' ') ? state : S("") };
    char *p = arena_alloc(a, parts[0].n + 1 + parts[1].n + 1 + parts[2].n), *at = p;
    if (!p)
        return false;
    for (size_t i = 0; i < array_count(parts); i++) {
        if (i && parts[i].n)
            *at++ = ' ';
        memcpy(at, parts[i].p, parts[i].n);
        at += parts[i].n;
    }
    *ret = (struct str){ p, (size_t)(at - p) };
    return true;
}

static void trace_put_hex(uint64_t v, char out[TRACE_SPAN])
{
    for (int i = TRACE_SPAN; i-- > 0; v >>= 4)
        out[i] = "0123456789abcdef"[v & 15];
}

/* The trace of a task that continues none. An id must not be all zeros. */
static uint64_t trace_derive_half(struct uuid of, int half)
{
    char bytes[sizeof of.b + 1];
    memcpy(bytes, of.b, sizeof of.b);
    bytes[sizeof of.b] = (char)half;
    return hash_bytes(HASH_STABLE, (struct str){ bytes, sizeof bytes }) | (uint64_t)half;
}

static void trace_derive(struct uuid of, struct trace *ret)
{
    for (int half = 0; half < 2; half++)
        trace_put_hex(trace_derive_half(of, half), ret->id + half * TRACE_SPAN);
}

uint64_t trace_new_low(struct uuid id)
{
    return trace_derive_half(id, 1);
}

/* The caller's trace, whose span made the recurring task, becomes the link of a new one. */
static void trace_link(struct trace *t)
{
    memcpy(t->linked_id, t->id, sizeof t->id);
    memcpy(t->linked_span, t->span, sizeof t->span);
    t->span[0] = '\0';
    t->sampled = true;
}

struct trace trace_new(struct uuid id)
{
    struct trace trace = { .sampled = true };
    trace_derive(id, &trace);
    return trace;
}

struct uuid trace_begin(struct uuid id, struct uuid run)
{
    return uuid_is_nil(run) ? id : run;
}

struct trace trace_read(struct str kept, enum task_kind kind, struct uuid id, struct uuid run)
{
    struct trace trace = { .sampled = true };
    struct str rest = kept, parent = { 0 }, request = { 0 };
    bool is_caller = rest.n && str_cut(&rest, ' ', &parent) && trace_parse(parent, &trace);
    if (is_caller && kind == TASK_OCCURRENCE)
        trace_link(&trace);
    if (!trace.span[0])
        trace_derive(trace_begin(id, run), &trace);
    if (kept.n && str_cut(&rest, ' ', &request) && !str_eq(request, none))
        trace.request = request;
    trace.state = trace.span[0] ? rest : (struct str){ NULL, 0 };
    return trace;
}

struct trace trace_of(const struct task *t)
{
    return trace_read(t->trace, t->kind, t->id, t->run);
}

/* Those of an occurrence continue its own trace, which their run gives. */
struct str trace_for_steps(const struct task *run)
{
    return run->kind == TASK_OCCURRENCE ? S("") : run->trace;
}

struct str trace_without_state(struct str kept)
{
    struct str rest = kept, part;
    (void)str_cut(&rest, ' ', &part);
    if (!str_cut(&rest, ' ', &part))
        return kept;
    return (struct str){ kept.p, (size_t)(part.p + part.n - kept.p) };
}

uint64_t trace_span(struct uuid task, int64_t fence, enum trace_part part)
{
    char bytes[sizeof task.b + sizeof fence + 1];
    memcpy(bytes, task.b, sizeof task.b);
    memcpy(bytes + sizeof task.b, &fence, sizeof fence);
    bytes[sizeof bytes - 1] = (char)part;
    uint64_t span = hash_bytes(HASH_STABLE, (struct str){ bytes, sizeof bytes });
    return span ? span : 1;
}

uint64_t trace_span_parse(const char *text)
{
    uint64_t v = 0;
    for (int i = 0; i < TRACE_SPAN && text[i]; i++)
        v = v << 4 | (uint64_t)trace_digit(text[i]);
    return v;
}

void trace_span_text(uint64_t span, char out[TRACE_SPAN + 1])
{
    trace_put_hex(span, out);
    out[TRACE_SPAN] = '\0';
}

void trace_parent(const struct trace *t, uint64_t span, char out[TRACE_PARENT + 1])
{
    memcpy(out, "00-", 3);
    memcpy(out + 3, t->id, TRACE_ID);
    out[3 + TRACE_ID] = '-';
    trace_put_hex(span ? span : 1, out + 4 + TRACE_ID);
    memcpy(out + TRACE_PARENT - 3, t->sampled ? "-01" : "-00", 4);
}
