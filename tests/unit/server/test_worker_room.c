#include "check.h"
#include "server/worker_room.h"

static void little_memory_left_or_a_great_load_is_full(void **state)
{
    (void)state;
    struct machine m = { .cpu_milli = 2000, .memory_mb = 1000, .memory_used_mb = 900, .load = 64 };
    assert_int_equal(worker_room_lack(&m), WORKER_LACKS_NOTHING);
    assert_null(worker_lack_name(WORKER_LACKS_NOTHING));
    m.memory_used_mb = 901;
    assert_string_equal(worker_lack_name(worker_room_lack(&m)), "memory");
    m.memory_used_mb = 0;
    m.load = 64.1;
    assert_string_equal(worker_lack_name(worker_room_lack(&m)), "load");
}

static void unknown_memory_is_not_full(void **state)
{
    (void)state;
    assert_int_equal(worker_room_lack(&(struct machine){ .cpu_milli = 1000, .memory_used_mb = 5 }),
                     WORKER_LACKS_NOTHING);
}

static void a_great_load_leaves_room_for_one_task_and_full_memory_for_none(void **state)
{
    (void)state;
    assert_true(worker_room_may_take(WORKER_LACKS_NOTHING, 7));
    assert_true(worker_room_may_take(WORKER_LACKS_CPU, 0));
    assert_false(worker_room_may_take(WORKER_LACKS_CPU, 1));
    assert_false(worker_room_may_take(WORKER_LACKS_MEMORY, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_memory_left_or_a_great_load_is_full),
        cmocka_unit_test(unknown_memory_is_not_full),
        cmocka_unit_test(a_great_load_leaves_room_for_one_task_and_full_memory_for_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
