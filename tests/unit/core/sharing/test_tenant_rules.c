/* core/sharing/tenant_rules: a tenant and its limits. */
#include "core/sharing/tenant_rules.h"

#include "check_with_arena.h"

static struct tenant_rules must_read(struct str doc)
{
    struct tenant_rules r;
    struct error e;
    assert_ok(tenant_rules_read(doc, &arena, &r, &e), &e);
    return r;
}

static void write(struct buf *b, const struct tenant_rules *r)
{
    struct jw w;
    buf_init(b, 4096);
    jw_init(&w, b);
    jw_object(&w);
    tenant_rules_write(&w, r);
    jw_object_end(&w);
}

static void a_document_comes_back_as_it_was_written(void **state)
{
    (void)state;
    struct tenant_rules r = { .number = 2147483647,
                              .name = S("Acme-2.eu_west"),
                              .max_running = 1,
                              .max_pending = 2000000,
                              .max_recurring = 3,
                              .creates_per_second = 4,
                              .payload_bytes = 65536,
                              .disabled = true };
    cleanup_with(buf_release) struct buf b;
    write(&b, &r);
    assert_str(buf_str(&b),
               "{\"number\":2147483647,\"name\":\"Acme-2.eu_west\",\"max_running\":1,\"max_pending\":2000000,"
               "\"max_recurring\":3,\"creates_per_second\":4,\"payload_bytes\":65536,\"disabled\":true}");
    struct tenant_rules back = must_read(buf_str(&b));
    assert_int_equal(back.number, 2147483647);
    assert_str(back.name, "Acme-2.eu_west");
    assert_true(back.max_running == 1 && back.max_pending == 2000000 && back.max_recurring == 3);
    assert_true(back.creates_per_second == 4 && back.payload_bytes == 65536 && back.disabled);
}

static void no_limits_are_null(void **state)
{
    (void)state;
    struct tenant_rules r = must_read(S("{\"number\": 2, \"name\": \"a\"}"));
    assert_true(r.max_running == 0 && r.max_pending == 0 && r.max_recurring == 0 && r.creates_per_second == 0);
    assert_true(r.payload_bytes == 0 && !r.disabled);
    cleanup_with(buf_release) struct buf b;
    write(&b, &r);
    assert_str(buf_str(&b),
               "{\"number\":2,\"name\":\"a\",\"max_running\":null,\"max_pending\":null,\"max_recurring\":null,"
               "\"creates_per_second\":null,\"payload_bytes\":null,\"disabled\":false}");
    assert_int_equal(must_read(buf_str(&b)).number, 2);
}

static void errors_name_the_field(void **state)
{
    (void)state;
    static const struct {
        const char *doc, *field;
    } rows[] = {
        { "{\"name\": \"a\"}", "number" },
        { "{\"number\": 0, \"name\": \"a\"}", "number" },
        { "{\"number\": 2147483648, \"name\": \"a\"}", "number" },
        { "{\"number\": 2}", "name" },
        { "{\"number\": 2, \"name\": \"\"}", "name" },
        { "{\"number\": 2, \"name\": \"a b\"}", "name" },
        { "{\"number\": 2, \"name\": \"a{b\"}", "name" },
        { "{\"number\": 2, \"name\": \"\xc3\xa4\"}", "name" },
        { "{\"number\": 2, \"name\": \"a\", \"max_running\": -1}", "max_running" },
        { "{\"number\": 2, \"name\": \"a\", \"disabled\": 1}", "disabled" },
        { "{\"number\": 2, \"name\": \"a\", \"max_runing\": 1}", "max_runing" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct tenant_rules r;
        struct error e;
        assert_int_equal(tenant_rules_read(str_from(rows[i].doc), &arena, &r, &e), ERR_INVALID);
        assert_string_equal(e.field, rows[i].field);
    }
    struct tenant_rules r;
    assert_int_equal(tenant_rules_read(S("no json"), &arena, &r, NULL), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_comes_back_as_it_was_written),
        cmocka_unit_test(no_limits_are_null),
        cmocka_unit_test(errors_name_the_field),
    };
    return cmocka_run_group_tests(tests, arena_set_up, arena_tear_down);
}
