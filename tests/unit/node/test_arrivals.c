/* What is left of arrivals is applied: at the start, when an operation says so, and with a beat on a shared store. */
#include "node/arrivals.h"

#include "both_at.h"
#include "check.h"

#define NOW 1772532000000LL

struct desk {
    struct writer writer;
    struct op *op; /* the one in flight */
    struct arrivals *arrivals;
    uint64_t unblocked;
};

static struct desk the_desk;

static void submit(struct writer *w, struct op *op)
{
    (void)w;
    assert_null(the_desk.op);
    the_desk.op = op;
}

static void unblocked(void *context, uint64_t lanes)
{
    ((struct desk *)context)->unblocked |= lanes;
}

static void open_desk(bool shared)
{
    static const struct writer_ops ops = { submit };
    the_desk = (struct desk){ .writer.ops = &ops };
    the_desk.arrivals = arrivals_new(&(struct arrivals_setup){
        .writer = &the_desk.writer, .shared = shared, .unblocked = unblocked, .context = &the_desk });
}

static int64_t step(int64_t ms)
{
    return arrivals_step(the_desk.arrivals, both_at(NOW + ms), true);
}

static void answer(enum err rc, size_t applied, bool more)
{
    assert_non_null(the_desk.op);
    assert_int_equal(the_desk.op->kind, OP_ARRIVE);
    struct op_arrive *op = (struct op_arrive *)take(the_desk.op);
    op->op.rc = rc;
    op->ret_applied = applied;
    op->ret_more = more;
    op->ret_unblocked_lanes = applied ? 4 : 0;
    op->op.done(&op->op);
}

static void a_node_asks_at_its_start_and_sleeps_if_it_is_alone(void **state)
{
    (void)state;
    open_desk(false);
    assert_true(arrivals_step(the_desk.arrivals, both_at(NOW), false) == INT64_MAX);
    assert_null(the_desk.op); /* it has not joined yet */
    step(1);
    assert_int_equal(((struct op_arrive *)the_desk.op)->now_ms, NOW + 1);
    assert_false(arrivals_is_idle(the_desk.arrivals));
    answer(ERR_OK, 0, false);
    assert_true(step(60000) == INT64_MAX);
    assert_null(the_desk.op);
    assert_true(arrivals_is_idle(the_desk.arrivals));
    arrivals_ask(the_desk.arrivals);
    step(60001);
    answer(ERR_OK, 3, false);
    assert_true(the_desk.unblocked == 4);
    arrivals_free(the_desk.arrivals);
}

static void it_goes_on_while_there_is_more(void **state)
{
    (void)state;
    open_desk(false);
    step(0);
    answer(ERR_OK, 250, true);
    step(0);
    answer(ERR_OK, 0, true); /* others have the children: not at once */
    assert_true(step(1) == NOW + ARRIVALS_RETRY_MS);
    assert_null(the_desk.op);
    step(ARRIVALS_RETRY_MS);
    arrivals_ask(the_desk.arrivals); /* something more is left while it is under way */
    answer(ERR_OK, 0, false);
    step(ARRIVALS_RETRY_MS + 1);
    answer(ERR_UNAVAILABLE, 0, false);
    step(ARRIVALS_RETRY_MS + 2);
    assert_null(the_desk.op);
    step(ARRIVALS_RETRY_MS + 1 + ARRIVALS_FAILED_MS);
    answer(ERR_OK, 0, false);
    arrivals_free(the_desk.arrivals);
}

static void on_a_shared_store_it_looks_for_what_others_left(void **state)
{
    (void)state;
    open_desk(true);
    step(0);
    answer(ERR_OK, 0, false);
    assert_true(step(1) == NOW + ARRIVALS_ASK_MS);
    step(ARRIVALS_ASK_MS);
    answer(ERR_OK, 0, false);
    arrivals_free(the_desk.arrivals);
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
