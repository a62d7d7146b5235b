/* Signals to runs. A signal is stored from the creation of its run on, also before a step awaits it. Its sender is the
 * API key, or with the scope workflows:signal-as the one that `by` names. */
#include <stdio.h>

#include "api/auth/sender.h"
#include "api/server/internal.h"
#include "api/server/request_input.h"
#include "api/workflow/holds.h"
#include "api/workflow/run.h"
#include "base/rfc3339.h"
#include "base/sentence.h"
#include "core/flow/place.h"

enum { INNER_LOOKS_MAX = 100 };

struct signal_body {
    json_t *payload;
    int decision;
    struct str by;
};

struct signal_request {
    struct signal_row row;
    struct uuid *steps;
    int64_t *timeouts_ms; /* of these steps */
    size_t n;
    uint32_t first; /* the first step that awaits it */
    struct str step;
    int64_t approvals;
};

static enum err signals_read_body(struct request *q, struct signal_request *s, struct error *e)
{
    static const char *const decisions[] = { "APPROVE", "REJECT", NULL };
    static const struct json_field fields[] = {
        { .name = "payload", .kind = JSON_KIND_RAW, .offset = offsetof(struct signal_body, payload), .nullable = true },
        { .name = "decision",
          .kind = JSON_KIND_ENUM,
          .offset = offsetof(struct signal_body, decision),
          .names = decisions },
        { .name = "by",
          .kind = JSON_KIND_STR,
          .offset = offsetof(struct signal_body, by),
          .min = 1,
          .max = SIGNAL_SENDER_MAX,
          .nullable = true },
    };
    struct signal_body b = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (request_read_object(q, &doc, e) || json_read(doc.root, fields, array_count(fields), &b, &q->arena, e))
        return e->code;
    s->row.payload = b.payload ? json_member_text(&doc, "payload") : S("");
    if (s->row.payload.n > SIGNAL_BYTES_MAX)
        return error_field(e, "payload", "must be at most %d bytes long, not %zu", SIGNAL_BYTES_MAX, s->row.payload.n);
    s->row.rejects = b.decision == 1;
    s->row.sender = b.by.n ? b.by : str_from(q->who.key_id);
    return ERR_OK;
}

/* ---- who sends it ---- */

/* Nobody approves twice, once by a key of its own and once in that key's name. */
static enum err signals_check_name(struct request *q, struct reader *r, struct str by, struct error *e)
{
    struct key_list keys = { 0 };
    if (str_starts(by, S("cert:")))
        return error_set(e, ERR_CONFLICT, "'by' names a client certificate, which sends its own signals");
    if (reader_keys(r, q->who.tenant, &q->arena, &keys, e))
        return e->code;
    for (size_t i = 0; i < keys.n; i++)
        if (str_eq(by, keys.v[i].id) || str_eq(by, keys.v[i].name))
            return error_set(e, ERR_CONFLICT,
                             "'by' is the %s of an API key, which sends its own signals; give another name",
                             str_eq(by, keys.v[i].id) ? "id" : "name");
    return ERR_OK;
}

/* A key that was made after an application had sent a signal in its name. */
static enum err signals_check_key(struct request *q, struct reader *r, struct error *e)
{
    struct signal_rows v = { 0 };
    struct str name;
    if (sender_own_name(q, r, &name, e) || reader_signals(r, q->id, q->name, &q->arena, &v, e))
        return e->code;
    for (size_t i = 0; i < v.n; i++)
        if (str_eq(v.v[i].sender, name) && !str_eq(name, str_from(q->who.key_id)))
            return error_set(e, ERR_CONFLICT,
                             "another key has sent it in the name '" STR_FMT "', which is that of this API key",
                             STR_ARG(name));
    return ERR_OK;
}

/* Which steps await the signal. */
static enum err signals_find_steps(struct request *q, const struct dag *d, struct signal_request *s, struct error *e)
{
    struct suggest near;
    suggest_init(&near, q->name);
    s->steps = arena_array(&q->arena, struct uuid, d->n);
    s->timeouts_ms = arena_array(&q->arena, int64_t, d->n);
    if (!s->steps || !s->timeouts_ms)
        return error_no_room(e);
    for (uint32_t i = 0; i < d->n; i++) {
        const struct dag_await *a = &d->steps[i].await;
        if (!a->signal.n)
            continue;
        suggest_offer(&near, a->signal);
        if (!str_eq(a->signal, q->name))
            continue;
        if (s->n == 0) {
            s->first = i;
            s->approvals = a->approvals;
            if (!arena_str(&q->arena, d->steps[i].name, &s->step))
                return error_no_room(e);
        }
        s->timeouts_ms[s->n] = a->timeout_ms;
        s->steps[s->n++] = place_id(q->id, place_of_step(i));
    }
    if (s->n)
        return ERR_OK;
    if (near.closest.p)
        return error_set(e, ERR_NOT_FOUND, "no step awaits a signal '" STR_FMT "'; did you mean '" STR_FMT "'?",
                         STR_ARG(q->name), STR_ARG(near.closest));
    return error_set(e, ERR_NOT_FOUND, "no step awaits a signal '" STR_FMT "'", STR_ARG(q->name));
}

/* No step of the run awaits the signal. If a step of a run within it does, that one is named. */
static void signals_name_inner(struct request *q, struct reader *r, const struct dag *d, struct error *e)
{
    struct tasks v = { 0 };
    struct run_hold hold;
    struct error ignored;
    char id[UUID_TEXT + 1];
    struct run_holds holds = { .q = q, .r = r, .d = d };
    struct step_filter f = {
        .tenant = q->who.tenant, .run = q->id, .states = 1U << TASK_RUNNING, .limit = INNER_LOOKS_MAX
    };
    if (e->code != ERR_NOT_FOUND || reader_steps(r, &f, &q->arena, &v, &ignored))
        return;
    for (size_t i = 0; i < v.n; i++) {
        bool is_known = place_kind(v.v[i].place) == PLACE_KIND_STEP && place_step(v.v[i].place) < d->n;
        if (!is_known || run_hold_read(&holds, &v.v[i], &hold, &ignored) || hold.gate != EXPLAIN_SIGNAL ||
            uuid_is_nil(hold.run) || !str_eq(hold.name, q->name))
            continue;
        uuid_format(hold.run, id);
        (void)error_set(e, ERR_NOT_FOUND,
                        "no step of this run awaits a signal '" STR_FMT "'; the run %s within it does: send it there",
                        STR_ARG(q->name), id);
        return;
    }
}

static enum err signals_write_answer(struct request *q, struct reader *r, const struct signal_request *s,
                                     struct error *e)
{
    struct signal_rows v = { 0 };
    bool known = false;
    if (reader_signals(r, q->id, q->name, &q->arena, &v, e))
        return e->code;
    for (size_t i = 0; i < v.n; i++)
        known = known || str_eq(v.v[i].sender, s->row.sender);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_str(&w, "signal", q->name);
    jw_kv_str(&w, "step", s->step);
    size_t rejections = signal_rejections(&v) + (!known && s->row.rejects);
    jw_kv_i64(&w, "received", (int64_t)(v.n + !known - rejections));
    jw_kv_i64(&w, "rejections", (int64_t)rejections);
    jw_kv_i64(&w, "approvals", s->approvals);
    jw_kv_bool(&w, "repeated", known);
    jw_object_end(&w);
    return ERR_OK;
}

/* Says who and when: the step is final, or its time to wait is over. */
static enum handled signals_refuse_final(struct request *q, struct reader *r)
{
    const struct signal_request *s = q->context;
    struct task t;
    struct signal_rows v = { 0 };
    struct error e = { 0 };
    char when[RFC3339_TEXT + 1], senders[QUOTE_TEXT] = "";
    if (reader_get(r, q->who.tenant, s->steps[0], &q->arena, &t, &e) ||
        reader_signals(r, q->id, q->name, &q->arena, &v, &e))
        return request_fail(q, &e);
    bool is_final = task_is_final(t.state);
    rfc3339_format(is_final ? t.completed_ms : t.started_ms + s->timeouts_ms[0], when);
    if (!is_final) {
        respond_problem(&q->response, PROBLEM_CONFLICT, "the time of the step '" STR_FMT "' to wait was over at %s",
                        STR_ARG(s->step), when);
        return HANDLED_DONE;
    }
    struct str sender = S("");
    if (v.n && sender_name_read(q, r, v.v[v.n - 1].sender, &sender, &e))
        return request_fail(q, &e);
    if (v.n)
        quote_text(sender, senders);
    respond_problem(&q->response, PROBLEM_CONFLICT, "the step '" STR_FMT "' is %s since %s%s%s", STR_ARG(s->step),
                    task_state_name(t.state), when, v.n ? "; the last signal is from " : "", senders);
    return HANDLED_DONE;
}

/* The run has ended. A signal that was stored before, and is sent again, is answered as the first time. */
static enum handled signals_answer_ended(struct request *q, struct reader *r)
{
    const struct signal_request *s = q->context;
    struct workflow_run run;
    struct signal_rows v = { 0 };
    struct error e = { 0 };
    char when[RFC3339_TEXT + 1];
    if (run_read(q, r, &run, &e) || reader_signals(r, q->id, q->name, &q->arena, &v, &e))
        return request_fail(q, &e);
    for (size_t i = 0; i < v.n; i++)
        if (str_eq(v.v[i].sender, s->row.sender) && signal_check_same(&v.v[i], &s->row, &e) == ERR_OK)
            return signals_write_answer(q, r, s, &e) ? request_fail(q, &e) : HANDLED_DONE;
    rfc3339_format(run.task.completed_ms, when);
    respond_problem(&q->response, PROBLEM_CONFLICT, "the run is %s since %s and takes no signals any more",
                    task_state_name(run.task.state), when);
    return HANDLED_DONE;
}

static void signals_on_stored(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (request_replayed(q, op))
        return;
    if (op->rc == ERR_CONFLICT && strcmp(op->error.field, "step") == 0) {
        request_later(q, signals_refuse_final);
        return;
    }
    if (op->rc == ERR_CONFLICT && strcmp(op->error.field, "run") == 0) {
        request_later(q, signals_answer_ended);
        return;
    }
    if (op->rc == ERR_CONFLICT && strcmp(op->error.field, "by") == 0)
        request_refuse(q, PROBLEM_CONFLICT,
                       "the same sender has sent another payload or decision; it cannot be changed");
    else if (op->rc)
        request_fail(q, &op->error);
    request_answer(q);
}

enum handled workflow_signals_send(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct workflow_run run;
    struct signal_request *s = arena_new(&q->arena, struct signal_request);
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (run_read(q, r, &run, &e) || run_definition(q, r, &run, &d, &e))
        return request_fail(q, &e);
    if (signals_find_steps(q, d->dag, s, &e)) {
        signals_name_inner(q, r, d->dag, &e);
        return request_fail(q, &e);
    }
    if (signals_read_body(q, s, &e))
        return request_fail(q, &e);
    bool as_itself = str_eq(s->row.sender, str_from(q->who.key_id));
    if (!as_itself && !identity_may(&q->who, SCOPE_WORKFLOWS_SIGNAL_AS))
        return request_refuse(q, PROBLEM_FORBIDDEN, "the API key needs the scope 'workflows:signal-as' to give 'by'");
    if (as_itself ? signals_check_key(q, r, &e) : signals_check_name(q, r, s->row.sender, &e))
        return request_fail(q, &e);
    s->row.run = q->id;
    s->row.name = q->name;
    s->row.time_ms = q->now_ms;
    q->context = s;
    if (signals_write_answer(q, r, s, &e))
        return request_fail(q, &e);
    q->write.signal = (struct op_signal){ .op = { .kind = OP_SIGNAL },
                                          .tenant = q->who.tenant,
                                          .signal = &s->row,
                                          .steps = s->steps,
                                          .timeouts_ms = s->timeouts_ms,
                                          .n = s->n,
                                          .idempotency = request_record(q) };
    return request_submit(q, signals_on_stored);
}
