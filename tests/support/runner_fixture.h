#pragma once
/* tests/support/runner_fixture.h - a loop, an HTTP server and an HTTP runner; a probe is a run that records its
 * outcome. */
#include "check.h"
#include "platform/clock_system.h"
#include "runner/http/internal.h"
#include "stub_server.h"

struct fixture {
    uv_loop_t loop;
    struct stub_server target;
    struct runner *runner;
    struct runner_http_setup setup;
};

/* One run's outcome, copied by its `done`. */
struct probe {
    struct run run;
    struct task task;
    char config[512];
    int done;
    struct outcome outcome;
    char error[256], output[20000], trace_id[40];
    size_t output_n;
};

static char name_servers[64];

static inline int setup_fixture(void **state)
{
    struct fixture *f = xnew(*f);
    uv_loop_init(&f->loop);
    stub_server_open(&f->target, &f->loop);
    f->setup = RUNNER_HTTP_SETUP;
    f->setup.guard.allow_loopback = true;
    snprintf(name_servers, sizeof name_servers, "127.0.0.1:%d", f->target.names_port);
    f->setup.name_servers = name_servers;
    *state = f;
    return 0;
}

static inline int teardown_fixture(void **state)
{
    struct fixture *f = *state;
    runner_free(f->runner);
    stub_server_close(&f->target);
    int rc = uv_loop_close(&f->loop);
    free(f);
    return rc;
}

static inline struct runner *runner(struct fixture *f)
{
    struct error e;
    if (!f->runner) {
        f->runner = runner_http_new(&f->loop, clock_system(), &f->setup, &e);
        if (!f->runner)
            fail_msg("%s", e.text);
    }
    return f->runner;
}

static inline void keep_outcome(struct run *run, const struct outcome *o)
{
    struct probe *p = run->context;
    p->done++;
    p->outcome = *o;
    snprintf(p->error, sizeof p->error, STR_FMT, STR_ARG(o->error));
    snprintf(p->trace_id, sizeof p->trace_id, STR_FMT, STR_ARG(o->trace_id));
    p->output_n = o->output.n;
    memcpy(p->output, o->output.p ? o->output.p : "", min_of(o->output.n, sizeof p->output));
}

/* more: further members of the target, starting with a comma. */
static inline void prepare(struct fixture *f, struct probe *p, const char *host, const char *path, const char *more)
{
    memset(p, 0, sizeof *p);
    snprintf(p->config, sizeof p->config, "{\"url\": \"http://%s:%d%s\"%s}", host, f->target.port, path, more);
    p->task = (struct task){ .state = TASK_RUNNING,
                             .timeout_ms = 5000,
                             .fence = 3,
                             .target_config = str_from(p->config),
                             .payload = S("{\"n\": 1}") };
    (void)uuid_parse(S("01890a5d-ac96-774b-bcce-b302099a8057"), &p->task.id);
    p->run = (struct run){ .task = &p->task, .worker = S("w1"), .done = keep_outcome, .context = p };
}

static inline void finish(struct fixture *f, struct probe *p)
{
    for (int i = 0; !p->done && i < 100000; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(p->done, 1);
    assert_true(p->outcome.started_us > 0 && p->outcome.completed_us >= p->outcome.started_us);
    assert_str(p->outcome.worker, "w1");
}

static inline void call(struct fixture *f, struct probe *p)
{
    runner_start(runner(f), &p->run);
    finish(f, p);
}

static inline void call_path(struct fixture *f, struct probe *p, const char *path)
{
    prepare(f, p, "127.0.0.1", path, "");
    call(f, p);
}

#define WITH_FIXTURE(name) cmocka_unit_test_setup_teardown(name, setup_fixture, teardown_fixture)
