#include "core/flow/critical.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the path ---- */

static int64_t critical_start_of(const struct critical_step *s)
{
    return s->first_ms ? s->first_ms : s->started_ms;
}

static int64_t critical_end_of(const struct critical_step *s, int64_t now_ms)
{
    if (!s->started_ms)
        return INT64_MIN;
    return s->completed_ms ? s->completed_ms : now_ms;
}

static int64_t critical_release_of(const struct critical_step *s)
{
    int64_t start_ms = critical_start_of(s);
    return s->released_ms && s->released_ms < start_ms ? s->released_ms : start_ms;
}

int64_t critical_waited_ms(const struct critical_step *s, int64_t now_ms)
{
    int64_t start_ms = critical_start_of(s);
    if (!s->released_ms || (s->is_final && !start_ms))
        return 0;
    int64_t until_ms = start_ms ? start_ms : now_ms;
    return max_of(until_ms - s->released_ms, 0);
}

int64_t critical_ran_ms(const struct critical_step *s, int64_t now_ms)
{
    int64_t start_ms = critical_start_of(s);
    return start_ms ? max_of((s->completed_ms ? s->completed_ms : now_ms) - start_ms, 0) : 0;
}

/* Steps to look at, and for which step each was put there last (its index and 1): several ways may lead to a step. */
struct critical_walk {
    uint32_t *v, *put_for;
    size_t n;
};

static void critical_walk_add_parents(struct critical_walk *w, const struct critical_step *steps, uint32_t of,
                                      uint32_t start)
{
    for (uint32_t i = 0; i < steps[of].parent_count; i++) {
        uint32_t parent = steps[of].parents[i];
        if (w->put_for[parent] == start + 1)
            continue;
        w->put_for[parent] = start + 1;
        w->v[w->n++] = parent;
    }
}

/* The parent that ended last before this step started: it released the step. False: no parent did. With the join ANY,
 * later ones have no part in it. A parent that was skipped took no time: what it waited for takes its place. */
static bool critical_parent_of(const struct critical_step *steps, struct critical_walk *w, uint32_t step, uint32_t *ret)
{
    int64_t start_ms = critical_start_of(&steps[step]), latest_ms = INT64_MIN;
    critical_walk_add_parents(w, steps, step, step);
    while (w->n) {
        uint32_t at = w->v[--w->n];
        const struct critical_step *p = &steps[at];
        if (p->completed_ms > start_ms)
            continue;
        if (p->is_final && !p->started_ms)
            critical_walk_add_parents(w, steps, at, step);
        else if (p->started_ms && p->completed_ms > max_of(latest_ms, (int64_t)0)) {
            latest_ms = p->completed_ms;
            *ret = at;
        }
    }
    return latest_ms != INT64_MIN;
}

/* Of steps that ended at the same time, the one that started last: a step of 0 ms ends when the one before it does. */
static bool critical_last_of(const struct critical_step *steps, size_t n, int64_t now_ms, uint32_t *ret)
{
    int64_t latest_ms = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        int64_t end_ms = critical_end_of(&steps[i], now_ms);
        bool is_first = latest_ms == INT64_MIN, same = !is_first && end_ms == latest_ms;
        if (end_ms < latest_ms || end_ms == INT64_MIN || (same && steps[i].started_ms < steps[*ret].started_ms))
            continue;
        latest_ms = end_ms;
        *ret = (uint32_t)i;
    }
    return latest_ms != INT64_MIN;
}

enum err critical_path(const struct critical_step *steps, size_t n, int64_t now_ms, struct arena *a,
                       struct critical_path *ret, struct error *e)
{
    struct critical_path p = { .v = arena_array(a, uint32_t, max_of(n, (size_t)1)) };
    struct critical_walk w = { .v = arena_array(a, uint32_t, n + 1), .put_for = arena_array(a, uint32_t, n + 1) };
    uint32_t at;
    if (!p.v || !w.v || !w.put_for)
        return error_no_room(e);
    bool more = critical_last_of(steps, n, now_ms, &at);
    while (more && p.n < n) { /* the times of a server may be equal, or wrong: the path is finite in any case */
        const struct critical_step *s = &steps[at];
        p.v[p.n++] = at;
        p.waited_ms += critical_waited_ms(s, now_ms);
        p.ran_ms += critical_ran_ms(s, now_ms);
        more = critical_parent_of(steps, &w, at, &at);
    }
    for (size_t i = 0; i < p.n / 2; i++) {
        uint32_t other = p.v[p.n - 1 - i];
        p.v[p.n - 1 - i] = p.v[i];
        p.v[i] = other;
    }
    *ret = p;
    return ERR_OK;
}

/* ---- the estimate ---- */

/* Children by parent, and how many parents of a step are not visited yet. */
struct critical_order {
    uint32_t *from; /* children of i: v[from[i]] to v[from[i + 1]] */
    uint32_t *v;
    uint32_t *left;
    uint32_t *ready;
    size_t ready_count;
    int64_t *end_ms;
};

static enum err critical_order_init(struct critical_order *o, const struct critical_step *steps, size_t n,
                                    struct arena *a, struct error *e)
{
    size_t edges = 0;
    for (size_t i = 0; i < n; i++)
        edges += steps[i].parent_count;
    *o = (struct critical_order){ .from = arena_array(a, uint32_t, n + 2), .v = arena_array(a, uint32_t, edges + 1) };
    o->left = arena_array(a, uint32_t, n + 1);
    o->ready = arena_array(a, uint32_t, n + 1);
    o->end_ms = arena_array(a, int64_t, n + 1);
    if (!o->from || !o->v || !o->left || !o->ready || !o->end_ms)
        return error_no_room(e);
    for (size_t i = 0; i < n; i++) {
        o->left[i] = steps[i].parent_count;
        if (!o->left[i])
            o->ready[o->ready_count++] = (uint32_t)i;
        for (uint32_t k = 0; k < steps[i].parent_count; k++)
            o->from[steps[i].parents[k] + 2]++;
    }
    for (size_t i = 2; i < n + 2; i++)
        o->from[i] += o->from[i - 1];
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < steps[i].parent_count; k++)
            o->v[o->from[steps[i].parents[k] + 1]++] = (uint32_t)i;
    return ERR_OK;
}

static int64_t critical_expect_end(const struct critical_step *s, int64_t parents_end_ms, int64_t now_ms,
                                   struct critical_estimate *ret)
{
    if (s->is_final)
        return s->completed_ms ? s->completed_ms : parents_end_ms;
    ret->unknown += s->usual_ms < 0;
    int64_t from_ms = s->started_ms    ? critical_release_of(s)
                      : s->released_ms ? s->released_ms
                                       : max_of(parents_end_ms, now_ms);
    return max_of(from_ms + max_of(s->usual_ms, 0), now_ms);
}

enum err critical_estimate(const struct critical_step *steps, size_t n, int64_t now_ms, struct arena *a,
                           struct critical_estimate *ret, struct error *e)
{
    struct critical_order o;
    struct critical_estimate found = { 0 };
    if (critical_order_init(&o, steps, n, a, e))
        return e->code;
    size_t at = 0;
    for (; at < o.ready_count; at++) {
        uint32_t step = o.ready[at];
        int64_t end_ms = critical_expect_end(&steps[step], o.end_ms[step], now_ms, &found);
        found.end_ms = max_of(found.end_ms, end_ms);
        for (uint32_t k = o.from[step]; k < o.from[step + 1]; k++) {
            uint32_t child = o.v[k];
            o.end_ms[child] = max_of(o.end_ms[child], end_ms);
            if (--o.left[child] == 0)
                o.ready[o.ready_count++] = child;
        }
    }
    if (at < n)
        return error_set(e, ERR_INVALID, "the steps depend on each other in a circle");
    *ret = found;
    return ERR_OK;
}

static int critical_compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

int64_t critical_median(int64_t *v, size_t n)
{
    assert(n > 0);
    qsort(v, n, sizeof *v, critical_compare);
    return v[(n - 1) / 2];
}
