#pragma once
/* tests/conformance/broker/amqp_world.h - the fixture of the RabbitMQ tests: an unused prefix, one handle that
 * pushes, two workers. */
#include "queue/amqp/internal.h"
#include "rabbitmq_fixture.h"

#define NOW INT64_C(1770710400000)

enum { ENOUGH_MS = 20000, A_MOMENT_MS = 50 };

struct world {
    char prefix[64];
    struct queue *queue, *workers[2];
    struct arena arena;
    struct uuid_gen ids;
};

int world_open(void **state);
int world_open_classic(void **state);
int world_close(void **state);
#define amqp_test(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)

struct test_list {
    const struct CMUnitTest *v;
    size_t n;
};
extern const struct test_list url_tests, layout_tests, control_tests, fault_tests, crash_tests, event_tests;

struct task some_task(struct world *w);
void push(struct world *w, const struct task *v, size_t n);
enum err try_push(struct world *w, const struct task *t, struct pushed *ret, struct error *e);
struct take take_of(size_t max);
struct tasks take_now(struct world *w, int worker, struct take t); /* one call */
struct tasks take_exactly(struct world *w, int worker, size_t n);  /* until n have come */
void take_none(struct world *w, int worker);
void ack(struct world *w, int worker, const struct task *t);
struct delivery_timeouts timed_out_exactly(struct world *w, size_t n); /* and acknowledges them */
void timed_out_none(struct world *w);
uint64_t epoch_of(struct queue *q);

/* RabbitMQ 3.10 records its quorum queues in a file that it writes when nothing has changed for 500 ms. A crash
 * before that loses new queues (docs/RABBITMQ.md). */
void let_queues_be_written_down(void);

/* Publishes a foreign message to a queue. */
void publish_text(struct world *w, const char *queue, const char *text);
const char *route_name(struct world *w); /* the route of the first pushed task */
