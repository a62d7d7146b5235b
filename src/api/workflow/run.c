#include "api/workflow/run.h"

#include <stdio.h>

#include "api/server/internal.h"
#include "api/task/secret_headers.h"
#include "api/workflow/waits.h"
#include "base/sentence.h"
#include "core/flow/place.h"
#include "workflow/planner.h"

#define NOT_EVERY_NODE                                                                                                 \
    "a node of an older version is running, which cannot run workflows; try again when it is upgraded"
enum { NAMES_ARENA = 8 << 20 };
enum { HASH_TEXT = 2 * DEFINITION_HASH, STEPS_ARENA = 256 << 20, CONFIG_TEXT_MAX = 8 << 20 };

/* ---- reading ---- */

static bool run_hash_parse(struct str text, uint8_t ret[DEFINITION_HASH])
{
    if (text.n != HASH_TEXT)
        return false;
    for (size_t i = 0; i < DEFINITION_HASH; i++) {
        int high = hex_value(text.p[2 * i]), low = hex_value(text.p[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

enum err run_config_read(struct request *q, const struct task *t, struct run_config *ret, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct run_config c = { 0 };
    if (t->target_config.n && json_parse(t->target_config, &doc, e))
        return error_set(e, ERR_CORRUPT, "the target_config of a run cannot be read");
    if (!doc.root) {
        *ret = c;
        return ERR_OK;
    }
    c.version = json_i64_at(doc.root, "version", 0);
    c.deadline_ms = json_seconds_at(doc.root, "deadline_seconds");
    c.input = json_member_text(&doc, "input");
    struct str hash = json_text_at(doc.root, "definition");
    c.has_hash = hash.p && run_hash_parse(hash, c.hash);
    struct str name = json_text_at(doc.root, "workflow");
    if (name.p && !arena_str(&q->arena, name, &c.workflow))
        return error_no_room(e);
    *ret = c;
    return ERR_OK;
}

/* A step without a row of a run is a map or awaits a signal. */
static bool run_is_run(const struct task *t, bool opened)
{
    return t->target == TARGET_WORKFLOW && t->kind != TASK_RECURRING && (opened || uuid_is_nil(t->run));
}

enum err run_pause_read(struct request *q, struct reader *r, const struct task *run, struct record *ret_record,
                        struct pause *ret, bool *ret_known, struct error *e)
{
    struct record_filter f = { .kind = RECORD_PAUSE, .tenant = run->tenant, .id = pause_record_id(run), .limit = 1 };
    struct record_page page = { 0 };
    if (reader_records(r, &f, &q->arena, &page, e))
        return e->code;
    *ret_record = page.n
                      ? page.v[0]
                      : (struct record){ .id = f.id, .kind = RECORD_PAUSE, .tenant = run->tenant, .incident = run->id };
    *ret_known = pause_read(ret_record->doc, &q->arena, ret) && !ret->ending_ms;
    return ERR_OK;
}

/* Before it has started, its row says it. */
static enum err run_read_pause(struct request *q, struct reader *r, struct workflow_run *run, struct error *e)
{
    struct record ignored;
    if (run->opened && run->row.paused)
        return run_pause_read(q, r, &run->task, &ignored, &run->pause, &run->has_pause, e);
    run->has_pause = task_pause(&run->task, &q->arena, &run->pause);
    return ERR_OK;
}

enum err run_read_of(struct request *q, struct reader *r, const struct task *t, struct workflow_run *ret,
                     struct error *e)
{
    struct workflow_run run = { .task = *t };
    enum err rc =
        t->target == TARGET_WORKFLOW ? reader_run(r, t->tenant, t->id, &q->arena, &run.row, e) : ERR_NOT_FOUND;
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    run.opened = rc == ERR_OK;
    if (!run_is_run(t, run.opened))
        return error_set(e, ERR_NOT_FOUND,
                         t->kind == TASK_RECURRING && t->target == TARGET_WORKFLOW
                             ? "this is a schedule of runs; its runs are its occurrences"
                             : "there is no such run of a workflow");
    if (run_config_read(q, t, &run.config, e) || run_read_pause(q, r, &run, e))
        return e->code;
    *ret = run;
    return ERR_OK;
}

enum err run_read(struct request *q, struct reader *r, struct workflow_run *ret, struct error *e)
{
    struct task t;
    enum err rc = request_get_task(q, r, &t, e);
    if (rc == ERR_NOT_FOUND)
        return error_set(e, ERR_NOT_FOUND, "there is no such run of a workflow");
    return rc ? rc : run_read_of(q, r, &t, ret, e);
}

enum err run_find_workflow(struct request *q, struct reader *r, struct str name, int64_t version,
                           struct workflow_row *ret, struct error *e)
{
    struct workflow_rows known = { 0 };
    struct suggest near;
    struct error ignored;
    cleanup_with(arena_release) struct arena names;
    arena_init(&names, NAMES_ARENA);
    enum err rc = reader_workflow(r, q->who.tenant, name, version, &q->arena, ret, e);
    if (rc != ERR_NOT_FOUND)
        return rc;
    if (version && reader_workflow(r, q->who.tenant, name, 0, &q->arena, ret, e) == ERR_OK)
        return error_set(e, ERR_NOT_FOUND, "workflow '" STR_FMT "' has no version %lld; its latest is %lld",
                         STR_ARG(name), (long long)version, (long long)ret->version);
    suggest_init(&near, name);
    if (reader_workflows(r, q->who.tenant, S(""), LIST_MAX, &names, &known, &ignored) == ERR_OK)
        for (size_t i = 0; i < known.n; i++)
            suggest_offer(&near, known.v[i].name);
    if (near.closest.p)
        return error_set(e, ERR_NOT_FOUND, "no workflow is named '" STR_FMT "'; did you mean '" STR_FMT "'?",
                         STR_ARG(name), STR_ARG(near.closest));
    return error_set(e, ERR_NOT_FOUND, "no workflow is named '" STR_FMT "'", STR_ARG(name));
}

enum err run_definition(struct request *q, struct reader *r, const struct workflow_run *run,
                        struct cached_definition **ret, struct error *e)
{
    struct workflow_row row;
    const uint8_t *hash = run->opened ? run->row.hash : run->config.has_hash ? run->config.hash : NULL;
    if (!hash) {
        enum err rc = run_find_workflow(q, r, run->config.workflow, run->config.version, &row, e);
        if (rc)
            return rc;
        hash = row.hash;
    }
    return definition_cache_get(q->server->definitions, r, q->who.tenant, hash, ret, e);
}

static bool run_is_known(const struct request *q)
{
    const struct api_setup *setup = &q->server->setup;
    return !setup->workflows_are_known || setup->workflows_are_known(setup->context);
}

/* A name and a hash must agree. A name that was removed since says nothing. */
static enum err run_check_bound(struct request *q, struct reader *r, const struct run_config *c, struct error *e)
{
    struct workflow_row row;
    if (!c->has_hash || !c->workflow.n)
        return ERR_OK;
    enum err rc = reader_workflow(r, q->who.tenant, c->workflow, c->version, &q->arena, &row, e);
    if (rc)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    if (memcmp(row.hash, c->hash, DEFINITION_HASH) == 0)
        return ERR_OK;
    return error_field(e, "target_config.definition", "is not version %lld of the workflow '" STR_FMT "'",
                       (long long)c->version, STR_ARG(c->workflow));
}

enum err run_check_target(struct request *q, struct reader *r, const struct task *t, struct error *e)
{
    struct workflow_run run = { .task = *t };
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    if (!run_is_known(q))
        return error_set(e, ERR_UNAVAILABLE, NOT_EVERY_NODE);
    if (run_config_read(q, t, &run.config, e))
        return e->code;
    enum err rc = run_definition(q, r, &run, &d, e);
    if (rc == ERR_OK)
        return run_check_bound(q, r, &run.config, e);
    if (rc != ERR_NOT_FOUND)
        return rc;
    if (run.config.has_hash)
        return error_field(e, "target_config.definition", "is the hash of no definition that is stored");
    struct error why = *e;
    return error_field(e, why.text[0] == 'w' ? "target_config.version" : "target_config.workflow", "%s", why.text);
}

enum err run_bind(struct request *q, struct reader *r, struct task *t, struct error *e)
{
    struct run_config c;
    struct workflow_row row;
    char hash[2 * DEFINITION_HASH + 1];
    if (run_check_target(q, r, t, e) || run_config_read(q, t, &c, e))
        return e->code;
    if (reader_workflow(r, q->who.tenant, c.workflow, c.version, &q->arena, &row, e))
        return e->code;
    for (size_t i = 0; i < DEFINITION_HASH; i++)
        snprintf(hash + 2 * i, 3, "%02x", row.hash[i]);
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, CONFIG_TEXT_MAX);
    buf_add(&text, str_sub(t->target_config, 0, t->target_config.n - 1));
    if (!c.version)
        buf_printf(&text, ",\"version\":%lld", (long long)row.version);
    buf_printf(&text, ",\"definition\":\"%s\"}", hash);
    return !text.full && arena_str(&q->arena, buf_str(&text), &t->target_config) ? ERR_OK : error_no_room(e);
}

enum err run_step_names(struct request *q, struct reader *r, struct task *t, struct str *ret, struct error *e)
{
    struct run_row row;
    char error[RUN_ERROR_TEXT];
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    *ret = S("");
    if (uuid_is_nil(t->run) || place_kind(t->place) == PLACE_KIND_DEADLINE)
        return ERR_OK;
    enum err rc = reader_run(r, t->tenant, t->run, &q->arena, &row, e);
    if (rc == ERR_OK)
        rc = definition_cache_get(q->server->definitions, r, t->tenant, row.hash, &d, e);
    if (rc)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    uint32_t step = place_step(t->place);
    if (step >= d->dag->n)
        return ERR_OK;
    bool fits = arena_str(&q->arena, d->dag->steps[step].name, ret) &&
                arena_str(&q->arena, run_step_error(d->dag, t, error), &t->last_error);
    return fits ? ERR_OK : error_no_room(e);
}

enum err run_step_name(struct request *q, struct reader *r, const struct task *t, struct str *ret, struct error *e)
{
    struct task copy = *t;
    return run_step_names(q, r, &copy, ret, e);
}

enum err run_step_output(struct request *q, struct reader *r, const struct task *t, struct str *ret, struct error *e)
{
    struct execution_page page = { 0 };
    struct execution_filter f = { .tenant = t->tenant, .task = t->id, .limit = 1 };
    struct run_outputs kept;
    *ret = S("");
    if (uuid_is_nil(t->run) || t->state != TASK_COMPLETED)
        return ERR_OK;
    *ret = output_head(output_by_hand(t));
    if (ret->n)
        return ERR_OK;
    if (reader_executions(r, &f, &q->arena, &page, e))
        return e->code;
    if (page.executions.n && page.executions.v[0].status == EXECUTION_COMPLETED) {
        *ret = page.executions.v[0].output;
        return ERR_OK;
    }
    /* completed by hand with a retry of its run, or copied from another run */
    if (reader_outputs(r, t->run, t->place, t->place, 1, &q->arena, &kept, e))
        return e->code;
    if (kept.n && kept.v[0].whole)
        *ret = output_head(kept.v[0].text);
    return ERR_OK;
}

void run_write_place(struct jw *w, const struct task *t, struct str step)
{
    jw_kv_str_or_null(w, "step", step);
    jw_key(w, "item");
    if (place_item(t->place) < 0)
        jw_null(w);
    else
        jw_i64(w, place_item(t->place));
}

enum handled run_refuse_definition(struct request *q, struct definition_errors *errors, const char *parent)
{
    for (size_t i = 0; i < errors->n && parent; i++)
        (void)error_in(&errors->v[i], parent);
    if (errors->v[0].code != ERR_INVALID)
        return request_fail(q, &errors->v[0]);
    respond_invalid(&q->response, errors->v, errors->n);
    return HANDLED_DONE;
}

bool run_is_possible(struct request *q)
{
    bool known = run_is_known(q);
    if (!known)
        request_refuse(q, PROBLEM_UNAVAILABLE, NOT_EVERY_NODE);
    return known;
}

bool run_may_change(struct request *q, const struct task *t)
{
    if (t->target != TARGET_WORKFLOW || identity_may(&q->who, SCOPE_WORKFLOWS_WRITE))
        return true;
    request_refuse(q, PROBLEM_FORBIDDEN,
                   "the task is of target WORKFLOW: the API key needs the scope 'workflows:write' to create or change "
                   "it");
    return false;
}

/* ---- one step ---- */

void run_write_items(struct jw *w, const int64_t by_state[TASK_STATES], int64_t total)
{
    jw_key(w, "items");
    jw_object(w);
    jw_kv_i64(w, "total", total);
    jw_key(w, "by_status");
    jw_object(w);
    for (int s = 0; s < TASK_STATES; s++)
        if (by_state[s])
            jw_kv_i64(w, task_state_name((enum task_state)s), by_state[s]);
    jw_object_end(w);
    jw_object_end(w);
}

void run_write_step_definition(struct jw *w, struct str text)
{
    struct json_cursor c = { .text = text };
    struct str name, value;
    char key[STEP_NAME_MAX + 1];
    jw_object(w);
    while (json_next(&c, &name, &value)) {
        snprintf(key, sizeof key, STR_FMT, STR_ARG(name)); /* no member of a step has a longer name */
        jw_key(w, key);
        if (str_eq(name, S("target_config")))
            secret_headers_hide(w, value);
        else if (str_eq(name, S("compensate")))
            run_write_step_definition(w, value);
        else
            jw_raw(w, value);
    }
    jw_object_end(w);
}

enum err run_resolve_call(struct request *q, struct reader *r, struct task *t, struct error *e)
{
    struct planner_context c = { .reader = r, .definitions = q->server->definitions };
    struct str config, payload;
    bool started = task_has_fired(t) || t->state == TASK_RUNNING;
    if (uuid_is_nil(t->run) || !(t->links & TASK_PLANNED) || t->target_config.n || !started)
        return ERR_OK;
    enum err rc = workflow_call(&c, t, &q->arena, &config, &payload, e);
    if (rc == ERR_OK) {
        t->target_config = config;
        t->payload = payload;
    }
    return rc == ERR_INVALID || rc == ERR_NOT_FOUND || rc == ERR_LIMIT ? ERR_OK : rc;
}

/* ---- what the steps are doing ---- */

static void run_tally_failure(struct run_tally *n, const struct task *t)
{
    bool failed = t->state == TASK_FAILED || t->state == TASK_EXPIRED;
    if (!failed || n->failure_count == FAILURES_SHOWN)
        return;
    n->failures[n->failure_count++] =
        (struct run_failure){ place_step(t->place), place_item(t->place), t->state, t->last_error };
}

static void run_tally_step(struct run_tally *n, const struct dag *d, const struct task *t, int64_t now_ms)
{
    uint32_t step = place_step(t->place);
    n->by_state[task_shown_state(t, now_ms)]++;
    if (step < d->n && (t->state != TASK_CANCELLED || !n->stopped)) /* cancelled alone, not with its run */
        n->states[step].outcome = dependency_outcome(t->state, t->links);
    bool awaits = t->links & TASK_AWAITS && !task_is_final(t->state);
    if (awaits && step < d->n && n->awaiting_count < AWAITING_SHOWN)
        n->awaiting[n->awaiting_count++] = (struct run_awaiting){
            step, t->started_ms, d->steps[step].await.timeout_ms ? t->started_ms + d->steps[step].await.timeout_ms : 0
        };
}

static void run_tally_task(struct run_tally *n, const struct dag *d, const struct task *t, int64_t now_ms)
{
    enum place_kind kind = place_kind(t->place);
    if (kind == PLACE_KIND_DEADLINE)
        return;
    run_tally_failure(n, t);
    if (kind == PLACE_KIND_UNDO) {
        n->undo_total++;
        n->undone += t->state == TASK_COMPLETED;
    } else if (place_item(t->place) < 0) {
        run_tally_step(n, d, t, now_ms);
    }
}

/* The sentences of failures outlive the page that they were read with. */
static bool run_tally_keep(struct request *q, struct run_tally *n, size_t from)
{
    for (size_t i = from; i < n->failure_count; i++)
        if (!arena_str(&q->arena, n->failures[i].error, &n->failures[i].error))
            return false;
    return true;
}

/* The first step that fails the run, as its end is decided (core/flow/flow.h). */
static void run_tally_find_failed(struct run_tally *n, const struct dag *d)
{
    const struct flow_state state = { .v = n->states };
    for (uint32_t i = 0; i < d->n && !n->has_failed_step; i++) {
        n->has_failed_step = flow_step_fails_run(d, &state, i);
        n->failed_step = i;
    }
}

enum err run_tally(struct request *q, struct reader *r, const struct workflow_run *run, const struct dag *d,
                   struct run_tally *ret, struct error *e)
{
    struct step_filter f = { .tenant = run->task.tenant, .run = run->task.id, .limit = STEPS_READ_MAX };
    cleanup_with(arena_release) struct arena page;
    arena_init(&page, STEPS_ARENA);
    *ret = (struct run_tally){ .states = arena_array(&q->arena, struct flow_step_state, d->n + 1),
                               .stopped = run->opened && run->row.stop != RUN_GOES_ON };
    if (!ret->states)
        return error_no_room(e);
    for (bool more = run->opened; more;) {
        struct tasks v = { 0 };
        size_t failures = ret->failure_count;
        if (reader_steps(r, &f, &page, &v, e))
            return e->code;
        for (size_t i = 0; i < v.n; i++)
            run_tally_task(ret, d, &v.v[i], q->now_ms);
        if (!run_tally_keep(q, ret, failures))
            return error_no_room(e);
        more = v.n == f.limit;
        f.has_after = true;
        f.after = v.n ? v.v[v.n - 1].place : 0;
        arena_reset(&page);
    }
    run_tally_find_failed(ret, d);
    return ERR_OK;
}

enum err run_is_undoing(struct request *q, struct reader *r, const struct task *run, bool *ret, struct error *e)
{
    struct step_filter f = {
        .tenant = run->tenant, .run = run->id, .has_after = true, .after = place_of_undo(0, -1) - 1, .limit = 1
    };
    struct tasks v = { 0 };
    if (!task_is_final(run->state) && reader_steps(r, &f, &q->arena, &v, e))
        return e->code;
    *ret = v.n && place_kind(v.v[0].place) == PLACE_KIND_UNDO;
    return ERR_OK;
}

struct str run_undo_cause(const struct workflow_run *run, const struct dag *d, const struct run_tally *tally,
                          char text[RUN_CAUSE_TEXT])
{
    const struct run_failure *f = NULL;
    if (run->row.stop == RUN_AT_DEADLINE)
        return S("deadline: the run was not over in time");
    if (run->row.stop != RUN_GOES_ON)
        return run->row.stopped_by.n ? run->row.stopped_by : S("cancelled");
    if (!tally->has_failed_step)
        return S("its result cannot be resolved");
    for (size_t i = 0; i < tally->failure_count && !f; i++)
        if (tally->failures[i].step == tally->failed_step && tally->failures[i].item < 0)
            f = &tally->failures[i];
    int n = snprintf(text, RUN_CAUSE_TEXT, "step '" STR_FMT "' is %s%s" STR_FMT,
                     STR_ARG(d->steps[tally->failed_step].name), f ? task_state_name(f->state) : "FAILED",
                     f && f->error.n ? ": " : "", STR_ARG(f ? str_utf8_cut(f->error, 380) : S("")));
    return (struct str){ text, min_of((size_t)n, (size_t)RUN_CAUSE_TEXT - 1) };
}

/* ---- showing ---- */

void run_write_counts(struct jw *w, const struct dag *d, const struct run_tally *tally)
{
    jw_kv_i64(w, "total", d->n);
    jw_key(w, "by_status");
    jw_object(w);
    for (int s = 0; s < TASK_STATES; s++)
        if (tally->by_state[s])
            jw_kv_i64(w, task_state_name((enum task_state)s), tally->by_state[s]);
    jw_object_end(w);
}

static void run_write_raw(struct jw *w, const char *name, struct str json)
{
    jw_key(w, name);
    if (json.n)
        jw_raw(w, json);
    else
        jw_null(w);
}

static void run_write_hash(struct jw *w, const struct workflow_run *run)
{
    char text[HASH_TEXT + 1] = "";
    const uint8_t *hash = run->opened ? run->row.hash : run->config.has_hash ? run->config.hash : NULL;
    for (size_t i = 0; hash && i < DEFINITION_HASH; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    jw_kv_str_or_null(w, "definition_hash", str_from(text));
}

static void run_write_times(struct jw *w, const struct workflow_run *run, int64_t now_ms)
{
    const struct task *t = &run->task;
    jw_kv_time(w, "created_at", t->created_ms);
    jw_kv_time(w, "run_at", t->scheduled_ms);
    jw_kv_time_or_null(w, "due_at", task_awaits_attempt(t, now_ms) ? t->due_ms : 0);
    bool again = run->opened && (run->row.generation || t->started_ms > run->row.opened_ms);
    jw_kv_time_or_null(w, "started_at", run->opened && !again ? run->row.opened_ms : t->started_ms);
    jw_kv_time_or_null(w, "completed_at", t->completed_ms);
    jw_kv_time_or_null(w, "deadline_at", run->opened ? run->row.deadline_ms : 0);
}

static void run_write_end(struct jw *w, const struct workflow_run *run, const struct dag *d,
                          const struct run_tally *tally)
{
    static const struct str names[] = { [RUN_CANCELLED] = { "cancel", 6 },
                                        [RUN_CANCELLED_AND_UNDONE] = { "cancel", 6 },
                                        [RUN_AT_DEADLINE] = { "deadline", 8 } };
    bool stopped = run->opened && run->row.stop != RUN_GOES_ON;
    jw_kv_str_or_null(w, "stopped_by",
                      !stopped                ? S("")
                      : run->row.stopped_by.n ? run->row.stopped_by
                                              : names[run->row.stop]);
    if (!tally)
        return;
    bool is_over = task_is_final(run->task.state);
    bool failed = tally->has_failed_step && (is_over ? run->task.state == TASK_FAILED : tally->undo_total > 0);
    jw_kv_str_or_null(w, "failed_step", failed ? d->steps[tally->failed_step].name : S(""));
    jw_kv_cstr(w, "compensation",
               !tally->undo_total                   ? NULL
               : !is_over                           ? "RUNNING"
               : tally->undone == tally->undo_total ? "COMPLETE"
                                                    : "INCOMPLETE");
    jw_key(w, "steps");
    jw_object(w);
    run_write_counts(w, d, tally);
    jw_object_end(w);
}

/* A run that is stopped goes on to its end, paused or not. Only what it undoes waits for the resume. */
static bool run_is_held(const struct workflow_run *run, const struct run_tally *tally)
{
    if (!run->opened || !run->row.paused || task_is_final(run->task.state))
        return run->task.state == TASK_PAUSED;
    return run->row.stop == RUN_GOES_ON || (tally && tally->undo_total);
}

enum task_state run_listed_state(const struct workflow_run *run, int64_t now_ms)
{
    return run_is_held(run, NULL) ? TASK_PAUSED : task_shown_state(&run->task, now_ms);
}

void run_write(struct jw *w, const struct request *q, const struct workflow_run *run, const struct dag *d,
               const struct run_tally *tally, struct str result)
{
    const struct task *t = &run->task;
    char cause[RUN_CAUSE_TEXT];
    bool is_undone = tally && tally->undo_total && !task_is_final(t->state), is_held = run_is_held(run, tally);
    jw_object(w);
    jw_kv_uuid(w, "id", t->id);
    jw_kv_str_or_null(w, "name", t->name);
    jw_kv_str_or_null(w, "workflow", run->opened ? run->row.workflow : run->config.workflow);
    jw_kv_i64_or_null(w, "version", run->opened ? run->row.version : run->config.version);
    run_write_hash(w, run);
    jw_kv_cstr(w, "status", task_state_name(task_shown_state(t, q->now_ms)));
    jw_kv_bool(w, "paused", is_held);
    if (is_held && run->has_pause) {
        jw_key(w, "pause");
        pause_write(w, &run->pause);
    }
    run_write_raw(w, "input", run->config.input);
    run_write_raw(w, "result", result);
    jw_kv_str_or_null(w, "last_error", is_undone ? run_undo_cause(run, d, tally, cause) : t->last_error);
    jw_kv_str(w, "queue", t->queue);
    jw_kv_i64(w, "priority", t->priority);
    jw_kv_i64(w, "attempts", t->attempts);
    jw_kv_i64(w, "retries", run->opened ? run->row.generation : 0);
    jw_kv_uuid(w, "parent_id", t->parent);
    jw_kv_uuid(w, "run", t->run);
    run_write_times(w, run, q->now_ms);
    run_write_end(w, run, d, tally);
    if (run->found)
        jw_kv_bool(w, "deduplicated", true);
    jw_object_end(w);
}

/* The result of a COMPLETED run; empty: none. */
static enum err run_result(struct request *q, struct reader *r, const struct workflow_run *run, struct str *ret,
                           struct error *e)
{
    struct run_outputs v = { 0 };
    *ret = S("");
    if (run->task.state != TASK_COMPLETED)
        return ERR_OK;
    if (reader_outputs(r, run->task.id, PLACE_RUN, PLACE_RUN, 1, &q->arena, &v, e))
        return e->code;
    if (v.n && v.v[0].whole)
        *ret = v.v[0].text;
    return ERR_OK;
}

enum handled run_answer(struct request *q, struct reader *r, const struct workflow_run *run, int status)
{
    struct error e = { 0 };
    struct run_tally tally = { 0 };
    struct str result;
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    enum err rc = run_definition(q, r, run, &d, &e);
    if ((rc && rc != ERR_NOT_FOUND) || run_result(q, r, run, &result, &e) ||
        (d && run_tally(q, r, run, d->dag, &tally, &e)))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, status);
    run_write(&w, q, run, d ? d->dag : NULL, d ? &tally : NULL, result);
    return HANDLED_DONE;
}

enum err run_answer_brief(struct request *q, struct reader *r, const struct task *t, int status, struct error *e)
{
    struct workflow_run run;
    if (run_read_of(q, r, t, &run, e))
        return e->code;
    run.row.paused = run.row.paused && !(t->links & TASK_AGAIN); /* a retry ends a pause */
    struct jw w = respond_json(&q->response, status);
    run_write(&w, q, &run, NULL, NULL, S(""));
    return ERR_OK;
}
