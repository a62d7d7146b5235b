/* One operation is in flight, and the next one waits for its steady time. */
#include "both_at.h"
#include "check.h"
#include "node/pending_op.h"

#define NOW 1772532000000LL

enum { ARENA = 4096, RETRY_MS = 200 };

static struct op *submitted;

static void submit(struct writer *w, struct op *op)
{
    (void)w;
    submitted = op;
}

static const struct writer_ops ops = { submit };
static struct writer writer = { &ops };

static void one_is_sent_at_a_time(void **state)
{
    (void)state;
    struct pending_op p = { 0 };
    struct op op = { .kind = OP_RUNNING };
    assert_true(pending_op_may_send(&p, both_at(NOW)));
    pending_op_send(&p, &writer, &op, ARENA);
    assert_ptr_equal(submitted, &op);
    assert_false(pending_op_may_send(&p, both_at(NOW)));
    assert_true(pending_op_wake(&p, both_at(NOW)) == INT64_MAX);
    pending_op_end(&p, &op);
    assert_true(pending_op_may_send(&p, both_at(NOW)));
}

static void the_next_one_waits_for_its_time(void **state)
{
    (void)state;
    struct pending_op p = { 0 };
    pending_op_wait(&p, both_at(NOW), RETRY_MS);
    assert_false(pending_op_may_send(&p, both_at(NOW + RETRY_MS - 1)));
    assert_int_equal(pending_op_wake(&p, both_at(NOW)), NOW + RETRY_MS);
    assert_true(pending_op_may_send(&p, both_at(NOW + RETRY_MS)));
}

static void who_sets_the_wall_clock_changes_no_wait(void **state)
{
    (void)state;
    struct pending_op p = { 0 };
    pending_op_wait(&p, both_at(NOW), RETRY_MS);
    struct moment back = { NOW - 3600000, NOW + 50 }, ahead = { NOW + 3600000, NOW + 50 };
    assert_false(pending_op_may_send(&p, ahead));
    assert_int_equal(pending_op_wake(&p, ahead), ahead.wall_ms + RETRY_MS - 50);
    assert_int_equal(pending_op_wake(&p, back), back.wall_ms + RETRY_MS - 50);
    back.steady_ms += RETRY_MS;
    assert_true(pending_op_may_send(&p, back));
}

static void one_without_a_time_waits_for_somebody_to_set_it(void **state)
{
    (void)state;
    struct pending_op p = { .next_at_ms = INT64_MAX };
    assert_false(pending_op_may_send(&p, both_at(NOW)));
    assert_true(pending_op_wake(&p, both_at(NOW)) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_sent_at_a_time),
        cmocka_unit_test(the_next_one_waits_for_its_time),
        cmocka_unit_test(who_sets_the_wall_clock_changes_no_wait),
        cmocka_unit_test(one_without_a_time_waits_for_somebody_to_set_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
