/* Why a task has not run yet. The reasons in its row are answered here. Only the node knows what else holds back a
 * SCHEDULED task, so the node is asked; it answers on a thread of its own. */
#include <stdio.h>

#include "api/resource/listing.h"
#include "api/server/internal.h"
#include "api/task/json.h"
#include "base/rfc3339.h"

enum { HOLDERS_SHOWN = 10, WAITING_MAX = 10000 };

/* The reason that the row gives: the gate, a sentence, and when the task can continue. */
struct explain_reason {
    const char *gate;
    char text[EXPLAIN_TEXT];
    int64_t until_ms; /* 0: not known */
};

static struct jw explain_begin(struct request *q, const struct task *t, const struct explain_reason *v)
{
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_uuid(&w, "task_id", t->id);
    jw_kv_cstr(&w, "status", task_state_name(task_shown_state(t, q->now_ms)));
    jw_kv_cstr(&w, "gate", v->gate);
    jw_kv_cstr(&w, "explanation", v->text);
    jw_kv_time_or_null(&w, "estimate", v->until_ms);
    return w;
}

/* ---- a slot ---- */

static struct str explain_key_name(struct str key)
{
    size_t colon = str_find(key, ':', 2);
    return str_starts(key, S("c:")) ? str_sub(key, min_of(colon + 1, key.n), key.n) : key;
}

static void explain_write_holders(struct jw *w, const struct slot_holders *holders)
{
    jw_key(w, "holders");
    jw_array(w);
    for (size_t i = 0; i < min_of(holders->n, (size_t)HOLDERS_SHOWN); i++) {
        jw_object(w);
        jw_kv_uuid(w, "task_id", holders->v[i].task);
        jw_kv_cstr(w, "status", task_state_name(holders->v[i].state));
        jw_kv_time(w, "scheduled_for", holders->v[i].scheduled_ms);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static enum handled explain_slot(struct request *q, struct reader *r, const struct task *t)
{
    struct error e = { 0 };
    struct slot_holders holders = { 0 };
    size_t ahead = 0;
    struct task_filter f = {
        .tenant = t->tenant, .waits_for = t->waits_for, .occurrences = true, .due_before_ms = t->due_ms
    };
    if (reader_slots(r, t->waits_for, &q->arena, &holders, &e) || reader_count(r, &f, WAITING_MAX, &ahead, &e))
        return request_fail(q, &e);
    bool overlap = str_starts(t->waits_for, S("o:"));
    struct explain_reason v = { .gate = overlap ? "overlap" : "concurrency_key" };
    char holder[UUID_TEXT + 1] = "nobody any more";
    if (holders.n)
        uuid_format(holders.v[0].task, holder);
    if (overlap)
        snprintf(v.text, sizeof v.text, "the previous run, %s, has not ended; %zu tasks wait ahead of it", holder,
                 ahead);
    else
        snprintf(v.text, sizeof v.text,
                 "it waits for a slot of the concurrency key '" STR_FMT "', held by %s%s; %zu tasks wait ahead of it",
                 STR_ARG(str_utf8_cut(explain_key_name(t->waits_for), 200)), holder, holders.n > 1 ? " and others" : "",
                 ahead);
    struct jw w = explain_begin(q, t, &v);
    explain_write_holders(&w, &holders);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* ---- other tasks ---- */

enum { PARENTS_SHOWN = 5 };

static void explain_add_parent(struct buf *b, const struct linked_task *p, int64_t now_ms)
{
    struct task t = { .state = p->state, .due_ms = p->due_ms };
    enum task_state shown = task_shown_state(&t, now_ms);
    char id[UUID_TEXT + 1], when[RFC3339_TEXT + 1];
    uuid_format(p->id, id);
    buf_printf(b, "%s (%s", id, p->exists ? task_state_name(shown) : "removed");
    if (p->exists && shown == TASK_SCHEDULED) {
        rfc3339_format(p->due_ms, when);
        buf_printf(b, " for %s", when);
    }
    buf_text(b, ")");
}

/* "it waits for 2 of 3 tasks: A (RUNNING), B (SCHEDULED for …)" */
static enum handled explain_dependency(struct request *q, struct reader *r, const struct task *t)
{
    struct error e = { 0 };
    struct task_links l;
    struct explain_reason v = { .gate = "dependency" };
    if (reader_links(r, q->who.tenant, t->id, &q->arena, &l, &e))
        return request_fail(q, &e);
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, sizeof v.text - 1);
    buf_printf(&text, "it waits for %u of %u tasks", l.expected - l.counts.arrived, l.expected);
    size_t shown = 0;
    for (size_t i = 0; i < l.parent_count && shown < PARENTS_SHOWN; i++) {
        if (l.parents[i].edge != EDGE_OPEN)
            continue;
        buf_text(&text, shown++ ? ", " : ": ");
        explain_add_parent(&text, &l.parents[i], q->now_ms);
    }
    if (l.expected - l.counts.arrived > shown)
        buf_printf(&text, " and %u more", (unsigned)(l.expected - l.counts.arrived - shown));
    snprintf(v.text, sizeof v.text, "%s", buf_cstr(&text));
    struct jw w = explain_begin(q, t, &v);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* ---- reasons in the row ---- */

static enum handled explain_answer_row(struct request *q, const struct task *t, const struct explain_reason *v)
{
    struct jw w = explain_begin(q, t, v);
    jw_object_end(&w);
    return HANDLED_DONE;
}

static enum handled explain_final(struct request *q, const struct task *t)
{
    struct explain_reason v = { .gate = "final" };
    char when[RFC3339_TEXT + 1];
    rfc3339_format(t->completed_ms, when);
    snprintf(v.text, sizeof v.text, "it ended at %s%s" STR_FMT, when, t->last_error.n ? ": " : "",
             STR_ARG(str_utf8_cut(t->last_error, 300)));
    return explain_answer_row(q, t, &v);
}

static enum handled explain_recurring(struct request *q, const struct task *t)
{
    struct explain_reason v = { .gate = "due_time" };
    struct task_context c = request_context(q);
    char when[RFC3339_TEXT + 1];
    if (task_next_execution(t, &c, &v.until_ms)) {
        rfc3339_format(v.until_ms, when);
        snprintf(v.text, sizeof v.text, "it is recurring, and its next occurrence is at %s", when);
    } else {
        snprintf(v.text, sizeof v.text, "it is recurring, and no occurrence is to come");
    }
    return explain_answer_row(q, t, &v);
}

/* ---- reasons that the node knows ---- */

struct explain_query {
    struct explain_answer answer;
    struct request *q;
    struct task task;
};

static void explain_on_node_answer(struct explain_answer *a)
{
    struct explain_query *query = container_of(a, struct explain_query, answer);
    struct explain_reason v = { .gate = explain_gate_name(a->explanation.gate), .until_ms = a->explanation.until_ms };
    snprintf(v.text, sizeof v.text, "%s", a->explanation.text);
    explain_answer_row(query->q, &query->task, &v);
    request_answer(query->q);
}

static enum handled explain_ask_node(struct request *q, const struct task *t)
{
    struct api_server *s = q->server;
    if (!s->setup.explain) {
        struct explain_reason v = { .gate = "none",
                                    .text = "this server knows of nothing that holds it back",
                                    .until_ms = t->due_ms };
        return explain_answer_row(q, t, &v);
    }
    struct explain_query *query = arena_new(&q->arena, struct explain_query);
    query->q = q;
    query->task = *t;
    query->answer.done = explain_on_node_answer;
    s->setup.explain(s->setup.context, &query->task, &query->answer);
    return HANDLED_LATER;
}

/* The worker that has the lease, its expiry and its progress. */
static enum handled explain_lease(struct request *q, const struct task *t, const struct lease_row *l)
{
    struct explain_reason v = { .gate = "leased", .until_ms = l->until_ms };
    char when[RFC3339_TEXT + 1];
    rfc3339_format(l->until_ms, when);
    snprintf(v.text, sizeof v.text, "the worker '" STR_FMT "' has it until %s%s" STR_FMT,
             STR_ARG(str_utf8_cut(l->worker, 200)), when, l->progress.n ? "; its progress: " : "",
             STR_ARG(str_utf8_cut(l->progress, 200)));
    return explain_answer_row(q, t, &v);
}

/* If the task is due, it waits for a worker that asks for tasks. If it is not due, the node is asked. */
static enum handled explain_worker(struct request *q, struct reader *r, const struct task *t)
{
    struct error e = { 0 };
    struct lease_row lease;
    enum err rc = reader_lease(r, q->who.tenant, t->id, &q->arena, &lease, &e);
    if (rc == ERR_OK)
        return explain_lease(q, t, &lease);
    if (rc != ERR_NOT_FOUND)
        return request_fail(q, &e);
    struct explain_reason v = { .gate = "worker" };
    if (t->due_ms > q->now_ms)
        return explain_ask_node(q, t);
    snprintf(v.text, sizeof v.text,
             "it is due, and waits for a worker that asks for tasks of the queue '" STR_FMT "' (POST /v1/leases)",
             STR_ARG(str_utf8_cut(t->queue, 200)));
    return explain_answer_row(q, t, &v);
}

enum handled tasks_explain(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct task t;
    if (query_read(q->query, NULL, 0, NULL, &q->arena, &e) || request_get_task(q, r, &t, &e))
        return request_fail(q, &e);
    if (task_is_final(t.state))
        return explain_final(q, &t);
    if (t.state == TASK_PAUSED)
        return explain_answer_row(q, &t,
                                  &(struct explain_reason){ .gate = "paused", .text = "it is paused; resume it" });
    if (t.kind == TASK_RECURRING)
        return explain_recurring(q, &t);
    if (t.state == TASK_BLOCKED && t.waits_for.n)
        return explain_slot(q, r, &t);
    if (t.state == TASK_BLOCKED)
        return explain_dependency(q, r, &t);
    return t.target == TARGET_WORKER ? explain_worker(q, r, &t) : explain_ask_node(q, &t);
}
