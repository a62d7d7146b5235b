/* core/sharing/class_slots: how many of n places each priority class may take. */
#include "core/sharing/class_slots.h"

#include "check.h"
#include "seed.h"

static struct class_slots room_of(size_t n, size_t low, size_t normal, size_t high)
{
    return class_slots_of(n, (const size_t[CLASSES]){ low, normal, high });
}

static void assert_room(struct class_slots r, size_t low, size_t normal, size_t high)
{
    assert_int_equal(class_slots_for(&r, CLASS_LOW), low);
    assert_int_equal(class_slots_for(&r, CLASS_NORMAL), normal);
    assert_int_equal(class_slots_for(&r, CLASS_HIGH), high);
}

static void a_tenth_is_kept_from_lower_classes(void **state)
{
    (void)state;
    assert_room(room_of(100, 0, 0, 0), 80, 90, 100);
    assert_room(room_of(100, 80, 0, 0), 0, 10, 20);
    assert_room(room_of(100, 80, 10, 0), 0, 0, 10);
    assert_room(room_of(100, 80, 10, 10), 0, 0, 0);
}

static void a_class_that_uses_its_tenth_keeps_nothing(void **state)
{
    (void)state;
    assert_room(room_of(100, 0, 10, 10), 80, 80, 80);
    assert_room(room_of(100, 0, 40, 50), 10, 10, 10);
    assert_room(room_of(100, 0, 4, 7), 80, 86, 89); /* 6 and 3 are still kept */
}

static void with_fewer_than_ten_places_nothing_is_kept(void **state)
{
    (void)state;
    assert_room(room_of(9, 0, 0, 0), 9, 9, 9);
    assert_room(room_of(1, 0, 0, 0), 1, 1, 1);
    assert_room(room_of(1, 1, 0, 0), 0, 0, 0);
    assert_room(room_of(0, 0, 0, 0), 0, 0, 0);
    assert_room(room_of(10, 0, 0, 0), 8, 9, 10);
    assert_room(room_of(19, 0, 0, 0), 17, 18, 19);
}

static void more_than_there_are_places_leave_none(void **state)
{
    (void)state;
    assert_room(room_of(10, 20, 0, 0), 0, 0, 0);
    assert_room(room_of(10, 4, 4, 4), 0, 0, 0);
    assert_room(room_of(10, SIZE_MAX, SIZE_MAX, 1), 0, 0, 0);
}

static void a_task_takes_a_place_and_one_of_those_kept_for_its_class(void **state)
{
    (void)state;
    struct class_slots r = room_of(20, 0, 0, 0);
    class_slots_take(&r, CLASS_HIGH, 1);
    assert_room(r, 16, 18, 19); /* its place was kept: nobody else has less */
    class_slots_take(&r, CLASS_HIGH, 2);
    assert_room(r, 15, 17, 17); /* the second of these was not */
    class_slots_take(&r, CLASS_LOW, 15);
    assert_room(r, 0, 2, 2);
}

static void the_lowest_class_with_room_is_named(void **state)
{
    (void)state;
    struct class_slots r = room_of(20, 0, 0, 0);
    assert_int_equal(class_slots_lowest(&r), CLASS_LOW);
    class_slots_take(&r, CLASS_LOW, 16);
    assert_int_equal(class_slots_lowest(&r), CLASS_NORMAL);
    class_slots_take(&r, CLASS_NORMAL, 2);
    assert_int_equal(class_slots_lowest(&r), CLASS_HIGH);
    class_slots_take(&r, CLASS_HIGH, 2);
    assert_int_equal(class_slots_lowest(&r), CLASSES);
}

static void places_beyond_a_limit_are_the_first_that_are_kept(void **state)
{
    (void)state;
    struct class_slots r = room_of(5000, 0, 0, 0);
    assert_room(class_slots_limit(&r, 1024), 1024, 1024, 1024);
    r = room_of(5000, 3500, 0, 0); /* of 1500 free places 500 are for anybody */
    assert_room(class_slots_limit(&r, 1024), 500, 1000, 1024);
    assert_room(class_slots_limit(&r, 5000), 500, 1000, 1500);
}

static void what_is_given_away_is_not_left(void **state)
{
    (void)state;
    struct class_slots r = room_of(100, 30, 0, 5), part = class_slots_limit(&r, 60);
    assert_room(class_slots_without(&r, &part), 0, 0, 5);
    assert_room(class_slots_without(&r, &r), 0, 0, 0);
    assert_room(class_slots_without(&r, &(struct class_slots){ .free = 10 }), 40, 50, 55);
    assert_room(class_slots_without(&r, &(struct class_slots){ .free = 1000 }), 0, 0, 0);
    /* 2 of 3 free places are given away; of the 3 that are kept, 2 with them */
    r = room_of(20, 16, 0, 1);
    part = class_slots_without(&r, &(struct class_slots){ .free = 1 });
    assert_room(class_slots_without(&r, &part), 0, 0, 1);
}

/* Whatever is taken, in whatever order: a lower class never takes a place that a higher one needs for its tenth. */
static void tasks_taken_one_by_one_leave_the_same_room(void **state)
{
    (void)state;
    struct prng random = seeded_prng("class_slots");
    for (int round = 0; round < 1000; round++) {
        size_t n = prng_below(&random, 60), running[CLASSES] = { 0 };
        struct class_slots r = class_slots_of(n, running);
        for (int i = 0; i < 200; i++) {
            enum priority_class c = (enum priority_class)prng_below(&random, CLASSES);
            if (class_slots_for(&r, c)) {
                class_slots_take(&r, c, 1);
                running[c]++;
            }
            struct class_slots again = class_slots_of(n, running);
            assert_memory_equal(&r, &again, sizeof r);
        }
        assert_true(running[CLASS_LOW] + running[CLASS_NORMAL] <= n - n / 10);
        assert_true(running[CLASS_LOW] <= n - 2 * (n / 10));
    }
}

/* Taking within a limit leads nowhere that taking without it would not. */
static void a_limit_gives_no_class_more(void **state)
{
    (void)state;
    struct prng random = seeded_prng("class_slots_limit");
    for (int round = 0; round < 1000; round++) {
        size_t running[CLASSES];
        for (int c = 0; c < CLASSES; c++)
            running[c] = prng_below(&random, 40);
        struct class_slots all = class_slots_of(prng_below(&random, 100), running);
        size_t max = prng_below(&random, 60);
        struct class_slots part = class_slots_limit(&all, max);
        for (int i = 0; i < 80; i++) {
            enum priority_class c = (enum priority_class)prng_below(&random, CLASSES);
            assert_int_equal(class_slots_for(&part, c), min_of(class_slots_for(&all, c), part.free));
            if (!class_slots_for(&part, c))
                continue;
            class_slots_take(&part, c, 1);
            class_slots_take(&all, c, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenth_is_kept_from_lower_classes),
        cmocka_unit_test(a_class_that_uses_its_tenth_keeps_nothing),
        cmocka_unit_test(with_fewer_than_ten_places_nothing_is_kept),
        cmocka_unit_test(more_than_there_are_places_leave_none),
        cmocka_unit_test(a_task_takes_a_place_and_one_of_those_kept_for_its_class),
        cmocka_unit_test(the_lowest_class_with_room_is_named),
        cmocka_unit_test(places_beyond_a_limit_are_the_first_that_are_kept),
        cmocka_unit_test(what_is_given_away_is_not_left),
        cmocka_unit_test(tasks_taken_one_by_one_leave_the_same_room),
        cmocka_unit_test(a_limit_gives_no_class_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
