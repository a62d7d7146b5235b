/* What is left of arrivals is applied: at the start, when an operation says so, and with a beat on a shared store. */
#include "node/arrivals.h"

#include "both_at.h"
#include "check.h"

#define NOW 1772532000000LL

struct world {
    struct writer writer;
    struct op *op; /* the one in flight */
    struct arrivals *arrivals;
    uint64_t unblocked;
};

static struct world the_world;

static void submit(struct writer *w, struct op *op)
{
    (void)w;
    assert_null(the_world.op);
    the_world.op = op;
}

static void unblocked(void *context, uint64_t lanes)
{
    ((struct world *)context)->unblocked |= lanes;
}

static void open_world(bool shared)
{
    static const struct writer_ops ops = { submit };
    the_world = (struct world){ .writer.ops = &ops };
    the_world.arrivals = arrivals_new(&(struct arrivals_setup){
        .writer = &the_world.writer, .shared = shared, .unblocked = unblocked, .context = &the_world });
}

static int64_t step(int64_t ms)
{
    return arrivals_step(the_world.arrivals, both_at(NOW + ms), true);
}

static void answer(enum err rc, size_t applied, bool more)
{
    assert_non_null(the_world.op);
    assert_int_equal(the_world.op->kind, OP_ARRIVE);
    struct op_arrive *op = (struct op_arrive *)take(the_world.op);
    op->op.rc = rc;
    op->ret_applied = applied;
    op->ret_more = more;
    op->ret_unblocked_lanes = applied ? 4 : 0;
    op->op.done(&op->op);
}

static void a_node_asks_at_its_start_and_sleeps_if_it_is_alone(void **state)
{
    (void)state;
    open_world(false);
    assert_true(arrivals_step(the_world.arrivals, both_at(NOW), false) == INT64_MAX);
    assert_null(the_world.op); /* it has not joined yet */
    step(1);
    assert_int_equal(((struct op_arrive *)the_world.op)->now_ms, NOW + 1);
    assert_false(arrivals_is_idle(the_world.arrivals));
    answer(ERR_OK, 0, false);
    assert_true(step(60000) == INT64_MAX);
    assert_null(the_world.op);
    assert_true(arrivals_is_idle(the_world.arrivals));
    arrivals_ask(the_world.arrivals);
    step(60001);
    answer(ERR_OK, 3, false);
    assert_true(the_world.unblocked == 4);
    arrivals_free(the_world.arrivals);
}

static void it_goes_on_while_there_is_more(void **state)
{
    (void)state;
    open_world(false);
    step(0);
    answer(ERR_OK, 250, true);
    step(0);
    answer(ERR_OK, 0, true); /* others have the children: not at once */
    assert_true(step(1) == NOW + ARRIVALS_RETRY_MS);
    assert_null(the_world.op);
    step(ARRIVALS_RETRY_MS);
    arrivals_ask(the_world.arrivals); /* something more is left while it is under way */
    answer(ERR_OK, 0, false);
    step(ARRIVALS_RETRY_MS + 1);
    answer(ERR_UNAVAILABLE, 0, false);
    step(ARRIVALS_RETRY_MS + 2);
    assert_null(the_world.op);
    step(ARRIVALS_RETRY_MS + 1 + ARRIVALS_FAILED_MS);
    answer(ERR_OK, 0, false);
    arrivals_free(the_world.arrivals);
}

static void on_a_shared_store_it_looks_for_what_others_left(void **state)
{
    (void)state;
    open_world(true);
    step(0);
    answer(ERR_OK, 0, false);
    assert_true(step(1) == NOW + ARRIVALS_ASK_MS);
    step(ARRIVALS_ASK_MS);
    answer(ERR_OK, 0, false);
    arrivals_free(the_world.arrivals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_asks_at_its_start_and_sleeps_if_it_is_alone),
        cmocka_unit_test(it_goes_on_while_there_is_more),
        cmocka_unit_test(on_a_shared_store_it_looks_for_what_others_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
