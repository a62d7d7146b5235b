/* The writes of OP_SETTLE: verdicts, executions, outputs, parents, slots. All statements are sent without waiting for
 * their results. */
#include <assert.h>
#include <stdlib.h>

#include "store/postgres/claim/settle.h"

static const struct pg_statement write_verdicts = {
    "settle_verdicts",
    "UPDATE tasks SET state = v.state, due_ms = coalesce(v.due_ms, tasks.due_ms), attempts = v.attempts, "
    "losses = v.losses, lane = v.lane, claim_id = NULL, updated_ms = $1, "
    "started_ms = coalesce(v.started_ms, tasks.started_ms), completed_ms = v.completed_ms, "
    "last_error = v.last_error, cause = v.cause, failed_ms = v.failed_ms, aside = coalesce(v.aside, tasks.aside), "
    "recalled = tasks.recalled OR v.recalled, awaited_ms = coalesce(v.awaited_ms, tasks.awaited_ms), "
    "late_by = coalesce(v.late_by, tasks.late_by), links = tasks.links & ~6144 | v.links "
    "FROM unnest($*) AS v(task, state, due_ms, attempts, losses, lane, started_ms, completed_ms, last_error, cause, "
    "failed_ms, aside, recalled, awaited_ms, late_by, links) WHERE id = v.task",
};
static_assert((TASK_BEGUN | TASK_SIGNALLED) == 6144, "statements name them by number");
static const struct pg_statement insert_executions = {
    "settle_executions",
    "INSERT INTO executions SELECT * FROM unnest($*) ON CONFLICT (task_id, id) DO NOTHING",
};
/* Locks in the order of the ids, as every statement that changes several tasks. */
static const struct pg_statement set_last_run = {
    "settle_last_run",
    "UPDATE tasks SET last_run_ms = p.at_ms FROM (SELECT id AS parent, x.at_ms FROM unnest($1, $2) AS x(task, at_ms) "
    "JOIN tasks ON id = x.task WHERE last_run_ms < x.at_ms ORDER BY id FOR UPDATE OF tasks) AS p "
    "WHERE id = p.parent AND last_run_ms < p.at_ms",
};

static const struct pg_statement move_cursor_back = {
    "settle_take_back",
    "UPDATE tasks SET cursor_ms = least(cursor_ms, $2), runs_count = greatest(runs_count - 1, 0) WHERE id = $1",
};

static const struct pg_statement find_recall_request = {
    "settle_wish",
    "SELECT FROM wishes WHERE task_id = ANY ($1) LIMIT 1",
};

/* ---- verdicts ---- */

enum verdict_column {
    V_TASK,
    V_STATE,
    V_DUE_MS,
    V_ATTEMPTS,
    V_LOSSES,
    V_LANE,
    V_STARTED_MS,
    V_COMPLETED_MS,
    V_LAST_ERROR,
    V_CAUSE,
    V_FAILED_MS,
    V_ASIDE,
    V_RECALLED,
    V_AWAITED_MS,
    V_LATE_BY,
    V_LINKS,
    V_COUNT
};

static void pg_settle_add_number(struct pg_params *p, bool is_there, int64_t v)
{
    if (is_there)
        pg_element_i64(p, v);
    else
        pg_element_null(p);
}

static void pg_settle_add_value(struct pg_params *p, enum verdict_column which, const struct pg_settled *x,
                                int64_t now_ms)
{
    const struct verdict *v = &x->settlement->verdict;
    bool failed = v->next == TASK_FAILED, is_step = !uuid_is_nil(x->was->run);
    switch (which) {
    case V_TASK: pg_element_uuid(p, x->settlement->id); break;
    case V_STATE: pg_element_i64(p, v->next); break;
    case V_DUE_MS: pg_settle_add_number(p, !task_is_final(v->next), v->due_ms); break;
    case V_ATTEMPTS: pg_element_i64(p, v->attempts); break;
    case V_LOSSES: pg_element_i64(p, v->losses); break;
    case V_LANE: pg_element_i64(p, x->lane); break;
    case V_STARTED_MS: pg_settle_add_number(p, v->has_execution, v->execution.started_us / 1000); break;
    case V_COMPLETED_MS: pg_element_i64(p, settle_completed_ms(v, now_ms)); break;
    case V_LAST_ERROR: pg_element_text_or_null(p, v->last_error); break;
    case V_CAUSE: pg_element_text_or_null(p, str_from(failed ? v->cause.text : "")); break;
    case V_FAILED_MS: pg_settle_add_number(p, failed && !is_step, settle_completed_ms(v, now_ms)); break;
    case V_ASIDE: pg_element_text_or_null(p, v->aside); break;
    case V_RECALLED: pg_element_bool(p, v->recalled); break;
    case V_AWAITED_MS: pg_settle_add_number(p, !task_is_final(v->next), v->awaited_ms); break;
    case V_LATE_BY: pg_settle_add_number(p, !task_is_final(v->next), v->late_by); break;
    case V_LINKS: pg_element_i64(p, settled_links(x->was->links, v->next, v->has_execution)); break;
    case V_COUNT: abort();
    }
}

/* Sends the verdicts of all settlements without a replacement row. */
static enum err pg_settle_send_verdicts(struct store_postgres *s, const struct pg_settling *t, struct error *e)
{
    static const enum pg_type types[] = {
        [V_TASK] = PG_UUID,       [V_STATE] = PG_I32,      [V_DUE_MS] = PG_I64,     [V_ATTEMPTS] = PG_I32,
        [V_LOSSES] = PG_I32,      [V_LANE] = PG_I32,       [V_STARTED_MS] = PG_I64, [V_COMPLETED_MS] = PG_I64,
        [V_LAST_ERROR] = PG_TEXT, [V_CAUSE] = PG_TEXT,     [V_FAILED_MS] = PG_I64,  [V_ASIDE] = PG_TEXT,
        [V_RECALLED] = PG_BOOL,   [V_AWAITED_MS] = PG_I64, [V_LATE_BY] = PG_I32,    [V_LINKS] = PG_I32,
    };
    struct pg_params *p = &s->params;
    size_t n = 0;
    pg_params_reset(p);
    pg_add_i64(p, t->op->now_ms);
    for (enum verdict_column which = 0; which < V_COUNT; which++) {
        pg_array(p, types[which]);
        n = 0;
        for (size_t i = 0; i < t->n; i++) {
            if (t->v[i].settlement->replace || t->v[i].withdrawn)
                continue;
            pg_settle_add_value(p, which, &t->v[i], t->op->now_ms);
            n++;
        }
        pg_array_end(p);
    }
    return n ? pg_queue(&s->conn, &write_verdicts, p, e) : ERR_OK;
}

static void pg_settle_count_verdict(struct store_postgres *s, const struct pg_settled *x, int64_t now_ms)
{
    const struct verdict *v = &x->settlement->verdict;
    if (x->withdrawn) {
        pg_tally_new(s, x->was->tenant, x->was->deleted, TASK_RUNNING, -1);
        return;
    }
    pg_tally_move(s, x->was->tenant, x->was->deleted, TASK_RUNNING, v->next);
    pg_note_ended(s, x->settlement->id, v->next, settle_completed_ms(v, now_ms));
    if (v->next == TASK_SCHEDULED)
        pg_note_due(s, v->due_ms);
}

/* ---- executions and parents ---- */

static enum err pg_settle_send_executions(struct store_postgres *s, const struct pg_settling *t, struct error *e)
{
    const void **rows = xcalloc(t->n, sizeof *rows);
    struct execution *heads = xcalloc(t->n, sizeof *heads);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct execution *x = &t->v[i].settlement->verdict.execution;
        if (!t->v[i].settlement->verdict.has_execution)
            continue;
        if (x->output.n > EXECUTION_OUTPUT_MAX) {
            heads[n] = *x;
            heads[n].output = output_head(x->output);
            x = &heads[n];
        }
        rows[n++] = x;
    }
    pg_params_reset(&s->params);
    pg_add_rows(&s->params, &table_executions, rows, NULL, n);
    free(rows);
    free(heads);
    return n ? pg_queue(&s->conn, &insert_executions, &s->params, e) : ERR_OK;
}

static bool pg_settle_keeps_output(const struct pg_settled *x)
{
    const struct settlement *of = x->settlement;
    enum task_state next = of->replace ? of->replace->state : of->verdict.next;
    return x->was->links & TASK_KEEPS_OUTPUT && next == TASK_COMPLETED && of->verdict.has_execution;
}

static enum err pg_settle_send_outputs(struct store_postgres *s, const struct pg_settling *t, struct error *e)
{
    struct pg_output *v = xcalloc(t->n, sizeof *v);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct pg_settled *x = &t->v[i];
        if (pg_settle_keeps_output(x))
            v[n++] = (struct pg_output){ x->settlement->id, x->was->run, x->was->place,
                                         x->settlement->verdict.execution.output };
    }
    enum err rc = pg_outputs_keep(s, v, n, e);
    free(v);
    return rc;
}

struct pg_settle_parent {
    struct uuid id;
    int64_t last_run_ms;
};

static int pg_settle_parent_by_id(const void *a, const void *b)
{
    return uuid_cmp(((const struct pg_settle_parent *)a)->id, ((const struct pg_settle_parent *)b)->id);
}

/* Merges the entries so that each parent occurs once, with its latest run. Returns how many there are. */
static size_t pg_settle_latest_runs(struct pg_settle_parent *v, size_t n)
{
    size_t kept = 0;
    qsort(v, n, sizeof *v, pg_settle_parent_by_id);
    for (size_t i = 0; i < n; i++) {
        if (kept && uuid_eq(v[kept - 1].id, v[i].id))
            v[kept - 1].last_run_ms = max_of(v[kept - 1].last_run_ms, v[i].last_run_ms);
        else
            v[kept++] = v[i];
    }
    return kept;
}

static enum err pg_settle_send_parents(struct store_postgres *s, const struct pg_settling *t, struct error *e)
{
    struct pg_params *p = &s->params;
    struct pg_settle_parent *v = xcalloc(t->n, sizeof *v);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct settlement *x = t->v[i].settlement;
        if (x->verdict.has_execution && !uuid_is_nil(x->parent))
            v[n++] = (struct pg_settle_parent){ x->parent, x->verdict.execution.started_us / 1000 };
    }
    n = pg_settle_latest_runs(v, n);
    pg_params_reset(p);
    pg_add_members(p, v, n, id);
    pg_add_members(p, v, n, last_run_ms);
    free(v);
    return n ? pg_queue(&s->conn, &set_last_run, p, e) : ERR_OK;
}

/* ---- occurrences that will not run, slots and replacements ---- */

static enum err pg_settle_send_uncounted(struct store_postgres *s, const struct pg_settling *t, struct error *e)
{
    struct uuid *ids = xcalloc(2 * t->n, sizeof *ids), *parents = ids + t->n;
    bool *skipped = xcalloc(t->n, sizeof *skipped);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct settlement *x = t->v[i].settlement;
        enum task_state next = x->verdict.next;
        skipped[n] = next == TASK_EXPIRED || next == TASK_SKIPPED;
        if (x->replace || uuid_is_nil(x->parent) || (next != TASK_CANCELLED && !skipped[n]))
            continue;
        ids[n] = x->id;
        parents[n++] = x->parent;
    }
    enum err rc = pg_uncount_runs(s, ids, parents, skipped, n, e);
    free(skipped);
    free(ids);
    return rc;
}

/* Writes the replacement row without a claim: pg_settle_apply has noted already that the task leaves its claim. */
static enum err pg_settle_write_replacement(struct store_postgres *s, const struct pg_settled *x, uint64_t *unblocked,
                                            struct error *e)
{
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    struct task next = *x->settlement->replace;
    struct pg_guards left = *x->was;
    enum task_state ignored;
    assert(uuid_eq(next.claim, left.claim) || next.state != TASK_RUNNING);
    dependency_tidy(&next, left.links);
    next.claim = (struct uuid){ 0 };
    left.claim = (struct uuid){ 0 };
    if (pg_run_forget(s, x->settlement->replace, e))
        return e->code;
    if (pg_change_task(s, &left, &next, &keys, &ignored, e))
        return e->code;
    return pg_slots_hand_over(s, &keys, unblocked, e);
}

/* Deletes an occurrence of a paused task, and sets the cursor of the task back to it. */
static enum err pg_settle_withdraw(struct store_postgres *s, const struct pg_settled *x, uint64_t *unblocked,
                                   struct error *e)
{
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, x->settlement->parent);
    pg_add_i64(&s->params, x->cursor_ms);
    if (pg_queue(&s->conn, &move_cursor_back, &s->params, e) || pg_delete_rows(s, &x->settlement->id, 1, e))
        return e->code;
    if (x->was->gated && pg_slots_release(s, &x->settlement->id, NULL, &keys, e))
        return e->code;
    return pg_slots_hand_over(s, &keys, unblocked, e);
}

/* Reads the slots of all tasks that may hold some. */
static enum err pg_settle_prefetch_slots(struct store_postgres *s, const struct pg_settling *t, struct error *e)
{
    struct uuid *ids = xcalloc(t->n + 1, sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].was->gated)
            ids[n++] = t->v[i].settlement->id;
    enum err rc = pg_slots_prefetch(s, ids, n, e);
    free(ids);
    return rc;
}

static enum err pg_settle_slots_and_replacements(struct store_postgres *s, const struct pg_settling *t, struct error *e)
{
    uint64_t *unblocked = &t->op->ret_unblocked_lanes;
    if (pg_settle_prefetch_slots(s, t, e))
        return e->code;
    for (size_t i = 0; i < t->n; i++) {
        const struct pg_settled *x = &t->v[i];
        const struct settlement *of = x->settlement;
        if (of->replace && pg_settle_write_replacement(s, x, unblocked, e))
            return e->code;
        if (x->withdrawn && pg_settle_withdraw(s, x, unblocked, e))
            return e->code;
        if (!of->replace && !x->withdrawn && x->was->gated &&
            pg_slots_settle(s, &of->id, of->verdict.next, unblocked, e))
            return e->code;
    }
    return ERR_OK;
}

/* If a settled task was requested back, its requester gets a notice. */
static enum err pg_settle_note_given_back(struct store_postgres *s, const struct pg_settling *t, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (!t->v[0].was->any_recall_requests)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_array(&s->params, PG_UUID);
    for (size_t i = 0; i < t->n; i++)
        pg_element_uuid(&s->params, t->v[i].settlement->id);
    pg_array_end(&s->params);
    if (pg_run(&s->conn, &find_recall_request, &s->params, &r, e))
        return e->code;
    s->notice.given_back = s->notice.given_back || r.rows > 0;
    return ERR_OK;
}

/* ---- all of it ---- */

static bool pg_settle_is_suspect(int losses)
{
    return task_is_suspect(&(struct task){ .losses = losses });
}

/* A task with losses moves to the lane of suspects, and back when its losses are reset. A task that is put aside moves
 * to its host's lane, a recalled one to a late lane. */
static enum err pg_settle_find_lane(struct store_postgres *s, struct pg_settled *x, struct pg_lane_want *ret,
                                    struct error *e)
{
    const struct lane_row *row;
    const struct verdict *v = &x->settlement->verdict;
    if (pg_lanes_at(&s->conn, &s->lanes, x->was->lane, &row, e))
        return e->code;
    x->leased = pool_is_leased(row->pool);
    *ret = (struct pg_lane_want){ .lane = row->lane, .pool = row->pool };
    if (x->settlement->replace) /* its lane is found by the replacement row */
        return ERR_OK;
    bool is = pg_settle_is_suspect(v->losses);
    if (is != pg_settle_is_suspect(x->was->losses))
        ret->pool = pool_of_suspects(row->pool, is);
    if (row->lane.queue.n == 0) /* control work: its lane has no host, and is never late */
        return ERR_OK;
    ret->lane = lane_put_aside(row, v->aside);
    if (v->recalled)
        ret->pool = pool_of_late(ret->pool);
    return ERR_OK;
}

static enum err pg_settle_find_lanes(struct store_postgres *s, struct pg_settling *t, struct error *e)
{
    struct pg_lane_want *v = xcalloc(t->n + 1, sizeof *v);
    enum err rc = ERR_OK;
    for (size_t i = 0; !rc && i < t->n; i++)
        rc = pg_settle_find_lane(s, &t->v[i], &v[i], e);
    rc = rc ? rc : pg_lane_numbers(s, v, t->n, e);
    for (size_t i = 0; !rc && i < t->n; i++)
        t->v[i].lane = v[i].number;
    free(v);
    return rc;
}

/* Deletes the leases of the tasks that were leased. */
static enum err pg_settle_drop_terms(struct store_postgres *s, const struct pg_settling *t, struct error *e)
{
    struct uuid *ids = xcalloc(t->n + 1, sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].leased)
            ids[n++] = t->v[i].settlement->id;
    enum err rc = pg_lease_drop_terms(s, ids, n, e);
    free(ids);
    return rc;
}

enum err pg_settle_apply(struct store_postgres *s, struct pg_settling *t, struct error *e)
{
    if (t->n == 0)
        return ERR_OK;
    if (pg_settle_find_lanes(s, t, e))
        return e->code;
    for (size_t i = 0; i < t->n; i++) {
        if (!t->v[i].settlement->replace)
            pg_settle_count_verdict(s, &t->v[i], t->op->now_ms);
        pg_note_left(s, t->v[i].was->claim);
        const struct settlement *of = t->v[i].settlement;
        join_fold_add(t->fold, &of->id, of->replace ? of->replace->state : of->verdict.next, t->v[i].was->links);
    }
    enum err rc = pg_settle_send_verdicts(s, t, e);
    rc = rc ? rc : pg_settle_send_executions(s, t, e);
    rc = rc ? rc : pg_settle_send_outputs(s, t, e);
    rc = rc ? rc : pg_settle_send_parents(s, t, e);
    rc = rc ? rc : pg_settle_drop_terms(s, t, e);
    rc = rc ? rc : pg_settle_send_uncounted(s, t, e);
    rc = rc ? rc : pg_settle_slots_and_replacements(s, t, e);
    return rc ? rc : pg_settle_note_given_back(s, t, e);
}
