/* OP_OPEN: runs and other control tasks with the tasks that they wait for. The numbers are those of OP_OPEN in
 * port/store/runs.h; "rule" names the rules for all operations there. */
#include "store_runs.h"

/* ---- tests ---- */

static void a_run_waits_for_its_steps_under_no_claim(void **state) /* 4 to 9; rules 1, 2 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    apply(w, &c.op.op);
    assert_false(c.op.ret_stopped);
    assert_true(c.op.ret_unblocked_lanes == lane_bit(some_lane()));
    assert_is_open(w, c.run.id);
    assert_int_equal(get(w, c.run.id).started_ms, NOW + 5);
    assert_state(w, c.first, TASK_SCHEDULED);
    assert_state(w, c.second, TASK_BLOCKED);
    assert_int_equal(get(w, c.second).links, TASK_HAS_PARENTS | TASK_WAITS | TASK_HAS_CHILDREN);
    struct run_row r = run_of(w, c.run.id);
    assert_true(r.tasks == 2 && r.version == 3 && r.opened_ms == NOW && !r.paused && r.stop == RUN_GOES_ON);
    assert_true(str_eq(r.workflow, S("etl")) && r.hash[0] == 7 && uuid_eq(r.root, c.run.id));
    end_step(w, c.first, TASK_COMPLETED, S(""));
    assert_state(w, c.second, TASK_SCHEDULED);
    assert_is_open(w, c.run.id);
    struct op_settle last = end_step(w, c.second, TASK_FAILED, S(""));
    struct task t = get(w, c.run.id);
    assert_true(last.ret_unblocked_lanes == lane_bit(task_lane(&t)));
    assert_int_equal(t.state, TASK_SCHEDULED);
    assert_int_equal(t.due_ms, NOW + 10);
    assert_int_equal(t.links & (TASK_OPEN | TASK_OPENED | TASK_WAITS), TASK_OPENED);
}

static void an_open_run_is_nobodys(void **state) /* rule 1 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    apply(w, &c.op.op);
    struct settlement v = settlement_of(&c.run, TASK_COMPLETED);
    assert_false(settle_with(w, &v));
    struct op_claimed claimed = { .op.kind = OP_CLAIMED, .claim = c.run.claim };
    apply(w, &claimed.op);
    assert_int_equal(claimed.ret.n, 0);
    struct op_orphans orphans = { .op.kind = OP_ORPHANS, .not_node = fresh_id(w), .max = 100 };
    apply(w, &orphans.op);
    assert_int_equal(orphans.ret.n, 0);
    struct op_recall recall = { .op.kind = OP_RECALL, .id = c.run.id, .fence = c.run.fence, .now_ms = NOW };
    assert_int_equal(world_apply(w, &recall.op), ERR_CONFLICT);
    struct op_open repeated = c.op;
    assert_int_equal(world_apply(w, &repeated.op), ERR_CONFLICT);
    assert_string_equal(repeated.op.error.field, "fence");
}

static void what_was_opened_goes_on_in_the_lane_of_control_work(void **state) /* rule 3 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    apply(w, &c.op.op);
    end_step(w, c.first, TASK_COMPLETED, S(""));
    end_step(w, c.second, TASK_COMPLETED, S(""));
    struct lane_quota lane = { some_lane(), 100 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.now_ms = op.until_ms = NOW + 1000;
    apply(w, &op.op);
    assert_int_equal(op.ret.n, 0);
    struct task t = claim_step(w, c.run.id);
    assert_true(str_eq(t.queue, S("default"))); /* its own queue is not forgotten */
    assert_true(t.fence > c.run.fence);
    struct used_queues queues;
    assert_int_equal(reader_queues(w->reader, TENANT, &w->arena, &queues, NULL), ERR_OK);
    for (size_t i = 0; i < queues.n; i++)
        assert_true(queues.v[i].n > 0);
}

static void only_its_claim_opens_a_task(void **state) /* 1 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    c.op.fence++;
    assert_int_equal(world_apply(w, &c.op.op), ERR_CONFLICT);
    assert_string_equal(c.op.op.error.field, "fence");
    assert_false(is_there(w, TENANT, c.first));
    struct run_row r;
    assert_int_equal(reader_run(w->reader, TENANT, c.run.id, &w->arena, &r, NULL), ERR_NOT_FOUND);
}

static void pages_may_be_repeated(void **state) /* 2, 4, 7 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    c.op.last = false;
    c.op.n = 1;
    struct op_open again = c.op, last = c.op;
    apply(w, &c.op.op);
    struct task t = get(w, c.run.id);
    assert_int_equal(t.state, TASK_RUNNING);
    assert_true(uuid_eq(t.claim, c.run.claim) && t.links & TASK_OPENED && !(t.links & TASK_OPEN));
    apply(w, &again.op);
    assert_int_equal(run_of(w, c.run.id).tasks, 1);
    last.first = false;
    last.begin = NULL;
    last.last = true;
    last.rows++;
    apply(w, &last.op);
    assert_int_equal(run_of(w, c.run.id).tasks, 2);
    end_step(w, c.first, TASK_COMPLETED, S(""));
    end_step(w, c.second, TASK_COMPLETED, S(""));
    assert_state(w, c.run.id, TASK_SCHEDULED);
    struct task_links l = links_of(w, c.run.id);
    assert_true(l.expected == 1 && l.counts.arrived == 1 && l.parent_count == 1);
}

static void arrivals_before_the_last_page_count(void **state) /* 9 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_row rows[] = { root_row(&run, 0), root_row(&run, 1) };
    rows[0].ends = rows[1].ends = true;
    struct op_open all = open_of(&run, &begin, rows, 2), first = all, repeated, last = all;
    first.last = false;
    first.n = 1;
    repeated = first;
    apply(w, &first.op);
    end_step(w, rows[0].task.id, TASK_COMPLETED, S(""));
    apply(w, &repeated.op);
    assert_state(w, rows[0].task.id, TASK_COMPLETED);
    last.first = false;
    last.begin = NULL;
    last.rows = rows + 1;
    last.n = 1;
    apply(w, &last.op);
    assert_is_open(w, run.id);
    end_step(w, rows[1].task.id, TASK_COMPLETED, S(""));
    assert_state(w, run.id, TASK_SCHEDULED);
}

static void a_run_without_steps_goes_on_at_once(void **state) /* 9 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct op_open op = open_of(&run, &begin, NULL, 0);
    apply(w, &op.op);
    struct task t = get(w, run.id);
    assert_int_equal(t.state, TASK_SCHEDULED);
    assert_true(uuid_is_nil(t.claim) && t.due_ms == NOW + 5 && t.started_ms == NOW + 5);
    assert_true(op.ret_unblocked_lanes == lane_bit(task_lane(&t)));
}

static void a_stop_between_pages_keeps_the_next_out(void **state) /* 3 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    c.op.last = false;
    c.op.n = 1;
    struct op_open next = c.op, despite;
    next.first = false;
    next.begin = NULL;
    next.rows++;
    despite = next;
    despite.despite_stop = true;
    apply(w, &c.op.op);
    struct op_stop stop = stop_of(&c.run, RUN_CANCEL);
    apply(w, &stop.op);
    assert_int_equal(stop.ret_changed, 1);
    apply(w, &next.op);
    assert_true(next.ret_stopped);
    struct op_open planned_before = despite;
    apply(w, &planned_before.op); /* its plan did not know of this stop */
    assert_true(planned_before.ret_stopped);
    assert_false(is_there(w, TENANT, c.first));
    despite.stop = RUN_CANCELLED;
    apply(w, &despite.op);
    assert_false(despite.ret_stopped);
    assert_state(w, c.first, TASK_SCHEDULED);
}

static void a_run_has_started_with_its_first_page(void **state) /* 9 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    c.op.last = false;
    apply(w, &c.op.op);
    assert_int_equal(get(w, c.run.id).started_ms, NOW + 5);
}

static void rows_of_a_paused_run_are_paused(void **state) /* 3 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    struct op_open none = c.op;
    none.last = false;
    none.n = 0;
    apply(w, &none.op);
    struct op_stop pause = stop_of(&c.run, RUN_PAUSE);
    apply(w, &pause.op);
    apply(w, &c.op.op);
    assert_true(run_of(w, c.run.id).paused);
    assert_state(w, c.first, TASK_PAUSED);
    assert_state(w, c.second, TASK_PAUSED);
    assert_true(get(w, c.second).links & TASK_WAITS);
    assert_is_open(w, c.run.id);
}

/* A run with one control step, which is claimed. */
static struct task claimed_control(struct world *w, struct task *ret_run)
{
    struct run_row begin;
    *ret_run = claimed_run(w);
    struct open_row row = root_row(ret_run, 0);
    row.task.target = TARGET_WORKFLOW;
    row.ends = true;
    struct op_open op = open_of(ret_run, &begin, &row, 1);
    apply(w, &op.op);
    return claim_step(w, row.task.id);
}

enum { ITEMS = 4 };

static struct op_open open_items(const struct task *map, struct open_row items[ITEMS])
{
    for (int i = 0; i < ITEMS; i++) {
        struct task run = { .id = map->run, .tenant = map->tenant };
        items[i] = (struct open_row){ .task = step_at(&run, place_of_item(0, i)), .ends = true };
    }
    struct op_open op = open_of(map, NULL, items, ITEMS);
    op.end_type = DAG_MUST_SUCCEED;
    return op;
}

static void a_map_goes_on_beyond_its_broken_items(void **state) /* rule 2 */
{
    struct world *w = *state;
    struct task run, map = claimed_control(w, &run);
    struct open_row items[ITEMS];
    struct op_open op = open_items(&map, items);
    op.max_broken = 1;
    apply(w, &op.op);
    assert_int_equal(run_of(w, run.id).tasks, 1 + ITEMS);
    end_step(w, items[2].task.id, TASK_FAILED, S(""));
    assert_is_open(w, map.id);
    assert_false(get(w, map.id).links & TASK_BROKEN);
    end_step(w, items[0].task.id, TASK_FAILED, S(""));
    assert_state(w, map.id, TASK_SCHEDULED);
    assert_true(get(w, map.id).links & TASK_BROKEN);
    end_step(w, items[1].task.id, TASK_COMPLETED, S(""));
    struct task_links l = links_of(w, map.id);
    assert_true(l.counts.arrived == 3 && l.counts.broken == 2 && l.expected == ITEMS);
    claim_step(w, map.id);
    end_step(w, map.id, TASK_FAILED, S(""));
    assert_state(w, run.id, TASK_SCHEDULED);
}

static void a_map_is_broken_while_it_is_opened(void **state) /* rule 11 */
{
    struct world *w = *state;
    struct task run, map = claimed_control(w, &run);
    struct open_row items[ITEMS];
    struct op_open op = open_items(&map, items), last;
    op.max_broken = 0;
    op.last = false;
    last = op;
    op.n = ITEMS - 1;
    apply(w, &op.op);
    end_step(w, items[0].task.id, TASK_FAILED, S(""));
    struct task t = get(w, map.id);
    assert_true(t.state == TASK_RUNNING && t.fence == map.fence && t.links & TASK_BROKEN);
    end_step(w, items[1].task.id, TASK_FAILED, S(""));
    last.first = false;
    last.last = true;
    last.rows += ITEMS - 1;
    last.n = 1;
    apply(w, &last.op);
    assert_state(w, map.id, TASK_SCHEDULED);
    assert_true(get(w, map.id).links & TASK_BROKEN);
}

static void a_map_that_waits_for_all_ignores_what_breaks(void **state) /* rule 2 */
{
    struct world *w = *state;
    struct task run, map = claimed_control(w, &run);
    struct open_row items[ITEMS];
    struct op_open op = open_items(&map, items);
    apply(w, &op.op);
    for (int i = 0; i < ITEMS; i++) {
        assert_is_open(w, map.id);
        end_step(w, items[i].task.id, TASK_FAILED, S(""));
    }
    assert_state(w, map.id, TASK_SCHEDULED);
}

static void a_task_that_is_opened_has_no_other_parents(void **state) /* 2 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin, inner;
    struct open_edge_row edges[] = { { place_id(run.id, place_of_step(0)), DAG_MUST_SUCCEED, EDGE_OPEN },
                                     { place_id(run.id, place_of_step(1)), DAG_MUST_SUCCEED, EDGE_OPEN } };
    struct open_row rows[] = { row_after(&run, 2, edges), root_row(&run, 0), root_row(&run, 1) };
    rows[0].n = 2;
    rows[0].join = DAG_ANY;
    rows[0].task.target = TARGET_WORKFLOW;
    rows[0].ends = true;
    rows[1].task.links = rows[2].task.links = TASK_HAS_CHILDREN;
    struct op_open op = open_of(&run, &begin, rows, 3);
    apply(w, &op.op);
    end_step(w, rows[1].task.id, TASK_COMPLETED, S(""));
    struct task sub = claim_step(w, rows[0].task.id);
    struct open_row child = root_row(&sub, 0);
    child.ends = true;
    struct op_open open = open_of(&sub, &inner, &child, 1);
    inner.root = open.root = run.id;
    inner.depth = 1;
    apply(w, &open.op);
    end_step(w, rows[2].task.id, TASK_COMPLETED, S(""));
    assert_is_open(w, sub.id);
    assert_int_equal(links_of(w, sub.id).counts.arrived, 0);
    assert_int_equal(run_of(w, run.id).tasks, 4);
    assert_int_equal(run_of(w, sub.id).tasks, 0);
    end_step(w, child.task.id, TASK_COMPLETED, S(""));
    assert_state(w, sub.id, TASK_SCHEDULED);
}

static void a_run_has_at_most_so_many_tasks(void **state) /* 7 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    c.begin.tasks = RUN_TASKS_MAX - 1;
    struct op_open fits = c.op;
    assert_int_equal(world_apply(w, &c.op.op), ERR_LIMIT);
    assert_string_equal(c.op.op.error.field, "tasks");
    assert_false(is_there(w, TENANT, c.first));
    assert_false(get(w, c.run.id).links & TASK_OPENED);
    fits.n = 1;
    apply(w, &fits.op);
    assert_int_equal(run_of(w, c.run.id).tasks, RUN_TASKS_MAX);
}

static void a_task_waits_for_others_as_well(void **state) /* 8 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    apply(w, &c.op.op);
    end_step(w, c.first, TASK_FAILED, S("")); /* so the second is skipped */
    assert_state(w, c.second, TASK_SKIPPED);
    struct task failed = get(w, c.first), again = failed, run = claim_step(w, c.run.id);
    again.state = TASK_SCHEDULED; /* by hand */
    again.completed_ms = 0;
    struct op_put put = put_of(&failed, &again);
    apply(w, &put.op);
    struct op_open also = open_of(&run, NULL, NULL, 0), missing, repeated;
    struct uuid others[] = { c.first, fresh_id(w) };
    also.run = also.root = run.id;
    also.first = false;
    also.also = others;
    also.also_count = 2;
    missing = repeated = also;
    assert_int_equal(world_apply(w, &missing.op), ERR_INVALID);
    repeated.also_count = also.also_count = 1;
    repeated.last = false;
    apply(w, &repeated.op);
    apply(w, &also.op);
    assert_is_open(w, run.id);
    assert_int_equal(links_of(w, run.id).expected, 2);
    assert_true(get(w, c.first).links & TASK_HAS_CHILDREN);
    end_step(w, c.first, TASK_COMPLETED, S(""));
    assert_state(w, run.id, TASK_SCHEDULED);
}

static void an_edge_that_has_arrived_is_open_again(void **state) /* 6, 8 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    apply(w, &c.op.op);
    end_step(w, c.first, TASK_COMPLETED, S(""));
    end_step(w, c.second, TASK_FAILED, S(""));
    struct task failed = get(w, c.second), again = failed, run = claim_step(w, c.run.id);
    again.state = TASK_SCHEDULED;
    again.completed_ms = 0;
    struct op_put put = put_of(&failed, &again);
    apply(w, &put.op);
    struct op_open also = open_of(&run, NULL, NULL, 0);
    also.run = also.root = run.id;
    also.first = false;
    also.also = &c.second;
    also.also_count = 1;
    apply(w, &also.op);
    assert_is_open(w, run.id);
    struct task_links l = links_of(w, run.id);
    assert_true(l.expected == 1 && l.counts.arrived == 0);
    end_step(w, c.second, TASK_COMPLETED, S(""));
    assert_state(w, run.id, TASK_SCHEDULED);
}

/* ---- runs within others ---- */

/* The only page of a run that is a step of another, with one row. */
static struct op_open open_within(const struct task *inner, const struct task *run, struct run_row *begin,
                                  struct open_row *row)
{
    *row = root_row(inner, 0);
    row->ends = true;
    struct op_open op = open_of(inner, begin, row, 1);
    op.outer = op.root = begin->root = run->id;
    return op;
}

static void a_run_within_a_paused_one_is_paused(void **state) /* 3 */
{
    struct world *w = *state;
    struct task run, inner = claimed_control(w, &run);
    struct run_row begin;
    struct open_row row;
    struct op_stop pause = stop_of(&run, RUN_PAUSE);
    apply(w, &pause.op);
    struct op_open op = open_within(&inner, &run, &begin, &row);
    apply(w, &op.op);
    assert_false(op.ret_stopped);
    assert_true(run_of(w, inner.id).paused);
    assert_state(w, row.task.id, TASK_PAUSED);
}

static void a_pause_names_a_run_that_is_being_opened(void **state) /* 3; OP_STOP 7 */
{
    struct world *w = *state;
    struct task run, inner = claimed_control(w, &run);
    struct run_row begin;
    struct open_row row, second = root_row(&inner, 1);
    struct op_open first = open_within(&inner, &run, &begin, &row);
    struct op_stop pause = stop_of(&run, RUN_PAUSE), below = stop_of(&inner, RUN_PAUSE);
    first.last = false;
    first.expected = 2;
    apply(w, &first.op);
    assert_state(w, row.task.id, TASK_SCHEDULED);
    apply(w, &pause.op);
    assert_true(pause.ret_run_count == 1 && uuid_eq(pause.ret_runs[0], inner.id));
    apply(w, &below.op);
    assert_state(w, row.task.id, TASK_PAUSED);
    struct op_open last = first;
    second.ends = true;
    last.begin = NULL;
    last.first = false;
    last.last = true;
    last.rows = &second;
    apply(w, &last.op);
    assert_state(w, second.task.id, TASK_PAUSED);
}

static void a_run_within_a_stopped_one_is_not_opened(void **state) /* 3 */
{
    struct world *w = *state;
    struct task run, inner = claimed_control(w, &run);
    struct run_row begin;
    struct open_row row;
    struct op_stop stop = stop_of(&run, RUN_CANCEL);
    apply(w, &stop.op);
    struct op_open op = open_within(&inner, &run, &begin, &row);
    apply(w, &op.op);
    assert_true(op.ret_stopped);
    assert_false(is_there(w, TENANT, row.task.id));
}

static void a_run_within_a_retried_one_begins_though_it_was_stopped(void **state) /* 3 */
{
    struct world *w = *state;
    struct task run, inner = claimed_control(w, &run);
    struct run_row begin, outer_begin;
    struct open_row row, again_row = { .task = inner, .ends = true };
    struct op_open op = open_within(&inner, &run, &begin, &row);
    apply(w, &op.op);
    struct op_stop stop = stop_of(&inner, RUN_CANCEL), pause = stop_of(&inner, RUN_PAUSE);
    struct op_arrive arrive = { .op.kind = OP_ARRIVE, .now_ms = NOW };
    apply(w, &pause.op);
    apply(w, &stop.op);
    apply(w, &arrive.op); /* 11 */
    end_step(w, inner.id, TASK_CANCELLED, S(""));
    end_step(w, run.id, TASK_SCHEDULED, S("no")); /* rule 6 */
    run = claim_step(w, run.id);
    again_row.task.state = TASK_SCHEDULED;
    again_row.task.claim = (struct uuid){ 0 };
    again_row.task.fence = 0;
    struct op_open retry = open_of(&run, &outer_begin, &again_row, 1);
    begin_again(&retry, &again_row, NOW + 100);
    apply(w, &retry.op);
    inner = claim_step(w, inner.id);
    op = open_within(&inner, &run, &begin, &row);
    begin_again(&op, &row, NOW + 200);
    apply(w, &op.op);
    assert_false(op.ret_stopped);
    assert_true(run_of(w, inner.id).stop == RUN_GOES_ON && !run_of(w, inner.id).paused);
    assert_int_equal(run_of(w, inner.id).generation, 1);
    assert_state(w, row.task.id, TASK_SCHEDULED);
}

static void a_step_that_is_tried_again_obeys_its_run(void **state) /* rule 7 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_row rows[] = { root_row(&run, 0), root_row(&run, 1), root_row(&run, 2) };
    for (int i = 0; i < 3; i++)
        rows[i].ends = true;
    rows[2].task = step_at(&run, place_of_undo(0, -1));
    struct op_open op = open_of(&run, &begin, rows, 3);
    apply(w, &op.op);
    for (int i = 0; i < 3; i++)
        if (get(w, rows[i].task.id).state == TASK_SCHEDULED)
            claim_step(w, rows[i].task.id);
    struct op_stop pause = stop_of(&run, RUN_PAUSE), resume = stop_of(&run, RUN_RESUME),
                   cancel = stop_of(&run, RUN_CANCEL);
    apply(w, &pause.op);
    assert_int_equal(pause.ret_running_count, 3);
    end_step(w, rows[0].task.id, TASK_SCHEDULED, S("no"));
    assert_state(w, rows[0].task.id, TASK_PAUSED);
    apply(w, &resume.op);
    assert_state(w, rows[0].task.id, TASK_SCHEDULED);
    claim_step(w, rows[0].task.id);
    apply(w, &cancel.op);
    end_step(w, rows[1].task.id, TASK_SCHEDULED, S("no"));
    assert_state(w, rows[1].task.id, TASK_CANCELLED);
    end_step(w, rows[2].task.id, TASK_SCHEDULED, S("no"));
    assert_state(w, rows[2].task.id, TASK_SCHEDULED); /* a compensation */
}

/* OP_STOP 1: who follows changes steps only as the run is. */
static void a_change_that_follows_leaves_the_run_as_it_is(void **state)
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_row row = root_row(&run, 0);
    row.ends = true;
    struct op_open op = open_of(&run, &begin, &row, 1);
    apply(w, &op.op);
    for (int paused = 0; paused < 2; paused++) {
        struct op_stop pause = stop_of(&run, RUN_PAUSE), resume = stop_of(&run, RUN_RESUME);
        struct op_stop *same = paused ? &pause : &resume, *other = paused ? &resume : &pause;
        same->follows = other->follows = true;
        apply(w, &same->op);
        assert_int_equal(world_apply(w, &other->op), ERR_CONFLICT);
        assert_string_equal(other->op.error.field, "run");
        assert_state(w, row.task.id, paused ? TASK_PAUSED : TASK_SCHEDULED);
        struct op_stop next = stop_of(&run, RUN_PAUSE);
        apply(w, &next.op);
    }
}

static const struct CMUnitTest tests[] = {
    store_test(a_change_that_follows_leaves_the_run_as_it_is),
    store_test(a_run_waits_for_its_steps_under_no_claim),
    store_test(an_open_run_is_nobodys),
    store_test(what_was_opened_goes_on_in_the_lane_of_control_work),
    store_test(only_its_claim_opens_a_task),
    store_test(pages_may_be_repeated),
    store_test(arrivals_before_the_last_page_count),
    store_test(a_run_without_steps_goes_on_at_once),
    store_test(a_stop_between_pages_keeps_the_next_out),
    store_test(a_run_has_started_with_its_first_page),
    store_test(rows_of_a_paused_run_are_paused),
    store_test(a_map_goes_on_beyond_its_broken_items),
    store_test(a_map_is_broken_while_it_is_opened),
    store_test(a_map_that_waits_for_all_ignores_what_breaks),
    store_test(a_task_that_is_opened_has_no_other_parents),
    store_test(a_run_has_at_most_so_many_tasks),
    store_test(a_task_waits_for_others_as_well),
    store_test(an_edge_that_has_arrived_is_open_again),
    store_test(a_run_within_a_paused_one_is_paused),
    store_test(a_pause_names_a_run_that_is_being_opened),
    store_test(a_run_within_a_stopped_one_is_not_opened),
    store_test(a_run_within_a_retried_one_begins_though_it_was_stopped),
    store_test(a_step_that_is_tried_again_obeys_its_run),
};
const struct test_list run_tests = { tests, array_count(tests) };
