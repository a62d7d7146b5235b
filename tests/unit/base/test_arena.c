#include "check.h"

#include <stdalign.h>

#include "base/arena.h"
#include "seed.h"

enum { ALIGN = alignof(max_align_t) };

static void memory_is_aligned_and_its_own(void **state)
{
    (void)state;
    struct prng r = seeded_prng("arena");
    struct arena a;
    arena_init(&a, 1 << 22);
    static struct {
        unsigned char *p;
        size_t n;
    } pieces[2000];
    for (size_t i = 0; i < array_count(pieces); i++) {
        pieces[i].n = prng_below(&r, 20) ? prng_below(&r, 200) : prng_below(&r, 20000);
        pieces[i].p = arena_alloc(&a, pieces[i].n);
        assert_non_null(pieces[i].p);
        assert_int_equal((uintptr_t)pieces[i].p % ALIGN, 0);
        memset(pieces[i].p, (int)(i & 0xff), pieces[i].n);
    }
    for (size_t i = 0; i < array_count(pieces); i++)
        for (size_t j = 0; j < pieces[i].n; j++)
            assert_true(pieces[i].p[j] == (i & 0xff));
    arena_release(&a);
}

static void the_cap_holds_whatever_the_blocks(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 100 * ALIGN);
    for (int i = 0; i < 100; i++)
        assert_non_null(arena_alloc(&a, 1)); /* each is rounded up to the alignment */
    assert_int_equal(a.total, 100 * ALIGN);
    assert_null(arena_alloc(&a, 1));
    assert_null(arena_zalloc(&a, 1));
    assert_null(arena_new(&a, int));
    assert_null(arena_array(&a, int, 1));
    assert_non_null(arena_alloc(&a, 0));
    arena_release(&a);
    assert_non_null(arena_alloc(&a, 100 * ALIGN)); /* arena_release keeps the cap */
    arena_release(&a);
}

static void huge_requests_are_refused_not_wrapped_around(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, SIZE_MAX / 2 - 1);
    assert_null(arena_array(&a, int64_t, SIZE_MAX / 4));
    assert_null(arena_alloc(&a, SIZE_MAX));
    arena_release(&a);
    arena_init(&a, 1000);
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, 1001));
    assert_null(arena_array(&a, int64_t, SIZE_MAX));
    assert_int_equal(a.total, 0);
    arena_release(&a);
}

/* Rounding a request up to the alignment must not exceed a cap that is not a multiple of it. */
static void a_cap_off_alignment_is_kept(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 2 * ALIGN + 1);
    assert_null(arena_alloc(&a, 2 * ALIGN + 1));
    assert_non_null(arena_alloc(&a, 2 * ALIGN));
    assert_null(arena_alloc(&a, 1));
    arena_release(&a);
}

static void large_pieces_get_a_block_of_their_own(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 16 << 20);
    char *small = arena_alloc(&a, 8);
    char *large = arena_alloc(&a, 5 << 20);
    assert_true(small && large);
    memset(large, 1, 5 << 20);
    assert_non_null(arena_alloc(&a, 8));
    arena_release(&a);
    assert_null(a.block);
}

static void zeroed_memory_is_zero_also_after_reset(void **state)
{
    (void)state;
    static const unsigned char zeros[256];
    struct arena a;
    arena_init(&a, 1 << 20);
    for (int round = 0; round < 3; round++) {
        unsigned char *p = arena_zalloc(&a, 256);
        assert_memory_equal(p, zeros, 256);
        int64_t *v = arena_array(&a, int64_t, 32);
        assert_memory_equal(v, zeros, 256);
        struct str *s = arena_new(&a, struct str);
        assert_memory_equal(s, zeros, sizeof *s);
        memset(p, 0xff, 256);
        memset(v, 0xff, 256);
        memset(s, 0xff, sizeof *s);
        arena_reset(&a);
    }
    arena_release(&a);
}

static void reset_keeps_one_block_and_gives_back_the_cap(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 64 << 10);
    arena_reset(&a); /* a mark before the first use works too */
    assert_null(a.block);
    for (int i = 0; i < 16; i++)
        assert_non_null(arena_alloc(&a, 4096));
    assert_null(arena_alloc(&a, 4096));
    struct arena_block *newest = a.block;
    arena_reset(&a);
    assert_ptr_equal(a.block, newest);
    assert_int_equal(a.total, 0);
    assert_non_null(arena_alloc(&a, 4096));
    assert_ptr_equal(a.block, newest);
    for (int i = 0; i < 15; i++)
        assert_non_null(arena_alloc(&a, 4096));
    assert_null(arena_alloc(&a, 4096));
    arena_release(&a);
}

static void copied_text_ends_in_nul(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 64);
    char source[] = "text";
    struct str copy, empty;
    assert_true(arena_str(&a, str_from(source), &copy));
    source[0] = 'n';
    assert_str(copy, "text");
    assert_int_equal(copy.p[4], '\0');
    assert_true(arena_str(&a, (struct str){ NULL, 0 }, &empty));
    assert_int_equal(empty.n, 0);
    assert_string_equal(empty.p, "");
    struct str kept = copy;
    assert_false(arena_str(&a, S("a text that is longer than what is left of the sixty-four bytes"), &copy));
    assert_ptr_equal(copy.p, kept.p);
    arena_release(&a);
}

static void a_rewound_arena_has_what_it_had_at_the_mark(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    struct arena_mark empty = arena_mark(&a);
    struct str kept;
    assert_true(arena_str(&a, S("kept"), &kept));
    struct arena_mark mark = arena_mark(&a);
    char *next = arena_alloc(&a, 16);
    for (int i = 0; i < 100; i++)
        assert_non_null(arena_alloc(&a, 5000)); /* several blocks */
    arena_rewind(&a, mark);
    assert_str(kept, "kept");
    assert_ptr_equal(arena_alloc(&a, 16), next);
    assert_non_null(arena_alloc(&a, (1 << 20) - 64)); /* the rewound bytes no longer count */
    arena_rewind(&a, empty);
    assert_int_equal(a.total, 0);
    assert_non_null(arena_alloc(&a, 1 << 20));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_and_its_own),
        cmocka_unit_test(the_cap_holds_whatever_the_blocks),
        cmocka_unit_test(huge_requests_are_refused_not_wrapped_around),
        cmocka_unit_test(a_cap_off_alignment_is_kept),
        cmocka_unit_test(large_pieces_get_a_block_of_their_own),
        cmocka_unit_test(zeroed_memory_is_zero_also_after_reset),
        cmocka_unit_test(reset_keeps_one_block_and_gives_back_the_cap),
        cmocka_unit_test(copied_text_ends_in_nul),
        cmocka_unit_test(a_rewound_arena_has_what_it_had_at_the_mark),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
