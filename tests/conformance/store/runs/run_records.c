/* What is kept of runs, and for how long: outputs, lists, definitions, OP_PURGE (port/store/runs.h, retention.h). */
#include <stdlib.h>

#include "store_runs.h"

/* ---- outputs ---- */

/* A run with one step of target WORKFLOW, which is a run itself, and a step that keeps its output. */
static struct task open_outer(struct world *w, struct task *ret_sub, struct uuid *ret_step)
{
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_row rows[] = { root_row(&run, 0), root_row(&run, 1) };
    rows[0].task.target = TARGET_WORKFLOW;
    rows[0].task.links = rows[1].task.links = TASK_KEEPS_OUTPUT;
    rows[0].ends = rows[1].ends = true;
    struct op_open op = open_of(&run, &begin, rows, 2);
    apply(w, &op.op);
    *ret_sub = claim_step(w, rows[0].task.id);
    *ret_step = rows[1].task.id;
    return run;
}

static void open_inner(struct world *w, const struct task *sub, struct uuid *ret_step)
{
    struct run_row begin;
    struct open_row row = root_row(sub, 0);
    row.ends = true;
    row.task.links = TASK_KEEPS_OUTPUT;
    struct op_open op = open_of(sub, &begin, &row, 1);
    begin.root = op.root = sub->run;
    begin.depth = 1;
    apply(w, &op.op);
    *ret_step = row.task.id;
}

static void outputs_are_kept_by_place(void **state) /* rule 5 */
{
    struct world *w = *state;
    struct task sub;
    struct uuid step, inner;
    struct task run = open_outer(w, &sub, &step);
    open_inner(w, &sub, &inner);
    end_step(w, inner, TASK_COMPLETED, S("[3]"));
    end_step(w, sub.id, TASK_COMPLETED, S("[1]"));
    end_step(w, step, TASK_COMPLETED, S("[2]"));
    end_step(w, run.id, TASK_COMPLETED, S("[0]"));
    struct run_outputs o = outputs_of(w, run.id);
    assert_int_equal(o.n, 3);
    const int64_t places[] = { PLACE_RUN, place_of_step(0), place_of_step(1) };
    static const char *const texts[] = { "[0]", "[1]", "[2]" };
    for (size_t i = 0; i < o.n; i++)
        assert_true(o.v[i].place == places[i] && o.v[i].whole && str_eq(o.v[i].text, str_from(texts[i])));
    o = outputs_of(w, sub.id);
    assert_int_equal(o.n, 2);
    assert_true(o.v[0].place == PLACE_RUN && str_eq(o.v[0].text, S("[1]")));
    assert_true(o.v[1].place == place_of_step(0) && str_eq(o.v[1].text, S("[3]")));
    struct error e = { 0 };
    assert_ok(reader_outputs(w->reader, run.id, places[1], places[2], 1, &w->arena, &o, &e), &e);
    assert_true(o.n == 1 && o.v[0].place == places[1]);
}

static struct str head_of(struct world *w, struct uuid task)
{
    struct execution_filter f = { .tenant = TENANT, .task = task, .limit = 10 };
    struct execution_page page;
    assert_int_equal(reader_executions(w->reader, &f, &w->arena, &page, NULL), ERR_OK);
    assert_int_equal(page.executions.n, 1);
    return page.executions.v[0].output;
}

static void a_long_output_is_kept_whole_and_a_longer_one_is_not(void **state) /* rule 5 */
{
    struct world *w = *state;
    struct task sub;
    struct uuid step;
    struct task run = open_outer(w, &sub, &step);
    char *text = xmalloc(OUTPUT_KEPT_MAX + 1);
    memset(text, '1', OUTPUT_KEPT_MAX + 1);
    end_step(w, step, TASK_COMPLETED, (struct str){ text, STEP_OUTPUT_MAX });
    end_step(w, sub.id, TASK_COMPLETED, (struct str){ text, OUTPUT_KEPT_MAX + 1 });
    struct run_outputs o = outputs_of(w, run.id);
    assert_int_equal(o.n, 2);
    assert_true(!o.v[0].whole && o.v[0].text.n == 0);
    assert_true(o.v[1].whole && o.v[1].text.n == STEP_OUTPUT_MAX);
    assert_int_equal(head_of(w, step).n, EXECUTION_OUTPUT_MAX);
    free(text);
}

static void only_completed_tasks_that_keep_outputs_have_them(void **state) /* rule 5 */
{
    struct world *w = *state;
    struct task sub, plain = some_task(w);
    struct uuid step;
    struct task run = open_outer(w, &sub, &step);
    end_step(w, step, TASK_FAILED, S("[1]"));
    insert(w, &plain, 1);
    end_step(w, plain.id, TASK_COMPLETED, S("[2]"));
    assert_int_equal(outputs_of(w, run.id).n, 0);
    assert_int_equal(outputs_of(w, plain.id).n, 0);
}

static void a_row_brings_its_output(void **state) /* OP_OPEN, has_output */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_row row = root_row(&run, 0);
    row.task.state = TASK_COMPLETED;
    row.task.completed_ms = NOW;
    row.task.links = TASK_KEEPS_OUTPUT;
    row.ends = row.has_output = true;
    row.output = S("[5]");
    struct op_open op = open_of(&run, &begin, &row, 1);
    apply(w, &op.op);
    assert_state(w, run.id, TASK_SCHEDULED); /* its only step has arrived */
    struct run_outputs o = outputs_of(w, run.id);
    assert_true(o.n == 1 && str_eq(o.v[0].text, S("[5]")));
}

/* ---- reading ---- */

static void steps_are_listed_with_their_run_only(void **state) /* rule 4 */
{
    struct world *w = *state;
    struct task sub, plain = some_task(w);
    struct uuid step;
    struct task run = open_outer(w, &sub, &step);
    insert(w, &plain, 1);
    struct task_filter all = { .tenant = TENANT, .limit = 10 }, runs = all, failed = all;
    struct task_page page = list(w, &all);
    assert_tasks(&page.tasks, &run.id, &plain.id);
    runs.runs = true;
    page = list(w, &runs);
    assert_tasks(&page.tasks, &run.id);
    size_t n;
    assert_int_equal(reader_count(w->reader, &all, 100, &n, NULL), ERR_OK);
    assert_int_equal(n, 2);
    end_step(w, step, TASK_FAILED, S(""));
    failed.states = 1u << TASK_FAILED;
    assert_int_equal(list(w, &failed).tasks.n, 0);
    struct cause_groups causes;
    assert_int_equal(reader_causes(w->reader, TENANT, 10, &w->arena, &causes, NULL), ERR_OK);
    assert_int_equal(causes.n, 0);
    assert_state(w, step, TASK_FAILED); /* reader_get finds it */
}

static void steps_are_read_by_place(void **state)
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    int64_t places[] = { place_of_step(0), place_of_item(0, 0),  place_of_item(0, 1),
                         place_of_step(1), place_of_undo(0, -1), place_of_deadline() };
    struct open_row rows[array_count(places)] = { 0 };
    for (size_t i = 0; i < array_count(places); i++)
        rows[i].task = step_at(&run, places[array_count(places) - 1 - i]);
    rows[0].task.state = TASK_PAUSED;
    struct op_open op = open_of(&run, &begin, rows, array_count(places));
    op.expected = 1;
    apply(w, &op.op);
    struct step_filter f = { .tenant = TENANT, .run = run.id, .limit = 100 };
    struct tasks t;
    struct error e = { 0 };
    assert_ok(reader_steps(w->reader, &f, &w->arena, &t, &e), &e);
    assert_int_equal(t.n, array_count(places));
    for (size_t i = 0; i < t.n; i++)
        assert_true(t.v[i].place == places[i]);
    f.by_step = true;
    assert_ok(reader_steps(w->reader, &f, &w->arena, &t, &e), &e);
    assert_true(t.n == 4 && t.v[3].place == places[4]);
    f.has_after = true;
    f.after = places[1];
    f.limit = 1;
    assert_ok(reader_steps(w->reader, &f, &w->arena, &t, &e), &e);
    assert_true(t.n == 1 && t.v[0].place == places[2]);
    f = (struct step_filter){ .tenant = TENANT, .run = run.id, .states = 1u << TASK_PAUSED, .limit = 100 };
    assert_ok(reader_steps(w->reader, &f, &w->arena, &t, &e), &e);
    assert_true(t.n == 1 && t.v[0].place == place_of_deadline());
    f.tenant = OTHER_TENANT;
    assert_ok(reader_steps(w->reader, &f, &w->arena, &t, &e), &e);
    assert_int_equal(t.n, 0);
    struct run_row r;
    assert_int_equal(reader_run(w->reader, OTHER_TENANT, run.id, &w->arena, &r, NULL), ERR_NOT_FOUND);
}

/* ---- definitions ---- */

static struct op_define define_of(const struct definition *d, const char *name)
{
    return (struct op_define){
        .op.kind = OP_DEFINE, .definition = d, .tenant = TENANT, .name = str_from(name), .remove = !d, .now_ms = NOW
    };
}

static void a_name_has_versions(void **state) /* OP_DEFINE 2, 3 */
{
    struct world *w = *state;
    struct definition a = { TENANT, { 1 }, S("{\"a\":1}") }, b = { TENANT, { 2 }, S("{\"b\":1}") };
    const struct definition *in_order[] = { &a, &a, &b, &a };
    static const int64_t versions[] = { 1, 1, 2, 3 };
    for (size_t i = 0; i < array_count(in_order); i++) {
        struct op_define op = define_of(in_order[i], "etl");
        op.now_ms += (int64_t)i;
        apply(w, &op.op);
        assert_int_equal(op.ret_version, versions[i]);
        assert_int_equal(op.ret_changed, i != 1);
        assert_int_equal(op.ret_created_ms, i == 1 ? NOW : NOW + (int64_t)i);
    }
    struct workflow_row row;
    assert_int_equal(reader_workflow(w->reader, TENANT, S("etl"), 0, &w->arena, &row, NULL), ERR_OK);
    assert_true(row.version == 3 && row.hash[0] == 1 && row.created_ms == NOW + 3 && str_eq(row.name, S("etl")));
    assert_int_equal(reader_workflow(w->reader, TENANT, S("etl"), 2, &w->arena, &row, NULL), ERR_OK);
    assert_int_equal(row.hash[0], 2);
    assert_int_equal(reader_workflow(w->reader, TENANT, S("etl"), 4, &w->arena, &row, NULL), ERR_NOT_FOUND);
    assert_int_equal(reader_workflow(w->reader, OTHER_TENANT, S("etl"), 0, &w->arena, &row, NULL), ERR_NOT_FOUND);
    struct str text;
    assert_int_equal(reader_definition(w->reader, TENANT, b.hash, &w->arena, &text, NULL), ERR_OK);
    assert_true(str_eq(text, b.text));
    assert_int_equal(reader_definition(w->reader, OTHER_TENANT, b.hash, &w->arena, &text, NULL), ERR_NOT_FOUND);
}

static void a_definition_without_a_name_is_stored_alone(void **state) /* OP_DEFINE 5 */
{
    struct world *w = *state;
    struct definition a = { TENANT, { 7 }, S("{\"a\":7}") };
    struct op_define op = define_of(&a, ""), again = op;
    apply(w, &op.op);
    apply(w, &again.op);
    assert_int_equal(op.ret_version, 0);
    struct str text;
    assert_int_equal(reader_definition(w->reader, TENANT, a.hash, &w->arena, &text, NULL), ERR_OK);
    assert_true(str_eq(text, a.text));
    struct workflow_rows all;
    assert_int_equal(reader_workflows(w->reader, TENANT, S(""), 10, &w->arena, &all, NULL), ERR_OK);
    assert_int_equal(all.n, 0);
}

static void a_name_that_was_removed_goes_on_counting(void **state) /* OP_DEFINE 1, 4 */
{
    struct world *w = *state;
    struct definition a = { TENANT, { 1 }, S("{}") };
    struct op_define put = define_of(&a, "etl"), other = define_of(&a, "b"), remove = define_of(NULL, "etl"),
                     again = remove, anew = put;
    struct idempotency key = some_idempotency();
    remove.idempotency = &key;
    apply(w, &put.op);
    apply(w, &other.op);
    apply(w, &remove.op);
    assert_int_equal(world_apply(w, &again.op), ERR_NOT_FOUND);
    struct op_define used = anew;
    used.idempotency = &key;
    assert_int_equal(world_apply(w, &used.op), ERR_CONFLICT);
    struct workflow_row row;
    assert_int_equal(reader_workflow(w->reader, TENANT, S("etl"), 1, &w->arena, &row, NULL), ERR_NOT_FOUND);
    struct str text;
    assert_int_equal(reader_definition(w->reader, TENANT, a.hash, &w->arena, &text, NULL), ERR_OK);
    struct workflow_rows all;
    assert_int_equal(reader_workflows(w->reader, TENANT, S(""), 10, &w->arena, &all, NULL), ERR_OK);
    assert_true(all.n == 1 && !all.more && str_eq(all.v[0].name, S("b")));
    apply(w, &anew.op);
    assert_int_equal(anew.ret_version, 2);
    assert_int_equal(reader_workflows(w->reader, TENANT, S(""), 1, &w->arena, &all, NULL), ERR_OK);
    assert_true(all.n == 1 && all.more);
    assert_int_equal(reader_workflows(w->reader, TENANT, S("b"), 10, &w->arena, &all, NULL), ERR_OK);
    assert_true(all.n == 1 && str_eq(all.v[0].name, S("etl")) && all.v[0].version == 2);
}

static bool has_definition(struct world *w, const struct definition *d)
{
    struct str text;
    return reader_definition(w->reader, TENANT, d->hash, &w->arena, &text, NULL) == ERR_OK;
}

static struct op_purge purge_at(int64_t now_ms, size_t max)
{
    return (struct op_purge){
        .op.kind = OP_PURGE, .now_ms = now_ms, .tasks_before_ms = NOW + 500, .dlq_before_ms = NOW + 500, .max = max
    };
}

static void definitions_that_nothing_names_are_purged_a_day_later(void **state) /* OP_PURGE 11; OP_INSERT */
{
    struct world *w = *state;
    struct definition named = { TENANT, { 1 }, S("1") }, used = { TENANT, { 7 }, S("2") },
                      waits = { TENANT, { 0xab }, S("3") }, unused = { TENANT, { 4 }, S("4") };
    struct task with_unused = some_task(w), with_waits = some_task(w), run = claimed_run(w);
    struct run_row begin; /* its hash is that of `used` */
    struct op_open open = open_of(&run, &begin, NULL, 0);
    open.expected = 1;
    apply(w, &open.op);
    struct op_define names = define_of(&named, "etl"), names_used = define_of(&used, "b"),
                     forgets = define_of(NULL, "b");
    apply(w, &names.op);
    apply(w, &names_used.op);
    apply(w, &forgets.op);
    with_waits.target = TARGET_WORKFLOW;
    with_waits.due_ms = NOW + 10LL * DEFINITION_KEPT_MS;
    with_waits.target_config =
        S("{\"definition\":\"ab00000000000000000000000000000000000000000000000000000000000000\",\"input\":{}}");
    struct op_insert a = insert_of(&with_unused, 1), b = insert_of(&with_waits, 1);
    a.definition = &unused;
    b.definition = &waits;
    apply(w, &a.op);
    apply(w, &b.op);
    assert_true(has_definition(w, &unused) && has_definition(w, &waits));
    struct op_purge early = purge_at(NOW + DEFINITION_KEPT_MS - 10000, 100),
                    late = purge_at(NOW + DEFINITION_KEPT_MS + 1, 100);
    early.tasks_before_ms = late.tasks_before_ms = early.dlq_before_ms = late.dlq_before_ms = 0;
    apply(w, &early.op);
    assert_true(has_definition(w, &unused));
    apply(w, &late.op);
    assert_false(has_definition(w, &unused));
    assert_true(has_definition(w, &named) && has_definition(w, &used) && has_definition(w, &waits));
}

/* ---- OP_PURGE ---- */

static void a_run_is_purged_with_its_steps(void **state) /* OP_PURGE 10 */
{
    struct world *w = *state;
    struct task sub;
    struct uuid step, inner;
    struct task run = open_outer(w, &sub, &step);
    open_inner(w, &sub, &inner);
    struct signal_row s = { .run = run.id, .name = S("go"), .sender = S("ann"), .time_ms = NOW };
    struct op_signal signal = { .op.kind = OP_SIGNAL, .tenant = TENANT, .signal = &s };
    apply(w, &signal.op);
    end_step(w, inner, TASK_COMPLETED, S("[1]"));
    end_step(w, sub.id, TASK_FAILED, S("[1]"));
    end_step(w, step, TASK_COMPLETED, S("[1]"));
    struct op_purge early = purge_at(NOW + 1000, 100);
    apply(w, &early.op);
    /* never before their run: */
    assert_true(is_there(w, TENANT, step) && is_there(w, TENANT, inner) && is_there(w, TENANT, sub.id));
    end_step(w, run.id, TASK_COMPLETED, S("[1]"));
    for (int i = 0; i < 3; i++) {
        struct op_purge slice = purge_at(NOW + 1000, 1);
        apply(w, &slice.op);
        assert_true(slice.ret_purged == 1 && slice.ret_more);
        assert_false(is_there(w, TENANT, run.id));
    }
    assert_false(is_there(w, TENANT, step) || is_there(w, TENANT, inner) || is_there(w, TENANT, sub.id));
    struct op_purge last = purge_at(NOW + 1000, 100);
    apply(w, &last.op);
    assert_false(is_there(w, TENANT, run.id));
    assert_int_equal(outputs_of(w, run.id).n + outputs_of(w, sub.id).n, 0);
    struct signal_rows signals;
    assert_int_equal(reader_signals(w->reader, run.id, S("go"), &w->arena, &signals, NULL), ERR_OK);
    assert_int_equal(signals.n, 0);
    struct run_row r;
    assert_int_equal(reader_run(w->reader, TENANT, run.id, &w->arena, &r, NULL), ERR_NOT_FOUND);
    assert_int_equal(reader_run(w->reader, TENANT, sub.id, &w->arena, &r, NULL), ERR_NOT_FOUND);
    struct store_counts counts;
    assert_int_equal(reader_counts(w->reader, NOW, &counts, NULL), ERR_OK);
    assert_int_equal(counts.by_state[TASK_COMPLETED] + counts.by_state[TASK_FAILED], 0);
}

static void a_failed_run_is_purged_with_its_steps(void **state) /* OP_PURGE 2, 10 */
{
    struct world *w = *state;
    struct task sub;
    struct uuid step;
    struct task run = open_outer(w, &sub, &step);
    end_step(w, sub.id, TASK_FAILED, S(""));
    end_step(w, step, TASK_FAILED, S(""));
    end_step(w, run.id, TASK_FAILED, S(""));
    struct op_purge part = purge_at(NOW + 1000, 2), rest = part;
    run = get(w, run.id);
    apply(w, &part.op);
    assert_false(is_there(w, TENANT, run.id));
    struct task again = run;
    again.state = TASK_SCHEDULED;
    again.links = task_links_again(run.links);
    struct op_put retry = {
        .op.kind = OP_PUT, .task = &again, .version = run.version, .fence = run.fence, .state = run.state
    };
    assert_int_equal(world_apply(w, &retry.op), ERR_NOT_FOUND);
    struct store_counts counts;
    assert_int_equal(reader_counts(w->reader, NOW, &counts, NULL), ERR_OK);
    assert_int_equal(counts.by_state[TASK_FAILED], 0);
    apply(w, &rest.op);
    assert_false(is_there(w, TENANT, run.id) || is_there(w, TENANT, step) || is_there(w, TENANT, sub.id));
}

static void an_open_run_is_not_purged(void **state) /* OP_PURGE 2 */
{
    struct world *w = *state;
    struct task sub;
    struct uuid step;
    struct task run = open_outer(w, &sub, &step);
    end_step(w, step, TASK_COMPLETED, S(""));
    struct op_purge op = purge_at(NOW + 1000, 100);
    apply(w, &op.op);
    assert_true(is_there(w, TENANT, run.id) && is_there(w, TENANT, step));
}

static const struct CMUnitTest tests[] = {
    store_test(outputs_are_kept_by_place),
    store_test(a_long_output_is_kept_whole_and_a_longer_one_is_not),
    store_test(only_completed_tasks_that_keep_outputs_have_them),
    store_test(a_row_brings_its_output),
    store_test(steps_are_listed_with_their_run_only),
    store_test(steps_are_read_by_place),
    store_test(a_name_has_versions),
    store_test(a_definition_without_a_name_is_stored_alone),
    store_test(a_name_that_was_removed_goes_on_counting),
    store_test(definitions_that_nothing_names_are_purged_a_day_later),
    store_test(a_run_is_purged_with_its_steps),
    store_test(a_failed_run_is_purged_with_its_steps),
    store_test(an_open_run_is_not_purged),
};
const struct test_list run_record_tests = { tests, array_count(tests) };
