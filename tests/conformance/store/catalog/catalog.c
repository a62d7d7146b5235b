/* OP_CATALOG, reader_catalog_get and reader_catalog_list. */
#include <stdio.h>
#include <stdlib.h>

#include "store_world.h"

static struct catalog_change change_of(enum catalog_kind kind, const char *name, const char *doc, int64_t version)
{
    return (struct catalog_change){
        .entry = { .tenant = TENANT, .kind = kind, .name = str_from(name), .doc = str_from(doc) }, .version = version
    };
}

static struct op_catalog catalog_of(struct catalog_change *v, size_t n, int64_t now_ms)
{
    return (struct op_catalog){ .op.kind = OP_CATALOG, .v = v, .n = n, .now_ms = now_ms };
}

static enum err change(struct world *w, struct catalog_change *c, int64_t now_ms)
{
    struct op_catalog op = catalog_of(c, 1, now_ms);
    return world_apply(w, &op.op);
}

static void put_entry(struct world *w, int32_t tenant, enum catalog_kind kind, const char *name)
{
    struct catalog_change c = change_of(kind, name, "{}", -1);
    c.entry.tenant = tenant;
    assert_int_equal(change(w, &c, NOW), ERR_OK);
}

static struct catalog_entry entry(struct world *w, enum catalog_kind kind, const char *name)
{
    struct catalog_entry x = { 0 };
    struct error e = { 0 };
    assert_ok(reader_catalog_get(w->reader, TENANT, kind, str_from(name), &w->arena, &x, &e), &e);
    return x;
}

static bool has(struct world *w, int32_t tenant, enum catalog_kind kind, const char *name)
{
    struct catalog_entry x;
    enum err rc = reader_catalog_get(w->reader, tenant, kind, str_from(name), &w->arena, &x, NULL);
    assert_true(rc == ERR_OK || rc == ERR_NOT_FOUND);
    return rc == ERR_OK;
}

static void an_entry_comes_back_with_its_version_and_times(void **state)
{
    struct world *w = *state;
    struct catalog_change c = change_of(CATALOG_QUEUE, "mail", "{\"weight\":1}", 0);
    c.entry.version = 77; /* what is given is not what it gets */
    c.entry.created_ms = c.entry.updated_ms = 5;
    assert_int_equal(change(w, &c, NOW), ERR_OK);
    assert_int_equal(c.ret_version, 1);
    assert_int_equal(c.ret_created_ms, NOW);
    c.version = 1;
    c.entry.doc = S("{\"weight\":2}");
    assert_int_equal(change(w, &c, NOW + 5), ERR_OK);
    assert_int_equal(c.ret_version, 2);
    assert_int_equal(c.ret_created_ms, NOW);
    struct catalog_entry x = entry(w, CATALOG_QUEUE, "mail");
    assert_int_equal(x.tenant, TENANT);
    assert_int_equal(x.kind, CATALOG_QUEUE);
    assert_str(x.name, "mail");
    assert_str(x.doc, "{\"weight\":2}");
    assert_int_equal(x.version, 2);
    assert_int_equal(x.created_ms, NOW);
    assert_int_equal(x.updated_ms, NOW + 5);
}

static void entries_are_apart_by_tenant_kind_and_name(void **state)
{
    struct world *w = *state;
    put_entry(w, TENANT, CATALOG_QUEUE, "a");
    assert_true(has(w, TENANT, CATALOG_QUEUE, "a"));
    assert_false(has(w, OTHER_TENANT, CATALOG_QUEUE, "a"));
    assert_false(has(w, TENANT, CATALOG_CALENDAR, "a"));
    assert_false(has(w, TENANT, CATALOG_QUEUE, "A"));
    assert_false(has(w, TENANT, CATALOG_QUEUE, "ab"));
    assert_false(has(w, TENANT, CATALOG_QUEUE, ""));
}

static void a_change_is_refused_unless_the_version_is_the_expected_one(void **state)
{
    static const struct {
        bool there, remove;
        int64_t version;
        enum err rc;
    } rows[] = {
        { false, false, 0, ERR_OK },       { false, false, -1, ERR_OK },       { false, false, 1, ERR_NOT_FOUND },
        { false, true, 0, ERR_NOT_FOUND }, { false, true, -1, ERR_NOT_FOUND }, { false, true, 1, ERR_NOT_FOUND },
        { true, false, 0, ERR_CONFLICT },  { true, false, -1, ERR_OK },        { true, false, 1, ERR_OK },
        { true, false, 2, ERR_CONFLICT },  { true, true, 0, ERR_CONFLICT },    { true, true, -1, ERR_OK },
        { true, true, 1, ERR_OK },         { true, true, 2, ERR_CONFLICT },
    };
    struct world *w = *state;
    for (size_t i = 0; i < array_count(rows); i++) {
        char name[] = { (char)('a' + i), '\0' };
        if (rows[i].there)
            put_entry(w, TENANT, CATALOG_QUEUE, name);
        struct catalog_change c = change_of(CATALOG_QUEUE, name, "new", rows[i].version);
        c.remove = rows[i].remove;
        struct op_catalog op = catalog_of(&c, 1, NOW + 1);
        enum err rc = world_apply(w, &op.op);
        if (rc != rows[i].rc)
            fail_msg("row %zu: %s", i, err_text(rc));
        assert_string_equal(op.op.error.field, rc == ERR_CONFLICT ? "version" : "");
        assert_int_equal(has(w, TENANT, CATALOG_QUEUE, name), rc == ERR_OK ? !rows[i].remove : rows[i].there);
        if (rc && rows[i].there)
            assert_str(entry(w, CATALOG_QUEUE, name).doc, "{}");
        if (rc == ERR_OK)
            assert_int_equal(c.ret_version, rows[i].remove ? 0 : rows[i].there ? 2 : 1);
    }
}

static void what_comes_again_begins_at_version_one(void **state)
{
    struct world *w = *state;
    put_entry(w, TENANT, CATALOG_QUEUE, "a");
    put_entry(w, TENANT, CATALOG_QUEUE, "a");
    struct catalog_change c = change_of(CATALOG_QUEUE, "a", "", -1);
    c.remove = true;
    assert_int_equal(change(w, &c, NOW + 1), ERR_OK);
    c = change_of(CATALOG_QUEUE, "a", "{}", 0);
    assert_int_equal(change(w, &c, NOW + 2), ERR_OK);
    assert_int_equal(c.ret_version, 1);
    assert_int_equal(c.ret_created_ms, NOW + 2);
}

static void changes_of_an_operation_see_those_before_them(void **state)
{
    struct world *w = *state;
    struct catalog_change v[] = {
        change_of(CATALOG_QUEUE, "a", "1", 0), change_of(CATALOG_QUEUE, "a", "2", 1),
        change_of(CATALOG_QUEUE, "a", "", 2),  change_of(CATALOG_QUEUE, "a", "3", 0),
        change_of(CATALOG_QUEUE, "b", "4", 0),
    };
    v[2].remove = true;
    struct op_catalog op = catalog_of(v, array_count(v), NOW);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(v[1].ret_version, 2);
    assert_int_equal(v[3].ret_version, 1);
    assert_str(entry(w, CATALOG_QUEUE, "a").doc, "3");
    assert_str(entry(w, CATALOG_QUEUE, "b").doc, "4");
}

static void changes_are_made_all_or_none(void **state)
{
    struct world *w = *state;
    put_entry(w, TENANT, CATALOG_QUEUE, "b");
    struct catalog_change v[] = { change_of(CATALOG_QUEUE, "a", "1", 0), change_of(CATALOG_QUEUE, "b", "", 1),
                                  change_of(CATALOG_QUEUE, "c", "3", 9) };
    v[1].remove = true;
    struct idempotency i = some_idempotency(), read;
    struct op_catalog op = catalog_of(v, array_count(v), NOW);
    op.idempotency = &i;
    assert_int_equal(world_apply(w, &op.op), ERR_NOT_FOUND);
    assert_false(has(w, TENANT, CATALOG_QUEUE, "a"));
    assert_true(has(w, TENANT, CATALOG_QUEUE, "b"));
    assert_int_equal(reader_idempotency(w->reader, TENANT, i.key, &w->arena, &read, NULL), ERR_NOT_FOUND);
}

static void a_known_idempotency_key_keeps_the_catalog_as_it_is(void **state)
{
    struct world *w = *state;
    struct idempotency i = some_idempotency(), read;
    struct catalog_change c = change_of(CATALOG_QUEUE, "a", "1", 0);
    struct op_catalog op = catalog_of(&c, 1, NOW);
    op.idempotency = &i;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct error e = { 0 };
    assert_ok(reader_idempotency(w->reader, TENANT, i.key, &w->arena, &read, &e), &e);
    assert_int_equal(read.status, 201);
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT); /* before the version, which differs too */
    assert_string_equal(op.op.error.field, "idempotency-key");
    c.version = -1;
    c.entry.doc = S("2");
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_str(entry(w, CATALOG_QUEUE, "a").doc, "1");
}

static void a_large_doc_fits_and_a_larger_one_is_refused(void **state)
{
    struct world *w = *state;
    char *text = memset(xmalloc(CATALOG_DOC_MAX + 1), 'x', CATALOG_DOC_MAX + 1);
    struct catalog_change v[] = { change_of(CATALOG_CALENDAR, "a", "1", 0), change_of(CATALOG_CALENDAR, "b", "", 0) };
    v[1].entry.doc = (struct str){ text, CATALOG_DOC_MAX + 1 };
    struct op_catalog op = catalog_of(v, 2, NOW);
    assert_int_equal(world_apply(w, &op.op), ERR_LIMIT);
    assert_string_equal(op.op.error.field, "doc");
    assert_false(has(w, TENANT, CATALOG_CALENDAR, "a"));
    v[1].entry.doc.n--;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct catalog_entry x = entry(w, CATALOG_CALENDAR, "b");
    assert_int_equal(x.doc.n, CATALOG_DOC_MAX);
    assert_memory_equal(x.doc.p, text, CATALOG_DOC_MAX);
    free(text);
}

static void an_answer_without_room_is_refused(void **state)
{
    struct world *w = *state;
    struct catalog_entry x;
    struct catalog_page page;
    struct arena small;
    struct error e;
    struct catalog_filter f = { .kind = CATALOG_QUEUE, .tenant = TENANT, .limit = 10 };
    put_entry(w, TENANT, CATALOG_QUEUE, "a-name-of-some-length");
    arena_init(&small, 8);
    assert_int_equal(reader_catalog_get(w->reader, TENANT, CATALOG_QUEUE, S("a-name-of-some-length"), &small, &x, &e),
                     ERR_LIMIT);
    assert_int_equal(reader_catalog_list(w->reader, &f, &small, &page, &e), ERR_LIMIT);
    arena_release(&small);
}

/* The page's entries as text: "1/a 1/b". */
static void assert_page(struct world *w, const struct catalog_filter *f, bool more, const char *expected)
{
    struct catalog_page page = { 0 };
    struct error e = { 0 };
    char text[256] = "";
    assert_ok(reader_catalog_list(w->reader, f, &w->arena, &page, &e), &e);
    for (size_t i = 0; i < page.entries.n; i++) {
        const struct catalog_entry *x = &page.entries.v[i];
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%d/" STR_FMT, i ? " " : "", x->tenant, STR_ARG(x->name));
    }
    assert_string_equal(text, expected);
    assert_int_equal(page.more, more);
}

static void entries_are_listed_by_tenant_and_name(void **state)
{
    struct world *w = *state;
    static const char *const names[] = { "b", "a", "aa", "C", "a-" };
    for (size_t i = 0; i < array_count(names); i++) {
        put_entry(w, TENANT, CATALOG_QUEUE, names[i]);
        put_entry(w, 0, CATALOG_CALENDAR, names[i]);
    }
    put_entry(w, OTHER_TENANT, CATALOG_QUEUE, "a");
    put_entry(w, 0, CATALOG_QUEUE, "z");
    struct catalog_filter mine = { .kind = CATALOG_QUEUE, .tenant = TENANT, .limit = 100 }, all = mine;
    all.all_tenants = true;
    all.tenant = 99; /* nobody looks */
    assert_page(w, &mine, false, "1/C 1/a 1/a- 1/aa 1/b");
    assert_page(w, &all, false, "0/z 1/C 1/a 1/a- 1/aa 1/b 2/a");
    mine.tenant = OTHER_TENANT;
    assert_page(w, &mine, false, "2/a");
    mine.kind = CATALOG_JOB;
    assert_page(w, &mine, false, "");
}

static void a_list_goes_on_behind_its_last_entry(void **state)
{
    struct world *w = *state;
    static const char *const names[] = { "a", "b", "c", "d" };
    for (size_t i = 0; i < array_count(names); i++)
        for (int32_t tenant = TENANT; tenant <= OTHER_TENANT; tenant++)
            put_entry(w, tenant, CATALOG_QUEUE, names[i]);
    struct catalog_filter f = { .kind = CATALOG_QUEUE, .tenant = TENANT, .limit = 2 };
    assert_page(w, &f, true, "1/a 1/b");
    f.after = S("b");
    assert_page(w, &f, false, "1/c 1/d");
    f.after = S("bb"); /* need not be there */
    assert_page(w, &f, false, "1/c 1/d");
    f.after = S("d");
    assert_page(w, &f, false, "");
    f = (struct catalog_filter){ .kind = CATALOG_QUEUE, .all_tenants = true, .limit = 3 };
    assert_page(w, &f, true, "1/a 1/b 1/c");
    f.after_tenant = TENANT;
    f.after = S("c");
    assert_page(w, &f, true, "1/d 2/a 2/b");
    f.after_tenant = OTHER_TENANT;
    f.after = S("b");
    assert_page(w, &f, false, "2/c 2/d");
}

static void whoever_looks_for_jobs_to_do_finds_all_that_run(void **state)
{
    struct world *w = *state;
    static const char *const names[] = { "a", "b", "c" };
    for (size_t i = 0; i < array_count(names); i++) {
        struct catalog_change c = { .entry = { .tenant = i ? TENANT : OTHER_TENANT,
                                               .kind = CATALOG_JOB,
                                               .name = str_from(names[i]),
                                               .doc = S("{\"state\":\"RUNNING\"}") } };
        struct op_catalog op = { .op = { .kind = OP_CATALOG }, .v = &c, .n = 1, .now_ms = NOW };
        assert_int_equal(world_apply(w, &op.op), ERR_OK);
    }
    struct catalog_filter f = { .kind = CATALOG_JOB, .all_tenants = true, .limit = 2, .unfinished = true };
    assert_page(w, &f, true, "1/b 1/c");
    f.after_tenant = TENANT;
    f.after = S("c");
    assert_page(w, &f, false, "2/a");
}

static const struct CMUnitTest tests[] = {
    store_test(an_entry_comes_back_with_its_version_and_times),
    store_test(entries_are_apart_by_tenant_kind_and_name),
    store_test(a_change_is_refused_unless_the_version_is_the_expected_one),
    store_test(what_comes_again_begins_at_version_one),
    store_test(changes_of_an_operation_see_those_before_them),
    store_test(changes_are_made_all_or_none),
    store_test(a_known_idempotency_key_keeps_the_catalog_as_it_is),
    store_test(a_large_doc_fits_and_a_larger_one_is_refused),
    store_test(an_answer_without_room_is_refused),
    store_test(entries_are_listed_by_tenant_and_name),
    store_test(a_list_goes_on_behind_its_last_entry),
    store_test(whoever_looks_for_jobs_to_do_finds_all_that_run),
};
const struct test_list catalog_tests = { tests, array_count(tests) };
