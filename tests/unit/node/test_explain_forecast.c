/* What explain predicts happens: 1,000 random mixes of gates in simulated time. In each, one task is explained at a
 * random moment; nothing is changed afterwards, and the world goes on. What was said must come true within a second, or
 * it was said that it cannot be known. In some mixes the task is paused, with an end.
 *
 * BELFRY_SEED=n makes other mixes. A mix that fails prints its number; BELFRY_MIX=n runs that one alone and tells what
 * happens in it. */
#include <stdio.h>

#include "node_world.h"
#include "seed.h"

enum { MIXES = 1000, TASKS_MAX = 14, STARTS_MAX = 512, WITHIN_MS = 1000, SECOND = 1000 };

struct going {
    struct run *run;
    int64_t end_ms;
};

struct started {
    struct uuid id;
    int64_t at_ms;
};

struct mix {
    struct world *w;
    struct prng r;
    int number;
    bool tells;
    struct task tasks[TASKS_MAX];
    size_t task_count;
    struct uuid recurring; /* nil: none */
    struct going going[RUNS_MAX];
    size_t going_count;
    struct started starts[STARTS_MAX];
    size_t start_count;
    int64_t retry_after_ms; /* the first call to a.example is answered so; 0: it is not */
    bool is_held;           /* it was */
    bool has_lanes;         /* tasks differ in priority, delivery and concurrency key */
    int64_t lasts_max_ms;   /* of a run */
    int64_t resumes_ms;     /* the pause of the task that is asked for ends then; 0: it is not paused */
};

/* How often each thing was told, over all mixes. */
static struct {
    int asked, known, outcomes[EXPLAIN_WILL_UNKNOWN + 1], known_with[EXPLAIN_LEASED + 1],
        unknown_by[EXPLAIN_LEASED + 1];
} tally;

static bool one_in(struct mix *m, uint64_t n)
{
    return prng_below(&m->r, n) == 0;
}

/* ---- a world that goes on by itself ---- */

static bool is_going(const struct mix *m, const struct run *run)
{
    for (size_t i = 0; i < m->going_count; i++)
        if (m->going[i].run == run)
            return true;
    return false;
}

static void note_started(struct mix *m)
{
    struct world *w = m->w;
    for (size_t i = 0; i < w->run_count; i++) {
        struct run *run = w->runs[i];
        if (is_going(m, run))
            continue;
        assert_true(m->start_count < STARTS_MAX);
        m->starts[m->start_count++] = (struct started){ run->task->id, w->now_ms };
        int64_t lasts_ms =
            m->retry_after_ms ? 0 : 50 + (int64_t)(run->task->id.b[15] * 257 % 1000) * m->lasts_max_ms / 1000;
        if (run->task->id.b[0] == 0 && run->task->id.b[2] == 1) /* of plain_task: its number decides */
            lasts_ms = m->retry_after_ms ? 0 : 50 + (int64_t)(run->task->id.b[1] * 397 % 1000) * m->lasts_max_ms / 1000;
        m->going[m->going_count++] = (struct going){ run, w->now_ms + lasts_ms };
        if (m->tells)
            printf("# %lld: task %d starts, for %lld ms\n", (long long)(w->now_ms - NOW), run->task->id.b[1],
                   (long long)lasts_ms);
    }
}

static void end_going(struct mix *m, size_t at)
{
    struct world *w = m->w;
    struct run *run = m->going[at].run;
    struct outcome o = {
        .kind = OUTCOME_OK, .retry_after_ms = -1, .started_us = w->now_ms * 1000, .completed_us = w->now_ms * 1000
    };
    m->going[at] = m->going[--m->going_count];
    for (size_t i = 0; i < w->run_count; i++)
        if (w->runs[i] == run)
            w->runs[i] = w->runs[--w->run_count];
    if (m->retry_after_ms && run->task->target == TARGET_HTTP) {
        o.kind = OUTCOME_FAILED;
        o.failure = FAILURE_HTTP;
        o.http_status = 429;
        o.retry_after_ms = m->retry_after_ms;
        m->retry_after_ms = 0;
    }
    run->done(run, &o);
}

static int64_t next_end_ms(const struct mix *m)
{
    int64_t next_ms = INT64_MAX;
    for (size_t i = 0; i < m->going_count; i++)
        next_ms = min_of(next_ms, m->going[i].end_ms);
    return next_ms;
}

/* Returns whether one ended. Runs that were aborted are forgotten. */
static bool end_due(struct mix *m)
{
    const struct world *w = m->w;
    for (size_t i = 0; i < m->going_count; i++) {
        bool runs = false;
        for (size_t k = 0; k < w->run_count; k++)
            runs = runs || w->runs[k] == m->going[i].run;
        if (!runs) {
            m->going[i--] = m->going[--m->going_count];
            continue;
        }
        if (m->going[i].end_ms > w->now_ms)
            continue;
        end_going(m, i);
        return true;
    }
    return false;
}

static void go_on_until(struct mix *m, int64_t until_ms)
{
    struct world *w = m->w;
    for (;;) {
        settle_down(w);
        note_started(m);
        if (end_due(m))
            continue;
        int64_t wake_ms = step_at(w, w->now_ms);
        if (!list_empty(&w->pending) || m->going_count != w->run_count)
            continue;
        if (w->now_ms >= until_ms)
            return;
        int64_t next_ms = min_of(min_of(wake_ms, next_end_ms(m)), until_ms);
        set_clock(w, max_of(next_ms, w->now_ms + 1));
    }
}

/* ---- a random mix of gates ---- */

static bool claims_ahead;

static void set_up_mix(struct node_setup *setup)
{
    setup->ahead_ms = claims_ahead ? 3000 : 0;
    setup->ahead_bytes = 1 << 20;
}

static void add_rules(struct mix *m)
{
    static const double rates[] = { 0.5, 1, 2, 5, 40 };
    struct queue_rules q = QUEUE_RULES_DEFAULT;
    struct tenant_rules t = { .number = TENANT, .name = S("default") };
    if (one_in(m, 4)) {
        q.rate = rates[prng_below(&m->r, array_count(rates))];
        q.burst = prng_between(&m->r, 1, 3);
    }
    if (one_in(m, 10))
        q.concurrent = prng_between(&m->r, 1, 3);
    if (one_in(m, 4)) {
        q.paused = true;
        q.paused_ms = NOW;
        q.paused_until_ms = one_in(m, 10) ? 0 : NOW + prng_between(&m->r, 1, 20 * SECOND);
    }
    if (one_in(m, 12))
        t.max_running = prng_between(&m->r, 1, 3);
    put_queue(m->w, &q);
    put_tenant(m->w, &t);
    if (m->tells)
        printf("# rate %g, burst %lld, concurrent %lld, paused %d until %lld, tenant %lld\n", q.rate,
               (long long)q.burst, (long long)q.concurrent, q.paused, (long long)(q.paused_until_ms - NOW),
               (long long)t.max_running);
}

static struct task random_task(struct mix *m, int n)
{
    struct task t = plain_task(n, NOW + prng_between(&m->r, -2 * SECOND, 15 * SECOND));
    if (one_in(m, 2)) {
        t.target = TARGET_HTTP;
        t.target_config = one_in(m, 3) ? S("{\"url\":\"https://b.example/\"}") : S("{\"url\":\"https://a.example/\"}");
    }
    if (one_in(m, 3))
        t.expires_after_ms = prng_between(&m->r, 1, 20 * SECOND);
    if (m->has_lanes && one_in(m, 2)) {
        t.concurrency_key = S("k");
        t.concurrency_limit = (int)prng_between(&m->r, 1, 2);
    }
    if (m->has_lanes && one_in(m, 3))
        t.priority = one_in(m, 2) ? 2 : 8;
    if (m->has_lanes && one_in(m, 4))
        t.delivery = DELIVER_AT_MOST_ONCE;
    t.timeout_ms = HOUR;
    t.retry.max_attempts = 1;
    return t;
}

static void add_recurring(struct mix *m)
{
    struct task t = random_task(m, 200);
    t.kind = TASK_RECURRING;
    t.priority = PRIORITY_DEFAULT;
    if (m->is_held) {
        t.target = TARGET_HTTP;
        t.target_config = S("{\"url\":\"https://a.example/\"}");
    }
    t.concurrency_key = S("");
    t.concurrency_limit = 0;
    t.schedule = (struct schedule){ .interval_ms = prng_between(&m->r, 2, 6) * SECOND,
                                    .time_zone = S("UTC"),
                                    .start_ms = NOW,
                                    .end_ms = INT64_MAX,
                                    .catch_up_window_ms = HOUR,
                                    .overlap = one_in(m, 4) ? OVERLAP_QUEUE_ONE : OVERLAP_SKIP };
    t.cursor_ms = t.due_ms = t.scheduled_ms = NOW;
    m->recurring = t.id;
    add_task(m->w, t);
    if (m->tells)
        printf("# recurring every %lld ms, target %d\n", (long long)t.schedule.interval_ms, t.target);
}

static void add_tasks(struct mix *m)
{
    int n = (int)prng_between(&m->r, 1, one_in(m, 4) ? TASKS_MAX : 4);
    for (int i = 1; i <= n; i++) {
        struct task t = m->tasks[m->task_count++] = add_task(m->w, random_task(m, i));
        if (m->tells)
            printf("# task %d: due %lld, expires %lld, target %d, host %c, key %d, priority %d, delivery %d\n", i,
                   (long long)(t.due_ms - NOW), (long long)t.expires_after_ms, t.target,
                   t.target == TARGET_HTTP ? t.target_config.p[16] : '-', t.concurrency_limit, t.priority, t.delivery);
    }
    if (one_in(m, m->is_held ? 2 : 6))
        add_recurring(m);
}

static void open_mix(struct mix *m, uint64_t seed, int number)
{
    void *state;
    *m = (struct mix){ .number = number, .tells = getenv("BELFRY_MIX") != NULL };
    prng_init(&m->r, seed + (uint64_t)number * 1000003);
    claims_ahead = one_in(m, 2);
    m->has_lanes = one_in(m, 4);
    change_setup = set_up_mix;
    assert_int_equal(setup(&state), 0);
    m->w = state;
    m->w->runner.host_calls_max = one_in(m, 4) ? (size_t)prng_between(&m->r, 1, 3) : 0;
    m->lasts_max_ms = one_in(m, 3) ? 20 * SECOND : one_in(m, 2) ? 3 * SECOND : 300;
    with_slots(m->w, one_in(m, 6) ? (size_t)prng_between(&m->r, 1, 4) : 20);
    if (m->tells)
        printf("# slots %zu, calls of a host %zu, claims ahead %d\n", m->w->slots, m->w->runner.host_calls_max,
               claims_ahead);
    if (one_in(m, 4)) {
        m->retry_after_ms = prng_between(&m->r, 2, 20) * SECOND;
        m->is_held = true;
        struct task t = plain_task(100, NOW);
        t.target = TARGET_HTTP;
        t.retry.max_attempts = 1;
        t.target_config = S("{\"url\":\"https://a.example/\"}");
        add_task(m->w, t);
        go_on_until(m, NOW);
    }
    add_rules(m);
    add_tasks(m);
}

static void close_mix(struct mix *m)
{
    void *state = m->w;
    teardown(&state);
    change_setup = NULL;
}

/* ---- asking, and holding it to its word ---- */

/* A task that has not started. False: there is none. */
static bool pick_task(struct mix *m, struct arena *a, struct task *ret)
{
    struct error e;
    struct task_page page = { 0 };
    struct task_filter f = { .tenant = TENANT,
                             .states = 1U << TASK_SCHEDULED | 1U << TASK_BLOCKED | 1U << TASK_RUNNING,
                             .occurrences = true,
                             .limit = 100 };
    size_t n = 0;
    bool occurrence = !uuid_is_nil(m->recurring) && !one_in(m, 3);
    assert_ok(reader_list(m->w->reader, &f, a, &page, &e), &e);
    for (size_t i = 0; i < page.tasks.n; i++)
        if (page.tasks.v[i].kind == (occurrence ? TASK_OCCURRENCE : TASK_ONE_TIME) &&
            !is_running(m->w, &page.tasks.v[i]))
            page.tasks.v[n++] = page.tasks.v[i];
    if (n)
        *ret = page.tasks.v[prng_below(&m->r, n)];
    return n > 0;
}

/* When the task started, after the question; 0: it has not. */
static int64_t start_of(const struct mix *m, struct uuid id)
{
    for (size_t i = 0; i < m->start_count; i++)
        if (uuid_eq(m->starts[i].id, id))
            return m->starts[i].at_ms;
    return 0;
}

static void tell(const struct mix *m, const struct task *t, const struct explanation *x)
{
    printf("# mix %d at %lld: task %d, state %d, due %lld, aside '" STR_FMT "': %s at %lld\n", m->number,
           (long long)(m->w->now_ms - NOW), t->id.b[1], t->state, (long long)(t->due_ms - NOW), STR_ARG(t->aside),
           explain_outcome_name(x->outcome), x->estimate_ms ? (long long)(x->estimate_ms - NOW) : -1);
    printf("#   %s\n", x->text);
    for (size_t i = 0; i < x->n; i++)
        printf("#   %s until %lld: %s\n", explain_gate_name(x->steps[i].gate),
               x->steps[i].until_ms ? (long long)(x->steps[i].until_ms - NOW) : -1, x->steps[i].text);
}

static bool is_near(int64_t a_ms, int64_t b_ms)
{
    return a_ms - b_ms <= WITHIN_MS && b_ms - a_ms <= WITHIN_MS;
}

/* Whether what was said has come true. An expiry that coincides with the start may win or lose. */
static bool came_true(const struct mix *m, const struct task *t, const struct explanation *x)
{
    int64_t start_ms = start_of(m, t->id);
    struct task now = read_task(m->w, t->id);
    int64_t expires_ms = max_of(task_expires_ms(t), m->resumes_ms);
    bool may_expire = is_near(expires_ms, x->estimate_ms);
    switch (x->outcome) {
    case EXPLAIN_WILL_RUN: return start_ms ? is_near(start_ms, x->estimate_ms) : may_expire;
    case EXPLAIN_WILL_EXPIRED: return start_ms ? is_near(start_ms, x->estimate_ms) : x->estimate_ms == expires_ms;
    case EXPLAIN_WILL_SKIPPED: return now.state == TASK_SKIPPED && is_near(now.completed_ms, x->estimate_ms);
    case EXPLAIN_WILL_ENDED:
    case EXPLAIN_WILL_UNKNOWN: break;
    }
    return false;
}

static void count_answer(const struct explanation *x)
{
    tally.asked++;
    tally.outcomes[x->outcome]++;
    for (size_t i = 0; x->outcome == EXPLAIN_WILL_UNKNOWN && i < x->n; i++)
        if (!x->steps[i].until_ms) {
            tally.unknown_by[x->steps[i].gate]++;
            break;
        }
    if (x->outcome == EXPLAIN_WILL_UNKNOWN)
        return;
    tally.known++;
    for (size_t i = 0; i < x->n; i++)
        tally.known_with[x->steps[i].gate]++;
}

/* A task that is paused until a time. A claim does not see it before: so it is stored when it is resumed. */
static void explain_paused_task(struct mix *m, struct task *ret, struct explanation *x)
{
    struct explain_holds holds = { .n = 1 };
    m->resumes_ms = m->w->now_ms + prng_between(&m->r, 1, 15 * SECOND);
    *ret = random_task(m, 150);
    ret->state = TASK_PAUSED;
    holds.v[0] = (struct explain_hold){ .gate = EXPLAIN_PAUSED, .until_ms = m->resumes_ms, .text = "it is paused" };
    explain_held_row(m->w, ret, &holds, x);
}

static void resume_task(struct mix *m, struct task t)
{
    go_on_until(m, m->resumes_ms);
    t.state = TASK_SCHEDULED;
    t.due_ms = max_of(t.due_ms, m->w->now_ms);
    add_task(m->w, t);
}

static void judge_mix(struct mix *m)
{
    cleanup_with(arena_release) struct arena a;
    struct task t;
    struct explanation x;
    arena_init(&a, 1 << 20);
    go_on_until(m, NOW + prng_between(&m->r, 0, 10 * SECOND));
    if (one_in(m, 4))
        explain_paused_task(m, &t, &x);
    else if (pick_task(m, &a, &t))
        explain_row(m->w, &t, &x);
    else
        return;
    if (m->tells)
        tell(m, &t, &x);
    count_answer(&x);
    assert_true(x.outcome == EXPLAIN_WILL_UNKNOWN ? !x.estimate_ms && strstr(x.text, "cannot be known")
                                                  : x.estimate_ms);
    if (x.outcome == EXPLAIN_WILL_UNKNOWN)
        return;
    if (m->resumes_ms)
        resume_task(m, t);
    go_on_until(m, max_of(x.estimate_ms, m->w->now_ms) + WITHIN_MS + 1);
    if (came_true(m, &t, &x))
        return;
    tell(m, &t, &x);
    fail_msg("mix %d: it started at %lld, its state is %d", m->number, (long long)(start_of(m, t.id) - NOW),
             state_of(m->w, t.id));
}

static void what_is_predicted_happens_within_a_second(void **state)
{
    (void)state;
    struct prng r = seeded_prng("explain");
    uint64_t seed = prng_u64(&r);
    const char *only = getenv("BELFRY_MIX");
    static struct mix m;
    for (int i = only ? (int)strtol(only, NULL, 10) : 0; i < MIXES; i++) {
        open_mix(&m, seed, i);
        judge_mix(&m);
        close_mix(&m);
        if (only)
            return;
    }
    printf("# %d of %d answers are known: RUN %d, SKIPPED %d, EXPIRED %d\n", tally.known, tally.asked,
           tally.outcomes[EXPLAIN_WILL_RUN], tally.outcomes[EXPLAIN_WILL_SKIPPED],
           tally.outcomes[EXPLAIN_WILL_EXPIRED]);
    for (int g = 0; g <= EXPLAIN_LEASED; g++)
        if (tally.known_with[g])
            printf("#   known, with %s ahead: %d\n", explain_gate_name((enum explain_gate)g), tally.known_with[g]);
    for (int g = 0; g <= EXPLAIN_LEASED; g++)
        if (tally.unknown_by[g])
            printf("#   unknown because of %s: %d\n", explain_gate_name((enum explain_gate)g), tally.unknown_by[g]);
}

/* An answer that says that nothing can be known is always true: so it must be rare enough. */
static void what_can_be_known_is_known(void **state)
{
    (void)state;
    static const struct {
        enum explain_gate gate;
        int least;
    } knowable[] = {
        { EXPLAIN_DUE_TIME, 200 }, { EXPLAIN_QUEUE_PAUSED, 40 }, { EXPLAIN_QUEUE_RATE, 5 }, { EXPLAIN_HOST_BREAKER, 8 },
        { EXPLAIN_EXPIRED, 20 },   { EXPLAIN_OVERLAP, 5 },       { EXPLAIN_PAUSED, 40 },
    };
    if (getenv("BELFRY_MIX"))
        return;
    assert_true(tally.asked >= MIXES * 6 / 10);
    assert_true(tally.known * 100 >= tally.asked * 55);
    for (size_t i = 0; i < array_count(knowable); i++)
        if (tally.known_with[knowable[i].gate] < knowable[i].least)
            fail_msg("%s: %d known answers", explain_gate_name(knowable[i].gate), tally.known_with[knowable[i].gate]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_predicted_happens_within_a_second),
        cmocka_unit_test(what_can_be_known_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
