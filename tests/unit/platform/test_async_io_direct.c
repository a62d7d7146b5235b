/* I/O requests to adapters in memory: done before submit returns. */
#include "check.h"
#include "events/memory/events_memory.h"
#include "platform/async_io_direct.h"
#include "queue/memory/queue_memory.h"

static int done_count;

static void done(struct io_request *e)
{
    (void)e;
    done_count++;
}

static void a_request_is_done_when_submit_returns(void **state)
{
    (void)state;
    struct queue *queue = queue_memory_new();
    struct events *events = events_memory_new();
    struct async_io *c = async_io_direct_new(
        &(struct async_io_ports){ .queue = queue, .take = queue, .publish = events, .poll = events });
    struct task t = { .id = { { 1 } }, .state = TASK_RUNNING, .fence = 1, .queue = S("default") };
    struct io_push push = { .io_request = { .kind = IO_PUSH, .done = done }, .tasks = &t, .n = 1 };
    struct event ev = { .task = { .id = t.id, .fence = 1 } };
    struct io_publish publish = { .io_request = { .kind = IO_PUBLISH, .done = done }, .v = &ev, .n = 1 };
    assert_true(c->at_once && c->push_again);
    done_count = 0;
    async_io_submit(c, &push.io_request);
    assert_int_equal(done_count, 1);
    assert_int_equal(push.io_request.rc, ERR_OK);
    assert_int_equal(c->ops->queue_depth(c), 1);
    async_io_submit(c, &publish.io_request);
    assert_int_equal(done_count, 2);
    assert_int_equal(c->ops->events_depth(c), 1);
    async_io_direct_free(c);
    queue_free(queue);
    events_free(events);
}

static void what_nobody_needs_may_be_left_out(void **state)
{
    (void)state;
    struct async_io *c = async_io_direct_new(&(struct async_io_ports){ 0 });
    assert_int_equal(c->ops->queue_depth(c), 0);
    assert_int_equal(c->ops->events_depth(c), 0);
    async_io_direct_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_done_when_submit_returns),
        cmocka_unit_test(what_nobody_needs_may_be_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
