/* Claims that a queue has are recorded in the store, however often that fails. */
#include <stdlib.h>

#include "both_at.h"
#include "check.h"
#include "node/fleet/handoff.h"

#define NOW 1772532000000LL

struct world {
    struct writer writer;
    struct op *op; /* the one in flight */
    struct handoff *handoff;
    struct uuid node;
    int refused;
};

static struct world *the_world;

static void submit(struct writer *w, struct op *op)
{
    (void)w;
    assert_null(the_world->op);
    the_world->op = op;
}

static void refused(void *context)
{
    ((struct world *)context)->refused++;
}

static int setup(void **state)
{
    static const struct writer_ops ops = { submit };
    struct world *d = the_world = xnew(*d);
    d->writer.ops = &ops;
    d->node.b[0] = 5;
    d->handoff = handoff_new(
        &(struct handoff_setup){ .writer = &d->writer, .node = &d->node, .refused = refused, .context = d });
    *state = d;
    return 0;
}

static const struct op_handoff *asked(const struct world *d)
{
    assert_non_null(d->op);
    assert_int_equal(d->op->kind, OP_HANDOFF);
    return (const struct op_handoff *)d->op;
}

static void answer(struct world *d, enum err rc)
{
    struct op *op = take(d->op);
    op->rc = rc;
    if (rc)
        error_set(&op->error, rc, "no");
    op->done(op);
}

static int teardown(void **state)
{
    struct world *d = *state;
    handoff_free(d->handoff);
    free(d);
    return 0;
}

static struct uuid claim(int n)
{
    return (struct uuid){ { (uint8_t)n } };
}

static void many_claims_are_one_operation(void **state)
{
    struct world *d = *state;
    handoff_claim(d->handoff, claim(1), 11);
    handoff_claim(d->handoff, claim(2), 12);
    assert_false(handoff_is_idle(d->handoff));
    handoff_step(d->handoff, both_at(NOW));
    assert_int_equal(asked(d)->n, 2);
    assert_true(asked(d)->epochs[0] == 11 && asked(d)->epochs[1] == 12); /* of the queue that has them */
    assert_true(uuid_eq(asked(d)->node, d->node));
    handoff_claim(d->handoff, claim(3), 13);
    handoff_step(d->handoff, both_at(NOW));
    answer(d, ERR_OK);
    handoff_step(d->handoff, both_at(NOW));
    assert_int_equal(asked(d)->n, 1);
    assert_true(uuid_eq(asked(d)->claims[0], claim(3)) && asked(d)->epochs[0] == 13);
    answer(d, ERR_OK);
    assert_true(handoff_is_idle(d->handoff));
    assert_true(handoff_step(d->handoff, both_at(NOW)) == INT64_MAX);
}

static void one_that_failed_is_asked_again(void **state)
{
    struct world *d = *state;
    handoff_claim(d->handoff, claim(1), 11);
    handoff_step(d->handoff, both_at(NOW));
    answer(d, ERR_UNAVAILABLE);
    int64_t at_ms = handoff_step(d->handoff, both_at(NOW));
    assert_null(d->op);
    assert_true(at_ms > NOW && at_ms < NOW + 1000);
    handoff_step(d->handoff, both_at(at_ms));
    assert_int_equal(asked(d)->n, 1);
    answer(d, ERR_OK);
    assert_true(handoff_is_idle(d->handoff));
}

static void who_is_dead_is_told_and_hands_nothing_over(void **state)
{
    struct world *d = *state;
    handoff_claim(d->handoff, claim(1), 11);
    handoff_step(d->handoff, both_at(NOW));
    answer(d, ERR_CONFLICT);
    assert_int_equal(d->refused, 1);
    handoff_forget(d->handoff);
    handoff_step(d->handoff, both_at(NOW + 5000));
    assert_null(d->op);
    assert_true(handoff_is_idle(d->handoff));
}

static void what_was_asked_for_before_it_was_forgotten_is_not_counted_among_the_next(void **state)
{
    struct world *d = *state;
    handoff_claim(d->handoff, claim(1), 11);
    handoff_claim(d->handoff, claim(2), 12);
    handoff_step(d->handoff, both_at(NOW));
    handoff_forget(d->handoff);
    handoff_claim(d->handoff, claim(3), 13);
    answer(d, ERR_OK);
    handoff_step(d->handoff, both_at(NOW));
    assert_int_equal(asked(d)->n, 1);
    assert_true(uuid_eq(asked(d)->claims[0], claim(3)));
    answer(d, ERR_OK);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(many_claims_are_one_operation),
        T(one_that_failed_is_asked_again),
        T(who_is_dead_is_told_and_hands_nothing_over),
        T(what_was_asked_for_before_it_was_forgotten_is_not_counted_among_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
