#include "check.h"

#include "base/list.h"

struct item {
    int number;
    struct list link;
};

/* The list's numbers as digits; walks the list in both directions. */
static void assert_list(struct list *l, const char *digits)
{
    size_t n = strlen(digits), i = 0;
    list_each (l, link) {
        assert_true(i < n);
        assert_int_equal(container_of(link, struct item, link)->number, digits[i++] - '0');
    }
    assert_int_equal(i, n);
    for (struct list *link = l->prev; link != l; link = link->prev)
        assert_int_equal(container_of(link, struct item, link)->number, digits[--i] - '0');
    assert_int_equal(i, 0);
    assert_int_equal(list_empty(l), n == 0);
}

static void items_init(struct item items[10])
{
    for (int i = 0; i < 10; i++)
        items[i] = (struct item){ .number = i };
}

static void a_new_list_is_empty(void **state)
{
    (void)state;
    struct list l;
    list_init(&l);
    assert_list(&l, "");
    assert_null(list_pop(&l));
}

static void items_stand_where_they_were_pushed(void **state)
{
    (void)state;
    struct item v[10];
    struct list l;
    items_init(v);
    list_init(&l);
    list_push(&l, &v[1].link);
    list_push(&l, &v[2].link);
    list_push_front(&l, &v[0].link);
    list_insert_before(&v[2].link, &v[5].link);
    assert_list(&l, "0152");
}

static void pop_takes_from_the_front(void **state)
{
    (void)state;
    struct item v[10];
    struct list l;
    items_init(v);
    list_init(&l);
    for (int i = 0; i < 3; i++)
        list_push(&l, &v[i].link);
    assert_ptr_equal(list_pop(&l), &v[0].link);
    assert_false(list_linked(&v[0].link));
    assert_list(&l, "12");
    assert_ptr_equal(list_pop(&l), &v[1].link);
    assert_ptr_equal(list_pop(&l), &v[2].link);
    assert_null(list_pop(&l));
    assert_list(&l, "");
}

static void removed_items_are_linked_no_more(void **state)
{
    (void)state;
    struct item v[10];
    struct list l;
    items_init(v);
    list_init(&l);
    assert_false(list_linked(&v[0].link)); /* zeroed */
    for (int i = 0; i < 4; i++)
        list_push(&l, &v[i].link);
    assert_true(list_linked(&v[1].link));
    list_remove(&v[1].link);
    assert_false(list_linked(&v[1].link));
    list_remove(&v[1].link); /* has no effect */
    assert_list(&l, "023");
    list_remove(&v[0].link);
    list_remove(&v[3].link);
    assert_list(&l, "2");
    list_push(&l, &v[1].link);
    assert_list(&l, "21");
    list_remove(&v[2].link);
    list_remove(&v[1].link);
    assert_list(&l, "");
}

static void a_walk_may_remove_the_item_it_is_at(void **state)
{
    (void)state;
    struct item v[10];
    struct list l, odd;
    items_init(v);
    list_init(&l);
    list_init(&odd);
    for (int i = 0; i < 10; i++)
        list_push(&l, &v[i].link);
    list_each (&l, link) {
        if (container_of(link, struct item, link)->number % 2) {
            list_remove(link);
            list_push(&odd, link);
        }
    }
    assert_list(&l, "02468");
    assert_list(&odd, "13579");
    list_each (&l, link)
        list_remove(link);
    assert_list(&l, "");
}

static void a_list_is_appended_to_another_in_its_order(void **state)
{
    (void)state;
    struct item v[10];
    struct list l, more;
    items_init(v);
    list_init(&l);
    list_init(&more);
    list_append(&l, &more);
    assert_list(&l, "");
    list_push(&more, &v[1].link);
    list_push(&more, &v[2].link);
    list_append(&l, &more);
    assert_list(&l, "12");
    assert_list(&more, "");
    list_push(&more, &v[3].link);
    list_append(&l, &more);
    assert_list(&l, "123");
    list_append(&l, &more);
    assert_list(&l, "123");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_list_is_empty),
        cmocka_unit_test(items_stand_where_they_were_pushed),
        cmocka_unit_test(pop_takes_from_the_front),
        cmocka_unit_test(removed_items_are_linked_no_more),
        cmocka_unit_test(a_walk_may_remove_the_item_it_is_at),
        cmocka_unit_test(a_list_is_appended_to_another_in_its_order),
    };
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
