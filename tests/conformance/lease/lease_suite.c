/* Checks each adapter against port/lease.h: lease_suite [adapter]. Time passes by waiting, because the clock is the
 * adapter's. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "port/lease.h"
#ifdef HAVE_REDIS
#include "redis_fixture.h"
#endif

enum { LONG_MS = 60000, SHORT_MS = 100, ENOUGH_MS = 5000 };

struct lease_adapter {
    const char *name;
    struct lease *(*open)(const char *prefix); /* opens one more handle with this prefix */
};

#ifdef HAVE_REDIS
static struct lease *open_redis(const char *prefix)
{
    char url[REDIS_URL];
    redis_url(prefix, url);
    return redis_lease(url);
}
#endif

static const struct lease_adapter adapters[] = {
#ifdef HAVE_REDIS
    { "redis", open_redis },
#endif
    { NULL, NULL },
};
static const struct lease_adapter *adapter_under_test;

struct world {
    struct lease *a, *b;    /* two handles */
    struct uuid one, other; /* two holders */
};

static int world_open(void **state)
{
    static int number;
    char prefix[64];
    struct world *w = xnew(*w);
    snprintf(prefix, sizeof prefix, "suite-%d-%lld-%d", (int)getpid(), (long long)time(NULL), number++);
    w->a = adapter_under_test->open(prefix);
    w->b = adapter_under_test->open(prefix);
    w->one.b[0] = 1;
    w->other.b[0] = 2;
    *state = w;
    return 0;
}

static int world_close(void **state)
{
    struct world *w = *state;
    lease_free(w->a);
    lease_free(w->b);
    free(w);
    return 0;
}
#define lease_test(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)

static bool takes(struct lease *l, const char *name, struct uuid holder, int64_t ttl_ms)
{
    struct error e = { 0 };
    bool held = false;
    assert_ok(lease_take(l, str_from(name), holder, ttl_ms, &held, &e), &e);
    return held;
}

static void lets_go(struct lease *l, const char *name, struct uuid holder)
{
    struct error e = { 0 };
    assert_ok(lease_release(l, str_from(name), holder, &e), &e);
}

/* How long it took until the lease could be taken, in milliseconds. */
static int64_t takes_at_last(struct lease *l, const char *name, struct uuid holder)
{
    for (int64_t ms = 0; ms < ENOUGH_MS; ms += 5) {
        if (takes(l, name, holder, LONG_MS))
            return ms;
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    fail_msg("it stays another's");
    return 0;
}

static void one_holds_a_name_at_a_time(void **state)
{
    struct world *w = *state;
    assert_true(takes(w->a, "leader", w->one, LONG_MS));
    assert_false(takes(w->b, "leader", w->other, LONG_MS));
    assert_false(takes(w->a, "leader", w->other, LONG_MS));
    assert_true(takes(w->b, "another", w->other, LONG_MS));
}

static void its_holder_takes_it_again(void **state)
{
    struct world *w = *state;
    assert_true(takes(w->a, "leader", w->one, LONG_MS));
    assert_true(takes(w->b, "leader", w->one, LONG_MS)); /* by any handle */
}

static void it_is_free_when_its_time_is_over(void **state)
{
    struct world *w = *state;
    assert_true(takes(w->a, "leader", w->one, SHORT_MS));
    takes_at_last(w->b, "leader", w->other);
    assert_false(takes(w->a, "leader", w->one, LONG_MS));
}

static void taken_again_it_lasts_longer(void **state)
{
    struct world *w = *state;
    assert_true(takes(w->a, "leader", w->one, SHORT_MS));
    assert_true(takes(w->a, "leader", w->one, LONG_MS));
    nanosleep(&(struct timespec){ .tv_nsec = 2 * SHORT_MS * 1000000L }, NULL);
    assert_false(takes(w->b, "leader", w->other, LONG_MS));
}

static void let_go_it_is_free_at_once(void **state)
{
    struct world *w = *state;
    assert_true(takes(w->a, "leader", w->one, LONG_MS));
    lets_go(w->a, "leader", w->one);
    assert_true(takes(w->b, "leader", w->other, LONG_MS));
}

static void let_go_by_another_it_stays_whose_it_is(void **state)
{
    struct world *w = *state;
    assert_true(takes(w->a, "leader", w->one, LONG_MS));
    lets_go(w->b, "leader", w->other);
    assert_false(takes(w->b, "leader", w->other, LONG_MS));
    lets_go(w->b, "unknown", w->other);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        lease_test(one_holds_a_name_at_a_time),       lease_test(its_holder_takes_it_again),
        lease_test(it_is_free_when_its_time_is_over), lease_test(taken_again_it_lasts_longer),
        lease_test(let_go_it_is_free_at_once),        lease_test(let_go_by_another_it_stays_whose_it_is),
    };
    for (size_t i = 0; i < array_count(adapters); i++)
        if (argc > 1 && adapters[i].name && strcmp(argv[1], adapters[i].name) == 0)
            adapter_under_test = &adapters[i];
    if (!adapter_under_test) {
        fprintf(stderr, "%s is no lease that was built\n", argc > 1 ? argv[1] : "nothing");
        return 2;
    }
    return cmocka_run_group_tests_name(adapter_under_test->name, tests, NULL, NULL);
}
