/* Random definitions, outcomes and orders. A small world counts arrivals and decides joins as a store does: step by step,
 * in batches, with arrivals that are put off. A judge that knows neither counts nor the compiled graph says what
 * must be: it looks at all edges again and again until nothing changes. */
#include "check.h"
#include "seed.h"

#include <stdlib.h>

#include "base/buf.h"
#include "core/flow/flow.h"

enum { STEPS_MAX = 12, EDGES_MAX = 64, PENDING_MAX = 512, ROUNDS = 700, LIMIT = 1 << 20 };

/* ---- definitions ---- */

struct edge {
    uint32_t from, to;
    int type;
};

struct graph {
    uint32_t n;
    struct edge edges[EDGES_MAX * 8];
    uint32_t edge_count;
    int join[STEPS_MAX];
    bool may_fail[STEPS_MAX], awaits[STEPS_MAX], star[STEPS_MAX], undo[STEPS_MAX], undo_attempted[STEPS_MAX];
    int star_type[STEPS_MAX];
    uint32_t rank[STEPS_MAX]; /* parents have lower ones */
};

static bool has_edge(const struct graph *g, uint32_t from, uint32_t to, int type)
{
    for (uint32_t i = 0; i < g->edge_count; i++)
        if (g->edges[i].from == from && g->edges[i].to == to && g->edges[i].type == type)
            return true;
    return false;
}

static void add_edge(struct graph *g, uint32_t from, uint32_t to, int type)
{
    if (!has_edge(g, from, to, type))
        g->edges[g->edge_count++] = (struct edge){ from, to, type };
}

static void draw_graph(struct prng *r, struct graph *g)
{
    *g = (struct graph){ .n = (uint32_t)prng_between(r, 1, STEPS_MAX) };
    for (uint32_t i = 0; i < g->n; i++)
        g->rank[i] = i;
    for (uint32_t i = g->n; i > 1; i--) {
        uint32_t k = (uint32_t)prng_below(r, i), other = g->rank[i - 1];
        g->rank[i - 1] = g->rank[k];
        g->rank[k] = other;
    }
    uint64_t density = prng_below(r, 4) + 1;
    for (uint32_t to = 0; to < g->n; to++) {
        g->join[to] = (int)prng_below(r, 3);
        g->may_fail[to] = prng_below(r, 4) == 0;
        g->awaits[to] = prng_below(r, 5) == 0;
        g->undo[to] = prng_below(r, 2) == 0;
        g->undo_attempted[to] = prng_below(r, 3) == 0;
        for (uint32_t from = 0; from < g->n; from++)
            for (int times = 0; times < 2; times++)
                if (g->rank[from] < g->rank[to] && prng_below(r, 8) < density && g->edge_count < EDGES_MAX)
                    add_edge(g, from, to, (int)prng_below(r, 4));
    }
}

/* The step of the highest rank may depend on "*", and a second one too. */
static void draw_stars(struct prng *r, struct graph *g)
{
    uint32_t stars = g->n > 2 ? (uint32_t)prng_below(r, 3) : 0;
    for (uint32_t i = 0; i < g->n; i++) {
        g->star[i] = g->rank[i] >= g->n - stars;
        g->star_type[i] = (int)prng_below(r, 4);
    }
}

static void write_depends_on(struct buf *b, const struct graph *g, uint32_t to)
{
    bool any = false;
    buf_text(b, ",\"depends_on\":[");
    for (uint32_t i = 0; i < g->edge_count; i++) {
        if (g->edges[i].to != to)
            continue;
        buf_printf(b, "%s{\"step\":\"s%u\",\"type\":\"%s\"}", any ? "," : "", g->edges[i].from,
                   dag_type_names[g->edges[i].type]);
        any = true;
    }
    if (g->star[to])
        buf_printf(b, "%s{\"step\":\"*\",\"type\":\"%s\"}", any ? "," : "", dag_type_names[g->star_type[to]]);
    buf_text(b, "]");
    if (any || g->star[to])
        buf_printf(b, ",\"join\":\"%s\"", dag_join_names[g->join[to]]);
}

static struct dag *compile(const struct graph *g)
{
    struct buf b;
    struct error e;
    struct dag *d = NULL;
    buf_init(&b, LIMIT);
    buf_text(&b, "{\"steps\":[");
    for (uint32_t i = 0; i < g->n; i++) {
        buf_printf(&b, "%s{\"name\":\"s%u\",\"may_fail\":%s", i ? "," : "", i, g->may_fail[i] ? "true" : "false");
        if (g->awaits[i])
            buf_text(&b, ",\"await\":{\"signal\":\"go\"}");
        if (g->undo[i])
            buf_printf(&b, ",\"compensate\":{\"target_type\":\"NOOP\",\"if_attempted\":%s}",
                       g->undo_attempted[i] ? "true" : "false");
        write_depends_on(&b, g, i);
        buf_text(&b, "}");
    }
    buf_text(&b, "]}");
    assert_ok(dag_read(buf_str(&b), &d, &e), &e);
    buf_release(&b);
    return d;
}

/* From here on the judge knows the edges of "*", too; the definition is written. */
static void expand_stars(struct graph *g)
{
    for (uint32_t to = 0; to < g->n; to++)
        for (uint32_t from = 0; g->star[to] && from < g->n; from++)
            if (!g->star[from])
                add_edge(g, from, to, g->star_type[to]);
}

/* ---- the judge ---- */

enum verdict { WAITS, READY, ENDED };

struct judgement {
    enum verdict verdict[STEPS_MAX];
    enum flow_outcome outcome[STEPS_MAX];
};

/* By type and outcome: met, broken, neither. */
static const char *const met_or_broken[] = {
    [DAG_MUST_SUCCEED] = "?mbbb-b",
    [DAG_MUST_NOT_FAIL] = "?mbbbmb",
    [DAG_MUST_FINISH] = "?mmmmmm",
    [DAG_MUST_FAIL] = "?-mm---",
};

static enum verdict judge_step(const struct graph *g, const struct judgement *j, uint32_t step, enum flow_outcome *ret)
{
    bool every_met = true, some_met = false, some_broken = false, every_final = true, is_root = true;
    for (uint32_t i = 0; i < g->edge_count; i++) {
        const struct edge *x = &g->edges[i];
        if (x->to != step)
            continue;
        is_root = false;
        bool final = j->verdict[x->from] == ENDED;
        char c = final ? met_or_broken[x->type][j->outcome[x->from]] : '?';
        every_final &= final;
        every_met &= c == 'm';
        some_met |= c == 'm';
        some_broken |= c == 'b';
    }
    *ret = some_broken ? FLOW_BROKEN : FLOW_SKIPPED;
    if (is_root || (g->join[step] == DAG_ALL && every_met) || (g->join[step] == DAG_ANY && some_met) ||
        (g->join[step] == DAG_SOME && every_final && some_met))
        return READY;
    if ((g->join[step] == DAG_ALL && some_broken) || every_final)
        return ENDED;
    return WAITS;
}

/* given: the steps that have run or that a user has decided over, and those that he lets run (forced). */
static struct judgement judge(const struct graph *g, const enum flow_outcome *given, const bool *forced)
{
    struct judgement j = { 0 };
    for (bool changes = true; changes;) {
        changes = false;
        for (uint32_t i = 0; i < g->n; i++) {
            enum flow_outcome o = given[i];
            enum verdict v = o != FLOW_OPEN ? ENDED : forced[i] ? READY : judge_step(g, &j, i, &o);
            if (v == j.verdict[i])
                continue;
            j.verdict[i] = v;
            j.outcome[i] = v == ENDED ? o : FLOW_OPEN;
            changes = true;
        }
    }
    return j;
}

static bool is_below(const struct graph *g, uint32_t step, uint32_t of)
{
    for (uint32_t i = 0; i < g->edge_count; i++)
        if (g->edges[i].to == step && (g->edges[i].from == of || is_below(g, g->edges[i].from, of)))
            return true;
    return false;
}

/* ---- the world ---- */

struct row {
    bool runs, by_hand;
    enum flow_outcome outcome;
    struct flow_counts counts;
};

struct arrival {
    uint32_t step;
    struct flow_counts counts;
};

struct world {
    const struct graph *g;
    const struct dag *d;
    struct prng *r;
    struct arena a;
    struct row rows[STEPS_MAX];
    enum flow_outcome given[STEPS_MAX]; /* what the judge is told */
    bool forced[STEPS_MAX];
    enum flow_outcome fate[STEPS_MAX]; /* how a step ends if it runs */
    struct arrival pending[PENDING_MAX];
    size_t pending_count;
    bool is_untouched; /* no step was decided by hand or kept from before */
};

static void draw_fates(struct world *w)
{
    static const enum flow_outcome fates[] = { FLOW_COMPLETED, FLOW_COMPLETED, FLOW_COMPLETED, FLOW_COMPLETED,
                                               FLOW_FAILED,    FLOW_EXPIRED,   FLOW_CANCELLED, FLOW_SKIPPED };
    for (uint32_t i = 0; i < w->g->n; i++)
        w->fate[i] = fates[prng_below(w->r, array_count(fates))];
}

static void arrive(struct world *w, const struct arrival *x);

static void tell_children(struct world *w, uint32_t step)
{
    const struct dag_edges *out = &w->d->steps[step].out;
    for (uint32_t k = 0; k < out->n; k++) {
        struct arrival x = { out->v[k].step, flow_arrival(out->v[k].type, w->rows[step].outcome) };
        if (prng_below(w->r, 2)) {
            assert_true(w->pending_count < PENDING_MAX);
            w->pending[w->pending_count++] = x;
        } else {
            arrive(w, &x);
        }
    }
}

static void decide(struct world *w, uint32_t step)
{
    struct row *row = &w->rows[step];
    enum flow_decision d = flow_decide(w->d->steps[step].join, w->d->steps[step].in.n, row->counts);
    row->runs = d == FLOW_START;
    if (d == FLOW_WAIT || d == FLOW_START)
        return;
    row->outcome = d == FLOW_SKIP_BROKEN ? FLOW_BROKEN : FLOW_SKIPPED;
    tell_children(w, step);
}

static void arrive(struct world *w, const struct arrival *x)
{
    struct row *row = &w->rows[x->step];
    row->counts.arrived += x->counts.arrived;
    row->counts.met += x->counts.met;
    row->counts.broken += x->counts.broken;
    assert_true(row->counts.arrived <= w->d->steps[x->step].in.n);
    if (row->outcome == FLOW_OPEN && !row->runs && !row->by_hand)
        decide(w, x->step);
}

static void open_run(struct world *w, const enum flow_outcome *kept)
{
    struct flow_state s;
    struct error e;
    assert_ok(flow_state(w->d, kept, &w->a, &s, &e), &e);
    w->is_untouched = !kept;
    for (uint32_t i = 0; i < w->g->n; i++) {
        const struct flow_step_state *v = &s.v[i];
        w->rows[i] = (struct row){ .runs = v->outcome == FLOW_OPEN && v->decision == FLOW_START,
                                   .outcome = v->outcome,
                                   .counts = v->counts };
        w->given[i] = kept ? kept[i] : FLOW_OPEN;
        w->forced[i] = false;
        assert_true(kept || w->rows[i].runs == (w->d->steps[i].in.n == 0));
    }
}

/* Whether all steps are final that count for the end of the run. */
static bool ends_are_final(const struct world *w, const struct judgement *j)
{
    for (uint32_t i = 0; i < w->g->n; i++)
        if (w->d->steps[i].ends_run && j->verdict[i] != ENDED)
            return false;
    return true;
}

/* Everything that has arrived is as the judge says. Returns whether the run is over. */
static bool compare_with_judge(struct world *w)
{
    struct judgement j = judge(w->g, w->given, w->forced);
    bool all_final = true;
    struct flow_state s;
    struct error e;
    enum flow_outcome told[STEPS_MAX];
    for (uint32_t i = 0; i < w->g->n; i++)
        told[i] = w->given[i] == FLOW_OPEN && w->forced[i] ? FLOW_FORCED : w->given[i];
    assert_ok(flow_state(w->d, told, &w->a, &s, &e), &e);
    for (uint32_t i = 0; i < w->g->n; i++) {
        const struct row *row = &w->rows[i];
        all_final &= j.verdict[i] == ENDED;
        assert_int_equal(s.v[i].outcome, j.outcome[i]);
        assert_int_equal(s.v[i].outcome == FLOW_OPEN && s.v[i].decision == FLOW_START, j.verdict[i] == READY);
        if (w->pending_count)
            continue;
        assert_int_equal(row->runs, j.verdict[i] == READY);
        assert_int_equal(row->outcome, j.outcome[i]);
    }
    assert_int_equal(s.open == 0, all_final);
    assert_true(!w->is_untouched || ends_are_final(w, &j) == all_final);
    return all_final && w->pending_count == 0;
}

/* One to three steps end in one transaction. */
static void end_some(struct world *w)
{
    uint32_t running[STEPS_MAX], n = 0;
    for (uint32_t i = 0; i < w->g->n; i++)
        if (w->rows[i].runs)
            running[n++] = i;
    uint32_t take = (uint32_t)prng_between(w->r, 1, 3), ended[3], count = 0;
    while (n && count < take) {
        uint32_t k = (uint32_t)prng_below(w->r, n), step = running[k];
        running[k] = running[--n];
        w->rows[step].runs = false;
        w->rows[step].outcome = w->given[step] = w->fate[step];
        ended[count++] = step;
    }
    for (uint32_t i = 0; i < count; i++)
        tell_children(w, ended[i]);
}

/* A user lets an open step run, or skips it, without regard to its parents. */
static void act_by_hand(struct world *w)
{
    struct judgement j = judge(w->g, w->given, w->forced);
    uint32_t step = (uint32_t)prng_below(w->r, w->g->n);
    struct row *row = &w->rows[step];
    if (j.verdict[step] != WAITS || row->by_hand)
        return;
    row->by_hand = true;
    w->is_untouched = false;
    if (prng_below(w->r, 2)) {
        row->runs = w->forced[step] = true;
    } else {
        row->outcome = w->given[step] = FLOW_SKIPPED;
        tell_children(w, step);
    }
}

static void run_to_end(struct world *w, bool by_hand)
{
    for (int guard = 0; !compare_with_judge(w); guard++) {
        assert_true(guard < 1000);
        if (by_hand && prng_below(w->r, 6) == 0)
            act_by_hand(w);
        if (w->pending_count && prng_below(w->r, 2)) {
            size_t k = prng_below(w->r, w->pending_count);
            struct arrival x = w->pending[k];
            w->pending[k] = w->pending[--w->pending_count];
            arrive(w, &x);
        } else {
            end_some(w);
        }
    }
}

static void world_init(struct world *w, struct prng *r, const struct graph *g, const struct dag *d)
{
    *w = (struct world){ .g = g, .d = d, .r = r };
    arena_init(&w->a, 16 << 20);
}

static struct dag *draw_definition(struct prng *r, struct graph *g)
{
    draw_graph(r, g);
    draw_stars(r, g);
    for (uint32_t i = 0; i < g->edge_count;) { /* nobody waits for a step with "*" but a later one with "*" */
        if (g->star[g->edges[i].from] && !g->star[g->edges[i].to])
            g->edges[i] = g->edges[--g->edge_count];
        else
            i++;
    }
    struct dag *d = compile(g);
    expand_stars(g);
    return d;
}

/* ---- tests ---- */

static void every_order_ends_as_the_judge_says(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    for (int round = 0; round < ROUNDS; round++) {
        struct graph g;
        struct dag *d = draw_definition(&r, &g);
        struct judgement first = { 0 };
        enum flow_outcome fate[STEPS_MAX];
        for (int order = 0; order < 3; order++) {
            struct world w;
            world_init(&w, &r, &g, d);
            draw_fates(&w);
            if (order)
                memcpy(w.fate, fate, sizeof fate);
            memcpy(fate, w.fate, sizeof fate);
            open_run(&w, NULL);
            run_to_end(&w, false);
            struct judgement j = judge(&g, w.given, w.forced);
            if (order == 0)
                first = j;
            assert_memory_equal(j.outcome, first.outcome, g.n * sizeof j.outcome[0]);
            arena_release(&w.a);
        }
        dag_free(d);
    }
}

static void steps_that_users_meddle_with_end_as_the_judge_says(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    for (int round = 0; round < ROUNDS; round++) {
        struct graph g;
        struct dag *d = draw_definition(&r, &g);
        struct world w;
        world_init(&w, &r, &g, d);
        draw_fates(&w);
        open_run(&w, NULL);
        run_to_end(&w, true);
        arena_release(&w.a);
        dag_free(d);
    }
}

static bool failed(enum flow_outcome o)
{
    return o == FLOW_FAILED || o == FLOW_EXPIRED || o == FLOW_CANCELLED;
}

/* Some steps may be without an end: the run was stopped. */
static void check_retry(const struct world *w, const enum flow_outcome *was, const uint32_t *only, size_t count,
                        const enum flow_outcome *kept)
{
    struct judgement before = judge(w->g, was, (bool[STEPS_MAX]){ 0 });
    for (uint32_t i = 0; i < w->g->n; i++) {
        bool chosen = count == 0 || (count == 1 && only[0] == i);
        bool again = before.verdict[i] != ENDED || (failed(was[i]) && chosen), below = false;
        for (uint32_t k = 0; k < w->g->n; k++) {
            bool k_chosen = count == 0 || (count == 1 && only[0] == k);
            below |= is_below(w->g, i, k) && (before.verdict[k] != ENDED || (failed(was[k]) && k_chosen));
        }
        bool skipped = before.outcome[i] == FLOW_SKIPPED || before.outcome[i] == FLOW_BROKEN;
        if (was[i] == FLOW_COMPLETED)
            assert_int_equal(kept[i], FLOW_COMPLETED);
        assert_int_equal(kept[i], again || (below && skipped) ? FLOW_OPEN : before.outcome[i]);
    }
}

static void retry_once(struct world *w)
{
    enum flow_outcome kept[STEPS_MAX], was[STEPS_MAX];
    uint32_t only = (uint32_t)prng_below(w->r, w->g->n);
    struct error e;
    memcpy(was, w->given, sizeof was);
    bool some = failed(was[only]) && prng_below(w->r, 2);
    struct flow_retry r = { .was = was, .steps = &only, .count = some };
    assert_ok(flow_retry(w->d, &r, &w->a, kept, &e), &e);
    check_retry(w, was, &only, some, kept);
    if (failed(was[only])) {
        enum flow_outcome completed[STEPS_MAX];
        struct flow_retry c = { .was = was, .steps = &only, .count = 1, .completes = true };
        assert_ok(flow_retry(w->d, &c, &w->a, completed, &e), &e);
        assert_int_equal(completed[only], FLOW_COMPLETED);
        if (prng_below(w->r, 2))
            memcpy(kept, completed, sizeof kept);
    }
    draw_fates(w);
    open_run(w, kept);
}

static void a_retry_touches_no_completed_step_and_ends(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    for (int round = 0; round < ROUNDS; round++) {
        struct graph g;
        struct dag *d = draw_definition(&r, &g);
        struct world w;
        world_init(&w, &r, &g, d);
        draw_fates(&w);
        open_run(&w, NULL);
        bool by_hand = prng_below(&r, 2);
        for (int stopped_after = (int)prng_below(&r, 4); stopped_after > 0; stopped_after--)
            end_some(&w);
        w.pending_count = 0; /* a stop: nothing that was put off counts any more */
        for (int retries = 0; retries < 3; retries++) {
            retry_once(&w);
            run_to_end(&w, by_hand);
        }
        arena_release(&w.a);
        dag_free(d);
    }
}

static void a_rerun_copies_only_what_does_not_depend_on_what_runs_again(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    for (int round = 0; round < ROUNDS; round++) {
        struct graph g;
        struct dag *d = draw_definition(&r, &g);
        struct world w;
        enum flow_outcome kept[STEPS_MAX];
        bool undone[STEPS_MAX];
        struct error e;
        world_init(&w, &r, &g, d);
        draw_fates(&w);
        open_run(&w, NULL);
        run_to_end(&w, false);
        struct judgement j = judge(&g, w.given, w.forced);
        for (uint32_t i = 0; i < g.n; i++)
            undone[i] = j.outcome[i] == FLOW_COMPLETED && prng_below(&r, 5) == 0;
        uint32_t from = (uint32_t)prng_below(&r, g.n);
        assert_ok(flow_rerun(d, w.given, undone, from, &w.a, kept, &e), &e);
        for (uint32_t i = 0; i < g.n; i++) {
            bool again = i == from || is_below(&g, i, from) || failed(j.outcome[i]) || undone[i];
            bool skipped = j.outcome[i] == FLOW_SKIPPED || j.outcome[i] == FLOW_BROKEN;
            for (uint32_t k = 0; k < g.n; k++)
                again |= is_below(&g, i, k) && (undone[k] || (skipped && failed(j.outcome[k])));
            assert_int_equal(kept[i], again ? FLOW_OPEN : j.outcome[i]);
        }
        open_run(&w, kept);
        run_to_end(&w, prng_below(&r, 2));
        arena_release(&w.a);
        dag_free(d);
    }
}

static void a_compensation_comes_after_those_of_all_descendants(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    for (int round = 0; round < ROUNDS; round++) {
        struct graph g;
        struct dag *d = draw_definition(&r, &g);
        struct arena a;
        struct flow_undo u;
        struct error e;
        enum flow_reach reach[STEPS_MAX];
        uint32_t wave_of[STEPS_MAX], listed[STEPS_MAX] = { 0 }, wanted = 0;
        arena_init(&a, LIMIT);
        for (uint32_t i = 0; i < g.n; i++)
            reach[i] = (enum flow_reach)prng_below(&r, 3);
        assert_ok(flow_undo(d, reach, &a, &u, &e), &e);
        assert_int_equal(u.wave_from[0], 0);
        assert_int_equal(u.wave_from[u.waves], u.n);
        for (uint32_t wave = 0; wave < u.waves; wave++) {
            assert_true(u.wave_from[wave] < u.wave_from[wave + 1]);
            for (uint32_t k = u.wave_from[wave]; k < u.wave_from[wave + 1]; k++) {
                wave_of[u.steps[k]] = wave;
                listed[u.steps[k]]++;
            }
        }
        for (uint32_t i = 0; i < g.n; i++) {
            bool undo = g.undo[i] && (reach[i] == FLOW_DONE || (reach[i] == FLOW_SENT && g.undo_attempted[i]));
            wanted += undo;
            assert_int_equal(listed[i], undo);
            for (uint32_t k = 0; undo && k < g.n; k++)
                if (listed[k] && is_below(&g, k, i))
                    assert_true(wave_of[k] < wave_of[i]);
        }
        assert_int_equal(u.n, wanted);
        arena_release(&a);
        dag_free(d);
    }
}

static bool fails_by_the_book(const struct graph *g, const struct judgement *j, uint32_t step)
{
    bool handled = g->may_fail[step];
    for (uint32_t i = 0; i < g->edge_count; i++) {
        const struct edge *x = &g->edges[i];
        handled |=
            x->from == step && x->type == DAG_MUST_FAIL && !g->star[x->to] && j->outcome[x->to] == FLOW_COMPLETED;
    }
    return failed(j->outcome[step]) && !handled;
}

static void a_run_fails_by_a_failure_that_nobody_handles(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    int failures = 0, successes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct graph g;
        struct dag *d = draw_definition(&r, &g);
        struct world w;
        struct flow_state s;
        struct error e;
        world_init(&w, &r, &g, d);
        draw_fates(&w);
        open_run(&w, NULL);
        run_to_end(&w, false);
        struct judgement j = judge(&g, w.given, w.forced);
        assert_ok(flow_state(d, w.given, &w.a, &s, &e), &e);
        struct flow_result result = flow_result(d, &s, FLOW_NOT_STOPPED, true);
        uint32_t first = 0;
        bool stars = false;
        for (uint32_t i = 0; i < g.n; i++)
            stars |= g.star[i];
        while (first < g.n && !fails_by_the_book(&g, &j, first))
            first++;
        if (!stars) { /* the judge does not tell a named edge from one of "*" */
            assert_int_equal(result.state, first < g.n ? TASK_FAILED : TASK_COMPLETED);
            assert_int_equal(result.cause, first < g.n ? FLOW_CAUSE_STEP : FLOW_CAUSE_NONE);
            assert_true(first == g.n || result.step == first);
        }
        failures += result.state == TASK_FAILED;
        successes += result.state == TASK_COMPLETED;
        arena_release(&w.a);
        dag_free(d);
    }
    assert_true(failures > ROUNDS / 10 && successes > ROUNDS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_ends_as_the_judge_says),
        cmocka_unit_test(steps_that_users_meddle_with_end_as_the_judge_says),
        cmocka_unit_test(a_retry_touches_no_completed_step_and_ends),
        cmocka_unit_test(a_rerun_copies_only_what_does_not_depend_on_what_runs_again),
        cmocka_unit_test(a_compensation_comes_after_those_of_all_descendants),
        cmocka_unit_test(a_run_fails_by_a_failure_that_nobody_handles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
