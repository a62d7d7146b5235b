/* The watcher reads the changes of other nodes after a notice, and periodically without one. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "model/store_memory.h"
#include "server/catalog_watcher.h"

enum { TENANT = 1, NOW = 1000000, ARENA = 1 << 20, PATIENCE_S = 30 };

struct world {
    struct store *store;
    struct catalog_cache *catalog;
    struct catalog_watcher *watcher;
    sem_t catalog_read, lanes_read;
    pthread_mutex_t lock;
    size_t lane_count, breaker_count; /* guarded by the lock */
};

static void apply(struct world *w, struct op *op)
{
    struct error e;
    arena_init(&op->arena, ARENA);
    assert_int_equal(store_apply(w->store, &op, 1, &e), ERR_OK);
    assert_ok(op->rc, &op->error);
    arena_release(&op->arena);
}

static void write_queue(struct world *w, const char *name, const char *doc)
{
    struct catalog_change change = {
        .entry = { .kind = CATALOG_QUEUE, .tenant = TENANT, .name = str_from(name), .doc = str_from(doc) },
        .version = -1,
    };
    struct op_catalog op = { .op.kind = OP_CATALOG, .v = &change, .n = 1, .now_ms = NOW };
    apply(w, &op.op);
}

static void write_task(struct world *w, const char *queue)
{
    static uint8_t number;
    struct task t = { .id.b = { ++number },
                      .tenant = TENANT,
                      .kind = TASK_ONE_TIME,
                      .state = TASK_SCHEDULED,
                      .priority = 5,
                      .queue = str_from(queue),
                      .version = 1,
                      .target = TARGET_NOOP,
                      .created_ms = NOW,
                      .due_ms = NOW };
    struct op_insert op = { .op.kind = OP_INSERT, .tasks = &t, .count = 1 };
    apply(w, &op.op);
}

static void lanes_read(void *context, const struct lane *lanes, size_t n)
{
    struct world *w = context;
    (void)lanes;
    pthread_mutex_lock(&w->lock);
    w->lane_count = n;
    pthread_mutex_unlock(&w->lock);
    sem_post(&w->lanes_read);
}

static void breakers_read(void *context, const struct breaker_rows *rows)
{
    struct world *w = context;
    pthread_mutex_lock(&w->lock);
    w->breaker_count = rows->n;
    pthread_mutex_unlock(&w->lock);
}

static void catalog_read(void *context, bool changed, uint64_t heard)
{
    struct world *w = context;
    (void)heard;
    if (changed)
        sem_post(&w->catalog_read);
}

static void wait_for(sem_t *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    assert_int_equal(sem_timedwait(s, &until), 0);
}

static int setup(void **state)
{
    struct world *w = xnew(*w);
    struct error e;
    w->store = store_memory_new();
    w->catalog = catalog_cache_new();
    sem_init(&w->catalog_read, 0, 0);
    sem_init(&w->lanes_read, 0, 0);
    pthread_mutex_init(&w->lock, NULL);
    struct catalog_watcher_setup s = { .store = w->store,
                                       .catalog = w->catalog,
                                       .on_lanes = lanes_read,
                                       .on_breakers = breakers_read,
                                       .on_catalog = catalog_read,
                                       .context = w };
    assert_ok(catalog_watcher_new(&s, &w->watcher, &e), &e);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    catalog_watcher_free(w->watcher);
    store_free(w->store);
    catalog_cache_free(w->catalog);
    sem_destroy(&w->catalog_read);
    sem_destroy(&w->lanes_read);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return 0;
}

static void a_changed_catalog_is_read_when_somebody_says_so(void **state)
{
    struct world *w = *state;
    write_queue(w, "mail", "{\"weight\":7}");
    catalog_watcher_notify(w->watcher, false, true, 0);
    wait_for(&w->catalog_read);
    assert_int_equal(catalog_cache_queue(w->catalog, TENANT, S("mail"), NULL).weight, 7);
    write_queue(w, "mail", "{\"weight\":8}");
    catalog_watcher_notify(w->watcher, false, true, 0);
    wait_for(&w->catalog_read);
    assert_int_equal(catalog_cache_queue(w->catalog, TENANT, S("mail"), NULL).weight, 8);
}

static void a_catalog_of_many_pages_is_read_whole(void **state)
{
    struct world *w = *state;
    char name[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "q%04d", i);
        write_queue(w, name, "{\"weight\":7}");
    }
    struct reader *r;
    struct error e;
    assert_ok(store_reader(w->store, &r, &e), &e);
    assert_ok(catalog_watcher_fill(w->catalog, r, &e), &e);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "q%04d", i);
        assert_int_equal(catalog_cache_queue(w->catalog, TENANT, str_from(name), NULL).weight, 7);
    }
    reader_free(r);
}

static void entries_too_large_for_one_page_are_read_one_by_one(void **state)
{
    struct world *w = *state;
    enum { SIZE = 3 << 20 };
    char *doc = xmalloc(SIZE + 64);
    for (int i = 0; i < 15; i++) {
        char name[16];
        int n = snprintf(doc, 64, "{\"weight\":%d", i + 1);
        memset(doc + n, ' ', SIZE);
        memcpy(doc + n + SIZE, "}", 2);
        snprintf(name, sizeof name, "q%02d", i);
        struct catalog_change change = {
            .entry = { .kind = CATALOG_QUEUE, .tenant = TENANT, .name = str_from(name), .doc = str_from(doc) }
        };
        struct op_catalog op = { .op.kind = OP_CATALOG, .v = &change, .n = 1, .now_ms = NOW };
        apply(w, &op.op);
    }
    free(doc);
    struct reader *r;
    struct error e;
    assert_ok(store_reader(w->store, &r, &e), &e);
    assert_ok(catalog_watcher_fill(w->catalog, r, &e), &e);
    assert_int_equal(catalog_cache_queue(w->catalog, TENANT, S("q00"), NULL).weight, 1);
    assert_int_equal(catalog_cache_queue(w->catalog, TENANT, S("q14"), NULL).weight, 15);
    reader_free(r);
}

static void new_lanes_are_found_without_a_word(void **state)
{
    struct world *w = *state;
    size_t n = 0;
    write_task(w, "mail");
    write_task(w, "post");
    while (n != 2) {
        wait_for(&w->lanes_read);
        pthread_mutex_lock(&w->lock);
        n = w->lane_count;
        pthread_mutex_unlock(&w->lock);
    }
}

static void breakers_of_other_nodes_come_before_the_lanes(void **state)
{
    struct world *w = *state;
    size_t n = 0;
    struct breaker_change opened = {
        .row = { .id = { { 1 } }, .tenant = TENANT, .host = S("a.example"), .opened_ms = NOW, .until_ms = NOW + 30000 }
    };
    struct op_breakers op = { .op.kind = OP_BREAKERS, .v = &opened, .n = 1 };
    apply(w, &op.op);
    catalog_watcher_notify(w->watcher, true, false, 0);
    while (n != 1) {
        wait_for(&w->lanes_read);
        pthread_mutex_lock(&w->lock);
        n = w->breaker_count;
        pthread_mutex_unlock(&w->lock);
    }
}

static void all_pages_of_breakers_are_read(void **state)
{
    struct world *w = *state;
    enum { MANY = LIST_MAX + 5 };
    for (int i = 0; i < MANY; i++) {
        char host[16];
        int size = snprintf(host, sizeof host, "h%d", i);
        struct breaker_change opened = {
            .row = { .id = { { 1, (uint8_t)(i >> 8), (uint8_t)i } }, .tenant = TENANT, .host = { host, (size_t)size } }
        };
        struct op_breakers op = { .op.kind = OP_BREAKERS, .v = &opened, .n = 1 };
        apply(w, &op.op);
    }
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 16 << 20);
    struct breaker_rows rows = { 0 };
    struct reader *r;
    struct error e;
    assert_ok(store_reader(w->store, &r, &e), &e);
    assert_ok(catalog_watcher_read_breakers(r, &a, &rows, &e), &e);
    assert_int_equal(rows.n, MANY);
    assert_str(rows.v[0].host, "h1004");
    assert_str(rows.v[MANY - 1].host, "h0");
    reader_free(r);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_changed_catalog_is_read_when_somebody_says_so),    TEST(a_catalog_of_many_pages_is_read_whole),
        TEST(entries_too_large_for_one_page_are_read_one_by_one), TEST(new_lanes_are_found_without_a_word),
        TEST(breakers_of_other_nodes_come_before_the_lanes),      TEST(all_pages_of_breakers_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
