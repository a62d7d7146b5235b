/* The pool threads of the API (api/server/thread_pool.h): tenants take turns, and slow jobs leave threads to the others. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "api/server/thread_pool.h"
#include "check.h"
#include "model/store_memory.h"

enum { MANY = 100 };

struct job {
    struct list link;
    int32_t tenant;
};

static _Atomic bool holds; /* the first job waits for the test */
static _Atomic int ran;
static int32_t order[2 * MANY + 2];

static void on_job(struct list *link, struct reader *r)
{
    assert_non_null(r);
    while (holds)
        sched_yield();
    order[ran] = container_of(link, struct job, link)->tenant;
    ran++;
}

static void submit(struct thread_pool *p, struct job *j, int32_t tenant)
{
    j->tenant = tenant;
    thread_pool_submit(p, tenant, THREAD_POOL_QUICK, &j->link);
}

static void a_tenant_with_many_jobs_delays_another_by_one(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *store = store_memory_new();
    struct thread_pool *p = NULL;
    static struct job first, many[MANY], few[2], last;
    assert_ok(thread_pool_new(store, 1, on_job, &p, &e), &e);
    holds = true;
    submit(p, &first, 1);
    for (size_t i = 0; i < MANY; i++)
        submit(p, &many[i], 1);
    submit(p, &few[0], 2);
    submit(p, &few[1], 2);
    submit(p, &last, 3);
    holds = false;
    thread_pool_free(p); /* all jobs have run */
    assert_int_equal(ran, MANY + 4);
    int place_of_second = 0, place_of_third = 0;
    for (int i = 0, seen = 0; i < ran; i++) {
        seen += order[i] == 2;
        place_of_second = order[i] == 2 && seen == 2 ? i : place_of_second;
        place_of_third = order[i] == 3 ? i : place_of_third;
    }
    assert_true(place_of_third <= 4); /* 1, perhaps 1, 2, 3 */
    assert_true(place_of_second <= 7);
    store_free(store);
}

/* ---- slow jobs ---- */

enum { SLOW = 12, QUICK = 50, PLACES = 64 };

struct long_job {
    struct list link;
    int32_t tenant;
    bool is_slow;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int allowed; /* slow jobs may end; each takes one */
    int running, running_max, slow_ran, quick_ran;
    int32_t order[PLACES]; /* the tenants of the slow jobs that began */
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void on_long_job(struct list *link, struct reader *r)
{
    struct long_job *j = container_of(link, struct long_job, link);
    assert_non_null(r);
    pthread_mutex_lock(&seen.lock);
    if (j->is_slow) {
        seen.order[seen.slow_ran++] = j->tenant;
        seen.running++;
        seen.running_max = max_of(seen.running_max, seen.running);
        pthread_cond_broadcast(&seen.changed);
        while (!seen.allowed)
            pthread_cond_wait(&seen.changed, &seen.lock);
        seen.allowed--;
        seen.running--;
    } else {
        seen.quick_ran++;
    }
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static void wait_for(const int *what, int count)
{
    pthread_mutex_lock(&seen.lock);
    while (*what < count)
        pthread_cond_wait(&seen.changed, &seen.lock);
    pthread_mutex_unlock(&seen.lock);
}

static void allow(int count)
{
    pthread_mutex_lock(&seen.lock);
    seen.allowed += count;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static void submit_long(struct thread_pool *p, struct long_job *j, int32_t tenant, bool is_slow)
{
    *j = (struct long_job){ .tenant = tenant, .is_slow = is_slow };
    thread_pool_submit(p, tenant, is_slow ? THREAD_POOL_SLOW : THREAD_POOL_QUICK, &j->link);
}

static struct thread_pool *new_pool(struct store *store, size_t threads)
{
    struct error e = { 0 };
    struct thread_pool *p = NULL;
    seen.allowed = seen.running = seen.running_max = seen.slow_ran = seen.quick_ran = 0;
    assert_ok(thread_pool_new(store, threads, on_long_job, &p, &e), &e);
    return p;
}

/* Hangs if it is not so: the slow jobs end only after the quick ones have run. */
static void quick_jobs_run_while_slow_jobs_of_all_tenants_wait(void **state)
{
    (void)state;
    struct store *store = store_memory_new();
    static struct long_job slow[SLOW], quick[QUICK];
    for (size_t threads = 2; threads <= 5; threads++) {
        struct thread_pool *p = new_pool(store, threads);
        int half = (int)threads / 2;
        for (int i = 0; i < SLOW; i++)
            submit_long(p, &slow[i], i % 3 + 1, true);
        wait_for(&seen.running, half);
        for (int i = 0; i < QUICK; i++)
            submit_long(p, &quick[i], i % 2 + 1, false); /* also of a tenant whose slow jobs wait */
        wait_for(&seen.quick_ran, QUICK);
        assert_int_equal(seen.slow_ran, half);
        allow(SLOW);
        wait_for(&seen.slow_ran, SLOW);
        thread_pool_free(p);
        assert_int_equal(seen.running_max, half);
    }
    store_free(store);
}

static void slow_jobs_have_turns_of_their_own(void **state)
{
    (void)state;
    struct store *store = store_memory_new();
    static struct long_job first, many[SLOW], other;
    struct thread_pool *p = new_pool(store, 2);
    submit_long(p, &first, 1, true);
    wait_for(&seen.running, 1);
    for (int i = 0; i < SLOW; i++)
        submit_long(p, &many[i], 1, true);
    submit_long(p, &other, 2, true);
    allow(3); /* the first, one of the many, and the other */
    wait_for(&seen.slow_ran, 4);
    assert_true(seen.order[1] == 2 || seen.order[2] == 2);
    allow(SLOW);
    thread_pool_free(p);
    store_free(store);
}

static void a_pool_that_ends_runs_the_slow_jobs_that_wait(void **state)
{
    (void)state;
    struct store *store = store_memory_new();
    static struct long_job slow[SLOW], quick[QUICK];
    struct thread_pool *p = new_pool(store, 4);
    for (int i = 0; i < SLOW; i++)
        submit_long(p, &slow[i], i, true);
    for (int i = 0; i < QUICK; i++)
        submit_long(p, &quick[i], i, false);
    allow(SLOW);
    thread_pool_free(p);
    assert_int_equal(seen.slow_ran, SLOW);
    assert_int_equal(seen.quick_ran, QUICK);
    store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_with_many_jobs_delays_another_by_one),
        cmocka_unit_test(quick_jobs_run_while_slow_jobs_of_all_tenants_wait),
        cmocka_unit_test(slow_jobs_have_turns_of_their_own),
        cmocka_unit_test(a_pool_that_ends_runs_the_slow_jobs_that_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
