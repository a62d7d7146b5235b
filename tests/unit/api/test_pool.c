/* The pool threads of the API (api/server/pool.h): tenants take turns. */
#include <sched.h>
#include <stdatomic.h>

#include "api/server/pool.h"
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

static void submit(struct pool *p, struct job *j, int32_t tenant)
{
    j->tenant = tenant;
    pool_submit(p, tenant, &j->link);
}

static void a_tenant_with_many_jobs_delays_another_by_one(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *store = store_memory_new();
    struct pool *p = NULL;
    static struct job first, many[MANY], few[2], last;
    assert_ok(pool_new(store, 1, on_job, &p, &e), &e);
    holds = true;
    submit(p, &first, 1);
    for (size_t i = 0; i < MANY; i++)
        submit(p, &many[i], 1);
    submit(p, &few[0], 2);
    submit(p, &few[1], 2);
    submit(p, &last, 3);
    holds = false;
    pool_free(p); /* all jobs have run */
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_tenant_with_many_jobs_delays_another_by_one) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
