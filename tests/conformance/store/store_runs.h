#pragma once
/* tests/conformance/store/store_runs.h - runs of workflows and their steps, for the tests of port/store/runs.h. */
#include "store_world.h"

/* A task of target WORKFLOW that is claimed. */
static inline struct task claimed_run(struct world *w)
{
    struct task t = some_task(w);
    t.target = TARGET_WORKFLOW;
    t.links = TASK_KEEPS_OUTPUT;
    return claim_one(w, &t, fresh_id(w));
}

static inline struct task step_at(const struct task *run, int64_t place)
{
    return (struct task){
        .id = place_id(run->id, place),
        .tenant = run->tenant,
        .run = run->id,
        .place = place,
        .due_ms = NOW,
        .scheduled_ms = NOW,
        .version = 1,
        .priority = PRIORITY_DEFAULT,
        .queue = S("default"),
        .timeout_ms = 30000,
        .retry = RETRY_DEFAULT,
        .target = TARGET_NOOP,
        .schedule.end_ms = INT64_MAX,
        .created_ms = NOW,
        .updated_ms = NOW,
    };
}

static inline struct open_row root_row(const struct task *run, uint32_t step)
{
    return (struct open_row){ .task = step_at(run, place_of_step(step)) };
}

/* A row that waits for one other. */
static inline struct open_row row_after(const struct task *run, uint32_t step, const struct open_edge_row *edge)
{
    struct open_row r = { .task = step_at(run, place_of_step(step)), .edges = edge, .n = 1 };
    r.task.state = TASK_BLOCKED;
    r.task.links = TASK_HAS_PARENTS | TASK_WAITS;
    return r;
}

/* All rows as the only page. The rows with `ends` end the task. */
static inline struct op_open open_of(const struct task *t, struct run_row *begin, const struct open_row *rows, size_t n)
{
    bool is_run = begin != NULL;
    if (is_run)
        *begin = (struct run_row){ .run = t->id,
                                   .tenant = t->tenant,
                                   .hash = { 7 },
                                   .workflow = S("etl"),
                                   .version = 3,
                                   .root = t->id,
                                   .opened_ms = NOW };
    struct op_open op = { .op.kind = OP_OPEN,
                          .tenant = t->tenant,
                          .id = t->id,
                          .fence = t->fence,
                          .run = is_run ? t->id : t->run,
                          .root = is_run ? t->id : t->run,
                          .begin = begin,
                          .first = true,
                          .last = true,
                          .max_broken = -1,
                          .end_type = DAG_MUST_FINISH,
                          .rows = rows,
                          .n = n,
                          .now_ms = NOW + 5 };
    for (size_t i = 0; i < n; i++)
        op.expected += rows[i].ends;
    return op;
}

/* Makes it a page of a retry that begins then. rows: those of op. */
static inline void begin_again(struct op_open *op, struct open_row *rows, int64_t begun_ms)
{
    op->again = true;
    op->begun_ms = begun_ms;
    for (size_t i = 0; i < op->n; i++)
        rows[i].task.created_ms = begun_ms;
}

/* A run whose step 1 waits for step 0 and ends it. */
struct chain {
    struct task run;
    struct run_row begin;
    struct open_edge_row edge;
    struct open_row rows[2]; /* step 1, step 0 */
    struct op_open op;
    struct uuid first, second;
};

static inline void chain_make(struct world *w, struct chain *c)
{
    c->run = claimed_run(w);
    c->first = place_id(c->run.id, place_of_step(0));
    c->second = place_id(c->run.id, place_of_step(1));
    c->edge = (struct open_edge_row){ c->first, DAG_MUST_SUCCEED, EDGE_OPEN };
    c->rows[0] = row_after(&c->run, 1, &c->edge);
    c->rows[0].ends = true;
    c->rows[1] = root_row(&c->run, 0);
    c->rows[1].task.links = TASK_HAS_CHILDREN;
    c->op = open_of(&c->run, &c->begin, c->rows, 2);
}

static inline void apply(struct world *w, struct op *op)
{
    assert_ok(world_apply(w, op), &op->error);
}

/* Claims one task of the lane in which it is now. */
static inline struct task claim_step(struct world *w, struct uuid id)
{
    struct task t = get(w, id);
    struct lane_quota lane = { task_lane(&t), 9000 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.now_ms = op.until_ms = NOW + 1000000;
    apply(w, &op.op);
    t = get(w, id);
    assert_int_equal(t.state, TASK_RUNNING);
    return t;
}

/* Claims it if it is SCHEDULED, and settles it. */
static inline struct op_settle end_step(struct world *w, struct uuid id, enum task_state next, struct str output)
{
    struct task t = get(w, id);
    if (t.state == TASK_SCHEDULED)
        t = claim_step(w, id);
    struct settlement v = settlement_of(&t, next);
    if (output.n) {
        v.verdict.has_execution = true;
        v.verdict.execution = some_execution(w, &t);
        v.verdict.execution.output = output;
    }
    struct op_settle op = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW + 10 };
    apply(w, &op.op);
    assert_false(v.stale);
    op.v = NULL;
    return op;
}

/* A user retries a run that has ended. */
static inline void retry_run(struct world *w, struct uuid id)
{
    struct task next = get(w, id);
    struct op_put op = {
        .op.kind = OP_PUT, .task = &next, .version = next.version, .fence = next.fence, .state = next.state
    };
    next.version++;
    next.state = TASK_SCHEDULED;
    next.completed_ms = 0;
    next.links = task_links_again(next.links);
    apply(w, &op.op);
}

static inline void assert_state(struct world *w, struct uuid id, enum task_state expected)
{
    assert_string_equal(task_state_name(get(w, id).state), task_state_name(expected));
}

static inline struct run_row run_of(struct world *w, struct uuid id)
{
    struct run_row r;
    struct error e = { 0 };
    assert_ok(reader_run(w->reader, TENANT, id, &w->arena, &r, &e), &e);
    return r;
}

static inline struct op_stop stop_of(const struct task *run, enum run_change change)
{
    return (struct op_stop){ .op.kind = OP_STOP,
                             .tenant = TENANT,
                             .run = run->id,
                             .change = change,
                             .stop = change == RUN_CANCEL ? RUN_CANCELLED : RUN_GOES_ON,
                             .why = S("by ann"),
                             .max = OPEN_ROWS_MAX,
                             .now_ms = NOW + 20 };
}

static inline struct op_arrive arrive(struct world *w)
{
    struct op_arrive op = { .op.kind = OP_ARRIVE, .now_ms = NOW + 30 };
    apply(w, &op.op);
    return op;
}

static inline struct run_outputs outputs_of(struct world *w, struct uuid run)
{
    struct run_outputs o;
    struct error e = { 0 };
    assert_ok(reader_outputs(w->reader, run, INT64_MIN, INT64_MAX, 100, &w->arena, &o, &e), &e);
    return o;
}

static inline struct task_links links_of(struct world *w, struct uuid id)
{
    struct task_links l;
    assert_int_equal(reader_links(w->reader, TENANT, id, &w->arena, &l, NULL), ERR_OK);
    return l;
}

static inline void assert_is_open(struct world *w, struct uuid id)
{
    struct task t = get(w, id);
    assert_int_equal(t.state, TASK_RUNNING);
    assert_true(uuid_is_nil(t.claim));
    assert_int_equal(t.links & (TASK_OPEN | TASK_OPENED | TASK_WAITS), TASK_OPEN | TASK_OPENED | TASK_WAITS);
}
