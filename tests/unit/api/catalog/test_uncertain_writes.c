#include "check.h"

#include <stdlib.h>

#include "api/catalog/uncertain_writes.h"
#include "model/store_memory.h"

struct world {
    struct store *store;
    struct reader *reader;
    struct catalog_cache *catalog;
    struct uncertain_writes uncertain_writes;
};

static int setup(void **state)
{
    struct world *w = xnew(*w);
    struct error e = { 0 };
    w->store = store_memory_new();
    w->catalog = catalog_cache_new();
    uncertain_writes_init(&w->uncertain_writes);
    assert_ok(store_reader(w->store, &w->reader, &e), &e);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    uncertain_writes_release(&w->uncertain_writes);
    reader_free(w->reader);
    catalog_cache_free(w->catalog);
    store_free(w->store);
    free(w);
    return 0;
}

/* Writes past the catalog cache, like a commit whose answer was lost. */
static void write_entry(struct world *w, struct str name, struct str doc, bool remove)
{
    struct catalog_change c = { .entry = { .tenant = 1, .kind = CATALOG_QUEUE, .name = name, .doc = doc },
                                .version = -1,
                                .remove = remove };
    struct op_catalog op = { .op.kind = OP_CATALOG, .v = &c, .n = 1, .now_ms = 1 };
    struct op *const ops[] = { &op.op };
    struct error e = { 0 };
    assert_ok(store_apply(w->store, ops, 1, &e), &e);
    assert_ok(op.op.rc, &op.op.error);
}

static int64_t weight(struct world *w, struct str name)
{
    return catalog_cache_queue(w->catalog, 1, name, NULL).weight;
}

static void what_was_written_unseen_comes_into_the_book(void **state)
{
    struct world *w = *state;
    assert_false(uncertain_writes_resolve(&w->uncertain_writes, w->reader, w->catalog));
    write_entry(w, S("mail"), S("{\"weight\":7}"), false);
    uncertain_writes_add(&w->uncertain_writes, 1, CATALOG_QUEUE, S("mail"));
    assert_int_equal(weight(w, S("mail")), 100);
    assert_true(uncertain_writes_resolve(&w->uncertain_writes, w->reader, w->catalog));
    assert_int_equal(weight(w, S("mail")), 7);
    assert_false(uncertain_writes_resolve(&w->uncertain_writes, w->reader, w->catalog)); /* once */
}

static void what_was_removed_unseen_goes_from_the_book(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    struct catalog_entry entry = { .tenant = 1, .kind = CATALOG_QUEUE, .name = S("mail"), .doc = S("{\"weight\":7}") };
    assert_ok(catalog_cache_put(w->catalog, &entry, &e), &e);
    uncertain_writes_add(&w->uncertain_writes, 1, CATALOG_QUEUE, S("mail"));
    uncertain_writes_add(&w->uncertain_writes, 1, CATALOG_QUEUE, S("other"));
    assert_true(uncertain_writes_resolve(&w->uncertain_writes, w->reader, w->catalog));
    assert_int_equal(weight(w, S("mail")), 100);
}

static void what_did_not_happen_changes_nothing(void **state)
{
    struct world *w = *state;
    write_entry(w, S("mail"), S("{\"weight\":7}"), false);
    uncertain_writes_add(&w->uncertain_writes, 1, CATALOG_QUEUE, S("mail"));
    assert_true(uncertain_writes_resolve(&w->uncertain_writes, w->reader, w->catalog));
    /* for example a removal that was not committed */
    uncertain_writes_add(&w->uncertain_writes, 1, CATALOG_QUEUE, S("mail"));
    assert_true(uncertain_writes_resolve(&w->uncertain_writes, w->reader, w->catalog));
    assert_int_equal(weight(w, S("mail")), 7);
    write_entry(w, S("mail"), S(""), true);
    uncertain_writes_add(&w->uncertain_writes, 1, CATALOG_QUEUE, S("mail"));
    assert_true(uncertain_writes_resolve(&w->uncertain_writes, w->reader, w->catalog));
    assert_int_equal(weight(w, S("mail")), 100);
}

/* A store that is unavailable: uncertain writes wait for it. */
static enum err away(struct reader *r, int32_t tenant, enum catalog_kind kind, struct str name, struct arena *a,
                     struct catalog_entry *ret, struct error *e)
{
    (void)r, (void)tenant, (void)kind, (void)name, (void)a, (void)ret;
    return error_set(e, ERR_UNAVAILABLE, "away");
}

static void what_the_store_does_not_answer_is_asked_again(void **state)
{
    struct world *w = *state;
    static const struct reader_ops gone = { .catalog_get = away };
    struct reader sick = { &gone };
    write_entry(w, S("mail"), S("{\"weight\":7}"), false);
    uncertain_writes_add(&w->uncertain_writes, 1, CATALOG_QUEUE, S("mail"));
    assert_false(uncertain_writes_resolve(&w->uncertain_writes, &sick, w->catalog));
    assert_int_equal(weight(w, S("mail")), 100);
    assert_true(uncertain_writes_resolve(&w->uncertain_writes, w->reader, w->catalog));
    assert_int_equal(weight(w, S("mail")), 7);
    uncertain_writes_add(&w->uncertain_writes, 1, CATALOG_QUEUE, S("left")); /* released with the others */
}

#define row(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(what_was_written_unseen_comes_into_the_book),
        row(what_was_removed_unseen_goes_from_the_book),
        row(what_did_not_happen_changes_nothing),
        row(what_the_store_does_not_answer_is_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
