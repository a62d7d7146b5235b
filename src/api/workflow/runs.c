/* Creates, reads and lists runs of workflows. A run is a task of target WORKFLOW: the body of a create becomes that of
 * a task, and goes on as one. */
#include "api/workflow/runs.h"

#include <assert.h>
#include <stdio.h>

#include "api/auth/sender.h"
#include "api/resource/listing.h"
#include "api/resource/tasks.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_context.h"
#include "api/workflow/run.h"
#include "core/flow/step_data.h"
#include "workflow/definition_secrets.h"

enum {
    BODY_TEXT_MAX = 8 << 20,
    WAIT_MAX_S = 60,
    PAUSE_FIRST_MS = 5,
    PAUSE_MAX_MS = 250,
    NS_PER_MS = 1000000,
    SCAN_ROWS = 200,
    SCAN_MAX = 10000,
    SCAN_ARENA = 64 << 20,
};

/* ---- create ---- */

/* The members of a create that say what runs. */
struct run_body {
    struct str workflow, version, definition, input, deadline_seconds; /* JSON texts; empty: absent */
    struct buf task;                                                   /* the others, as the body of a task */
    char hash[2 * DEFINITION_HASH + 1];
    struct definition_errors *errors; /* of the definition; NULL: none */
};

static void run_body_release(struct run_body *b)
{
    buf_release(&b->task);
}

static struct str *workflows_own_member(struct run_body *b, struct str name)
{
    const struct {
        const char *name;
        struct str *into;
    } rows[] = {
        { "workflow", &b->workflow },
        { "version", &b->version },
        { "definition", &b->definition },
        { "input", &b->input },
        { "deadline_seconds", &b->deadline_seconds },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (str_eq(name, str_from(rows[i].name)))
            return rows[i].into;
    return NULL;
}

static enum err workflows_split_body(struct str body, struct run_body *ret, struct error *e)
{
    static const char *const refused[] = { "target_type", "target_config", "payload" };
    struct json_cursor c = { .text = body };
    struct str name, value;
    buf_init(&ret->task, BODY_TEXT_MAX);
    buf_char(&ret->task, '{');
    while (json_next(&c, &name, &value)) {
        struct str *own = workflows_own_member(ret, name);
        for (size_t i = 0; i < array_count(refused); i++)
            if (str_eq(name, str_from(refused[i])))
                return error_field(e, refused[i], "is made of 'workflow' and 'input'; leave it out");
        if (own) {
            *own = str_eq(value, S("null")) && own != &ret->input ? S("") : value;
            continue;
        }
        buf_char(&ret->task, '"');
        buf_add(&ret->task, name);
        buf_text(&ret->task, "\":");
        buf_add(&ret->task, value);
        buf_char(&ret->task, ',');
    }
    return ERR_OK;
}

static void workflows_write_member(struct buf *out, bool *any, const char *name, struct str value)
{
    if (!value.n)
        return;
    buf_printf(out, "%s\"%s\":", *any ? "," : "", name);
    buf_add(out, value);
    *any = true;
}

static void workflows_write_config(struct run_body *b)
{
    bool any = false;
    char hash[sizeof b->hash + 2];
    snprintf(hash, sizeof hash, "\"%s\"", b->hash);
    buf_text(&b->task, "\"target_type\":\"WORKFLOW\",\"target_config\":{");
    workflows_write_member(&b->task, &any, "workflow", b->workflow);
    workflows_write_member(&b->task, &any, "version", b->version);
    workflows_write_member(&b->task, &any, "definition", b->definition.n ? str_from(hash) : S(""));
    workflows_write_member(&b->task, &any, "input", b->input);
    workflows_write_member(&b->task, &any, "deadline_seconds", b->deadline_seconds);
    buf_text(&b->task, "}}");
}

/* The definition in the body is checked and stored together with the run. */
static enum err workflows_read_definition(struct request *q, struct run_body *b, struct error *e)
{
    struct task_context c = request_context(q);
    cleanup_with(dag_freep) struct dag *d = NULL;
    struct definition *own = arena_new(&q->arena, struct definition);
    struct definition_errors *errors = arena_new(&q->arena, struct definition_errors);
    if (!own || !errors || !arena_str(&q->arena, b->definition, &own->text))
        return error_no_room(e);
    if (definition_read_all(own->text, &c, &d, errors)) {
        b->errors = errors;
        *e = errors->v[0];
        return e->code;
    }
    if (definition_secrets_seal(q->server->setup.secrets, q->who.tenant, own->text, &q->arena, own, e))
        return error_in(e, "definition");
    for (size_t i = 0; i < DEFINITION_HASH; i++)
        snprintf(b->hash + 2 * i, 3, "%02x", own->hash[i]);
    q->definition = own;
    return ERR_OK;
}

static enum err workflows_check_body(const struct run_body *b, struct error *e)
{
    if (b->definition.n && b->workflow.n)
        return error_field(e, "definition", "cannot be given together with 'workflow'; give one of the two");
    if (!b->definition.n && !b->workflow.n)
        return error_field(e, "workflow", "is required: the name of a definition; or give the 'definition' itself");
    if (b->definition.n && b->version.n)
        return error_field(e, "version", "belongs to a name; a 'definition' has none");
    if (b->input.n > STEP_RESOLVED_MAX)
        return error_field(e, "input", "must be at most %d bytes long, not %zu", STEP_RESOLVED_MAX, b->input.n);
    return ERR_OK;
}

/* target_config is not in the body of a run: its members are. */
static enum err workflows_correct_field(struct error *e)
{
    static const char prefix[] = "target_config.";
    size_t n = sizeof prefix - 1;
    if (strncmp(e->field, prefix, n) == 0)
        memmove(e->field, e->field + n, strlen(e->field) - n + 1);
    return e->code;
}

static enum err workflows_make(struct request *q, struct reader *r, struct run_body *b, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct task_context c = request_context(q);
    if (workflows_check_body(b, e) || (b->definition.n && workflows_read_definition(q, b, e)))
        return e->code;
    workflows_write_config(b);
    c.id = request_new_id(q);
    c.ret_depends = q->depends;
    if (b->task.full)
        return error_no_room(e);
    if (json_parse(buf_str(&b->task), &doc, e) || task_from_json(&doc, &c, &q->arena, q->tasks, e))
        return workflows_correct_field(e);
    if (q->tasks->kind == TASK_RECURRING)
        return error_field(e, q->tasks->schedule.cron.n ? "cron_expression" : "interval_seconds",
                           "makes a schedule of runs: create it with POST /v1/tasks, target_type WORKFLOW");
    return !q->definition && run_bind(q, r, q->tasks, e) ? workflows_correct_field(e) : ERR_OK;
}

enum handled workflows_create(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    cleanup_with(run_body_release) struct run_body b = { 0 };
    if (!run_is_possible(q))
        return HANDLED_DONE;
    q->tasks = arena_new(&q->arena, struct task);
    q->task_count = 1;
    q->depends = arena_new(&q->arena, struct depends_on);
    if (json_parse(buf_str(&q->body), &doc, &e))
        return request_fail(q, &e);
    if (!json_is_object(doc.root))
        return request_refuse(q, PROBLEM_INVALID, "the body must be a JSON object");
    if (workflows_split_body(buf_str(&q->body), &b, &e) || workflows_make(q, r, &b, &e))
        return b.errors ? run_refuse_definition(q, b.errors, "definition") : request_fail(q, &e);
    return tasks_take_body_key(q, &doc) ? tenant_limits_take(q, r, 1, tasks_create_now) : HANDLED_DONE;
}

static void workflows_answer_one(struct request *q, const struct task *t, int status, bool found)
{
    struct workflow_run run = { .task = *t, .found = found };
    struct error ignored;
    char id[UUID_TEXT + 1];
    if (run_config_read(q, t, &run.config, &ignored)) /* it was made here, so there is one */
        run.config = (struct run_config){ 0 };
    run.has_pause = task_pause(t, &q->arena, &run.pause); /* it has not started */
    struct jw w = respond_json(&q->response, status);
    run_write(&w, q, &run, NULL, NULL, S(""));
    uuid_format(t->id, id);
    if (status == 201)
        snprintf(q->response.location, sizeof q->response.location, "/v1/workflows/%s", id);
}

void workflows_answer_new(struct request *q, const struct task *t, int status)
{
    workflows_answer_one(q, t, status, false);
}

void workflows_answer_found(struct request *q, const struct task *t)
{
    workflows_answer_one(q, t, 200, true);
}

/* ---- list ---- */

/* States in which the store may have a run that is shown as PAUSED. The row of a run that has started says so, not
 * its task. */
static unsigned workflows_stored_states(unsigned shown)
{
    return shown & 1U << TASK_PAUSED ? shown | 1U << TASK_RUNNING | 1U << TASK_SCHEDULED : shown;
}

/* False: the task alone tells that the list does not want it. */
static bool workflows_may_list(const struct request *q, const struct listing *l, const struct task *t)
{
    return !l->states || t->links & TASK_OPENED || l->states >> task_shown_state(t, q->now_ms) & 1;
}

/* Writes a run, unless its definition has another name or its status is another one. */
static enum err workflows_list_one(struct request *q, struct reader *r, const struct listing *l, const struct task *t,
                                   struct jw *w, bool *ret_written, struct error *e)
{
    struct workflow_run run = { 0 };
    struct str workflow = l->workflow;
    *ret_written = false;
    if (!workflows_may_list(q, l, t))
        return ERR_OK;
    if (workflow.n && t->target_config.n) { /* a run below another has none: its row names the definition */
        if (run_config_read(q, t, &run.config, e))
            return e->code;
        if (!str_eq(run.config.workflow, workflow))
            return ERR_OK;
    }
    if (run_read_of(q, r, t, &run, e))
        return e->code;
    *ret_written = (!workflow.n || str_eq(run.opened ? run.row.workflow : run.config.workflow, workflow)) &&
                   (!l->states || l->states >> run_listed_state(&run, q->now_ms) & 1);
    if (*ret_written)
        run_write(w, q, &run, NULL, NULL, S(""));
    return ERR_OK;
}

/* No index finds runs by the name of their definition, nor those that are paused: others are passed over, at most
 * SCAN_MAX. After that the page ends, and its cursor goes on. */
static enum err workflows_write_list(struct request *q, struct reader *r, const struct listing *l, struct jw *w,
                                     struct pagination *p, struct error *e)
{
    bool is_scan = l->workflow.n || l->states & 1U << TASK_PAUSED;
    struct task_filter f = { .tenant = q->who.tenant,
                             .states = workflows_stored_states(l->states),
                             .shown_at_ms = q->now_ms,
                             .name = l->name,
                             .queue = l->queue,
                             .created_before_ms = l->created_before_ms,
                             .created_after_ms = l->created_after_ms,
                             .runs = true,
                             .occurrences = true,
                             .before = l->before,
                             .limit = (size_t)(is_scan ? SCAN_ROWS : l->limit) };
    int64_t written = 0, passed = 0;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, SCAN_ARENA);
    do {
        struct task_page page = { 0 };
        size_t i = 0;
        if (reader_list(r, &f, &a, &page, e))
            return e->code;
        for (bool is_written; i < page.tasks.n && written < l->limit; i++) {
            if (workflows_list_one(q, r, l, &page.tasks.v[i], w, &is_written, e))
                return e->code;
            written += is_written;
            passed += !is_written;
            f.before = p->next = page.tasks.v[i].id;
        }
        p->more = i < page.tasks.n || page.more;
        arena_reset(&a);
    } while (p->more && written < l->limit && passed < SCAN_MAX);
    return ERR_OK;
}

enum handled workflows_list(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct listing l;
    char cursor[SEAL_TEXT_MAX + 1];
    if (!listing_read(q, LISTING_RUNS, &l))
        return HANDLED_DONE;
    struct pagination p = { .limit = l.limit, .total = -1 };
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "workflows");
    jw_array(&w);
    if (workflows_write_list(q, r, &l, &w, &p, &e))
        return request_fail(q, &e);
    jw_array_end(&w);
    jw_kv_cstr(&w, "next_cursor", p.more ? seal_text(q, SEAL_CURSOR, uuid_bytes(&p.next), cursor).p : NULL);
    pagination_write(q, &w, &p);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* ---- one run, which the client may wait for ---- */

struct run_wait {
    struct request *q;
    struct timer timer;
    struct arena_mark mark; /* what a look at the run has used is freed before the next */
    int64_t until_ns, pause_ms;
};

static route_handler workflows_look;

static void workflows_on_timer(struct timer *timer)
{
    struct run_wait *x = container_of(timer, struct run_wait, timer);
    request_later(x->q, workflows_look);
}

static bool workflows_may_wait(const struct request *q, const struct run_wait *x)
{
    struct api_server *s = q->server;
    pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return !stopping && clock_steady_ns(s->setup.clock) < x->until_ns && !http_peer_is_gone(q->exchange);
}

/* The pauses grow: a short run is seen at once, and a long one costs few reads. */
static enum handled workflows_look(struct request *q, struct reader *r)
{
    struct run_wait *x = q->context;
    struct workflow_run run;
    struct error e = { 0 };
    arena_rewind(&q->arena, x->mark);
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (!request_still_allowed(q, r))
        return HANDLED_DONE;
    if (run_read(q, r, &run, &e))
        return request_fail(q, &e);
    if (task_is_final(run.task.state) || !workflows_may_wait(q, x))
        return run_answer(q, r, &run, 200);
    int64_t left_ms = max_of((x->until_ns - clock_steady_ns(q->server->setup.clock)) / NS_PER_MS, (int64_t)1);
    timers_add(q->server->timers, &x->timer, min_of(x->pause_ms, left_ms));
    x->pause_ms = min_of(2 * x->pause_ms, (int64_t)PAUSE_MAX_MS);
    return HANDLED_LATER;
}

struct run_query {
    int64_t wait_s;
};

enum handled workflows_get(struct request *q, struct reader *r)
{
    static const struct query_field fields[] = {
        { .name = "wait_seconds",
          .kind = QUERY_I64,
          .offset = offsetof(struct run_query, wait_s),
          .min = 0,
          .max = WAIT_MAX_S },
    };
    struct error e = { 0 };
    struct run_query p = { 0 };
    if (query_read(q->query, fields, array_count(fields), &p, &q->arena, &e))
        return request_fail(q, &e);
    struct run_wait *x = arena_new(&q->arena, struct run_wait);
    *x = (struct run_wait){ .q = q,
                            .timer.fire = workflows_on_timer,
                            .mark = arena_mark(&q->arena),
                            .until_ns = clock_steady_ns(q->server->setup.clock) + p.wait_s * 1000 * NS_PER_MS,
                            .pause_ms = PAUSE_FIRST_MS };
    q->context = x;
    return workflows_look(q, r);
}

/* ---- status ---- */

/* Who has decided, in the order in which they did. */
static enum err workflows_write_senders(struct request *q, struct reader *r, const struct signal_rows *v, struct jw *w,
                                        struct error *e)
{
    enum { SENDERS_SHOWN = 20 };
    jw_key(w, "senders");
    jw_array(w);
    for (size_t i = 0; i < min_of(v->n, (size_t)SENDERS_SHOWN); i++) {
        struct str name, key;
        if (sender_read(q, r, v->v[i].sender, &name, &key, e))
            return e->code;
        jw_object(w);
        jw_kv_str(w, "name", name);
        jw_kv_str_or_null(w, "key", key);
        jw_kv_cstr(w, "decision", v->v[i].rejects ? "REJECT" : "APPROVE");
        jw_kv_time(w, "at", v->v[i].time_ms);
        jw_object_end(w);
    }
    jw_array_end(w);
    return ERR_OK;
}

static enum err workflows_write_awaiting(struct request *q, struct reader *r, const struct workflow_run *run,
                                         const struct dag *d, const struct run_tally *tally, struct jw *w,
                                         struct error *e)
{
    jw_key(w, "awaiting");
    jw_array(w);
    for (size_t i = 0; i < tally->awaiting_count; i++) {
        const struct run_awaiting *a = &tally->awaiting[i];
        const struct dag_step *s = &d->steps[a->step];
        struct signal_rows signals = { 0 };
        if (reader_signals(r, run->task.id, s->await.signal, &q->arena, &signals, e))
            return e->code;
        jw_object(w);
        jw_kv_str(w, "step", s->name);
        jw_kv_str(w, "signal", s->await.signal);
        jw_kv_i64(w, "approvals", s->await.approvals);
        jw_kv_i64(w, "received", (int64_t)(signals.n - signal_rejections(&signals)));
        jw_kv_i64(w, "rejections", (int64_t)signal_rejections(&signals));
        if (workflows_write_senders(q, r, &signals, w, e))
            return e->code;
        jw_kv_time_or_null(w, "since", a->since_ms);
        jw_kv_time_or_null(w, "timeout_at", a->timeout_ms);
        jw_object_end(w);
    }
    jw_array_end(w);
    return ERR_OK;
}

static void workflows_write_failures(const struct dag *d, const struct run_tally *tally, struct jw *w)
{
    jw_key(w, "failures");
    jw_array(w);
    for (size_t i = 0; i < tally->failure_count; i++) {
        const struct run_failure *x = &tally->failures[i];
        jw_object(w);
        jw_kv_str(w, "step", x->step < d->n ? d->steps[x->step].name : S(""));
        jw_key(w, "item");
        if (x->item < 0)
            jw_null(w);
        else
            jw_i64(w, x->item);
        jw_kv_cstr(w, "status", task_state_name(x->state));
        jw_kv_str_or_null(w, "error", x->error);
        jw_object_end(w);
    }
    jw_array_end(w);
}

enum handled workflows_status(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct workflow_run run;
    struct run_tally tally;
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    static const struct dag none = { 0 }; /* of a run that was never opened because its definition is gone */
    if (query_read(q->query, NULL, 0, NULL, &q->arena, &e) || run_read(q, r, &run, &e))
        return request_fail(q, &e);
    enum err rc = run_definition(q, r, &run, &d, &e);
    const struct dag *dag = d ? d->dag : &none;
    if ((rc && (rc != ERR_NOT_FOUND || run.opened)) || run_tally(q, r, &run, dag, &tally, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_uuid(&w, "id", run.task.id);
    jw_kv_cstr(&w, "status", task_state_name(task_shown_state(&run.task, q->now_ms)));
    jw_kv_bool(&w, "paused", run.opened && run.row.paused);
    run_write_counts(&w, dag, &tally);
    if (workflows_write_awaiting(q, r, &run, dag, &tally, &w, &e))
        return request_fail(q, &e);
    workflows_write_failures(dag, &tally, &w);
    jw_object_end(&w);
    return HANDLED_DONE;
}
