/* Many calls, hosts and tenants: the limits on connections. */
#include <sys/resource.h>

#include "http_hosts.h"
#include "runner_fixture.h"

/* ---- limits ---- */

static void run_many(struct fixture *f, size_t count, const char *const *hosts, size_t host_count, const char *path)
{
    struct probe *p = xcalloc(count, sizeof *p);
    for (size_t i = 0; i < count; i++) {
        prepare(f, &p[i], hosts[i % host_count], path, "");
        runner_start(runner(f), &p[i].run);
    }
    for (size_t i = 0; i < count; i++) {
        finish(f, &p[i]);
        assert_int_equal(p[i].outcome.kind, OUTCOME_OK);
    }
    free(p);
}

static void a_host_gets_no_more_connections_than_its_share(void **state)
{
    struct fixture *f = *state;
    f->setup.host_connections_max = 16;
    run_many(f, 300, (const char *const[]){ "127.0.0.1" }, 1, "/hold");
    assert_int_equal(f->target.requests, 300);
    assert_int_equal(f->target.open_max, 16);
}

static void all_hosts_together_stay_below_the_limit(void **state)
{
    struct fixture *f = *state;
    f->setup.in_flight_max = 10;
    f->setup.host_connections_max = 8;
    run_many(f, 120, (const char *const[]){ "127.0.0.1", "ok.test", "mixed.test" }, 3, "/hold");
    assert_int_equal(f->target.requests, 120);
    assert_in_range(f->target.open_max, 8, 24); /* idle connections to the other hosts stay open */
}

/* Would happen if libcurl waited for the first response to learn whether calls can share a connection. */
static void a_silent_call_holds_up_none_beside_it(void **state)
{
    struct fixture *f = *state;
    struct probe silent, p[5];
    prepare(f, &silent, "127.0.0.1", "/silent", "");
    runner_start(runner(f), &silent.run);
    for (size_t i = 0; i < array_count(p); i++) {
        prepare(f, &p[i], "127.0.0.1", "/ok", "");
        runner_start(f->runner, &p[i].run);
    }
    for (size_t i = 0; i < array_count(p); i++) {
        finish(f, &p[i]);
        assert_int_equal(p[i].outcome.kind, OUTCOME_OK);
    }
    assert_int_equal(silent.done, 0);
    runner_abort(f->runner, &silent.run);
}

static void more_calls_than_spare_handles_are_fine(void **state)
{
    struct fixture *f = *state;
    f->setup.host_connections_max = 40;
    run_many(f, 700, (const char *const[]){ "127.0.0.1" }, 1, "/ok");
    assert_int_equal(f->target.requests, 700);
}

/* A `done` may start the next run. */
struct chain {
    struct fixture *f;
    int left;
};

static void start_next(struct run *run, const struct outcome *o)
{
    struct chain *c = run->context;
    assert_int_equal(o->kind, OUTCOME_OK);
    if (--c->left > 0)
        runner_start(c->f->runner, run);
}

static void a_done_may_start_another(void **state)
{
    struct fixture *f = *state;
    struct chain c = { .f = f, .left = 50 };
    struct probe p;
    prepare(f, &p, "127.0.0.1", "/ok", "");
    p.run.done = start_next;
    p.run.context = &c;
    runner_start(runner(f), &p.run);
    uv_run(&f->loop, UV_RUN_DEFAULT); /* ends by itself: an idle runner does not keep the loop alive */
    assert_int_equal(c.left, 0);
    assert_int_equal(f->target.requests, 50);
}

static void set_over(uv_timer_t *t)
{
    *(bool *)t->data = true;
}

static void hosts_and_connections_nobody_uses_are_dropped(void **state)
{
    struct fixture *f = *state;
    f->setup.idle_timeout_ms = 1;
    struct probe p;
    call_path(f, &p, "/ok");
    struct runner_http *r = container_of(runner(f), struct runner_http, base);
    assert_int_equal(r->hosts.n, 1);
    assert_int_equal(r->tenants.n, 1);
    uv_timer_t patience; /* the sweep timer alone does not keep the loop alive */
    bool over = false;
    uv_timer_init(&f->loop, &patience);
    patience.data = &over;
    uv_timer_start(&patience, set_over, 4000, 0);
    while ((r->hosts.n || f->target.open) && !over)
        uv_run(&f->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&patience, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(r->hosts.n, 0);
    assert_int_equal(r->tenants.n, 0);
    assert_int_equal(f->target.open, 0);
    assert_false(uv_is_active((uv_handle_t *)r->sweep_timer));
    call_path(f, &p, "/ok");
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
    assert_int_equal(f->target.connections, 2);
}

/* ---- tenants ---- */

static void call_as(struct fixture *f, int32_t tenant, const char *host, enum delivery delivery)
{
    struct probe p;
    prepare(f, &p, host, "/ok", "");
    p.task.tenant = tenant;
    p.task.delivery = delivery;
    call(f, &p);
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
}

static void tenants_do_not_share_connections(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 5; i++)
        for (int32_t tenant = 1; tenant <= 3; tenant++)
            call_as(f, tenant, i % 2 ? "127.0.0.1" : "ok.test", DELIVER_AT_LEAST_ONCE);
    assert_int_equal(f->target.requests, 15);
    assert_int_equal(f->target.connections, 6); /* one connection for each tenant and host */
}

/* Lets the target notice closed connections. */
static void settle_at(struct fixture *f, int open)
{
    for (int i = 0; f->target.open > open && i < 100000; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->target.open, open);
}

static void run_held(struct fixture *f, int32_t tenant, size_t count)
{
    struct probe *p = xcalloc(count, sizeof *p);
    for (size_t i = 0; i < count; i++) {
        prepare(f, &p[i], "127.0.0.1", "/hold", "");
        p[i].task.tenant = tenant;
        runner_start(runner(f), &p[i].run);
    }
    for (size_t i = 0; i < count; i++) {
        finish(f, &p[i]);
        assert_int_equal(p[i].outcome.kind, OUTCOME_OK);
    }
    free(p);
}

/* A tenant's idle connection makes room for the next tenant's, and each tenant reuses its own. */
static void tenants_share_the_limit_of_a_host(void **state)
{
    struct fixture *f = *state;
    f->setup.host_connections_max = 8;
    for (int round = 0; round < 3; round++)
        for (int32_t tenant = 1; tenant <= 3; tenant++) {
            run_held(f, tenant, 20);
            settle_at(f, 8);
        }
    assert_int_equal(f->target.requests, 180);
    run_held(f, 3, 20);
    assert_int_equal(f->target.connections, 72); /* 8 per turn, but the last tenant kept its own */
}

static void connections_of_all_hosts_share_a_limit(void **state)
{
    struct fixture *f = *state;
    static const char *const hosts[] = { "127.0.0.1", "ok.test", "mixed.test", "localhost" };
    f->setup.in_flight_max = 3;
    for (int32_t tenant = 1; tenant <= 4; tenant++)
        for (size_t i = 0; i < array_count(hosts); i++)
            call_as(f, tenant, hosts[i], DELIVER_AT_LEAST_ONCE);
    settle_at(f, 3);
    assert_int_equal(f->target.connections, 16);
}

static void fresh_connections_do_not_pile_up(void **state)
{
    struct fixture *f = *state;
    f->setup.host_connections_max = 4;
    for (int i = 0; i < 20; i++)
        call_as(f, 1, "127.0.0.1", DELIVER_AT_MOST_ONCE);
    settle_at(f, 4);
    assert_int_equal(f->target.connections, 20);
}

/* ---- ten thousand ---- */

enum { HOSTS = 40, EACH = 300, BUSY_ONE = 1000, IN_FLIGHT = 10000, SPARE_DESCRIPTORS = 500 };

struct one {
    struct run run;
    struct task task;
    char config[64];
    struct ten_thousand *all;
};

struct ten_thousand {
    size_t count, done;
    struct one v[(HOSTS - 1) * EACH + BUSY_ONE];
};

static void count_done(struct run *run, const struct outcome *o)
{
    struct ten_thousand *all = run->context;
    if (o->kind != OUTCOME_OK)
        fail_msg("call %zu: " STR_FMT, all->done, STR_ARG(o->error));
    all->done++;
}

static void start_one(struct fixture *f, const struct http_hosts *servers, struct ten_thousand *all, int host)
{
    struct one *o = &all->v[all->count++];
    char name[16];
    http_hosts_address(host, name);
    snprintf(o->config, sizeof o->config, "{\"url\": \"http://%s:%d/\", \"method\": \"GET\"}", name,
             servers->ports[host]);
    o->task = (struct task){ .state = TASK_RUNNING,
                             .tenant = (int32_t)(all->count % 3),
                             .fence = 1,
                             .timeout_ms = 300000,
                             .target_config = str_from(o->config) };
    o->run = (struct run){ .task = &o->task, .worker = S("w1"), .done = count_done, .context = all };
    runner_start(runner(f), &o->run);
}

static bool may_open(rlim_t descriptors)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max >= descriptors;
}

/* One host gets more calls than its connection limit; all hosts together get more than may be in flight. */
static void ten_thousand_are_in_flight_on_one_thread(void **state)
{
    struct fixture *f = *state;
    struct http_hosts servers;
    if (!may_open(IN_FLIGHT + SPARE_DESCRIPTORS)) {
        print_message("skipped: the limit of open files is below %d\n", IN_FLIGHT + SPARE_DESCRIPTORS);
        skip();
    }
    assert_true(http_hosts_open(&servers, HOSTS));
    struct ten_thousand *all = xnew(*all);
    for (int i = 0; i < BUSY_ONE; i++)
        start_one(f, &servers, all, 0);
    for (int i = 0; i < EACH * (HOSTS - 1); i++)
        start_one(f, &servers, all, 1 + i % (HOSTS - 1));
    struct runner_http *r = container_of(runner(f), struct runner_http, base);
    while (servers.seen->held < IN_FLIGHT)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(r->running, IN_FLIGHT);
    assert_int_equal(r->open, all->count); /* the others wait in this host's queue */
    assert_int_equal(servers.seen->host[0].open, 256);
    assert_int_equal(all->done, 0);
    http_hosts_release(&servers);
    while (all->done < all->count)
        uv_run(&f->loop, UV_RUN_ONCE);
    int requests = 0;
    for (int host = 0; host < HOSTS; host++) {
        assert_in_range(servers.seen->host[host].open_max, 1, 256);
        requests += servers.seen->host[host].requests;
    }
    assert_int_equal(requests, all->count);
    free(all);
    http_hosts_close(&servers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(a_host_gets_no_more_connections_than_its_share),
        WITH_FIXTURE(all_hosts_together_stay_below_the_limit),
        WITH_FIXTURE(a_silent_call_holds_up_none_beside_it),
        WITH_FIXTURE(more_calls_than_spare_handles_are_fine),
        WITH_FIXTURE(a_done_may_start_another),
        WITH_FIXTURE(hosts_and_connections_nobody_uses_are_dropped),
        WITH_FIXTURE(tenants_do_not_share_connections),
        WITH_FIXTURE(tenants_share_the_limit_of_a_host),
        WITH_FIXTURE(connections_of_all_hosts_share_a_limit),
        WITH_FIXTURE(fresh_connections_do_not_pile_up),
        WITH_FIXTURE(ten_thousand_are_in_flight_on_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
