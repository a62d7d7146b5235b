#include "queue_world.h"

#include <time.h>
#include <unistd.h>

#include "queue/memory/queue_memory.h"
#ifdef HAVE_AMQP
#include "rabbitmq_fixture.h"
#endif
#ifdef HAVE_REDIS
#include "redis_fixture.h"
#endif

/* ---- adapters: a new one needs a row here and in meson.build ---- */

/* All handles of a memory queue are the same queue. */
static struct {
    struct queue *queue;
    int handles;
} in_memory;

static struct queue *open_memory(const char *prefix, const struct queue_names *names)
{
    (void)prefix;
    if (in_memory.handles++ == 0)
        in_memory.queue = queue_memory_new_named(names);
    return in_memory.queue;
}

static struct queue *twin_memory(struct queue *q, const char *prefix)
{
    (void)q;
    return open_memory(prefix, NULL);
}

static void close_memory(struct queue *q)
{
    if (--in_memory.handles == 0)
        queue_free(q);
}

#ifdef HAVE_AMQP
static struct queue *open_amqp(const char *prefix, const struct queue_names *names)
{
    return rabbitmq_queue(prefix, "", names);
}

static struct queue *twin_amqp(struct queue *q, const char *prefix)
{
    (void)prefix;
    return queue_amqp_twin(q);
}
#endif

#ifdef HAVE_REDIS
static struct queue *open_redis(const char *prefix, const struct queue_names *names)
{
    char url[REDIS_URL];
    redis_url(prefix, url);
    return redis_queue(url, names);
}

static struct queue *twin_redis(struct queue *q, const char *prefix)
{
    (void)q;
    return open_redis(prefix, NULL);
}
#endif

static const struct queue_adapter adapters[] = {
    { "memory", open_memory, twin_memory, close_memory, .visibility_ms = 100, .timeouts = true, .recalls = true,
      .aborts = true, .knows = true, .counts = true, .orders = true },
#ifdef HAVE_AMQP
    { "rabbitmq", open_amqp, twin_amqp, queue_free, .visibility_ms = 100, .own_clock = true, .aborts = true,
      .orders = true, .no_time = true, .whole_classes = true },
#endif
#ifdef HAVE_REDIS
    { "redis", open_redis, twin_redis, queue_free, .visibility_ms = 250, .own_clock = true, .timeouts = true,
      .recalls = true, .aborts = true, .knows = true, .orders = true },
#endif
};

const struct queue_adapter *adapter_under_test;

const struct queue_adapter *queue_adapter_of(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "memory";
    for (size_t i = 0; i < array_count(adapters); i++)
        if (strcmp(adapters[i].name, name) == 0)
            return &adapters[i];
    return NULL;
}

/* ---- fixture ---- */

static struct str tenant_name(const struct queue_names *names, int32_t number)
{
    static char text[32];
    (void)names;
    snprintf(text, sizeof text, "tenant-%d", number);
    return str_from(text);
}
static const struct queue_names names = { tenant_name };

int64_t monotonic_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int world_open(void **state)
{
    static int number;
    struct world *w = xnew(*w);
    snprintf(w->prefix, sizeof w->prefix, "suite-%d-%lld-%d", (int)getpid(), (long long)monotonic_ms(), number++);
    uuid_gen_init(&w->ids, (uint64_t)getpid());
    arena_init(&w->arena, 1 << 26);
    w->now_ms = NOW;
    w->queue = adapter_under_test->open(w->prefix, &names);
    for (int i = 0; i < WORKERS; i++)
        w->workers[i] = (struct queue_worker){ adapter_under_test->open(w->prefix, NULL), uuid_next(&w->ids, NOW) };
    *state = w;
    return 0;
}

int world_close(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < WORKERS; i++)
        if (w->workers[i].handle)
            adapter_under_test->close(w->workers[i].handle);
    adapter_under_test->close(w->queue);
    arena_release(&w->arena);
    free(w);
    return 0;
}

void pass(struct world *w, int64_t ms)
{
    w->now_ms += ms;
    if (adapter_under_test->own_clock)
        nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* ---- pushing ---- */

struct task some_task(struct world *w)
{
    return (struct task){ .id = uuid_next(&w->ids, NOW),
                          .tenant = 1,
                          .state = TASK_RUNNING,
                          .fence = 1,
                          .claim = uuid_next(&w->ids, NOW),
                          .due_ms = NOW,
                          .priority = PRIORITY_DEFAULT,
                          .queue = S("default"),
                          .name = S("report"),
                          .payload = S("{\"a\":1}"),
                          .retry = RETRY_DEFAULT,
                          .target = TARGET_NOOP };
}

struct task some_big_task(struct world *w)
{
    static char big[20002];
    memset(big, 'x', sizeof big);
    big[0] = big[sizeof big - 1] = '"';
    struct task t = some_task(w);
    t.payload = (struct str){ big, sizeof big };
    return t;
}

struct fenced_id id_of(const struct task *t)
{
    return (struct fenced_id){ t->id, t->fence };
}

void push(struct world *w, const struct task *v, size_t n)
{
    struct error e = { 0 };
    struct pushed pushed;
    assert_ok(queue_push(w->queue, v, n, 0, &pushed, &e), &e);
}

bool recall(struct world *w, const struct task *t)
{
    bool recalled = false;
    struct error e = { 0 };
    assert_ok(queue_recall(w->queue, id_of(t), &recalled, &e), &e);
    return recalled;
}

void ask_abort(struct world *w, const struct task *t)
{
    struct error e = { 0 };
    assert_ok(queue_abort(w->queue, id_of(t), &e), &e);
}

bool is_known(struct world *w, const struct task *t)
{
    struct fenced_id d = id_of(t);
    struct error e = { 0 };
    bool known = false;
    assert_ok(queue_known(w->queue, &d, NULL, 1, &known, &e), &e);
    return known;
}

/* ---- workers ---- */

struct take take_of(struct world *w, int worker, size_t max)
{
    return (struct take){ .max = max,
                          .now_ms = w->now_ms,
                          .visibility_ms = adapter_under_test->visibility_ms,
                          .worker = w->workers[worker].id,
                          .cpu_milli = -1,
                          .memory_mb = -1 };
}

struct taken take_with(struct world *w, int worker, const struct take *t)
{
    struct taken ret = { 0 };
    struct error e = { 0 };
    assert_ok(queue_take(w->workers[worker].handle, t, &w->arena, &ret, &e), &e);
    assert_true(adapter_under_test->no_time || (ret.queue_us != 0) == adapter_under_test->own_clock);
    return ret;
}

struct tasks take_exactly_with(struct world *w, int worker, struct take t, size_t n)
{
    struct tasks all = { arena_array(&w->arena, struct task, n + t.max), 0 };
    int64_t end = monotonic_ms() + ENOUGH_MS;
    for (t.wait_ms = 100; all.n < n; all.n = all.n) {
        struct tasks some = take_with(w, worker, &t).tasks;
        assert_true(all.n + some.n <= n);
        if (some.n)
            memcpy(all.v + all.n, some.v, some.n * sizeof *some.v);
        all.n += some.n;
        if (some.n == 0 && (!adapter_under_test->own_clock || monotonic_ms() > end))
            fail_msg("%zu of %zu deliveries came", all.n, n);
    }
    return all;
}

struct tasks take_exactly(struct world *w, int worker, size_t n)
{
    return take_exactly_with(w, worker, take_of(w, worker, n), n);
}

void take_none_with(struct world *w, int worker, struct take t)
{
    t.wait_ms = A_MOMENT_MS;
    assert_int_equal(take_with(w, worker, &t).tasks.n, 0);
}

void take_none(struct world *w, int worker)
{
    take_none_with(w, worker, take_of(w, worker, 10));
}

void ack(struct world *w, int worker, const struct task *t)
{
    struct fenced_id d = id_of(t);
    struct error e = { 0 };
    assert_ok(queue_ack(w->workers[worker].handle, &d, 1, &e), &e);
}

void ack_timed_out(struct world *w, const struct task *t)
{
    struct fenced_id d = id_of(t);
    struct error e = { 0 };
    assert_ok(queue_ack(w->queue, &d, 1, &e), &e);
}

void renew(struct world *w, int worker, const struct task *t)
{
    struct error e = { 0 };
    struct take by = take_of(w, worker, 0);
    assert_ok(queue_renew(w->workers[worker].handle, &t, 1, &by, &e), &e);
}

void worker_dies(struct world *w, int worker)
{
    adapter_under_test->close(w->workers[worker].handle);
    w->workers[worker].handle = NULL;
    pass(w, adapter_under_test->visibility_ms);
}

/* ---- delivery timeouts ---- */

struct delivery_timeouts time_out_now(struct world *w)
{
    struct delivery_timeouts ret = { 0 };
    struct error e = { 0 };
    assert_ok(queue_timed_out(w->queue, w->now_ms, &w->arena, &ret, &e), &e);
    return ret;
}

struct delivery_timeouts timed_out_exactly(struct world *w, size_t n)
{
    struct delivery_timeouts all = { arena_array(&w->arena, struct timed_out_delivery, n + 1), 0 };
    int64_t end = monotonic_ms() + ENOUGH_MS;
    while (all.n < n) {
        struct delivery_timeouts some = time_out_now(w);
        assert_true(all.n + some.n <= n);
        if (some.n)
            memcpy(all.v + all.n, some.v, some.n * sizeof *some.v);
        all.n += some.n;
        if (all.n < n && (!adapter_under_test->own_clock || monotonic_ms() > end))
            fail_msg("%zu of %zu deliveries lapsed", all.n, n);
        if (all.n < n)
            pass(w, 5);
    }
    assert_int_equal(time_out_now(w).n, 0);
    return all;
}

const struct timed_out_delivery *timed_out_of(const struct delivery_timeouts *l, const struct task *t)
{
    for (size_t i = 0; i < l->n; i++)
        if (uuid_eq(l->v[i].task.id, t->id) && l->v[i].task.fence == t->fence)
            return &l->v[i];
    return NULL;
}

/* ---- comparing tasks ---- */

/* clang-format off */
#define CARRIED_NUMBERS(X)                                                                                             \
    X(tenant) X(kind) X(state) X(due_ms) X(scheduled_ms) X(version) X(fence) X(attempts) X(losses) X(priority)         \
    X(delivery) X(timeout_ms) X(expires_after_ms) X(retry.max_attempts) X(retry.backoff) X(retry.base_delay_ms)        \
    X(retry.max_delay_ms) X(retry.jitter) X(cpu_milli) X(memory_mb) X(target) X(created_ms)
#define CARRIED_TEXTS(X)                                                                                               \
    X(queue) X(name) X(task_type) X(retry.rules) X(requires) X(aside) X(target_config) X(payload) X(extra)
#define CARRIED_IDS(X) X(id) X(parent) X(claim)
#define NUMBER_DIFFERS(field) if (a->field != b->field) return #field;
#define TEXT_DIFFERS(field) if (!str_eq(a->field, b->field)) return #field;
#define ID_DIFFERS(field) if (!uuid_eq(a->field, b->field)) return #field;
/* clang-format on */

const char *delivery_difference(const struct task *a, const struct task *b)
{
    CARRIED_IDS(ID_DIFFERS)
    CARRIED_NUMBERS(NUMBER_DIFFERS)
    CARRIED_TEXTS(TEXT_DIFFERS)
    return NULL;
}
