/* Why a task has not run yet (R7.5). What its row says is answered here; what stands between a SCHEDULED task and its runner only its
 * node knows, which is asked and answers on a thread of its own. */
#include <stdio.h>

#include "api/resource/listing.h"
#include "api/server/internal.h"
#include "api/task/json.h"
#include "base/rfc3339.h"

enum { HOLDERS_SHOWN = 10, WAITING_MAX = 10000 };

/* What the row alone says: gate, sentence, and when it goes on. */
struct verdict_text {
    const char *gate;
    char text[EXPLAIN_TEXT];
    int64_t until_ms; /* 0: not known */
};

static struct jw begin(struct request *q, const struct task *t, const struct verdict_text *v)
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

static struct str key_shown(struct str key)
{
    size_t colon = str_find(key, ':', 2);
    return str_starts(key, S("c:")) ? str_sub(key, min_of(colon + 1, key.n), key.n) : key;
}

static void write_holders(struct jw *w, const struct slot_holders *holders)
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
    struct verdict_text v = { .gate = overlap ? "overlap" : "concurrency_key" };
    char holder[UUID_TEXT + 1] = "nobody any more";
    if (holders.n)
        uuid_format(holders.v[0].task, holder);
    if (overlap)
        snprintf(v.text, sizeof v.text, "the previous run, %s, is not over; %zu wait before it", holder, ahead);
    else
        snprintf(v.text, sizeof v.text,
                 "it waits for a slot of the concurrency key '" STR_FMT "', held by %s%s; %zu wait before it",
                 STR_ARG(str_utf8_cut(key_shown(t->waits_for), 200)), holder, holders.n > 1 ? " and others" : "",
                 ahead);
    struct jw w = begin(q, t, &v);
    write_holders(&w, &holders);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* ---- what the row says ---- */

static enum handled answer(struct request *q, const struct task *t, const struct verdict_text *v)
{
    struct jw w = begin(q, t, v);
    jw_object_end(&w);
    return HANDLED_DONE;
}

static enum handled explain_final(struct request *q, const struct task *t)
{
    struct verdict_text v = { .gate = "final" };
    char when[RFC3339_TEXT + 1];
    rfc3339_format(t->completed_ms, when);
    snprintf(v.text, sizeof v.text, "it is over: %s since %s%s" STR_FMT, task_state_name(t->state), when,
             t->last_error.n ? ": " : "", STR_ARG(str_utf8_cut(t->last_error, 300)));
    return answer(q, t, &v);
}

static enum handled explain_recurring(struct request *q, const struct task *t)
{
    struct verdict_text v = { .gate = "due_time" };
    struct task_context c = request_context(q);
    char when[RFC3339_TEXT + 1];
    if (task_next_execution(t, &c, &v.until_ms)) {
        rfc3339_format(v.until_ms, when);
        snprintf(v.text, sizeof v.text, "it is recurring, and its next occurrence is at %s", when);
    } else {
        snprintf(v.text, sizeof v.text, "it is recurring, and no occurrence is to come");
    }
    return answer(q, t, &v);
}

/* ---- what the node says ---- */

struct asking {
    struct explain_answer answer;
    struct request *q;
    struct task task;
};

static void answered(struct explain_answer *a)
{
    struct asking *asking = container_of(a, struct asking, answer);
    struct verdict_text v = { .gate = explain_gate_name(a->explanation.gate), .until_ms = a->explanation.until_ms };
    snprintf(v.text, sizeof v.text, "%s", a->explanation.text);
    answer(asking->q, &asking->task, &v);
    request_answer(asking->q);
}

static enum handled ask_node(struct request *q, const struct task *t)
{
    struct api_server *s = q->server;
    if (!s->setup.explain) {
        struct verdict_text v = { .gate = "none",
                                  .text = "nothing holds it that this server knows of",
                                  .until_ms = t->due_ms };
        return answer(q, t, &v);
    }
    struct asking *asking = arena_new(&q->arena, struct asking);
    asking->q = q;
    asking->task = *t;
    asking->answer.done = answered;
    s->setup.explain(s->setup.context, &asking->task, &asking->answer);
    return HANDLED_LATER;
}

/* Who has it, until when, and how far it is. */
static enum handled explain_lease(struct request *q, const struct task *t, const struct lease_row *l)
{
    struct verdict_text v = { .gate = "leased", .until_ms = l->until_ms };
    char when[RFC3339_TEXT + 1];
    rfc3339_format(l->until_ms, when);
    snprintf(v.text, sizeof v.text, "the worker '" STR_FMT "' has it until %s%s" STR_FMT,
             STR_ARG(str_utf8_cut(l->worker, 200)), when, l->progress.n ? "; its progress: " : "",
             STR_ARG(str_utf8_cut(l->progress, 200)));
    return answer(q, t, &v);
}

/* Its time has come, and it is for workers to ask for it; what holds back all of its queue, the node knows. */
static enum handled explain_worker(struct request *q, struct reader *r, const struct task *t)
{
    struct error e = { 0 };
    struct lease_row lease;
    enum err rc = reader_lease(r, q->who.tenant, t->id, &q->arena, &lease, &e);
    if (rc == ERR_OK)
        return explain_lease(q, t, &lease);
    if (rc != ERR_NOT_FOUND)
        return request_fail(q, &e);
    struct verdict_text v = { .gate = "worker" };
    if (t->due_ms > q->now_ms)
        return ask_node(q, t);
    snprintf(v.text, sizeof v.text,
             "it is due, and waits for a worker that asks for tasks of the queue '" STR_FMT "' (POST /v1/leases)",
             STR_ARG(str_utf8_cut(t->queue, 200)));
    return answer(q, t, &v);
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
        return answer(q, &t, &(struct verdict_text){ .gate = "paused", .text = "it is paused; resume it" });
    if (t.kind == TASK_RECURRING)
        return explain_recurring(q, &t);
    if (t.state == TASK_BLOCKED && t.waits_for.n)
        return explain_slot(q, r, &t);
    if (t.state == TASK_BLOCKED)
        return answer(q, &t, &(struct verdict_text){ .gate = "dependency", .text = "it waits for what it depends on" });
    return t.target == TARGET_WORKER ? explain_worker(q, r, &t) : ask_node(q, &t);
}
