/* core/time/wheel: compared with a plain array that is searched. */
#include "core/time/wheel.h"

#include <stdlib.h>

#include "base/mem.h"
#include "check.h"
#include "seed.h"

enum { T0 = 1000000 };

static struct wheel *wheel_at(int64_t now_ms)
{
    struct wheel *w = xnew(*w);
    wheel_init(w, now_ms);
    return w;
}

static void wheel_drop(struct wheel *w)
{
    wheel_release(w);
    free(w);
}

static void empty_wheel_has_nothing_due_and_nothing_to_come(void **state)
{
    (void)state;
    struct wheel *w = wheel_at(T0);
    assert_null(wheel_expire(w, T0));
    assert_null(wheel_expire(w, T0 + 10 * WHEEL_SLOTS));
    assert_true(wheel_next(w) == INT64_MAX);
    assert_int_equal(w->count, 0);
    wheel_drop(w);
}

static void entry_comes_at_its_millisecond_and_not_before(void **state)
{
    (void)state;
    struct wheel *w = wheel_at(T0);
    struct wheel_entry e;
    wheel_add(w, &e, T0 + 100);
    assert_true(wheel_next(w) == T0 + 100);
    assert_null(wheel_expire(w, T0 + 99));
    assert_true(wheel_next(w) == T0 + 100);
    assert_ptr_equal(wheel_expire(w, T0 + 100), &e);
    assert_null(wheel_expire(w, T0 + 100));
    assert_true(wheel_next(w) == INT64_MAX);
    wheel_drop(w);
}

static void what_is_past_is_due_at_once(void **state)
{
    (void)state;
    struct wheel *w = wheel_at(T0);
    struct wheel_entry past, ancient, now;
    wheel_add(w, &past, T0 - 1);
    wheel_add(w, &ancient, INT64_MIN / 2);
    wheel_add(w, &now, T0);
    assert_true(wheel_next(w) <= T0);
    assert_ptr_equal(wheel_expire(w, T0), &past);
    assert_ptr_equal(wheel_expire(w, T0), &ancient);
    assert_ptr_equal(wheel_expire(w, T0), &now);
    assert_null(wheel_expire(w, T0));
    wheel_drop(w);
}

static void ring_ends_where_the_heap_begins(void **state)
{
    (void)state;
    struct wheel *w = wheel_at(T0);
    struct wheel_entry last, first_beyond, far;
    wheel_add(w, &last, T0 + WHEEL_SLOTS - 1);
    wheel_add(w, &first_beyond, T0 + WHEEL_SLOTS);
    wheel_add(w, &far, T0 + 86400000);
    assert_int_equal(w->later.n, 2);
    assert_null(wheel_expire(w, T0 + WHEEL_SLOTS - 2));
    assert_int_equal(w->later.n, 1); /* it came within the ring's range */
    assert_true(wheel_next(w) == T0 + WHEEL_SLOTS - 1);
    assert_ptr_equal(wheel_expire(w, T0 + WHEEL_SLOTS - 1), &last);
    assert_null(wheel_expire(w, T0 + WHEEL_SLOTS - 1));
    assert_ptr_equal(wheel_expire(w, T0 + WHEEL_SLOTS), &first_beyond);
    assert_true(wheel_next(w) == T0 + 86400000);
    assert_ptr_equal(wheel_expire(w, T0 + 86400000), &far);
    assert_int_equal(w->count, 0);
    wheel_drop(w);
}

static void after_a_leap_all_come_earliest_first(void **state)
{
    (void)state;
    struct wheel *w = wheel_at(T0);
    struct wheel_entry a, b, c;
    wheel_add(w, &c, T0 + 9 * WHEEL_SLOTS);
    wheel_add(w, &b, T0 + 3 * WHEEL_SLOTS);
    wheel_add(w, &a, T0 + 5);
    int64_t late = T0 + 1000 * WHEEL_SLOTS;
    assert_ptr_equal(wheel_expire(w, late), &a);
    assert_ptr_equal(wheel_expire(w, late), &b);
    assert_ptr_equal(wheel_expire(w, late), &c);
    assert_null(wheel_expire(w, late));
    wheel_drop(w);
}

static void removed_entry_does_not_come(void **state)
{
    (void)state;
    struct wheel *w = wheel_at(T0);
    struct wheel_entry in_ring, beside, beyond;
    wheel_add(w, &in_ring, T0 + 7);
    wheel_add(w, &beside, T0 + 7);
    wheel_add(w, &beyond, T0 + 2 * WHEEL_SLOTS);
    wheel_remove(w, &in_ring);
    wheel_remove(w, &beyond);
    assert_int_equal(w->count, 1);
    assert_ptr_equal(wheel_expire(w, T0 + 3 * WHEEL_SLOTS), &beside);
    assert_null(wheel_expire(w, T0 + 3 * WHEEL_SLOTS));
    wheel_add(w, &beside, T0 + 3 * WHEEL_SLOTS + 1); /* and may be added again */
    wheel_remove(w, &beside);
    assert_true(wheel_next(w) == INT64_MAX);
    wheel_drop(w);
}

static void clock_set_back_makes_everything_wait_anew(void **state)
{
    (void)state;
    struct wheel *w = wheel_at(T0);
    struct wheel_entry soon, later;
    wheel_add(w, &soon, T0 + 10);
    wheel_add(w, &later, T0 + 2 * WHEEL_SLOTS);
    int64_t back = T0 - 3600000;
    wheel_rebase(w, back);
    assert_int_equal(w->count, 2);
    assert_true(wheel_next(w) == T0 + 10);
    assert_null(wheel_expire(w, back));
    assert_null(wheel_expire(w, T0 + 9));
    assert_ptr_equal(wheel_expire(w, T0 + 10), &soon);
    assert_ptr_equal(wheel_expire(w, T0 + 2 * WHEEL_SLOTS), &later);
    wheel_drop(w);
}

static void clock_set_back_reaches_what_was_late_already(void **state)
{
    (void)state;
    struct wheel *w = wheel_at(T0);
    struct wheel_entry late;
    wheel_add(w, &late, T0 - 500);
    wheel_rebase(w, T0 - 1000);
    assert_null(wheel_expire(w, T0 - 501));
    assert_ptr_equal(wheel_expire(w, T0 - 500), &late);
    wheel_drop(w);
}

/* ---- the model ---- */

enum { ENTRIES = 64, STEPS = 60000 };

struct model {
    struct wheel_entry entry;
    bool in;
    int64_t at_ms; /* when it becomes due: its time, but not before the wheel's base when it was added */
};

static int64_t model_next(const struct model *m)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < ENTRIES; i++)
        if (m[i].in)
            next = min_of(next, m[i].at_ms);
    return next;
}

static void add_some(struct wheel *w, struct model *m, int64_t now_ms, struct prng *r)
{
    static const int64_t reach_ms[] = { 3, 200, WHEEL_SLOTS + 5, 10 * WHEEL_SLOTS };
    int64_t reach = reach_ms[prng_below(r, array_count(reach_ms))];
    int64_t due_ms = now_ms + prng_between(r, -reach / 2, reach);
    if (m->in)
        return;
    m->in = true;
    m->at_ms = max_of(due_ms, w->base_ms);
    wheel_add(w, &m->entry, due_ms);
}

static void expire_all(struct wheel *w, struct model *m, int64_t now_ms)
{
    struct wheel_entry *e;
    while ((e = wheel_expire(w, now_ms))) {
        struct model *x = container_of(e, struct model, entry);
        assert_true(x->in);
        assert_true(x->at_ms <= now_ms);
        assert_true(x->at_ms == model_next(m)); /* earliest first */
        x->in = false;
    }
    assert_true(model_next(m) > now_ms);
}

static void set_back(struct wheel *w, struct model *m, int64_t now_ms)
{
    wheel_rebase(w, now_ms);
    for (int i = 0; i < ENTRIES; i++)
        m[i].at_ms = max_of(m[i].entry.due_ms, now_ms);
}

static void does_what_a_plain_list_would_do(void **state)
{
    (void)state;
    struct prng r = seeded_prng("does_what_a_plain_list_would_do");
    struct model *m = xcalloc(ENTRIES, sizeof *m);
    int64_t now_ms = T0;
    struct wheel *w = wheel_at(now_ms);
    for (int step = 0; step < STEPS; step++) {
        struct model *x = &m[prng_below(&r, ENTRIES)];
        uint64_t what = prng_below(&r, 100);
        if (what < 45) {
            add_some(w, x, now_ms, &r);
        } else if (what < 60 && x->in) {
            wheel_remove(w, &x->entry);
            x->in = false;
        } else if (what < 98) {
            now_ms += prng_between(&r, 0, what < 90 ? 20 : 3 * WHEEL_SLOTS);
            expire_all(w, m, now_ms);
        } else {
            now_ms -= prng_between(&r, 0, 3 * WHEEL_SLOTS);
            set_back(w, m, now_ms);
        }
        size_t in = 0;
        for (int i = 0; i < ENTRIES; i++)
            in += m[i].in;
        assert_int_equal(w->count, in);
        assert_true(wheel_next(w) == model_next(m));
    }
    wheel_drop(w);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_wheel_has_nothing_due_and_nothing_to_come),
        cmocka_unit_test(entry_comes_at_its_millisecond_and_not_before),
        cmocka_unit_test(what_is_past_is_due_at_once),
        cmocka_unit_test(ring_ends_where_the_heap_begins),
        cmocka_unit_test(after_a_leap_all_come_earliest_first),
        cmocka_unit_test(removed_entry_does_not_come),
        cmocka_unit_test(clock_set_back_makes_everything_wait_anew),
        cmocka_unit_test(clock_set_back_reaches_what_was_late_already),
        cmocka_unit_test(does_what_a_plain_list_would_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
