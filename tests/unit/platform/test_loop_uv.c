#include "check.h"

#include <pthread.h>

#include "platform/clock_system.h"
#include "platform/loop_uv.h"

enum { WAKES = 200, EACH_MS = 3 };

/* Asks for a step every few milliseconds and records when it happens. */
struct ticking {
    struct loop *loop;
    int64_t asked_ms; /* 0: not yet */
    int wakes, early;
    int64_t late_us[WAKES];
};

static int64_t tick(void *context, struct moment now)
{
    struct ticking *t = context;
    int64_t now_us = clock_wall_us(clock_system());
    if (t->asked_ms && now.wall_ms < t->asked_ms) {
        t->early++;
        return t->asked_ms;
    }
    if (t->asked_ms && t->wakes < WAKES)
        t->late_us[t->wakes++] = now_us - t->asked_ms * 1000;
    if (t->wakes == WAKES)
        loop_stop(t->loop);
    return t->asked_ms = now_us / 1000 + EACH_MS;
}

static void a_timer_steps_at_its_time_and_not_before(void **state)
{
    (void)state;
    struct ticking t = { 0 };
    struct error e = { 0 };
    assert_ok(loop_new(&(struct loop_setup){ .clock = clock_system(), .step = tick, .context = &t }, &t.loop, &e), &e);
    loop_run(t.loop);
    loop_free(t.loop);
    assert_int_equal(t.wakes, WAKES);
    assert_int_equal(t.early, 0); /* the loop waits out an early wake-up */
    int on_time = 0;
    for (int i = 0; i < WAKES; i++)
        on_time += t.late_us[i] < EACH_MS * 1000;
    assert_true(on_time > WAKES / 4); /* the machine may be busy */
}

/* ---- calls from another thread ---- */

struct called {
    struct loop *loop;
    struct call call, forgotten;
    pthread_t self, by;
    int steps, steps_before;
    bool done, stopped;
};

static int64_t count(void *context, struct moment now)
{
    (void)now;
    struct called *c = context;
    c->steps++;
    if (c->done && c->steps > c->steps_before) {
        c->stopped = true;
        loop_stop(c->loop);
    }
    return INT64_MAX;
}

static void note(struct call *call)
{
    struct called *c = call->context;
    c->by = pthread_self();
    c->steps_before = c->steps;
    c->done = true;
}

static void never(struct call *call)
{
    (void)call;
    fail_msg("it was forgotten");
}

static void *call_it(void *context)
{
    struct called *c = context;
    loop_call(c->loop, &c->call);
    return NULL;
}

static void who_calls_from_another_thread_is_heard_on_the_loops_and_stepped_after(void **state)
{
    (void)state;
    struct called c = { .self = pthread_self() };
    struct error e = { 0 };
    pthread_t thread;
    c.call = (struct call){ .fn = note, .context = &c };
    c.forgotten = (struct call){ .fn = never };
    assert_ok(loop_new(&(struct loop_setup){ .clock = clock_system(), .step = count, .context = &c }, &c.loop, &e), &e);
    loop_call(c.loop, &c.forgotten);
    loop_cancel_call(c.loop, &c.forgotten);
    assert_int_equal(pthread_create(&thread, NULL, call_it, &c), 0);
    loop_run(c.loop);
    pthread_join(thread, NULL);
    loop_free(c.loop);
    assert_true(c.stopped && pthread_equal(c.by, c.self));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_steps_at_its_time_and_not_before),
        cmocka_unit_test(who_calls_from_another_thread_is_heard_on_the_loops_and_stepped_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
