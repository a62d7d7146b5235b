#include "check.h"

#include "port/crypto.h"
#include "workflow/definition_cache.h"

/* A reader that has any definition whose hash begins with a digit d: one with d steps. */
struct fake_reader {
    struct reader base;
    int reads;
};

static enum err fake_definition(struct reader *r, int32_t tenant, const uint8_t hash[DEFINITION_HASH], struct arena *a,
                                struct str *ret, struct error *e)
{
    struct fake_reader *f = container_of(r, struct fake_reader, base);
    cleanup_with(buf_release) struct buf text;
    (void)tenant;
    buf_init(&text, 1 << 20);
    f->reads++;
    if (hash[0] == 0)
        return error_set(e, ERR_NOT_FOUND, "there is no such definition");
    buf_text(&text, "{\"steps\":[");
    for (int i = 0; i < hash[0]; i++)
        buf_printf(&text, "%s{\"name\":\"s%d\"}", i ? "," : "", i);
    buf_text(&text, "]}");
    return arena_str(a, buf_str(&text), ret) ? ERR_OK : error_no_room(e);
}

static const struct reader_ops ops = { .definition = fake_definition };

static struct cached_definition *get(struct definition_cache *c, struct fake_reader *f, int32_t tenant, uint8_t n)
{
    struct cached_definition *d = NULL;
    struct error e;
    assert_ok(definition_cache_get(c, &f->base, tenant, (uint8_t[DEFINITION_HASH]){ n }, &d, &e), &e);
    assert_int_equal(d->dag->n, n);
    return d;
}

static void a_definition_is_read_once(void **state)
{
    (void)state;
    struct fake_reader f = { .base = { &ops } };
    struct definition_cache *c = definition_cache_new(DEFINITION_CACHE_BYTES, NULL);
    struct cached_definition *one = get(c, &f, 1, 1), *again = get(c, &f, 1, 1), *other = get(c, &f, 2, 1);
    assert_ptr_equal(one, again);
    assert_ptr_not_equal(one, other);
    assert_int_equal(f.reads, 2);
    definition_release(one);
    definition_release(again);
    definition_release(other);
    definition_release(NULL);
    definition_cache_free(c);
    definition_cache_free(NULL);
}

static void one_that_is_missing_is_not_found(void **state)
{
    (void)state;
    struct fake_reader f = { .base = { &ops } };
    struct definition_cache *c = definition_cache_new(DEFINITION_CACHE_BYTES, NULL);
    struct cached_definition *d = NULL;
    struct error e;
    assert_int_equal(definition_cache_get(c, &f.base, 1, (uint8_t[DEFINITION_HASH]){ 0 }, &d, &e), ERR_NOT_FOUND);
    assert_null(d);
    definition_cache_free(c);
}

static void the_one_used_least_recently_is_dropped_and_stays_with_its_users(void **state)
{
    (void)state;
    struct fake_reader f = { .base = { &ops } };
    struct definition_cache *big = definition_cache_new(DEFINITION_CACHE_BYTES, NULL);
    struct cached_definition *d = get(big, &f, 1, 3);
    size_t bytes = dag_bytes(d->dag);
    definition_release(d);
    definition_cache_free(big);
    struct definition_cache *c = definition_cache_new(3 * bytes, NULL);
    struct cached_definition *held = get(c, &f, 1, 1);
    f.reads = 0;
    for (uint8_t n = 2; n < 40; n++)
        definition_release(get(c, &f, 1, n));
    assert_int_equal(f.reads, 38);
    assert_int_equal(held->dag->n, 1);
    struct cached_definition *again = get(c, &f, 1, 1);
    assert_ptr_not_equal(held, again);
    definition_release(held);
    definition_release(again);
    definition_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definition_is_read_once),
        cmocka_unit_test(one_that_is_missing_is_not_found),
        cmocka_unit_test(the_one_used_least_recently_is_dropped_and_stays_with_its_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
