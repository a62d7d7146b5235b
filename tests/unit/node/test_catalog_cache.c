#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/notify/hit.h"
#include "node/catalog_cache.h"

static struct catalog_entry entry(enum catalog_kind kind, int32_t tenant, struct str name, const char *doc)
{
    return (struct catalog_entry){ .kind = kind, .tenant = tenant, .name = name, .version = 1, .doc = str_from(doc) };
}

static void put(struct catalog_cache *b, enum catalog_kind kind, int32_t tenant, struct str name, const char *doc)
{
    struct catalog_entry x = entry(kind, tenant, name, doc);
    struct error e = { 0 };
    assert_ok(catalog_cache_put(b, &x, &e), &e);
}

static enum err refused(struct catalog_cache *b, enum catalog_kind kind, struct str name, const char *doc,
                        struct error *e)
{
    struct catalog_entry x = entry(kind, kind == CATALOG_TENANT ? 0 : 1, name, doc);
    return catalog_cache_put(b, &x, e);
}

#define XMAS    "{\"excluded\":[{\"date\":\"2026-12-25\",\"name\":\"Christmas Day\"}]}"
#define WEEKEND "{\"excluded_weekdays\":[\"SAT\",\"SUN\"]}"

static bool works_on(const struct calendar *c, int year, int month, int day)
{
    return calendar_is_business_day(c, day_number((struct date){ year, month, day }));
}

static void an_empty_book_knows_defaults(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 4096);
    struct queue_rules q = catalog_cache_queue(b, 1, S("mail"), &a);
    assert_true(q.rate == 0.0);
    assert_int_equal(q.weight, 100);
    assert_false(q.paused);
    struct tenant_rules t = { 0 };
    assert_true(catalog_cache_tenant(b, 1, &a, &t));
    assert_str(t.name, "default");
    assert_int_equal(t.number, 1);
    assert_int_equal(t.max_pending, 0);
    assert_false(catalog_cache_tenant(b, 2, &a, &t));
    assert_true(catalog_cache_tenant_named(b, S("default"), &a, &t));
    assert_false(catalog_cache_tenant_named(b, S("acme"), &a, &t));
    assert_int_equal(catalog_cache_tenant_count(b), 1);
    assert_int_equal(catalog_cache_generation(b), 0);
    catalog_cache_free(b);
    catalog_cache_free(NULL);
}

static void a_queue_has_its_rules_by_tenant_and_name(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 4096);
    put(b, CATALOG_QUEUE, 1, S("mail"), "{\"max_dispatches_per_second\":2.5,\"max_burst\":4,\"weight\":7}");
    put(b, CATALOG_QUEUE, 2, S("mail"), "{\"max_concurrent\":3}");
    assert_true(catalog_cache_queue(b, 1, S("mail"), NULL).rate == 2.5);
    assert_int_equal(catalog_cache_queue(b, 1, S("mail"), NULL).weight, 7);
    assert_int_equal(catalog_cache_queue(b, 2, S("mail"), NULL).concurrent, 3);
    assert_int_equal(catalog_cache_queue(b, 2, S("mail"), NULL).weight, 100);
    assert_int_equal(catalog_cache_queue(b, 1, S("mai"), NULL).weight, 100);
    assert_int_equal(catalog_cache_generation(b), 2);
    put(b, CATALOG_QUEUE, 1, S("mail"),
        "{\"paused\":{\"by\":\"ann\",\"reason\":\"full disk\",\"since\":\"2026-02-10T08:00:00.000Z\",\"until\":null}}");
    struct queue_rules q = catalog_cache_queue(b, 1, S("mail"), &a);
    assert_true(q.paused);
    assert_str(q.paused_by, "ann");
    assert_str(q.paused_reason, "full disk");
    assert_int_equal(catalog_cache_queue(b, 1, S("mail"), NULL).paused_by.n, 0);
    catalog_cache_remove(b, 1, CATALOG_QUEUE, S("mail"));
    assert_str(q.paused_reason, "full disk"); /* the caller's own */
    assert_false(catalog_cache_queue(b, 1, S("mail"), NULL).paused);
    assert_int_equal(catalog_cache_queue(b, 2, S("mail"), NULL).concurrent, 3);
    assert_int_equal(catalog_cache_generation(b), 4);
    catalog_cache_remove(b, 1, CATALOG_QUEUE, S("mail"));
    assert_int_equal(catalog_cache_generation(b), 4); /* nothing was there */
    catalog_cache_free(b);
}

static void tenants_are_found_by_name_and_by_number(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 4096);
    struct tenant_rules t = { 0 };
    put(b, CATALOG_TENANT, 0, S("acme"), "{\"number\":2,\"name\":\"acme\",\"max_pending\":10}");
    assert_true(catalog_cache_tenant(b, 2, &a, &t));
    assert_str(t.name, "acme");
    assert_int_equal(t.max_pending, 10);
    assert_true(catalog_cache_tenant_named(b, S("acme"), NULL, &t));
    assert_int_equal(t.number, 2);
    assert_int_equal(t.name.n, 0);
    assert_int_equal(catalog_cache_tenant_count(b), 2);
    put(b, CATALOG_TENANT, 0, S("default"), "{\"number\":1,\"name\":\"default\",\"creates_per_second\":5}");
    assert_int_equal(catalog_cache_tenant_count(b), 2);
    assert_true(catalog_cache_tenant(b, 1, &a, &t));
    assert_int_equal(t.creates_per_second, 5);
    put(b, CATALOG_TENANT, 0, S("acme"), "{\"number\":2,\"name\":\"acme\",\"disabled\":true}");
    assert_true(catalog_cache_tenant(b, 2, &a, &t));
    assert_true(t.disabled);
    assert_int_equal(t.max_pending, 0);
    catalog_cache_remove(b, 0, CATALOG_TENANT, S("acme"));
    assert_false(catalog_cache_tenant(b, 2, &a, &t));
    assert_int_equal(catalog_cache_tenant_count(b), 1);
    catalog_cache_free(b);
}

static void an_entry_that_can_not_be_read_leaves_the_one_before(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    struct error e = { 0 };
    struct tenant_rules t;
    put(b, CATALOG_QUEUE, 1, S("mail"), "{\"weight\":7}");
    put(b, CATALOG_TENANT, 0, S("acme"), "{\"number\":2,\"name\":\"acme\"}");
    uint64_t generation = catalog_cache_generation(b);
    assert_int_not_equal(refused(b, CATALOG_QUEUE, S("mail"), "{\"weight\":", &e), ERR_OK);
    assert_says(&e, "entry 'mail': ");
    assert_int_not_equal(refused(b, CATALOG_QUEUE, S("mail"), "{\"weight\":", NULL), ERR_OK);
    assert_int_equal(catalog_cache_queue(b, 1, S("mail"), NULL).weight, 7);
    /* A number that another tenant has, and names that do not agree: somebody wrote into the store by hand. */
    assert_int_equal(refused(b, CATALOG_TENANT, S("evil"), "{\"number\":2,\"name\":\"evil\"}", &e), ERR_CORRUPT);
    assert_says(&e, "its number is that of 'acme'");
    assert_int_equal(refused(b, CATALOG_TENANT, S("evil"), "{\"number\":3,\"name\":\"other\"}", &e), ERR_CORRUPT);
    assert_int_equal(refused(b, CATALOG_TENANT, S("evil"), "{\"number\":1,\"name\":\"evil\"}", &e), ERR_CORRUPT);
    assert_int_equal(refused(b, CATALOG_TENANT, S("default"), "{\"number\":9,\"name\":\"default\"}", &e), ERR_CORRUPT);
    assert_false(catalog_cache_tenant_named(b, S("evil"), NULL, &t));
    assert_int_equal(catalog_cache_generation(b), generation);
    catalog_cache_free(b);
}

static void kinds_that_it_does_not_keep_are_passed_over(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    put(b, CATALOG_JOB, 1, S("x"), "not even JSON");
    put(b, CATALOG_TENANT_NUMBER, 0, S("0000000002"), "{}");
    catalog_cache_remove(b, 1, CATALOG_JOB, S("x"));
    assert_int_equal(catalog_cache_generation(b), 0);
    catalog_cache_free(b);
}

static void it_knows_what_the_settings_of_a_tenant_want(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    assert_int_equal(catalog_cache_wants(b, 0), 0);
    put(b, CATALOG_NOTIFICATION, 1, S("a"), "{\"on_failure\":true}");
    put(b, CATALOG_NOTIFICATION, 1, S("b"), "{\"on_failure\":true,\"on_missed\":true}");
    put(b, CATALOG_NOTIFICATION, 2, S("a"), "{\"on_success\":true,\"enabled\":false}");
    assert_int_equal(catalog_cache_wants(b, 1), 1U << HIT_FAILURE | 1U << HIT_MISSED);
    assert_int_equal(catalog_cache_wants(b, 0), 1U << HIT_FAILURE | 1U << HIT_MISSED);
    assert_int_equal(catalog_cache_wants(b, 2), 0);
    catalog_cache_remove(b, 1, CATALOG_NOTIFICATION, S("b"));
    assert_int_equal(catalog_cache_wants(b, 1), 1U << HIT_FAILURE);
    struct catalog_entry next = entry(CATALOG_NOTIFICATION, 1, S("a"), "{\"on_retry\":true}");
    struct error e = { 0 };
    next.version = 2;
    assert_ok(catalog_cache_put(b, &next, &e), &e);
    assert_int_equal(catalog_cache_wants(b, 1), 1U << HIT_RETRY);
    catalog_cache_remove(b, 1, CATALOG_NOTIFICATION, S("a"));
    assert_int_equal(catalog_cache_wants(b, 0), 0);
    catalog_cache_free(b);
}

static const char *signing_doc(const char *host, const char *secret, char out[256])
{
    snprintf(out, 256,
             "{\"id\":\"01234567-89ab-8def-8123-456789abcdef\",\"name\":\"\",\"host\":\"%s\","
             "\"secrets\":[{\"algorithm\":\"HMAC_SHA256\",\"secret\":\"%s\"}]}",
             host, secret);
    return out;
}

static void assert_signs(struct catalog_cache *b, int32_t tenant, const char *host, const char *secret)
{
    cleanup_with(arena_release) struct arena a;
    struct signing_key k;
    struct error e = { 0 };
    arena_init(&a, 4096);
    enum err rc = catalog_cache_signing_key(b, tenant, str_from(host), &a, &k, &e);
    assert_int_equal(rc, secret ? ERR_OK : ERR_NOT_FOUND);
    if (secret)
        assert_str(k.secrets[0].secret, secret);
}

static void it_finds_the_key_that_signs_for_a_tenant_and_a_host(void **state)
{
    (void)state;
    char doc[256];
    struct catalog_cache *b = catalog_cache_new();
    assert_signs(b, 1, "a.example.com", NULL);
    assert_false(catalog_cache_has_signing_keys(b));
    put(b, CATALOG_SIGNING_KEY, 1, S("d"), signing_doc("", "all", doc));
    put(b, CATALOG_SIGNING_KEY, 1, S("w"), signing_doc("*.example.com", "below", doc));
    put(b, CATALOG_SIGNING_KEY, 1, S("e"), signing_doc("a.example.com", "exact", doc));
    put(b, CATALOG_SIGNING_KEY, 2, S("w"), signing_doc("*.example.com", "other", doc));
    assert_signs(b, 1, "a.example.com", "exact");
    assert_signs(b, 1, "b.example.com", "below");
    assert_signs(b, 1, "example.com", "all");
    assert_signs(b, 1, "", "all");
    assert_signs(b, 2, "a.example.com", "other");
    assert_signs(b, 2, "example.com", NULL);
    assert_signs(b, 3, "a.example.com", NULL);
    struct catalog_entry next = entry(CATALOG_SIGNING_KEY, 1, S("e"), signing_doc("a.example.com", "rotated", doc));
    struct error e = { 0 };
    next.version = 2;
    assert_ok(catalog_cache_put(b, &next, &e), &e);
    assert_signs(b, 1, "a.example.com", "rotated");
    catalog_cache_remove(b, 1, CATALOG_SIGNING_KEY, S("e"));
    assert_signs(b, 1, "a.example.com", "below");
    catalog_cache_remove(b, 1, CATALOG_SIGNING_KEY, S("w"));
    catalog_cache_remove(b, 1, CATALOG_SIGNING_KEY, S("d"));
    assert_signs(b, 1, "a.example.com", NULL);
    assert_signs(b, 2, "a.example.com", "other");
    assert_true(catalog_cache_has_signing_keys(b));
    catalog_cache_remove(b, 2, CATALOG_SIGNING_KEY, S("w"));
    assert_false(catalog_cache_has_signing_keys(b));
    assert_int_equal(refused(b, CATALOG_SIGNING_KEY, S("x"), "{}", &e), ERR_CORRUPT);
    catalog_cache_free(b);
}

static void a_calendar_stays_as_it_was_given_out(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    struct error e = { 0 };
    const struct calendar *first = NULL, *second = NULL;
    put(b, CATALOG_CALENDAR, 1, S("de"), XMAS);
    assert_ok(catalog_cache_calendar(b, 1, S("de"), &first, &e), &e);
    assert_string_equal(first->name, "de");
    assert_false(works_on(first, 2026, 12, 25));
    assert_true(works_on(first, 2026, 12, 26));
    put(b, CATALOG_CALENDAR, 1, S("de"), WEEKEND);
    assert_ok(catalog_cache_calendar(b, 1, S("de"), &second, &e), &e);
    assert_true(works_on(second, 2026, 12, 25));
    assert_false(works_on(second, 2026, 12, 26));
    assert_false(works_on(first, 2026, 12, 25));
    catalog_cache_remove(b, 1, CATALOG_CALENDAR, S("de"));
    assert_false(works_on(second, 2026, 12, 26));
    catalog_cache_free(b);
    assert_false(works_on(second, 2026, 12, 26)); /* even now */
    catalog_cache_calendar_unref(first);
    catalog_cache_calendar_unref(second);
    catalog_cache_calendar_unref(NULL);
}

static void a_missing_calendar_names_those_of_the_same_tenant(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    struct error e = { 0 };
    const struct calendar *c = NULL;
    assert_int_equal(catalog_cache_calendar(b, 1, S("de"), &c, &e), ERR_NOT_FOUND);
    assert_string_equal(e.field, "calendar");
    assert_string_equal(e.text, "'de' is not a calendar; there is none yet");
    put(b, CATALOG_CALENDAR, 1, S("uk"), XMAS);
    put(b, CATALOG_CALENDAR, 1, S("at"), XMAS);
    put(b, CATALOG_CALENDAR, 2, S("de"), XMAS);
    put(b, CATALOG_QUEUE, 1, S("mail"), "{}");
    assert_int_equal(catalog_cache_calendar(b, 1, S("de"), &c, &e), ERR_NOT_FOUND);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_string_equal(e.text, "'de' is not a calendar; there are 'at', 'uk'");
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%02d", i);
        put(b, CATALOG_CALENDAR, 1, str_from(name), XMAS);
    }
    assert_int_equal(catalog_cache_calendar(b, 1, S("de"), &c, &e), ERR_NOT_FOUND);
    assert_says(&e, "there are 'at', 'c00', 'c01', 'c02', 'c03', 'c04', 'c05', 'c06' and 14 more");
    assert_int_equal(catalog_cache_calendar(b, 1, S("de"), &c, NULL), ERR_NOT_FOUND);
    char huge[300];
    memset(huge, 'x', sizeof huge);
    assert_int_equal(catalog_cache_calendar(b, 1, (struct str){ huge, sizeof huge }, &c, &e), ERR_NOT_FOUND);
    assert_null(c);
    catalog_cache_free(b);
}

/* ---- threads ---- */

enum { ROUNDS = 2000 };

struct race {
    struct catalog_cache *catalog;
    atomic_bool stop;
    atomic_int torn;
};

/* Rules and calendar are of one version or the other, never a mix. */
static void *read_along(void *context)
{
    struct race *r = context;
    while (!atomic_load(&r->stop)) {
        cleanup_with(arena_release) struct arena a;
        arena_init(&a, 4096);
        struct queue_rules q = catalog_cache_queue(r->catalog, 1, S("mail"), &a);
        bool first = q.weight == 1;
        if (q.paused_reason.n && !str_eq(q.paused_reason, first ? S("one") : S("two")))
            atomic_fetch_add(&r->torn, 1);
        const struct calendar *c = NULL;
        if (catalog_cache_calendar(r->catalog, 1, S("de"), &c, NULL) == ERR_OK &&
            works_on(c, 2026, 12, 25) == works_on(c, 2026, 12, 26))
            atomic_fetch_add(&r->torn, 1);
        catalog_cache_calendar_unref(c);
    }
    return NULL;
}

static void readers_and_writers_do_not_disturb_each_other(void **state)
{
    (void)state;
    struct race r = { .catalog = catalog_cache_new() };
    pthread_t threads[2];
    for (size_t i = 0; i < array_count(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_along, &r), 0);
    for (int i = 0; i < ROUNDS; i++) {
        put(r.catalog, CATALOG_QUEUE, 1, S("mail"),
            i % 2
                ? "{\"weight\":1,\"paused\":{\"by\":\"a\",\"reason\":\"one\",\"since\":\"2026-02-10T08:00:00Z\",\"until\":null}}"
                : "{\"weight\":2,\"paused\":{\"by\":\"a\",\"reason\":\"two\",\"since\":\"2026-02-10T08:00:00Z\",\"until\":null}}");
        put(r.catalog, CATALOG_CALENDAR, 1, S("de"), i % 2 ? XMAS : WEEKEND);
        if (i % 7 == 0)
            catalog_cache_remove(r.catalog, 1, CATALOG_CALENDAR, S("de"));
    }
    atomic_store(&r.stop, true);
    for (size_t i = 0; i < array_count(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&r.torn), 0);
    catalog_cache_free(r.catalog);
}

/* ---- changes by other nodes ---- */

static int unreadable_count;

static void unreadable(const struct catalog_entry *x, const struct error *e)
{
    (void)x;
    assert_true(e->text[0]);
    unreadable_count++;
}

static bool follow(struct catalog_cache *b, struct str after, struct catalog_entry *v, size_t n, bool more)
{
    struct catalog_page page = { .entries = { v, n }, .more = more };
    struct catalog_cache_page p = { .kind = CATALOG_QUEUE, .after_tenant = 1, .after = after, .page = &page };
    return catalog_cache_follow(b, &p, catalog_cache_generation(b), unreadable);
}

static void what_other_nodes_change_is_followed(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    put(b, CATALOG_QUEUE, 1, S("a"), "{\"weight\":1}");
    put(b, CATALOG_QUEUE, 1, S("b"), "{\"weight\":2}");
    put(b, CATALOG_QUEUE, 1, S("c"), "{\"weight\":3}");
    put(b, CATALOG_TENANT, 0, S("acme"), "{\"number\":2,\"name\":\"acme\"}");
    uint64_t before = catalog_cache_generation(b);
    struct catalog_entry same[] = { entry(CATALOG_QUEUE, 1, S("a"), "{\"weight\":1}"),
                                    entry(CATALOG_QUEUE, 1, S("b"), "{\"weight\":2}"),
                                    entry(CATALOG_QUEUE, 1, S("c"), "{\"weight\":3}") };
    assert_true(follow(b, S(""), same, 3, false));
    assert_int_equal(catalog_cache_generation(b), before); /* nothing changed */
    struct catalog_entry now[] = { same[0], entry(CATALOG_QUEUE, 1, S("bb"), "{\"weight\":22}"),
                                   entry(CATALOG_QUEUE, 1, S("c"), "{\"weight\":33}") };
    now[2].version = 2;
    assert_true(follow(b, S(""), now, 3, false));
    assert_true(catalog_cache_generation(b) > before);
    assert_int_equal(catalog_cache_queue(b, 1, S("a"), NULL).weight, 1);
    assert_int_equal(catalog_cache_queue(b, 1, S("b"), NULL).weight, 100); /* gone */
    assert_int_equal(catalog_cache_queue(b, 1, S("bb"), NULL).weight, 22);
    assert_int_equal(catalog_cache_queue(b, 1, S("c"), NULL).weight, 33);
    assert_int_equal(catalog_cache_tenant_count(b), 2); /* the page said nothing of other kinds */
    catalog_cache_free(b);
}

static void a_page_speaks_of_its_part_alone(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    put(b, CATALOG_QUEUE, 1, S("a"), "{\"weight\":1}");
    put(b, CATALOG_QUEUE, 1, S("b"), "{\"weight\":2}");
    put(b, CATALOG_QUEUE, 1, S("c"), "{\"weight\":3}");
    put(b, CATALOG_QUEUE, 1, S("d"), "{\"weight\":4}");
    put(b, CATALOG_QUEUE, 2, S("a"), "{\"weight\":5}");
    struct catalog_entry c = entry(CATALOG_QUEUE, 1, S("c"), "{\"weight\":3}");
    assert_true(follow(b, S("a"), &c, 1, true)); /* behind a, up to c */
    assert_int_equal(catalog_cache_queue(b, 1, S("a"), NULL).weight, 1);
    assert_int_equal(catalog_cache_queue(b, 1, S("b"), NULL).weight, 100);
    assert_int_equal(catalog_cache_queue(b, 1, S("d"), NULL).weight, 4);
    assert_true(follow(b, S("c"), NULL, 0, false)); /* behind c there is nothing */
    assert_int_equal(catalog_cache_queue(b, 1, S("c"), NULL).weight, 3);
    assert_int_equal(catalog_cache_queue(b, 1, S("d"), NULL).weight, 100);
    assert_int_equal(catalog_cache_queue(b, 2, S("a"), NULL).weight, 100);
    catalog_cache_free(b);
}

static void a_page_that_is_older_than_the_book_is_read_again(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    struct catalog_page empty = { 0 };
    struct catalog_cache_page p = { .kind = CATALOG_QUEUE, .page = &empty };
    uint64_t generation = catalog_cache_generation(b);
    put(b, CATALOG_QUEUE, 1, S("a"), "{\"weight\":1}");
    assert_false(catalog_cache_follow(b, &p, generation, unreadable));
    assert_int_equal(catalog_cache_queue(b, 1, S("a"), NULL).weight, 1);
    assert_true(catalog_cache_follow(b, &p, catalog_cache_generation(b), unreadable));
    assert_int_equal(catalog_cache_queue(b, 1, S("a"), NULL).weight, 100);
    catalog_cache_free(b);
}

static void an_entry_of_others_that_can_not_be_read_stays_as_it_was(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    put(b, CATALOG_QUEUE, 1, S("a"), "{\"weight\":1}");
    struct catalog_entry bad = entry(CATALOG_QUEUE, 1, S("a"), "{\"weight\":");
    bad.version = 2;
    unreadable_count = 0;
    assert_true(follow(b, S(""), &bad, 1, false));
    assert_int_equal(unreadable_count, 1);
    assert_int_equal(catalog_cache_queue(b, 1, S("a"), NULL).weight, 1);
    catalog_cache_free(b);
}

static void an_older_version_that_comes_late_changes_nothing(void **state)
{
    (void)state;
    struct catalog_cache *b = catalog_cache_new();
    struct error e = { 0 };
    struct catalog_entry x = entry(CATALOG_QUEUE, 1, S("a"), "{\"weight\":2}");
    x.version = 2;
    assert_ok(catalog_cache_put(b, &x, &e), &e);
    put(b, CATALOG_QUEUE, 1, S("a"), "{\"weight\":1}");
    assert_int_equal(catalog_cache_queue(b, 1, S("a"), NULL).weight, 2);
    struct catalog_entry again = entry(CATALOG_QUEUE, 1, S("a"), "{\"weight\":3}"); /* removed, and made anew */
    again.created_ms = 5;
    assert_ok(catalog_cache_put(b, &again, &e), &e);
    assert_int_equal(catalog_cache_queue(b, 1, S("a"), NULL).weight, 3);
    catalog_cache_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_book_knows_defaults),
        cmocka_unit_test(a_queue_has_its_rules_by_tenant_and_name),
        cmocka_unit_test(tenants_are_found_by_name_and_by_number),
        cmocka_unit_test(an_entry_that_can_not_be_read_leaves_the_one_before),
        cmocka_unit_test(kinds_that_it_does_not_keep_are_passed_over),
        cmocka_unit_test(a_calendar_stays_as_it_was_given_out),
        cmocka_unit_test(a_missing_calendar_names_those_of_the_same_tenant),
        cmocka_unit_test(readers_and_writers_do_not_disturb_each_other),
        cmocka_unit_test(it_knows_what_the_settings_of_a_tenant_want),
        cmocka_unit_test(it_finds_the_key_that_signs_for_a_tenant_and_a_host),
        cmocka_unit_test(what_other_nodes_change_is_followed),
        cmocka_unit_test(a_page_speaks_of_its_part_alone),
        cmocka_unit_test(a_page_that_is_older_than_the_book_is_read_again),
        cmocka_unit_test(an_entry_of_others_that_can_not_be_read_stays_as_it_was),
        cmocka_unit_test(an_older_version_that_comes_late_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
