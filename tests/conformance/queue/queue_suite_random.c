/* Random pushes, takes, renewals, recalls, acks and timeouts, checked against a model. */
#include "queue_world.h"

enum { COUNT = 3000, COUNT_FAR = 400 };

struct piece {
    struct task task;
    enum { WAITS, TAKEN, GONE, DONE } is;
    int worker; /* the worker that has it */
};

struct model {
    struct world *w;
    struct prng r;
    struct piece *v;
    size_t count, pushed, done, delivery_timeouts;
    size_t last[PRIORITIES]; /* the last delivered place of each priority, or of each class: order is kept */
};

static struct piece *piece_of(struct model *m, const struct task *t)
{
    assert_in_range(t->timeout_ms, 0, m->count - 1);
    return &m->v[t->timeout_ms];
}

static void finish(struct model *m, struct piece *p)
{
    p->is = DONE;
    m->done++;
}

static void push_some(struct model *m)
{
    if (m->w->queue->ops->push_again && m->pushed && prng_below(&m->r, 10) == 0) {
        struct piece *again = &m->v[prng_below(&m->r, m->pushed)];
        if (again->is == WAITS || again->is == TAKEN || again->is == GONE)
            push(m->w, &again->task, 1);
    }
    struct task fresh[3];
    size_t n = 0;
    for (size_t want = prng_below(&m->r, 4); n < want && m->pushed < m->count; n++) {
        struct piece *p = &m->v[m->pushed];
        p->task = some_task(m->w);
        p->task.timeout_ms = (int64_t)m->pushed++; /* its place in the order */
        p->task.priority = (int)prng_below(&m->r, PRIORITY_MAX + 1);
        fresh[n] = p->task;
    }
    push(m->w, fresh, n);
}

static void take_some(struct model *m)
{
    int worker = (int)prng_below(&m->r, WORKERS);
    struct take t = take_of(m->w, worker, 1 + prng_below(&m->r, 3));
    t.wait_ms = m->pushed == m->count ? 20 : 0;
    for (int c = 0; c < CLASSES && m->pushed < m->count; c++)
        t.kept[c] = prng_below(&m->r, 2);
    struct class_slots places = queue_places(&t);
    struct tasks got = take_with(m->w, worker, &t).tasks;
    assert_true(got.n <= t.max);
    for (size_t i = 0; i < got.n; i++) {
        enum priority_class c = priority_class_of(got.v[i].priority);
        assert_true(class_slots_for(&places, c) > 0);
        class_slots_take(&places, c, 1);
        struct piece *p = piece_of(m, &got.v[i]);
        assert_int_equal(p->is, WAITS);
        assert_same_delivery(&got.v[i], &p->task);
        int priority = p->task.priority;
        size_t *last = &m->last[adapter_under_test->whole_classes ? (int)priority_class_of(priority) : priority];
        assert_true(!adapter_under_test->orders || (size_t)p->task.timeout_ms + 1 > *last);
        *last = (size_t)p->task.timeout_ms + 1;
        p->is = TAKEN;
        p->worker = worker;
    }
}

static void time_out_some(struct model *m)
{
    struct delivery_timeouts gone = time_out_now(m->w);
    for (size_t i = 0; i < gone.n; i++) {
        struct piece *p = piece_of(m, &gone.v[i].task);
        assert_true(p->is == TAKEN || p->is == GONE);
        m->delivery_timeouts += p->is == TAKEN;
        p->is = GONE;
    }
}

/* One delivery in seven is left to time out, if the adapter has timeouts. */
static void treat(struct model *m, struct piece *p)
{
    bool left = adapter_under_test->timeouts && p->task.timeout_ms % 7 == 0;
    switch (p->is) {
    case WAITS:
        if (adapter_under_test->recalls && prng_below(&m->r, 4) == 0) {
            assert_true(recall(m->w, &p->task));
            finish(m, p);
        }
        break;
    case TAKEN:
        assert_false(recall(m->w, &p->task));
        if (!left && prng_below(&m->r, 3) == 0)
            renew(m->w, p->worker, &p->task);
        else if (!left) {
            ack(m->w, p->worker, &p->task);
            finish(m, p);
        }
        break;
    case GONE:
        ack_timed_out(m->w, &p->task);
        finish(m, p);
        break;
    case DONE: ack(m->w, p->worker, &p->task); break;
    }
    if (adapter_under_test->knows)
        assert_true(is_known(m->w, &p->task) == (p->is != DONE));
}

/* Towards the end most are acknowledged, and the rest must come. */
static struct piece *some_piece(struct model *m)
{
    struct piece *p = &m->v[prng_below(&m->r, m->pushed)];
    for (size_t i = 0; i < m->count && p->is == DONE && m->pushed == m->count; i++)
        p = p + 1 < m->v + m->count ? p + 1 : m->v;
    return p;
}

static void random_steps_lose_and_repeat_nothing(void **state)
{
    struct world *w = *state;
    struct model m = { .w = w, .r = seeded_prng("queue") };
    m.count = adapter_under_test->own_clock ? COUNT_FAR : COUNT;
    m.v = xcalloc(m.count, sizeof *m.v);
    for (int step = 0; m.done < m.count; step++) {
        if (step > 100000)
            fail_msg("%zu of %zu came to an end", m.done, m.count);
        push_some(&m);
        take_some(&m);
        time_out_some(&m);
        for (int i = 0; i < 3 && m.pushed; i++)
            treat(&m, some_piece(&m));
        pass(w, 1);
        arena_reset(&w->arena);
    }
    assert_true(!adapter_under_test->timeouts || m.delivery_timeouts > 10);
    take_none(w, 0);
    assert_int_equal(time_out_now(w).n, 0);
    assert_true(!adapter_under_test->counts || queue_depth(w->queue) == 0);
    free(m.v);
}

static const struct CMUnitTest tests[] = {
    queue_test(random_steps_lose_and_repeat_nothing),
};
const struct test_list random_tests = { tests, array_count(tests) };
