#include "check.h"

#include <stdlib.h>

#include "base/buf.h"
#include "random_bytes.h"
#include "seed.h"

static void an_empty_buffer_is_empty_text(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10);
    assert_string_equal(buf_cstr(&b), "");
    assert_str(buf_str(&b), "");
    assert_null(b.p);
    buf_reset(&b);
    buf_release(&b);
}

static void additions_stand_one_behind_the_other(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    buf_add(&b, S("one"));
    buf_char(&b, ' ');
    buf_text(&b, "two ");
    buf_printf(&b, "%d%s", 3, "!");
    buf_printf(&b, "%s", "");
    buf_add(&b, (struct str){ NULL, 0 });
    assert_str(buf_str(&b), "one two 3!");
    assert_string_equal(buf_cstr(&b), "one two 3!");
    assert_false(b.full);
    buf_release(&b);
}

static void bytes_of_any_value_are_kept(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    buf_add(&b, S("a\0b"));
    buf_char(&b, '\0');
    assert_int_equal(b.n, 4);
    assert_memory_equal(b.p, "a\0b\0", 5);
    buf_release(&b);
}

static void the_maximum_can_be_filled_exactly(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 5);
    buf_text(&b, "12345");
    assert_false(b.full);
    assert_string_equal(buf_cstr(&b), "12345");
    buf_add(&b, S(""));
    assert_false(b.full);
    buf_char(&b, '6');
    assert_true(b.full);
    assert_string_equal(buf_cstr(&b), "12345");
    buf_release(&b);
}

static void what_does_not_fit_is_dropped_and_so_is_all_after_it(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 5);
    buf_text(&b, "123");
    buf_text(&b, "456");
    assert_true(b.full);
    buf_char(&b, '4');
    buf_printf(&b, "%d", 4);
    buf_add(&b, S(""));
    assert_string_equal(buf_cstr(&b), "123");
    buf_reset(&b);
    assert_false(b.full);
    assert_string_equal(buf_cstr(&b), "");
    buf_printf(&b, "%05d", 42);
    assert_string_equal(buf_cstr(&b), "00042");
    buf_printf(&b, "%d", 1);
    assert_true(b.full);
    assert_string_equal(buf_cstr(&b), "00042");
    buf_release(&b);
}

static void reset_keeps_the_memory(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    buf_printf(&b, "%500s", "");
    char *p = b.p;
    size_t cap = b.cap;
    buf_reset(&b);
    buf_printf(&b, "%500s", "");
    assert_ptr_equal(b.p, p);
    assert_int_equal(b.cap, cap);
    buf_release(&b);
    assert_null(b.p);
    assert_int_equal(b.max, 1000);
}

static void take_moves_the_content_out(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10);
    char *empty = buf_take(&b);
    assert_string_equal(empty, "");
    buf_text(&b, "mine");
    cleanup_with(free_charp) char *mine = buf_take(&b);
    assert_string_equal(mine, "mine");
    assert_null(b.p);
    assert_int_equal(b.n, 0);
    buf_text(&b, "0123456789");
    assert_false(b.full); /* buf_release keeps the maximum */
    buf_char(&b, '!');
    assert_true(b.full);
    buf_release(&b);
    free(empty);
}

static void a_plain_text_is_one_line_of_shown_characters(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf b;
    buf_init(&b, 64);
    buf_plain(&b, S("a\nb\x1b[31m ä\xe2\x80\xae\xff."));
    assert_str(buf_str(&b), "a b [31m ä  .");
    buf_reset(&b);
    buf_plain(&b, S("pay\xe2\x80\x8broll\xc2\xad\xf3\xa0\x80\xa1"));
    assert_str(buf_str(&b), "pay roll  ");
}

static void growth_keeps_every_byte(void **state)
{
    (void)state;
    enum { MAX = 5000 };
    struct prng r = seeded_prng("buf");
    struct buf b;
    buf_init(&b, MAX);
    char model[MAX];
    size_t n = 0;
    while (!b.full) {
        char piece[100];
        size_t size = prng_below(&r, sizeof piece);
        random_bytes(&r, piece, size);
        buf_add(&b, (struct str){ piece, size });
        if (n + size <= MAX) {
            memcpy(model + n, piece, size);
            n += size;
        } else {
            assert_true(b.full);
        }
        assert_int_equal(b.n, n);
        assert_memory_equal(b.p, model, n);
        assert_int_equal(b.p[n], '\0');
        assert_true(b.cap <= MAX + 1);
    }
    assert_true(n > MAX - 100);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_is_empty_text),
        cmocka_unit_test(additions_stand_one_behind_the_other),
        cmocka_unit_test(bytes_of_any_value_are_kept),
        cmocka_unit_test(the_maximum_can_be_filled_exactly),
        cmocka_unit_test(what_does_not_fit_is_dropped_and_so_is_all_after_it),
        cmocka_unit_test(reset_keeps_the_memory),
        cmocka_unit_test(take_moves_the_content_out),
        cmocka_unit_test(a_plain_text_is_one_line_of_shown_characters),
        cmocka_unit_test(growth_keeps_every_byte),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
