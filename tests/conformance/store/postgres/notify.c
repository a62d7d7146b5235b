/* Notices between nodes on one PostgreSQL: the other nodes learn of a change soon, and many changes make one notice. */
#include <pthread.h>
#include <time.h>

#include "postgres_fixture.h"

enum { TENANT = 1, ARENA = 1 << 20, PATIENCE_S = 30, SOON_MS = 500 };

/* A watch that merges all notices so far. */
struct ear {
    struct store_watch watch;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t heard;
    struct store_notice news;
    int count;
};

struct world {
    char url[POSTGRES_URL];
    struct store *here, *there;
    struct ear ear; /* watches `there` */
};

static struct world the_world;

static void hear(struct store_watch *w, const struct store_notice *n)
{
    struct ear *ear = container_of(w, struct ear, watch);
    pthread_mutex_lock(&ear->lock);
    struct store_notice *all = &ear->news;
    if (n->due)
        all->due_ms = all->due ? min_of(all->due_ms, n->due_ms) : n->due_ms;
    all->due |= n->due;
    all->lanes |= n->lanes;
    all->catalog |= n->catalog;
    all->catalog_change = max_of(all->catalog_change, n->catalog_change);
    all->recall_requested |= n->recall_requested;
    all->nodes |= n->nodes;
    all->all |= n->all;
    ear->count++;
    pthread_cond_signal(&ear->heard);
    pthread_mutex_unlock(&ear->lock);
}

static bool heard_all(const struct store_notice *n)
{
    return n->all;
}

static bool heard_due(const struct store_notice *n)
{
    return n->due;
}

static bool heard_catalog(const struct store_notice *n)
{
    return n->catalog;
}

static bool heard_nodes(const struct store_notice *n)
{
    return n->nodes;
}

/* Waits for a notice, then drops all notices so far. False: none came within that time. */
static bool wait_for(struct ear *ear, bool (*what)(const struct store_notice *), int64_t ms, struct store_notice *ret)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int rc = 0;
    pthread_mutex_lock(&ear->lock);
    while (!what(&ear->news) && rc == 0)
        rc = pthread_cond_timedwait(&ear->heard, &ear->lock, &until);
    bool heard = what(&ear->news);
    if (ret)
        *ret = ear->news;
    ear->news = (struct store_notice){ 0 };
    pthread_mutex_unlock(&ear->lock);
    return heard;
}

static void must_hear(struct ear *ear, bool (*what)(const struct store_notice *), struct store_notice *ret)
{
    assert_true(wait_for(ear, what, PATIENCE_S * 1000LL, ret));
}

static int count_of(struct ear *ear)
{
    pthread_mutex_lock(&ear->lock);
    int n = ear->count;
    pthread_mutex_unlock(&ear->lock);
    return n;
}

static int64_t now_ms(void)
{
    return clock_wall_ms(clock_system());
}

static void apply(struct store *s, struct op *op)
{
    struct error e = { 0 };
    arena_init(&op->arena, ARENA);
    assert_ok(store_apply(s, &op, 1, &e), &e);
    assert_ok(op->rc, &op->error);
    arena_release(&op->arena);
}

static void make_task(struct store *s, int64_t due_ms)
{
    static uint32_t number;
    struct task t = { .tenant = TENANT,
                      .kind = TASK_ONE_TIME,
                      .state = TASK_SCHEDULED,
                      .priority = 5,
                      .queue = S("mail"),
                      .name = S("t"),
                      .version = 1,
                      .target = TARGET_NOOP,
                      .target_config = S("{}"),
                      .created_ms = now_ms(),
                      .updated_ms = now_ms(),
                      .due_ms = due_ms,
                      .scheduled_ms = due_ms,
                      .retry.max_attempts = 1 };
    number++;
    memcpy(t.id.b, &number, sizeof number);
    struct op_insert op = { .op.kind = OP_INSERT, .tasks = &t, .count = 1 };
    apply(s, &op.op);
}

static void change_catalog(struct store *s)
{
    struct catalog_change change = {
        .entry = { .kind = CATALOG_QUEUE, .tenant = TENANT, .name = S("mail"), .doc = S("{}") }, .version = -1
    };
    struct op_catalog op = { .op.kind = OP_CATALOG, .v = &change, .n = 1, .now_ms = now_ms() };
    apply(s, &op.op);
}

static int setup(void **state)
{
    struct world *w = *state = &the_world;
    struct error e = { 0 };
    postgres_wipe(w->url);
    w->ear = (struct ear){ .watch.on_notice = hear };
    pthread_mutex_init(&w->ear.lock, NULL);
    pthread_cond_init(&w->ear.heard, NULL);
    assert_ok(postgres_store_open(w->url, &w->here, &e), &e);
    assert_ok(postgres_store_open(w->url, &w->there, &e), &e);
    store_watch(w->there, &w->ear.watch);
    must_hear(&w->ear, heard_all, NULL); /* a new listener first reports "look at everything" */
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    store_watch(w->there, NULL);
    store_free(w->here);
    store_free(w->there);
    pthread_mutex_destroy(&w->ear.lock);
    pthread_cond_destroy(&w->ear.heard);
    return 0;
}

/* ---- notices ---- */

static void what_becomes_due_soon_is_heard_at_once(void **state)
{
    struct world *w = *state;
    struct store_notice n;
    int64_t due_ms = now_ms() + 100;
    make_task(w->here, due_ms);
    must_hear(&w->ear, heard_due, &n);
    assert_true(n.due_ms == due_ms);
    assert_true(n.lanes); /* the task is the first of its lane */
    assert_false(n.catalog || n.all);
}

static void what_is_due_later_is_nobodys_news(void **state)
{
    struct world *w = *state;
    struct store_notice n;
    make_task(w->here, now_ms() + 60000);
    change_catalog(w->here); /* sent behind it, to show when the waiting may end */
    must_hear(&w->ear, heard_catalog, &n);
    assert_false(n.due);
}

static void a_changed_catalog_and_a_node_that_comes_are_heard(void **state)
{
    struct world *w = *state;
    change_catalog(w->here);
    must_hear(&w->ear, heard_catalog, NULL);
    struct op_heartbeat beat = { .op.kind = OP_HEARTBEAT,
                                 .node = { .id.b = { 1 }, .name = S("n"), .version = S("1"), .doc = S("{}") },
                                 .now_ms = now_ms() };
    apply(w->here, &beat.op);
    must_hear(&w->ear, heard_nodes, NULL);
}

static void who_does_it_does_not_hear_it(void **state)
{
    struct world *w = *state;
    change_catalog(w->there);
    make_task(w->here, now_ms());
    struct store_notice n;
    must_hear(&w->ear, heard_due, &n);
    assert_false(n.catalog);
}

static void much_at_once_is_one_piece_of_news(void **state)
{
    struct world *w = *state;
    int before = count_of(&w->ear);
    int64_t begun_ms = now_ms();
    for (int i = 0; i < 300; i++)
        make_task(w->here, now_ms());
    change_catalog(w->here);
    must_hear(&w->ear, heard_catalog, NULL);
    assert_true(count_of(&w->ear) - before <= (now_ms() - begun_ms) / 5 + 2);
}

static void who_was_cut_off_looks_at_everything(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 3; i++) {
        postgres_run(w->url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
                             "query LIKE 'LISTEN%' AND datname = current_database()");
        must_hear(&w->ear, heard_all, NULL);
    }
    make_task(w->here, now_ms());
    must_hear(&w->ear, heard_due, NULL);
}

static void what_could_not_be_told_is_told_later(void **state)
{
    struct world *w = *state;
    change_catalog(w->here);
    must_hear(&w->ear, heard_catalog, NULL);
    postgres_run(w->url,
                 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query "
                 "LIKE '%pg_notify%' AND query NOT LIKE '%terminate%' AND datname = current_database()");
    change_catalog(w->here);
    must_hear(&w->ear, heard_catalog, NULL);
}

static void nobody_is_told_after_it_stopped_listening(void **state)
{
    struct world *w = *state;
    store_watch(w->there, NULL);
    int before = count_of(&w->ear);
    change_catalog(w->here);
    store_watch(w->there, &w->ear.watch); /* a listener that comes back reports "look at everything" */
    must_hear(&w->ear, heard_all, NULL);
    assert_true(count_of(&w->ear) > before);
}

/* ---- the catalog barrier ---- */

struct waiter {
    struct store_barrier barrier;
    struct ear *ear; /* its lock and condition are used */
    int times;
};

static void over(struct store_barrier *barrier)
{
    struct waiter *w = container_of(barrier, struct waiter, barrier);
    pthread_mutex_lock(&w->ear->lock);
    w->times++;
    pthread_cond_broadcast(&w->ear->heard);
    pthread_mutex_unlock(&w->ear->lock);
}

static int times_of(struct waiter *w)
{
    pthread_mutex_lock(&w->ear->lock);
    int times = w->times;
    pthread_mutex_unlock(&w->ear->lock);
    return times;
}

static void must_be_over(struct waiter *w)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    int rc = 0;
    pthread_mutex_lock(&w->ear->lock);
    while (!w->times && rc == 0)
        rc = pthread_cond_timedwait(&w->ear->heard, &w->ear->lock, &until);
    assert_int_equal(w->times, 1);
    pthread_mutex_unlock(&w->ear->lock);
}

static void beat(struct store *s, uint8_t id, bool leave)
{
    struct op_heartbeat op = { .op.kind = OP_HEARTBEAT,
                               .node = { .id.b = { id }, .name = S("n"), .version = S("1"), .doc = S("{}") },
                               .now_ms = now_ms(),
                               .leave = leave };
    apply(s, &op.op);
}

/* Makes two nodes that know each other. The first one listens as well, with *ear. */
static void know_each_other(struct world *w, struct ear *ear)
{
    *ear = (struct ear){ .watch.on_notice = hear };
    pthread_mutex_init(&ear->lock, NULL);
    pthread_cond_init(&ear->heard, NULL);
    store_watch(w->here, &ear->watch);
    must_hear(ear, heard_all, NULL);
    beat(w->here, 1, false);
    beat(w->there, 2, false);
    beat(w->here, 1, false);
}

static void forget_each_other(struct world *w, struct ear *ear)
{
    store_watch(w->here, NULL);
    pthread_mutex_destroy(&ear->lock);
    pthread_cond_destroy(&ear->heard);
}

static void who_changes_the_catalog_learns_that_the_other_heeds_it(void **state)
{
    struct world *w = *state;
    static struct ear ear; /* static, because a failed test leaves it listening */
    know_each_other(w, &ear);
    struct waiter waiter = { .barrier.done = over, .ear = &ear };
    struct store_notice n;
    change_catalog(w->here);
    store_barrier_wait(w->here, &waiter.barrier);
    must_hear(&w->ear, heard_catalog, &n);
    assert_true(n.catalog_change > 0);
    store_catalog_applied(w->there, n.catalog_change - 1); /* an earlier change */
    assert_int_equal(times_of(&waiter), 0);
    store_catalog_applied(w->there, n.catalog_change);
    must_be_over(&waiter);
    forget_each_other(w, &ear);
}

static void a_key_that_is_taken_away_is_heeded_too(void **state)
{
    struct world *w = *state;
    static struct ear ear; /* static, because a failed test leaves it listening */
    know_each_other(w, &ear);
    struct waiter waiter = { .barrier.done = over, .ear = &ear };
    struct store_notice n;
    struct api_key key = { .id = S("k123456789"), .tenant = TENANT, .name = S("k"), .scopes = S("admin") };
    struct op_key_put put = { .op.kind = OP_KEY_PUT, .key = &key };
    apply(w->here, &put.op);
    must_hear(&w->ear, heard_catalog, NULL);
    put = (struct op_key_put){ .op.kind = OP_KEY_PUT, .key = &key, .remove = true, .now_ms = 1 };
    apply(w->here, &put.op);
    store_barrier_wait(w->here, &waiter.barrier);
    must_hear(&w->ear, heard_catalog, &n);
    assert_int_equal(times_of(&waiter), 0);
    store_catalog_applied(w->there, n.catalog_change);
    must_be_over(&waiter);
    forget_each_other(w, &ear);
}

static void nobody_waits_for_a_node_that_left(void **state)
{
    struct world *w = *state;
    static struct ear ear; /* static, because a failed test leaves it listening */
    know_each_other(w, &ear);
    struct waiter waiter = { .barrier.done = over, .ear = &ear }, late = waiter;
    change_catalog(w->here);
    store_barrier_wait(w->here, &waiter.barrier);
    store_barrier_wait(w->here, &late.barrier);
    assert_true(store_barrier_cancel(w->here, &late.barrier));
    beat(w->there, 2, true);
    assert_int_equal(times_of(&waiter), 0);
    beat(w->here, 1, false);
    must_be_over(&waiter);
    assert_false(store_barrier_cancel(w->here, &waiter.barrier));
    assert_int_equal(times_of(&late), 0);
    forget_each_other(w, &ear);
}

static void who_does_not_listen_waits_for_nobody(void **state)
{
    struct world *w = *state;
    struct waiter waiter = { .barrier.done = over, .ear = &w->ear };
    beat(w->there, 2, false);
    beat(w->here, 1, false);
    change_catalog(w->here);
    store_barrier_wait(w->here, &waiter.barrier);
    assert_int_equal(times_of(&waiter), 1);
}

static void a_line_that_nobody_understands_is_news_of_some_kind(void **state)
{
    struct world *w = *state;
    postgres_run(w->url, "SELECT pg_notify('belfry', '2 something of the future')");
    must_hear(&w->ear, heard_all, NULL);
}

static void an_address_to_listen_at_that_is_none_is_refused(void **state)
{
    struct world *w = *state;
    struct store *s = NULL;
    struct error e = { 0 };
    struct store_postgres_setup setup = { .url = w->url, .listen_url = "postgres://[::1/x", .clock = clock_system() };
    assert_int_equal(store_postgres_open(&setup, &s, &e), ERR_INVALID);
    assert_says(&e, "is not an address of a PostgreSQL database");
}

static int make(void **state)
{
    (void)state;
    postgres_make("news", the_world.url);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    postgres_drop(the_world.url);
    return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_becomes_due_soon_is_heard_at_once),
        TEST(what_is_due_later_is_nobodys_news),
        TEST(a_changed_catalog_and_a_node_that_comes_are_heard),
        TEST(who_does_it_does_not_hear_it),
        TEST(much_at_once_is_one_piece_of_news),
        TEST(who_was_cut_off_looks_at_everything),
        TEST(what_could_not_be_told_is_told_later),
        TEST(nobody_is_told_after_it_stopped_listening),
        TEST(who_changes_the_catalog_learns_that_the_other_heeds_it),
        TEST(a_key_that_is_taken_away_is_heeded_too),
        TEST(nobody_waits_for_a_node_that_left),
        TEST(who_does_not_listen_waits_for_nobody),
        TEST(a_line_that_nobody_understands_is_news_of_some_kind),
        TEST(an_address_to_listen_at_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
