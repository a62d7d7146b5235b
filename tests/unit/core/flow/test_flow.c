#include "check.h"

#include "core/flow/flow.h"
#include "core/flow/place.h"

struct fixture {
    struct dag *d;
    struct arena a;
    struct error e;
};

static void setup(struct fixture *f, const char *definition)
{
    *f = (struct fixture){ 0 };
    arena_init(&f->a, 16 << 20);
    assert_ok(dag_read(str_from(definition), &f->d, &f->e), &f->e);
}

static void release(struct fixture *f)
{
    dag_free(f->d);
    arena_release(&f->a);
}

static void assert_counts(struct flow_counts c, uint32_t arrived, uint32_t met, uint32_t broken)
{
    assert_int_equal(c.arrived, arrived);
    assert_int_equal(c.met, met);
    assert_int_equal(c.broken, broken);
}

/* ---- edges and joins ---- */

static void an_edge_is_met_or_broken_by_its_type(void **state)
{
    (void)state;
    enum { ENDS = FLOW_BROKEN };
    static const struct {
        enum dag_type type;
        const char *answers; /* for COMPLETED, FAILED, EXPIRED, CANCELLED, a clean skip, a broken one */
    } rows[] = {
        { DAG_MUST_SUCCEED, "mbbb-b" },
        { DAG_MUST_NOT_FAIL, "mbbbmb" },
        { DAG_MUST_FINISH, "mmmmmm" },
        { DAG_MUST_FAIL, "-mm---" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        for (int o = FLOW_COMPLETED; o <= ENDS; o++) {
            char answer = rows[i].answers[o - FLOW_COMPLETED];
            assert_counts(flow_arrival(rows[i].type, (enum flow_outcome)o), 1, answer == 'm', answer == 'b');
        }
    }
}

static void a_join_is_decided_by_counts(void **state)
{
    (void)state;
    static const struct {
        enum dag_join join;
        struct flow_counts c; /* of 3 */
        enum flow_decision decision;
    } rows[] = {
        { DAG_ALL, { 0, 0, 0 }, FLOW_WAIT },         { DAG_ALL, { 2, 2, 0 }, FLOW_WAIT },
        { DAG_ALL, { 3, 3, 0 }, FLOW_START },        { DAG_ALL, { 1, 0, 1 }, FLOW_SKIP_BROKEN },
        { DAG_ALL, { 2, 1, 0 }, FLOW_WAIT },         { DAG_ALL, { 3, 2, 0 }, FLOW_SKIP },
        { DAG_ANY, { 1, 0, 1 }, FLOW_WAIT },         { DAG_ANY, { 1, 1, 0 }, FLOW_START },
        { DAG_ANY, { 3, 0, 1 }, FLOW_SKIP_BROKEN },  { DAG_ANY, { 3, 0, 0 }, FLOW_SKIP },
        { DAG_ANY, { 3, 1, 2 }, FLOW_START },        { DAG_SOME, { 2, 2, 0 }, FLOW_WAIT },
        { DAG_SOME, { 3, 1, 2 }, FLOW_START },       { DAG_SOME, { 3, 0, 0 }, FLOW_SKIP },
        { DAG_SOME, { 3, 0, 3 }, FLOW_SKIP_BROKEN },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        assert_int_equal(flow_decide(rows[i].join, 3, rows[i].c), rows[i].decision);
    for (int join = DAG_ALL; join <= DAG_SOME; join++)
        assert_int_equal(flow_decide((enum dag_join)join, 0, (struct flow_counts){ 0 }), FLOW_START);
    for (int o = FLOW_COMPLETED; o <= FLOW_CANCELLED; o++)
        assert_true(task_is_final(flow_task_state((enum flow_outcome)o)));
    assert_int_equal(flow_task_state(FLOW_SKIPPED), TASK_SKIPPED);
    assert_int_equal(flow_task_state(FLOW_BROKEN), TASK_SKIPPED);
}

#define DIAMOND                                                                                                        \
    "{\"steps\":[{\"name\":\"a\"},{\"name\":\"b\",\"depends_on\":[\"a\"]},{\"name\":\"c\",\"depends_on\":[\"a\"]},"    \
    "{\"name\":\"d\",\"depends_on\":[\"b\",\"c\"]}]}"

static void decisions_over_a_run_need_memory(void **state)
{
    (void)state;
    struct fixture f;
    struct arena small;
    struct flow_state s;
    struct flow_undo u;
    enum flow_outcome kept[4], was[4] = { FLOW_FAILED };
    enum flow_reach reach[4] = { FLOW_DONE };
    setup(&f, DIAMOND);
    arena_init(&small, 24);
    assert_int_equal(flow_state(f.d, NULL, &small, &s, &f.e), ERR_LIMIT);
    assert_int_equal(flow_retry(f.d, &(struct flow_retry){ .was = was }, &small, kept, &f.e), ERR_LIMIT);
    assert_int_equal(flow_rerun(f.d, was, NULL, 0, &small, kept, &f.e), ERR_LIMIT);
    assert_int_equal(flow_undo(f.d, reach, &small, &u, &f.e), ERR_LIMIT);
    arena_release(&small);
    release(&f);
}

/* ---- the end of a run ---- */

static void a_run_counts_the_steps_that_no_child_waits_for(void **state)
{
    (void)state;
    static const struct {
        const char *join, *first, *second; /* types of the edges from a and b to c */
        bool a_counts, b_counts;
    } rows[] = {
        { "ALL", "MUST_SUCCEED", "MUST_SUCCEED", true, true },    { "ALL", "MUST_FINISH", "MUST_FINISH", false, false },
        { "ALL", "MUST_SUCCEED", "MUST_FINISH", false, true },    { "ALL", "MUST_FAIL", "MUST_NOT_FAIL", true, false },
        { "ANY", "MUST_SUCCEED", "MUST_SUCCEED", true, true },    { "ANY", "MUST_FINISH", "MUST_FINISH", true, true },
        { "SOME", "MUST_SUCCEED", "MUST_SUCCEED", false, false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char text[512];
        struct fixture f;
        snprintf(text, sizeof text,
                 "{\"steps\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\",\"join\":\"%s\",\"depends_on\":["
                 "{\"step\":\"a\",\"type\":\"%s\"},{\"step\":\"b\",\"type\":\"%s\"}]}]}",
                 rows[i].join, rows[i].first, rows[i].second);
        setup(&f, text);
        assert_int_equal(f.d->steps[0].ends_run, rows[i].a_counts);
        assert_int_equal(f.d->steps[1].ends_run, rows[i].b_counts);
        assert_true(f.d->steps[2].ends_run);
        release(&f);
    }
}

#define HANDLED                                                                                                        \
    "{\"steps\":[{\"name\":\"a\"},{\"name\":\"handler\",\"depends_on\":[{\"step\":\"a\",\"type\":\"MUST_FAIL\"}]}]}"

/* The end of a does not end the run, because the handler waits for it; but a retry keeps the handler and repeats a. */
static void a_retry_repeats_a_failed_step_and_keeps_its_handler(void **state)
{
    (void)state;
    struct fixture f;
    struct flow_state s;
    enum flow_outcome was[] = { FLOW_FAILED, FLOW_COMPLETED }, kept[2];
    setup(&f, HANDLED);
    assert_false(f.d->steps[0].ends_run);
    assert_ok(flow_retry(f.d, &(struct flow_retry){ .was = was }, &f.a, kept, &f.e), &f.e);
    assert_int_equal(kept[0], FLOW_OPEN);
    assert_int_equal(kept[1], FLOW_COMPLETED);
    assert_ok(flow_state(f.d, kept, &f.a, &s, &f.e), &f.e);
    assert_int_equal(s.open, 1);
    assert_int_equal(s.v[0].decision, FLOW_START);
    release(&f);
}

static void a_handled_failure_fails_no_run(void **state)
{
    (void)state;
    static const struct {
        const char *definition;
        enum flow_outcome ends[2];
        enum task_state state;
    } rows[] = {
        { HANDLED, { FLOW_FAILED, FLOW_COMPLETED }, TASK_COMPLETED },
        { HANDLED, { FLOW_EXPIRED, FLOW_COMPLETED }, TASK_COMPLETED },
        { HANDLED, { FLOW_FAILED, FLOW_FAILED }, TASK_FAILED },
        { HANDLED, { FLOW_FAILED, FLOW_SKIPPED }, TASK_FAILED },
        { HANDLED, { FLOW_CANCELLED, FLOW_SKIPPED }, TASK_FAILED },
        { "{\"steps\":[{\"name\":\"a\"},{\"name\":\"all\",\"depends_on\":[{\"step\":\"*\",\"type\":\"MUST_FAIL\"}]}]}",
          { FLOW_FAILED, FLOW_COMPLETED },
          TASK_FAILED },
        { "{\"steps\":[{\"name\":\"a\",\"may_fail\":true},{\"name\":\"b\",\"depends_on\":[\"a\"]}]}",
          { FLOW_FAILED, FLOW_OPEN },
          TASK_COMPLETED },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct fixture f;
        struct flow_state s;
        setup(&f, rows[i].definition);
        assert_ok(flow_state(f.d, rows[i].ends, &f.a, &s, &f.e), &f.e);
        assert_int_equal(flow_result(f.d, &s, FLOW_NOT_STOPPED, true).state, rows[i].state);
        release(&f);
    }
}

static void a_run_ends_by_its_stop_its_steps_or_its_result(void **state)
{
    (void)state;
    struct fixture f;
    struct flow_state s;
    enum flow_outcome good[] = { FLOW_COMPLETED, FLOW_OPEN };
    setup(&f, HANDLED);
    assert_ok(flow_state(f.d, good, &f.a, &s, &f.e), &f.e);
    assert_int_equal(s.v[1].outcome, FLOW_SKIPPED);
    assert_int_equal(flow_result(f.d, &s, FLOW_NOT_STOPPED, true).state, TASK_COMPLETED);
    assert_int_equal(flow_result(f.d, &s, FLOW_NOT_STOPPED, false).state, TASK_FAILED);
    assert_int_equal(flow_result(f.d, &s, FLOW_NOT_STOPPED, false).cause, FLOW_CAUSE_RESULT);
    assert_int_equal(flow_result(f.d, &s, FLOW_STOP_CANCEL, true).state, TASK_CANCELLED);
    assert_int_equal(flow_result(f.d, &s, FLOW_STOP_DEADLINE, true).state, TASK_FAILED);
    assert_int_equal(flow_result(f.d, &s, FLOW_STOP_DEADLINE, true).cause, FLOW_CAUSE_DEADLINE);
    release(&f);
}

/* ---- awaits ---- */

static void an_await_goes_by_the_first_that_decides(void **state)
{
    (void)state;
    const bool approve_approve_reject[] = { false, false, true }, approve_reject[] = { false, true };
    assert_int_equal(flow_await(1, NULL, 0), FLOW_OPEN);
    assert_int_equal(flow_await(2, approve_approve_reject, 1), FLOW_OPEN);
    assert_int_equal(flow_await(2, approve_approve_reject, 3), FLOW_COMPLETED);
    assert_int_equal(flow_await(3, approve_approve_reject, 3), FLOW_FAILED);
    assert_int_equal(flow_await(2, approve_reject, 2), FLOW_FAILED);
}

/* ---- again ---- */

static void only_what_failed_can_be_retried(void **state)
{
    (void)state;
    struct fixture f;
    enum flow_outcome was[] = { FLOW_COMPLETED, FLOW_FAILED, FLOW_COMPLETED, FLOW_OPEN }, kept[4];
    uint32_t a = 0, d = 3;
    setup(&f, DIAMOND);
    struct flow_retry r = { .was = was, .steps = &a, .count = 1 };
    assert_int_equal(flow_retry(f.d, &r, &f.a, kept, &f.e), ERR_CONFLICT);
    assert_says(&f.e, "the step 'a' is COMPLETED; only FAILED, EXPIRED and CANCELLED steps can be retried");
    r.steps = &d;
    assert_int_equal(flow_retry(f.d, &r, &f.a, kept, &f.e), ERR_CONFLICT);
    assert_says(&f.e, "the step 'd' is SKIPPED");
    was[1] = FLOW_OPEN;
    assert_int_equal(flow_retry(f.d, &r, &f.a, kept, &f.e), ERR_CONFLICT);
    assert_says(&f.e, "the step 'd' is open");
    release(&f);
}

static void a_forced_completion_releases_what_was_skipped_below(void **state)
{
    (void)state;
    struct fixture f;
    struct flow_state s;
    enum flow_outcome was[] = { FLOW_COMPLETED, FLOW_FAILED, FLOW_COMPLETED, FLOW_OPEN }, kept[4];
    uint32_t b = 1;
    setup(&f, DIAMOND);
    struct flow_retry r = { .was = was, .steps = &b, .count = 1, .completes = true };
    assert_ok(flow_retry(f.d, &r, &f.a, kept, &f.e), &f.e);
    assert_int_equal(kept[1], FLOW_COMPLETED);
    assert_int_equal(kept[3], FLOW_OPEN);
    assert_ok(flow_state(f.d, kept, &f.a, &s, &f.e), &f.e);
    assert_int_equal(s.v[3].decision, FLOW_START);
    release(&f);
}

/* ---- compensation ---- */

static void compensations_go_upwards_in_waves(void **state)
{
    (void)state;
    struct fixture f;
    struct flow_undo u;
    enum flow_reach reach[] = { FLOW_DONE, FLOW_DONE, FLOW_DONE, FLOW_SENT, FLOW_SENT };
    setup(&f, "{\"steps\":[{\"name\":\"a\",\"compensate\":{}},{\"name\":\"b\",\"depends_on\":[\"a\"]},"
              "{\"name\":\"c\",\"depends_on\":[\"b\"],\"compensate\":{}},"
              "{\"name\":\"d\",\"depends_on\":[\"c\"],\"compensate\":{}},"
              "{\"name\":\"e\",\"depends_on\":[\"a\"],\"compensate\":{\"if_attempted\":true}}]}");
    assert_ok(flow_undo(f.d, reach, &f.a, &u, &f.e), &f.e);
    assert_int_equal(u.waves, 2);
    assert_int_equal(u.n, 3); /* b has none; d was sent only */
    assert_int_equal(u.wave_from[1], 2);
    assert_int_equal(u.steps[0], 2);
    assert_int_equal(u.steps[1], 4);
    assert_int_equal(u.steps[2], 0);
    enum flow_reach none[5] = { FLOW_UNTOUCHED };
    assert_ok(flow_undo(f.d, none, &f.a, &u, &f.e), &f.e);
    assert_int_equal(u.waves + u.n, 0);
    release(&f);
}

static void ids_rise_with_items_and_differ_for_all_places(void **state)
{
    (void)state;
    struct uuid run = uuid_derived(1700000000000, S("run")), last = uuid_floor(1700000000000);
    for (int64_t item = -1; item < DAG_ITEMS_MAX; item++) {
        struct uuid id = place_id(run, place_of_item(7, item)), undo = place_id(run, place_of_undo(7, item));
        assert_true(uuid_cmp(last, id) < 0 && uuid_cmp(last, undo) < 0 && !uuid_eq(id, undo));
        last = uuid_cmp(id, undo) < 0 ? undo : id;
    }
    for (uint32_t step = 0; step + 4 < DAG_STEPS_MAX; step++) {
        struct uuid id = place_id(run, place_of_step(step));
        assert_true(uuid_cmp(id, place_id(run, place_of_step(step + 4))) < 0);
        for (uint32_t i = 1; i < 4; i++)
            assert_false(uuid_eq(id, place_id(run, place_of_step(step + i))));
    }
    assert_false(uuid_eq(place_id(run, place_of_step(0)), place_id(run, place_of_deadline())));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edge_is_met_or_broken_by_its_type),
        cmocka_unit_test(a_join_is_decided_by_counts),
        cmocka_unit_test(decisions_over_a_run_need_memory),
        cmocka_unit_test(a_run_counts_the_steps_that_no_child_waits_for),
        cmocka_unit_test(a_retry_repeats_a_failed_step_and_keeps_its_handler),
        cmocka_unit_test(a_handled_failure_fails_no_run),
        cmocka_unit_test(a_run_ends_by_its_stop_its_steps_or_its_result),
        cmocka_unit_test(an_await_goes_by_the_first_that_decides),
        cmocka_unit_test(only_what_failed_can_be_retried),
        cmocka_unit_test(a_forced_completion_releases_what_was_skipped_below),
        cmocka_unit_test(compensations_go_upwards_in_waves),
        cmocka_unit_test(ids_rise_with_items_and_differ_for_all_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
