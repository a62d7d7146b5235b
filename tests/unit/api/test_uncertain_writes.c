#include "check.h"

#include <stdlib.h>

#include "api/resource/uncertain_writes.h"
#include "model/store_memory.h"

struct world {
    struct store *store;
    struct reader *reader;
    struct book *book;
    struct mends mends;
};

static int setup(void **state)
{
    struct world *w = xnew(*w);
    struct error e = { 0 };
    w->store = store_memory_new();
    w->book = book_new();
    mends_init(&w->mends);
    assert_ok(store_reader(w->store, &w->reader, &e), &e);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    mends_release(&w->mends);
    reader_free(w->reader);
    book_free(w->book);
    store_free(w->store);
    free(w);
    return 0;
}

/* Past the book, as a commit whose answer was lost. */
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
    return book_queue(w->book, 1, name, NULL).weight;
}

static void what_was_written_unseen_comes_into_the_book(void **state)
{
    struct world *w = *state;
    assert_false(mends_do(&w->mends, w->reader, w->book));
    write_entry(w, S("mail"), S("{\"weight\":7}"), false);
    mends_add(&w->mends, 1, CATALOG_QUEUE, S("mail"));
    assert_int_equal(weight(w, S("mail")), 100);
    assert_true(mends_do(&w->mends, w->reader, w->book));
    assert_int_equal(weight(w, S("mail")), 7);
    assert_false(mends_do(&w->mends, w->reader, w->book)); /* once */
}

static void what_was_removed_unseen_goes_from_the_book(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    struct catalog_entry entry = { .tenant = 1, .kind = CATALOG_QUEUE, .name = S("mail"), .doc = S("{\"weight\":7}") };
    assert_ok(book_put(w->book, &entry, &e), &e);
    mends_add(&w->mends, 1, CATALOG_QUEUE, S("mail"));
    mends_add(&w->mends, 1, CATALOG_QUEUE, S("other"));
    assert_true(mends_do(&w->mends, w->reader, w->book));
    assert_int_equal(weight(w, S("mail")), 100);
}

static void what_did_not_happen_changes_nothing(void **state)
{
    struct world *w = *state;
    write_entry(w, S("mail"), S("{\"weight\":7}"), false);
    mends_add(&w->mends, 1, CATALOG_QUEUE, S("mail"));
    assert_true(mends_do(&w->mends, w->reader, w->book));
    mends_add(&w->mends, 1, CATALOG_QUEUE, S("mail")); /* say, a removal that was not committed */
    assert_true(mends_do(&w->mends, w->reader, w->book));
    assert_int_equal(weight(w, S("mail")), 7);
    write_entry(w, S("mail"), S(""), true);
    mends_add(&w->mends, 1, CATALOG_QUEUE, S("mail"));
    assert_true(mends_do(&w->mends, w->reader, w->book));
    assert_int_equal(weight(w, S("mail")), 100);
}

/* A store that is away: what is to be mended waits for it. */
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
    mends_add(&w->mends, 1, CATALOG_QUEUE, S("mail"));
    assert_false(mends_do(&w->mends, &sick, w->book));
    assert_int_equal(weight(w, S("mail")), 100);
    assert_true(mends_do(&w->mends, w->reader, w->book));
    assert_int_equal(weight(w, S("mail")), 7);
    mends_add(&w->mends, 1, CATALOG_QUEUE, S("left")); /* and is released with the rest */
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
