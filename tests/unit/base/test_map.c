#include "check.h"

#include "base/map.h"
#include "seed.h"

static const struct hash_key some_key = { 1, 2 };

static void an_empty_map_holds_nothing(void **state)
{
    (void)state;
    struct map m;
    map_init(&m, some_key);
    assert_null(map_get(&m, S("a")));
    assert_null(map_remove(&m, S("a")));
    map_each (&m, slot)
        fail_msg("an entry: " STR_FMT, STR_ARG(slot->key));
    map_release(&m);
}

static void put_returns_what_it_replaced(void **state)
{
    (void)state;
    struct map m;
    map_init(&m, some_key);
    int one, two;
    char first[] = "name", second[] = "name";
    assert_null(map_put(&m, str_from(first), &one));
    assert_ptr_equal(map_get(&m, S("name")), &one);
    assert_ptr_equal(map_put(&m, str_from(second), &two), &one);
    assert_int_equal(m.n, 1);
    map_each (&m, slot)
        assert_ptr_equal(slot->key.p, second); /* the old key may be freed with the old value */
    assert_ptr_equal(map_remove(&m, S("name")), &two);
    assert_null(map_get(&m, S("name")));
    assert_null(map_remove(&m, S("name")));
    assert_int_equal(m.n, 0);
    map_release(&m);
}

static void keys_are_bytes_of_any_value_and_length(void **state)
{
    (void)state;
    struct map m;
    map_init(&m, some_key);
    int v[5];
    assert_null(map_put(&m, S("a"), &v[0]));
    assert_null(map_put(&m, S("a\0"), &v[1]));
    assert_null(map_put(&m, S("a\0b"), &v[2]));
    assert_null(map_put(&m, S("A"), &v[3]));
    assert_null(map_put(&m, (struct str){ NULL, 0 }, &v[4]));
    assert_int_equal(m.n, 5);
    assert_ptr_equal(map_get(&m, S("a")), &v[0]);
    assert_ptr_equal(map_get(&m, S("a\0")), &v[1]);
    assert_ptr_equal(map_get(&m, S("a\0b")), &v[2]);
    assert_ptr_equal(map_get(&m, S("A")), &v[3]);
    assert_ptr_equal(map_get(&m, S("")), &v[4]);
    assert_ptr_equal(map_remove(&m, (struct str){ NULL, 0 }), &v[4]);
    map_release(&m);
}

static void it_grows_before_it_is_three_quarters_full(void **state)
{
    (void)state;
    struct map m;
    map_init(&m, some_key);
    static char keys[1000][8];
    for (size_t i = 0; i < 1000; i++) {
        snprintf(keys[i], sizeof keys[i], "k%zu", i);
        assert_null(map_put(&m, str_from(keys[i]), keys[i]));
        assert_true(m.n * 100 <= m.cap * 70);
        assert_true((m.cap & (m.cap - 1)) == 0);
    }
    assert_int_equal(m.cap, 2048);
    for (size_t i = 0; i < 1000; i++)
        assert_ptr_equal(map_get(&m, str_from(keys[i])), keys[i]);
    map_release(&m);
    assert_int_equal(m.cap, 0);
    assert_null(map_put(&m, S("again"), keys));
    map_release(&m);
}

static void each_visits_every_entry_once(void **state)
{
    (void)state;
    struct map m;
    map_init(&m, some_key);
    static char keys[100][8];
    int seen[100] = { 0 };
    for (size_t i = 0; i < 100; i++) {
        snprintf(keys[i], sizeof keys[i], "k%zu", i);
        assert_null(map_put(&m, str_from(keys[i]), keys[i]));
    }
    map_each (&m, slot)
        seen[(char(*)[8])slot->value - keys]++;
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
    map_release(&m);
}

/* Keys whose home is the map's last slot or the one before: their runs wrap around to the first slots. */
static void chains_over_the_end_close_up_again(void **state)
{
    (void)state;
    enum { COUNT = 9 };
    static char keys[COUNT][16];
    size_t found = 0;
    for (int i = 0; found < COUNT; i++) {
        snprintf(keys[found], sizeof keys[found], "k%d", i);
        found += (hash_bytes(some_key, str_from(keys[found])) & 15) >= 14;
    }
    for (size_t gone = 0; gone < COUNT; gone++) {
        struct map m;
        map_init(&m, some_key);
        for (size_t i = 0; i < COUNT; i++)
            assert_null(map_put(&m, str_from(keys[i]), keys[i]));
        assert_int_equal(m.cap, 16);
        assert_ptr_equal(map_remove(&m, str_from(keys[gone])), keys[gone]);
        for (size_t i = 0; i < COUNT; i++)
            assert_ptr_equal(map_get(&m, str_from(keys[i])), i == gone ? NULL : keys[i]);
        map_release(&m);
    }
}

/* Every entry can be reached from its home slot without passing a free slot. */
static void check_chains(const struct map *m)
{
    size_t count = 0;
    map_each (m, slot) {
        count++;
        assert_true(slot->hash == hash_bytes(m->key, slot->key));
        for (size_t i = slot->hash & (m->cap - 1); i != (size_t)(slot - m->slots); i = (i + 1) & (m->cap - 1))
            assert_non_null(m->slots[i].key.p);
    }
    assert_int_equal(count, m->n);
}

static void random_steps_agree_with_an_array(void **state)
{
    (void)state;
    enum { KEYS = 700, STEPS = 50000 };
    static char keys[KEYS][8];
    static void *model[KEYS];
    for (size_t i = 0; i < KEYS; i++)
        snprintf(keys[i], sizeof keys[i], "%zu", i);
    struct prng r = seeded_prng("map");
    struct map m;
    map_init(&m, (struct hash_key){ prng_u64(&r), prng_u64(&r) });
    size_t count = 0;
    for (int step = 0; step < STEPS; step++) {
        size_t i = prng_below(&r, KEYS);
        bool filling = step / 5000 % 2 == 0; /* alternates between filling up and becoming almost empty */
        if (prng_below(&r, 4) == 0) {
            assert_ptr_equal(map_get(&m, str_from(keys[i])), model[i]);
        } else if (prng_below(&r, 10) < (filling ? 8 : 2)) {
            void *value = keys[prng_below(&r, KEYS)];
            count += model[i] == NULL;
            assert_ptr_equal(map_put(&m, str_from(keys[i]), value), model[i]);
            model[i] = value;
        } else {
            count -= model[i] != NULL;
            assert_ptr_equal(map_remove(&m, str_from(keys[i])), model[i]);
            model[i] = NULL;
        }
        assert_int_equal(m.n, count);
        if (step % 512 == 0)
            check_chains(&m);
    }
    for (size_t i = 0; i < KEYS; i++)
        assert_ptr_equal(map_get(&m, str_from(keys[i])), model[i]);
    check_chains(&m);
    map_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_holds_nothing),
        cmocka_unit_test(put_returns_what_it_replaced),
        cmocka_unit_test(keys_are_bytes_of_any_value_and_length),
        cmocka_unit_test(it_grows_before_it_is_three_quarters_full),
        cmocka_unit_test(each_visits_every_entry_once),
        cmocka_unit_test(chains_over_the_end_close_up_again),
        cmocka_unit_test(random_steps_agree_with_an_array),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
