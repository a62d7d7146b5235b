/* Many workers on one Redis: which one is woken, what waiting costs, and that no worker starves. */
#include <pthread.h>
#include <stdatomic.h>

#include "redis_world.h"

/* ---- a worker on a thread of its own ---- */

struct crew_member {
    pthread_t thread;
    struct queue *queue;
    struct uuid id;
    struct queue_filter filter;
    int64_t wait_ms;
    size_t max, kept_high;
    bool once;           /* makes one take only */
    _Atomic bool *stop;  /* NULL: never */
    _Atomic size_t done; /* delivered and acknowledged */
    _Atomic size_t own;  /* those that only this worker may take */
    _Atomic bool over;
    bool wrong; /* it got a task that it must not have, or a call failed */
};

static void treat(struct crew_member *m, const struct tasks *got)
{
    struct error e;
    for (size_t i = 0; i < got->n; i++) {
        struct fenced_id d = id_of(&got->v[i]);
        m->wrong |= !queue_lets_through(&m->filter, &got->v[i], S(""));
        m->own += str_starts(got->v[i].name, S("own"));
        m->wrong |= queue_ack(m->queue, &d, 1, &e) != ERR_OK;
        m->done++;
    }
}

static void *work(void *context)
{
    struct crew_member *m = context;
    struct arena a;
    arena_init(&a, 1 << 24);
    do {
        struct take t = { .max = m->max,
                          .kept = { [CLASS_HIGH] = m->kept_high },
                          .wait_ms = m->wait_ms,
                          .visibility_ms = 30000,
                          .worker = m->id,
                          .cpu_milli = -1,
                          .memory_mb = -1,
                          .filter = &m->filter };
        struct taken got = { 0 };
        struct error e;
        if (queue_take(m->queue, &t, &a, &got, &e) != ERR_OK)
            m->wrong = true;
        else
            treat(m, &got.tasks);
        arena_reset(&a);
    } while (!m->once && !*m->stop);
    m->over = true;
    arena_release(&a);
    return NULL;
}

static void hire_by(struct queue *queue, struct uuid id, struct crew_member *m)
{
    m->queue = queue;
    m->id = id;
    m->max = m->max ? m->max : 4;
    m->filter.priority_max = m->filter.priority_max ? m->filter.priority_max : PRIORITY_MAX;
    assert_int_equal(pthread_create(&m->thread, NULL, work, m), 0);
}

static void hire(struct world *w, int i, struct crew_member *m)
{
    hire_by(w->workers[i], w->ids[i], m);
}

static void wait_blocked(struct world *w, int64_t n)
{
    for (int64_t end = steady_ms() + ENOUGH_MS; server_info(&w->server, "clients", "blocked_clients") != n; nap_ms(5))
        assert_true(steady_ms() < end);
}

enum { CREW = 5 };

/* ---- waking ---- */

static void one_push_wakes_one_worker(void **state)
{
    struct world *w = *state;
    struct crew_member crew[CREW] = { 0 };
    for (int i = 0; i < CREW; i++) {
        crew[i].wait_ms = 30000;
        crew[i].once = true;
        hire(w, i, &crew[i]);
    }
    wait_blocked(w, CREW);
    for (int i = 0; i < CREW; i++) {
        struct task t = some_task(w);
        int64_t before = server_info(&w->server, "commandstats", "cmdstat_evalsha:calls");
        push(w, &t, 1);
        size_t done = 0;
        for (int64_t end = steady_ms() + ENOUGH_MS; done < (size_t)i + 1 && steady_ms() < end; nap_ms(2)) {
            done = 0;
            for (int k = 0; k < CREW; k++)
                done += crew[k].over;
        }
        assert_int_equal(done, i + 1);
        assert_int_equal(server_info(&w->server, "clients", "blocked_clients"), CREW - 1 - i);
        int64_t calls = server_info(&w->server, "commandstats", "cmdstat_evalsha:calls") - before;
        assert_int_equal(calls, 3); /* the push, one take, its ack: no other worker was woken */
    }
    for (int i = 0; i < CREW; i++) {
        pthread_join(crew[i].thread, NULL);
        assert_true(crew[i].done == 1 && !crew[i].wrong);
    }
}

/* Each worker takes one task: a worker that leaves tasks wakes the next. */
static void a_push_of_many_wakes_as_many_as_it_takes(void **state)
{
    struct world *w = *state;
    struct crew_member crew[CREW] = { 0 };
    struct task v[CREW];
    for (int i = 0; i < CREW; i++) {
        crew[i].wait_ms = 30000;
        crew[i].once = true;
        crew[i].max = 1;
        hire(w, i, &crew[i]);
        v[i] = some_task(w);
    }
    wait_blocked(w, CREW);
    int64_t start = steady_ms();
    push(w, v, CREW);
    for (int i = 0; i < CREW; i++) {
        pthread_join(crew[i].thread, NULL);
        assert_true(crew[i].done == 1 && !crew[i].wrong);
    }
    assert_true(steady_ms() - start < 10000);
}

static void who_waits_is_woken_only_for_what_it_may_have(void **state)
{
    struct world *w = *state;
    const struct str mail[] = { S("mail") };
    struct crew_member crew[2] = { { .wait_ms = 30000, .once = true }, { .wait_ms = 30000, .once = true } };
    crew[0].filter = (struct queue_filter){ .queues = mail, .queue_count = 1 };
    hire(w, 0, &crew[0]);
    hire(w, 1, &crew[1]);
    wait_blocked(w, 2);
    struct task t = some_task(w);
    push(w, &t, 1);
    pthread_join(crew[1].thread, NULL);
    assert_true(crew[1].done == 1 && !crew[0].over);
    t = some_task(w);
    t.queue = mail[0];
    push(w, &t, 1);
    pthread_join(crew[0].thread, NULL);
    assert_true(crew[0].done == 1 && !crew[0].wrong);
}

/* A push to a worker that waits for it is three calls: the push, one take, its ack. */
static void assert_only_this_one_is_woken(struct world *w, struct crew_member *m, int priority)
{
    struct task t = some_task(w);
    t.priority = priority;
    int64_t before = server_info(&w->server, "commandstats", "cmdstat_evalsha:calls");
    push(w, &t, 1);
    pthread_join(m->thread, NULL);
    assert_true(m->done == 1 && !m->wrong);
    assert_int_equal(server_info(&w->server, "commandstats", "cmdstat_evalsha:calls") - before, 3);
}

/* More workers than are looked at, and they wait the longest. */
static void who_has_no_place_for_a_class_is_not_woken_for_it(void **state)
{
    enum { FULL = 20 };
    struct world *w = *state;
    struct queue *queues[FULL];
    struct crew_member full[FULL] = { 0 };
    for (int i = 0; i < FULL; i++) {
        queues[i] = redis_queue(w->url, NULL);
        full[i].wait_ms = 30000;
        full[i].max = full[i].kept_high = 1;
        full[i].once = true;
        hire_by(queues[i], uuid_next(&w->gen, NOW), &full[i]);
    }
    wait_blocked(w, FULL);
    for (int priority = 0; priority < 7; priority += 4) {
        struct crew_member other = { .wait_ms = 30000, .once = true };
        hire(w, 1, &other);
        wait_blocked(w, FULL + 1);
        assert_only_this_one_is_woken(w, &other, priority);
    }
    for (int i = 0; i < FULL; i++) {
        struct task t = some_task(w);
        t.priority = 7;
        push(w, &t, 1);
    }
    for (int i = 0; i < FULL; i++) {
        pthread_join(full[i].thread, NULL);
        assert_true(full[i].done == 1 && !full[i].wrong);
        queue_free(queues[i]);
    }
}

static void who_waits_hears_at_once_what_to_abort(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct error e = { 0 };
    push(w, &t, 1);
    assert_int_equal(take_some(w, 0, 1, 1000).tasks.n, 1);
    struct crew_member full = { .wait_ms = 30000, .once = true };
    hire(w, 0, &full);
    wait_blocked(w, 1);
    assert_ok(queue_abort(w->control, id_of(&t), &e), &e);
    pthread_join(full.thread, NULL);
    assert_true(full.done == 0 && !full.wrong);
}

/* A worker that died while waiting is woken in vain; another finds the task with its next take. */
static void a_dead_waiter_keeps_nothing_from_others(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    char id[UUID_TEXT + 1], command[256];
    uuid_format(w->ids[7], id);
    assert_int_equal(take_some(w, 0, 1, 10).tasks.n, 0); /* registers the group */
    redisReply *r = server_ask(&w->server, "HKEYS {one}:q:groups");
    assert_int_equal(r->elements, 1);
    snprintf(command, sizeof command, "ZADD {one}:q:g:%s:wait 1 %s", r->element[0]->str, id);
    server_do(&w->server, command);
    freeReplyObject(r);
    snprintf(command, sizeof command, "HSET {one}:q:waiters %s 99999999999999|-1|-1|0", id);
    server_do(&w->server, command);
    push(w, &t, 1);
    assert_int_equal(take_some(w, 0, 1, 1000).tasks.n, 1);
}

/* ---- waiting costs nothing ---- */

static void who_waits_asks_for_nothing(void **state)
{
    struct world *w = *state;
    struct crew_member crew[CREW] = { 0 };
    _Atomic bool stop = false;
    enum { WAIT_MS = 1000, SECONDS = 3 };
    for (int i = 0; i < CREW; i++) {
        crew[i].wait_ms = WAIT_MS;
        crew[i].stop = &stop;
        hire(w, i, &crew[i]);
    }
    wait_blocked(w, CREW);
    int64_t before = server_info(&w->server, "stats", "total_commands_processed");
    int64_t blpop = server_info(&w->server, "commandstats", "cmdstat_blpop:calls");
    nap_ms(SECONDS * 1000);
    int64_t calls = server_info(&w->server, "commandstats", "cmdstat_blpop:calls") - blpop;
    int64_t all = server_info(&w->server, "stats", "total_commands_processed") - before;
    stop = true;
    for (int i = 0; i < CREW; i++) {
        pthread_join(crew[i].thread, NULL);
        assert_false(crew[i].wrong);
    }
    assert_true(calls <= CREW * (SECONDS + 1));    /* one for each worker and second */
    assert_true(all <= CREW * (SECONDS + 1) * 14); /* including the commands of the script before it */
}

/* ---- no worker starves ---- */

enum { OWN = 60, FLOOD = 1500, BATCH = 50 };

/* Many tasks that every worker may take, and for each worker some that only it may take. */
static void many_filters_and_nobody_starves(void **state)
{
    struct world *w = *state;
    const struct str queues[CREW] = { S("q0"), S("q1"), S("q2"), S("q3"), S("q4") }, gpu[] = { S("gpu") };
    struct crew_member crew[8] = { 0 };
    _Atomic bool stop = false;
    for (int i = 0; i < CREW; i++)
        crew[i].filter = (struct queue_filter){ .queues = &queues[i], .queue_count = 1 };
    crew[5].filter = (struct queue_filter){ .labels = gpu, .label_count = 1 };
    crew[6].filter = (struct queue_filter){ .priority_min = 9, .priority_max = 9 };
    for (int i = 0; i < 8; i++) {
        crew[i].wait_ms = 200;
        crew[i].stop = &stop;
        hire(w, i, &crew[i]);
    }
    size_t pushed = 0;
    for (int round = 0; round < OWN; round++) {
        struct task v[BATCH];
        size_t n = 0;
        for (int i = 0; i < 6; i++) {
            v[n] = some_task(w);
            v[n].name = S("own");
            if (i < CREW)
                v[n].queue = queues[i];
            else
            v[n].requires = S("gpu");
            v[n++].priority = i < CREW ? 5 : 2;
        }
        while (n < BATCH && pushed + n < FLOOD + OWN * 6) {
            v[n] = some_task(w);
            v[n].priority = (int)(n % 10);
            n++;
        }
        push(w, v, n);
        pushed += n;
    }
    size_t done = 0, own = 0;
    for (int64_t end = steady_ms() + 60000; done < pushed && steady_ms() < end; nap_ms(10)) {
        done = own = 0;
        for (int i = 0; i < 8; i++) {
            done += crew[i].done;
            own += crew[i].own;
        }
    }
    stop = true;
    for (int i = 0; i < 8; i++) {
        pthread_join(crew[i].thread, NULL);
        assert_false(crew[i].wrong);
    }
    assert_int_equal(done, pushed);
    assert_int_equal(own, OWN * 6);
    assert_true(crew[5].own == OWN);
    struct queue_state s = look_at_last(w);
    assert_true(s.waiting == 0 && s.delivered == 0);
}

/* An unused channel leaves only its name behind, for an hour. */
static void what_is_done_leaves_nothing_behind(void **state)
{
    struct world *w = *state;
    struct task v[100];
    for (int i = 0; i < 100; i++)
        v[i] = some_task(w);
    push(w, v, 100);
    struct taken got = take_some(w, 0, 100, 1000);
    assert_int_equal(got.tasks.n, 100);
    for (int i = 0; i < 100; i++)
        ack(w, 0, &v[i]);
    redisReply *r = server_ask(&w->server, "KEYS {one}:q:d:*");
    assert_int_equal(r->elements, 0);
    freeReplyObject(r);
    r = server_ask(&w->server, "KEYS *");
    assert_true(r->elements <= 6);
    freeReplyObject(r);
}

int main(void)
{
#define on(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)
    const struct CMUnitTest tests[] = {
        on(one_push_wakes_one_worker),
        on(a_push_of_many_wakes_as_many_as_it_takes),
        on(who_waits_is_woken_only_for_what_it_may_have),
        on(who_has_no_place_for_a_class_is_not_woken_for_it),
        on(who_waits_hears_at_once_what_to_abort),
        on(a_dead_waiter_keeps_nothing_from_others),
        on(who_waits_asks_for_nothing),
        on(many_filters_and_nobody_starves),
        on(what_is_done_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("redis_workers", tests, NULL, NULL);
}
