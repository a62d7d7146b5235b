#include "check.h"

#include "model/store_faults.h"

/* A store that takes notes: which operations were applied, call by call. */
struct notes {
    struct store base;
    size_t calls, applied;
    enum err rc; /* of the next call */
    struct op *last[8];
    size_t last_count;
    bool freed;
};

static struct task one_task;

static enum err notes_apply(struct store *s, struct op *const *ops, size_t n, struct error *e)
{
    struct notes *notes = container_of(s, struct notes, base);
    notes->calls++;
    notes->last_count = n;
    memcpy(notes->last, ops, n * sizeof(struct op *));
    if (notes->rc != ERR_OK)
        return error_set(e, notes->rc, "its own failure");
    notes->applied += n;
    for (size_t i = 0; i < n; i++) {
        ops[i]->rc = ERR_OK;
        if (ops[i]->kind == OP_ORPHANS)
            ((struct op_orphans *)ops[i])->ret = (struct tasks){ &one_task, 1 };
    }
    return ERR_OK;
}

static struct reader the_reader;

static enum err notes_reader(struct store *s, struct reader **ret, struct error *e)
{
    (void)s, (void)e;
    *ret = &the_reader;
    return ERR_OK;
}

static void notes_free(struct store *s)
{
    container_of(s, struct notes, base)->freed = true;
}

struct world {
    struct notes notes;
    struct store_faults *faults;
    struct store *store;
    struct op_orphans v[3];
    struct op *ops[3];
    struct error e;
};

static void world_init(struct world *w)
{
    static const struct store_ops ops = { .apply = notes_apply, .reader = notes_reader, .free = notes_free };
    *w = (struct world){ .notes.base.ops = &ops };
    w->store = store_faults_new(&w->notes.base, &w->faults);
    for (size_t i = 0; i < array_count(w->v); i++) {
        w->v[i].op.kind = OP_ORPHANS;
        w->ops[i] = &w->v[i].op;
    }
}

static enum err apply(struct world *w)
{
    return store_apply(w->store, w->ops, array_count(w->ops), &w->e);
}

static void plan(struct world *w, struct store_fault fault)
{
    store_faults_plan(w->faults, &fault, 1);
}

static void without_a_plan_everything_goes_through(void **state)
{
    (void)state;
    struct world w;
    struct reader *r = NULL;
    world_init(&w);
    assert_ok(apply(&w), &w.e);
    assert_int_equal(w.notes.applied, 3);
    assert_int_equal(w.v[2].ret.n, 1);
    assert_ok(store_reader(w.store, &r, &w.e), &w.e);
    assert_ptr_equal(r, &the_reader);
    assert_int_equal(store_faults_calls(w.faults), 1);
    assert_int_equal(store_faults_left(w.faults), 0);
    store_free(w.store);
    assert_true(w.notes.freed);
}

static void fault_before_leaves_the_store_alone(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    plan(&w, (struct store_fault){ .kind = FAULT_BEFORE, .times = 2 });
    assert_int_equal(store_faults_left(w.faults), 2);
    assert_int_equal(apply(&w), ERR_UNAVAILABLE);
    assert_int_equal(w.e.code, ERR_UNAVAILABLE);
    assert_string_equal(w.e.text, "injected: the store is down");
    assert_int_equal(apply(&w), ERR_UNAVAILABLE);
    assert_int_equal(w.notes.calls, 0);
    assert_int_equal(store_faults_left(w.faults), 0);
    assert_ok(apply(&w), &w.e);
    assert_int_equal(w.notes.applied, 3);
    plan(&w, (struct store_fault){ .kind = FAULT_BEFORE, .code = ERR_CORRUPT });
    assert_int_equal(apply(&w), ERR_CORRUPT);
    store_free(w.store);
}

static void fault_after_applies_and_loses_the_answer(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    plan(&w, (struct store_fault){ .kind = FAULT_AFTER });
    assert_int_equal(apply(&w), ERR_UNAVAILABLE);
    assert_string_equal(w.e.text, "injected: the answer to the commit was lost");
    assert_int_equal(w.notes.applied, 3);
    assert_int_equal(w.v[0].ret.n, 0);
    assert_null(w.v[0].ret.v);
    w.notes.rc = ERR_LIMIT;
    plan(&w, (struct store_fault){ .kind = FAULT_AFTER });
    assert_int_equal(apply(&w), ERR_LIMIT); /* nothing was committed whose answer could get lost */
    assert_string_equal(w.e.text, "its own failure");
    store_free(w.store);
}

static void operations_without_results_survive_a_lost_answer(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    struct op_put put = { .op.kind = OP_PUT, .version = 7 };
    struct op *ops[] = { &put.op };
    plan(&w, (struct store_fault){ .kind = FAULT_AFTER });
    assert_int_equal(store_apply(w.store, ops, 1, &w.e), ERR_UNAVAILABLE);
    assert_int_equal(put.op.kind, OP_PUT);
    assert_int_equal(put.version, 7);
    store_free(w.store);
}

static void fault_of_one_operation_spares_the_others(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    plan(&w, (struct store_fault){ .kind = FAULT_OP, .op = 1, .code = ERR_CONFLICT });
    assert_ok(apply(&w), &w.e);
    assert_int_equal(w.notes.last_count, 2);
    assert_ptr_equal(w.notes.last[0], w.ops[0]);
    assert_ptr_equal(w.notes.last[1], w.ops[2]);
    assert_int_equal(w.v[0].op.rc, ERR_OK);
    assert_int_equal(w.v[1].op.rc, ERR_CONFLICT);
    assert_string_equal(w.v[1].op.error.text, "injected: this operation fails");
    assert_int_equal(w.v[2].op.rc, ERR_OK);
    plan(&w, (struct store_fault){ .kind = FAULT_OP, .op = 3 });
    assert_ok(apply(&w), &w.e);
    assert_int_equal(w.notes.last_count, 3);
    plan(&w, (struct store_fault){ .kind = FAULT_OP });
    assert_ok(store_apply(w.store, w.ops, 1, &w.e), &w.e); /* alone: there is nothing to apply */
    assert_int_equal(w.notes.calls, 2);
    assert_int_equal(w.v[0].op.rc, ERR_UNAVAILABLE);
    store_free(w.store);
}

static void failing_store_is_heard_through_the_fault_of_one_operation(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.notes.rc = ERR_CORRUPT;
    plan(&w, (struct store_fault){ .kind = FAULT_OP });
    assert_int_equal(apply(&w), ERR_CORRUPT);
    assert_string_equal(w.e.text, "its own failure");
    assert_int_equal(w.v[0].op.rc, ERR_OK);
    store_free(w.store);
}

static void steps_come_one_after_the_other_and_a_new_plan_replaces_them(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    static const struct store_fault steps[] = { { FAULT_NONE, .times = 2 },
                                                { FAULT_BEFORE },
                                                { FAULT_AFTER, .times = 5 } };
    static const enum err expected[] = { ERR_OK, ERR_OK, ERR_UNAVAILABLE, ERR_UNAVAILABLE };
    store_faults_plan(w.faults, steps, array_count(steps));
    assert_int_equal(store_faults_left(w.faults), 8);
    for (size_t i = 0; i < array_count(expected); i++)
        assert_int_equal(apply(&w), expected[i]);
    assert_int_equal(w.notes.calls, 3);
    assert_int_equal(store_faults_calls(w.faults), 4);
    assert_int_equal(store_faults_left(w.faults), 4);
    store_faults_plan(w.faults, NULL, 0);
    assert_int_equal(store_faults_left(w.faults), 0);
    assert_ok(apply(&w), &w.e);
    store_free(w.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_plan_everything_goes_through),
        cmocka_unit_test(fault_before_leaves_the_store_alone),
        cmocka_unit_test(fault_after_applies_and_loses_the_answer),
        cmocka_unit_test(operations_without_results_survive_a_lost_answer),
        cmocka_unit_test(fault_of_one_operation_spares_the_others),
        cmocka_unit_test(failing_store_is_heard_through_the_fault_of_one_operation),
        cmocka_unit_test(steps_come_one_after_the_other_and_a_new_plan_replaces_them),
    };
    return cmocka_run_group_tests_name("store_faults", tests, NULL, NULL);
}
