#include "check.h"

#include "base/heap.h"
#include "seed.h"

static void an_empty_heap_gives_nothing(void **state)
{
    (void)state;
    struct heap h;
    heap_init(&h);
    assert_null(heap_peek(&h));
    assert_null(heap_pop(&h));
    heap_release(&h);
}

static void the_smallest_comes_first(void **state)
{
    (void)state;
    static const int64_t keys[] = { 5, INT64_MAX, -3, 0, INT64_MIN, 5, 4 };
    static const size_t expected[] = { 4, 2, 3, 6, 0, 5, 1 };
    struct heap_node nodes[array_count(keys)] = { 0 };
    struct heap h;
    heap_init(&h);
    for (size_t i = 0; i < array_count(keys); i++)
        heap_push(&h, &nodes[i], keys[i]);
    for (size_t i = 0; i < array_count(keys); i++) {
        assert_ptr_equal(heap_peek(&h), &nodes[expected[i]]);
        assert_ptr_equal(heap_pop(&h), &nodes[expected[i]]);
        assert_int_equal(nodes[expected[i]].at, 0);
    }
    assert_null(heap_pop(&h));
    heap_release(&h);
}

static void equal_keys_come_out_in_the_order_they_went_in(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    struct heap_node nodes[COUNT] = { 0 };
    struct heap h;
    heap_init(&h);
    for (size_t i = 0; i < COUNT; i++)
        heap_push(&h, &nodes[i], 7);
    for (size_t i = 0; i < COUNT; i++)
        assert_ptr_equal(heap_pop(&h), &nodes[i]);
    heap_release(&h);
}

static void a_rekeyed_node_queues_behind_its_equals(void **state)
{
    (void)state;
    struct heap_node a = { 0 }, b = { 0 }, c = { 0 };
    struct heap h;
    heap_init(&h);
    heap_push(&h, &a, 1);
    heap_push(&h, &b, 2);
    heap_push(&h, &c, 3);
    heap_rekey(&h, &a, 3); /* down */
    assert_ptr_equal(heap_peek(&h), &b);
    heap_rekey(&h, &c, 1); /* up */
    assert_ptr_equal(heap_peek(&h), &c);
    heap_rekey(&h, &b, 3);
    assert_ptr_equal(heap_pop(&h), &c);
    assert_ptr_equal(heap_pop(&h), &a);
    assert_ptr_equal(heap_pop(&h), &b);
    heap_release(&h);
}

static void a_removed_node_can_be_pushed_again(void **state)
{
    (void)state;
    struct heap_node a = { 0 }, b = { 0 };
    struct heap h;
    heap_init(&h);
    heap_push(&h, &a, 1);
    heap_push(&h, &b, 2);
    heap_remove(&h, &a);
    assert_int_equal(a.at, 0);
    assert_ptr_equal(heap_peek(&h), &b);
    heap_push(&h, &a, 3);
    heap_remove(&h, &a); /* the last index */
    assert_int_equal(h.n, 1);
    heap_release(&h);
    assert_null(heap_peek(&h));
}

/* The model: an array in the order in which the nodes must be popped. */
enum { NODES = 300, STEPS = 20000 };
struct model {
    struct heap_node *v[NODES];
    size_t n;
};

static void model_add(struct model *m, struct heap_node *node, int64_t key, int64_t *keys, struct heap_node *nodes)
{
    size_t at = m->n++;
    for (; at > 0 && keys[m->v[at - 1] - nodes] > key; at--)
        m->v[at] = m->v[at - 1];
    m->v[at] = node;
    keys[node - nodes] = key;
}

static void model_drop(struct model *m, struct heap_node *node)
{
    size_t at = 0;
    while (m->v[at] != node)
        at++;
    memmove(m->v + at, m->v + at + 1, (--m->n - at) * sizeof *m->v);
}

static void check_places(const struct heap *h)
{
    for (size_t i = 0; i < h->n; i++) {
        assert_true(h->v[i]->at == i + 1);
        assert_true(i == 0 || h->v[(i + 1) / 2 - 1]->key <= h->v[i]->key);
    }
}

static void random_steps_agree_with_a_sorted_array(void **state)
{
    (void)state;
    struct prng r = seeded_prng("heap");
    static struct heap_node nodes[NODES];
    static int64_t keys[NODES];
    struct model m = { .n = 0 };
    struct heap h;
    heap_init(&h);
    for (int step = 0; step < STEPS; step++) {
        struct heap_node *node = &nodes[prng_below(&r, NODES)];
        int64_t key = prng_between(&r, -20, 20);
        if (node->at == 0) {
            heap_push(&h, node, key);
            model_add(&m, node, key, keys, nodes);
        } else if (prng_below(&r, 3) == 0) {
            heap_rekey(&h, node, key);
            model_drop(&m, node);
            model_add(&m, node, key, keys, nodes);
        } else if (prng_below(&r, 2) == 0) {
            heap_remove(&h, node);
            model_drop(&m, node);
        } else {
            node = heap_pop(&h);
            assert_ptr_equal(node, m.v[0]);
            model_drop(&m, node);
        }
        assert_int_equal(h.n, m.n);
        assert_ptr_equal(heap_peek(&h), m.n ? m.v[0] : NULL);
        if (step % 64 == 0)
            check_places(&h);
    }
    assert_true(m.n > 50); /* otherwise the test covers too little */
    for (size_t i = 0; i < m.n; i++)
        assert_ptr_equal(heap_pop(&h), m.v[i]);
    heap_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_heap_gives_nothing),
        cmocka_unit_test(the_smallest_comes_first),
        cmocka_unit_test(equal_keys_come_out_in_the_order_they_went_in),
        cmocka_unit_test(a_rekeyed_node_queues_behind_its_equals),
        cmocka_unit_test(a_removed_node_can_be_pushed_again),
        cmocka_unit_test(random_steps_agree_with_a_sorted_array),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
