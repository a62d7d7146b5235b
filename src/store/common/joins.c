/* Invariant: an edge is open, or its arrival is in the counts of its child's join. So counts change only together with
 * edges, and a decision over the counts is a decision over all edges. */
#include "store/common/joins.h"

#include <assert.h>
#include <stdlib.h>

#include "base/map.h"

enum { ARRIVE_PARENTS = 64 };

void open_edges_add(struct open_edges *o, const struct open_edge *e)
{
    if (o->n == o->cap) {
        o->cap = o->cap * 2 + 16;
        o->v = xrealloc(o->v, o->cap * sizeof *o->v);
    }
    o->v[o->n++] = *e;
}

static void join_add(struct flow_counts *c, enum edge_state s)
{
    struct flow_counts d = edge_counts(s);
    c->arrived += d.arrived;
    c->met += d.met;
    c->broken += d.broken;
}

static void join_subtract(struct flow_counts *c, enum edge_state s)
{
    struct flow_counts d = edge_counts(s);
    c->arrived -= d.arrived;
    c->met -= d.met;
    c->broken -= d.broken;
}

/* The edge that a skip is explained by: a broken one if there is one, else one that is not met; of these the one with
 * the lowest parent. */
struct skip_cause {
    enum edge_state edge; /* EDGE_OPEN: none yet */
    struct uuid parent;
    enum dag_type type;
    enum flow_outcome outcome;
};

static void skip_cause_offer(struct skip_cause *c, const struct skip_cause *x)
{
    if (x->edge != EDGE_BROKEN && x->edge != EDGE_UNMET)
        return;
    bool is_better = c->edge == EDGE_OPEN || (x->edge == EDGE_BROKEN && c->edge != EDGE_BROKEN) ||
                     (x->edge == c->edge && uuid_cmp(x->parent, c->parent) < 0);
    if (is_better)
        *c = *x;
}

static struct str skip_cause_text(const struct skip_cause *c, char out[DEPENDENCY_REASON_MAX])
{
    if (c->edge == EDGE_OPEN)
        return S("skipped: no task that it depends on ended as it asks");
    return dependency_skip_reason(c->parent, c->type, c->outcome, out);
}

/* ---- children that are created ---- */

/* Reads and checks the parents; *ret is freed by the caller. */
static enum err join_read_parents(struct joins *j, const struct dependency *v, size_t n, int32_t tenant,
                                  struct join_task **ret, struct error *e)
{
    struct uuid *ids = xcalloc(n + 1, sizeof *ids);
    struct join_task *parents = xcalloc(n + 1, sizeof *parents);
    for (size_t i = 0; i < n; i++)
        ids[i] = v[i].parent;
    enum err rc = j->ops->parents(j, ids, n, parents, e);
    for (size_t i = 0; !rc && i < n; i++)
        rc = dependency_check(&parents[i].task, parents[i].found, &v[i], i, tenant, e);
    free(ids);
    if (rc)
        free(parents);
    else
        *ret = parents;
    return rc;
}

static enum edge_state join_edge_state(const struct task *parent, enum dag_type type)
{
    enum flow_outcome o = dependency_outcome(parent->state, parent->links);
    return o == FLOW_OPEN ? EDGE_OPEN : edge_arrives(type, o);
}

static bool join_must_mark(const struct task *parent, enum edge_state s)
{
    return s == EDGE_OPEN && !(parent->links & TASK_HAS_CHILDREN);
}

enum err join_plan_make(struct joins *j, const struct task *t, const struct depends_on *d, struct join_plan *ret,
                        struct error *e)
{
    struct join_task *parents;
    struct skip_cause cause = { 0 };
    if (join_read_parents(j, d->v, d->n, t->tenant, &parents, e))
        return e->code;
    *ret = (struct join_plan){ .task = *t,
                               .depends = d,
                               .join = { .join = d->join, .expected = (uint32_t)d->n, .max_broken = -1 } };
    ret->edges = xcalloc(d->n, sizeof *ret->edges);
    ret->unmarked = xcalloc(d->n, sizeof *ret->unmarked);
    for (size_t i = 0; i < d->n; i++) {
        const struct task *p = &parents[i].task;
        ret->edges[i] = join_edge_state(p, d->v[i].type);
        join_add(&ret->join.counts, ret->edges[i]);
        if (join_must_mark(p, ret->edges[i]))
            ret->unmarked[ret->unmarked_count++] = p->id;
        skip_cause_offer(
            &cause, &(struct skip_cause){ ret->edges[i], p->id, d->v[i].type, dependency_outcome(p->state, p->links) });
    }
    free(parents);
    ret->task.links |= TASK_HAS_PARENTS;
    dependency_apply(&ret->task, dependency_decide(d->join, ret->join.expected, ret->join.counts),
                     skip_cause_text(&cause, ret->why), t->created_ms);
    return ERR_OK;
}

enum err join_plan_write(struct joins *j, const struct join_plan *p, struct error *e)
{
    for (size_t i = 0; i < p->depends->n; i++)
        if (j->ops->edge_put(j, &p->task, &p->depends->v[i], p->edges[i], NULL, e))
            return e->code;
    if (j->ops->join_put(j, &p->task, &p->join, e))
        return e->code;
    return p->unmarked_count ? j->ops->mark_parents(j, p->unmarked, p->unmarked_count, e) : ERR_OK;
}

void join_plan_release(struct join_plan *p)
{
    free(p->edges);
    free(p->unmarked);
}

/* ---- cycles ---- */

/* A task that the search has met, and the one that depends on it. */
struct cycle_task {
    struct uuid id;
    size_t from;
};

struct cycle_search {
    struct cycle_task **v; /* v[0]: the task itself */
    size_t n, cap;
    struct map seen; /* id → struct cycle_task */
};

static void cycle_release(struct cycle_search *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->v[i]);
    free(c->v);
    map_release(&c->seen);
}

static void cycle_add(struct cycle_search *c, struct uuid id, size_t from)
{
    if (map_get(&c->seen, uuid_bytes(&id)))
        return;
    if (c->n == c->cap) {
        c->cap = c->cap * 2 + 16;
        c->v = xrealloc(c->v, c->cap * sizeof(struct cycle_task *));
    }
    struct cycle_task *t = xnew(*t);
    *t = (struct cycle_task){ id, from };
    c->v[c->n++] = t;
    (void)map_put(&c->seen, uuid_bytes(&t->id), t);
}

/* The path ends where it began; `last` depends on the task that it begins with. */
static enum err cycle_found(const struct cycle_search *c, size_t last, struct error *e)
{
    size_t n = 2;
    for (size_t i = last; i; i = c->v[i]->from)
        n++;
    struct uuid *path = xcalloc(n, sizeof *path);
    path[0] = path[n - 1] = c->v[0]->id;
    for (size_t i = last, at = n - 2; i; i = c->v[i]->from)
        path[at--] = c->v[i]->id;
    enum err rc = dependency_cycle(path, n, e);
    free(path);
    return rc;
}

static enum err cycle_too_large(struct error *e)
{
    (void)error_set(e, ERR_LIMIT, "leads to more than %d tasks that wait for each other; depend on fewer tasks",
                    CYCLE_TASKS_MAX);
    return error_in(e, "depends_on");
}

/* Follows open edges from the task to the tasks that it waits for, breadth first. */
static enum err cycle_walk(struct joins *j, struct cycle_search *c, struct uuid *parents, struct error *e)
{
    for (size_t at = 0; at < c->n; at++) {
        size_t n;
        if (j->ops->open_parents(j, &c->v[at]->id, DEPENDENCIES_MAX, parents, &n, e))
            return e->code;
        for (size_t i = 0; i < n; i++) {
            if (uuid_eq(parents[i], c->v[0]->id))
                return cycle_found(c, at, e);
            cycle_add(c, parents[i], at);
        }
        if (c->n > CYCLE_TASKS_MAX)
            return cycle_too_large(e);
    }
    return ERR_OK;
}

static enum err join_check_cycle(struct joins *j, const struct uuid *child, struct error *e)
{
    struct cycle_search c = { 0 };
    struct uuid *parents = xcalloc(DEPENDENCIES_MAX, sizeof *parents);
    map_init(&c.seen, HASH_STABLE);
    cycle_add(&c, *child, 0);
    enum err rc = cycle_walk(j, &c, parents, e);
    cycle_release(&c);
    free(parents);
    return rc;
}

/* ---- children that are changed ---- */

static enum err join_remove_edge(struct joins *j, const struct depends_change *c, const struct task *child,
                                 struct join_row *row, struct error *e)
{
    enum edge_state was;
    bool found;
    if (uuid_is_nil(c->remove))
        return ERR_OK;
    if (j->ops->edge_remove(j, &(struct edge_id){ c->remove, child->id }, &was, &found, e))
        return e->code;
    if (!found) {
        (void)error_set(e, ERR_NOT_FOUND, "the task does not depend on that task");
        return error_in(e, "depends_on");
    }
    row->expected--;
    join_subtract(&row->counts, was);
    return ERR_OK;
}

static enum err join_add_edges(struct joins *j, const struct depends_change *c, const struct task *child,
                               struct join_row *row, struct skip_cause *cause, struct error *e)
{
    struct join_task *parents;
    struct uuid *unmarked = xcalloc(c->n + 1, sizeof *unmarked);
    size_t n = 0;
    enum err rc = join_read_parents(j, c->add, c->n, child->tenant, &parents, e);
    if (rc) {
        free(unmarked);
        return rc;
    }
    for (size_t i = 0; !rc && i < c->n; i++) {
        const struct task *p = &parents[i].task;
        enum edge_state s = join_edge_state(p, c->add[i].type);
        bool is_new;
        rc = j->ops->edge_put(j, child, &c->add[i], s, &is_new, e);
        if (rc || !is_new)
            continue;
        row->expected++;
        join_add(&row->counts, s);
        if (join_must_mark(p, s))
            unmarked[n++] = p->id;
        skip_cause_offer(cause,
                         &(struct skip_cause){ s, p->id, c->add[i].type, dependency_outcome(p->state, p->links) });
    }
    if (!rc && n)
        rc = j->ops->mark_parents(j, unmarked, n, e);
    free(parents);
    free(unmarked);
    return rc;
}

enum err joins_end(struct joins *j, const struct end_of *v, size_t n, const struct task *t, struct join_row *row,
                   struct error *e)
{
    struct open_join join = { row->expected, row->max_broken, row->counts };
    for (size_t i = 0; i < n; i++) {
        struct edge_id id = { v[i].parent.id, t->id };
        struct end_edge edge = { 0 };
        if (!v[i].is_new && j->ops->end_get(j, &id, &edge, e))
            return e->code;
        if (!end_edge_apply(&edge, &v[i].parent, v[i].type, &join, v[i].is_more))
            continue;
        if (j->ops->end_put(j, &id, t->tenant, v[i].type, edge.state, e))
            return e->code;
    }
    row->expected = join.expected;
    row->counts = join.counts;
    return ERR_OK;
}

enum err joins_wait_for(struct joins *j, const struct task *t, const struct uuid *parents, size_t n, enum dag_type type,
                        struct join_row *row, struct error *e)
{
    struct dependency *d = xcalloc(n + 1, sizeof *d);
    struct end_of *v = xcalloc(n + 1, sizeof *v);
    struct join_task *read;
    for (size_t i = 0; i < n; i++)
        d[i] = (struct dependency){ parents[i], type };
    enum err rc = join_read_parents(j, d, n, t->tenant, &read, e);
    for (size_t i = 0; !rc && i < n; i++)
        v[i] = (struct end_of){ .parent = read[i].task, .type = type, .is_more = true };
    if (!rc) {
        free(read);
        rc = joins_end(j, v, n, t, row, e);
    }
    rc = rc ? rc : j->ops->mark_parents(j, parents, n, e);
    free(d);
    free(v);
    return rc;
}

static enum err join_too_many(struct error *e)
{
    (void)error_set(e, ERR_LIMIT, "a task depends on at most %d others", DEPENDENCIES_MAX);
    return error_in(e, "depends_on");
}

enum err joins_change(struct joins *j, const struct depends_change *c, struct task *next,
                      char why[DEPENDENCY_REASON_MAX], struct error *e)
{
    struct join_row row = { .max_broken = -1 };
    struct skip_cause cause = { 0 };
    bool found;
    if ((j->ops->lock_tenant && j->ops->lock_tenant(j, next->tenant, e)) ||
        j->ops->join_get(j, &next->id, &row, &found, e))
        return e->code;
    if (c->sets_join)
        row.join = c->join;
    if (join_remove_edge(j, c, next, &row, e) || join_add_edges(j, c, next, &row, &cause, e))
        return e->code;
    if (row.expected > DEPENDENCIES_MAX)
        return join_too_many(e);
    if (join_check_cycle(j, &next->id, e) || j->ops->join_put(j, next, &row, e))
        return e->code;
    next->links |= TASK_HAS_PARENTS;
    dependency_apply(next, dependency_decide(row.join, row.expected, row.counts), skip_cause_text(&cause, why),
                     next->updated_ms);
    return ERR_OK;
}

enum err joins_check_put(struct joins *j, const struct task *next, enum task_state was, int links, struct error *e)
{
    bool left;
    if (!dependency_ends_anew(was, links, next->state))
        return ERR_OK;
    if (j->ops->is_left(j, &next->id, &left, e))
        return e->code;
    return left ? dependency_is_left(e) : ERR_OK;
}

/* ---- parents that became final ---- */

void join_fold_init(struct join_fold *f, struct joins *j, int64_t now_ms, size_t settlements)
{
    *f = (struct join_fold){ .joins = j, .now_ms = now_ms, .budget = ARRIVALS_MAX + 2 * settlements };
}

void join_fold_release(struct join_fold *f)
{
    free(f->v);
}

static void join_fold_push(struct join_fold *f, struct arrival a)
{
    if (f->n == f->cap) {
        f->cap = f->cap * 2 + 16;
        f->v = xrealloc(f->v, f->cap * sizeof *f->v);
    }
    f->v[f->n++] = a;
}

void join_fold_add(struct join_fold *f, const struct uuid *task, enum task_state state, int links)
{
    if (task_is_final(state) && links & TASK_HAS_CHILDREN)
        join_fold_push(f, (struct arrival){ *task, dependency_outcome(state, links) });
}

static int join_fold_by_parent(const void *a, const void *b)
{
    return uuid_cmp(((const struct arrival *)a)->parent, ((const struct arrival *)b)->parent);
}

static int join_fold_by_child(const void *a, const void *b)
{
    const struct open_edge *x = a, *y = b;
    int order = uuid_cmp(x->child.task.id, y->child.task.id);
    return order ? order : uuid_cmp(x->parent, y->parent);
}

/* A wave, and what it changes. */
struct fold_wave {
    struct arrival *v; /* a copy, sorted by parent: the fold's array grows */
    size_t n;
    struct join_wave put;
    char (*why)[DEPENDENCY_REASON_MAX]; /* of put.children */
};

static void fold_wave_init(struct fold_wave *w, const struct arrival *v, size_t n)
{
    *w = (struct fold_wave){ .v = xcalloc(n, sizeof *w->v), .n = n };
    memcpy(w->v, v, n * sizeof *v);
    qsort(w->v, n, sizeof *w->v, join_fold_by_parent);
}

static void fold_wave_make_room(struct fold_wave *w, size_t edges)
{
    w->put = (struct join_wave){ .edges = xcalloc(edges, sizeof *w->put.edges),
                                 .joins = xcalloc(edges, sizeof *w->put.joins),
                                 .children = xcalloc(edges, sizeof *w->put.children) };
    w->why = xcalloc(edges, sizeof *w->why);
}

static void fold_wave_release(struct fold_wave *w)
{
    free(w->v);
    free(w->put.edges);
    free(w->put.joins);
    free(w->put.children);
    free(w->why);
}

/* One child, and its open edges from parents of this wave. */
static void join_fold_child(struct join_fold *f, struct fold_wave *w, const struct open_edge *v, size_t edges)
{
    struct join_row row = v->join;
    struct skip_cause cause = { 0 };
    for (size_t i = 0; i < edges; i++) {
        const struct arrival *a =
            bsearch(&(struct arrival){ .parent = v[i].parent }, w->v, w->n, sizeof *w->v, join_fold_by_parent);
        assert(a);
        enum edge_state s = edge_arrives(v[i].type, a->outcome);
        join_add(&row.counts, s);
        skip_cause_offer(&cause, &(struct skip_cause){ s, v[i].parent, v[i].type, a->outcome });
        w->put.edges[w->put.edge_count++] = (struct join_arrival){ { v[i].parent, v->child.task.id }, s };
    }
    w->put.joins[w->put.join_count++] = (struct join_counts){ v->child.task.id, row.counts };
    struct join_task next = v->child;
    enum flow_decision d = next.task.links & TASK_OPENED ? open_decide(row.expected, row.max_broken, row.counts)
                                                         : dependency_decide(row.join, row.expected, row.counts);
    if (!dependency_arrive(&next.task, d, skip_cause_text(&cause, w->why[w->put.child_count]), f->now_ms))
        return;
    w->put.children[w->put.child_count++] = (struct join_change){ next, v->child.task.state };
    change_add_links(f->joins->store, &v->child.task, &next.task);
    join_fold_add(f, &next.task.id, next.task.state, next.task.links);
}

static enum err join_fold_edges(struct join_fold *f, struct fold_wave *w, struct open_edges *open, struct error *e)
{
    uint64_t unblocked = 0;
    if (!open->n)
        return ERR_OK;
    fold_wave_make_room(w, open->n);
    qsort(open->v, open->n, sizeof *open->v, join_fold_by_child);
    for (size_t i = 0, end; i < open->n; i = end) {
        for (end = i + 1; end < open->n && uuid_eq(open->v[end].child.task.id, open->v[i].child.task.id);)
            end++;
        join_fold_child(f, w, open->v + i, end - i);
    }
    enum err rc = f->joins->ops->wave_put(f->joins, &w->put, &unblocked, e);
    f->unblocked |= unblocked;
    return rc;
}

/* Applies the arrivals from `at` on that are there now; children that are skipped are added behind them. */
static enum err join_fold_wave(struct join_fold *f, size_t at, struct error *e)
{
    struct joins *j = f->joins;
    struct open_edges open = { 0 };
    struct fold_wave w;
    bool left = true;
    fold_wave_init(&w, f->v + at, f->n - at);
    enum err rc = f->budget ? j->ops->children(j, w.v, w.n, f->budget, &open, &left, e) : ERR_OK;
    assert(rc || open.n <= f->budget);
    rc = rc ? rc : join_fold_edges(f, &w, &open, e);
    f->budget -= min_of(f->budget, open.n);
    f->applied += open.n;
    if (!rc && left) {
        f->left = true;
        rc = j->ops->leave(j, w.v, w.n, f->now_ms, e);
    }
    free(open.v);
    fold_wave_release(&w);
    return rc;
}

enum err join_fold_run(struct join_fold *f, struct error *e)
{
    for (size_t at = 0, end; at < f->n; at = end) {
        end = f->n;
        if (join_fold_wave(f, at, e))
            return e->code;
    }
    return ERR_OK;
}

/* ---- OP_ARRIVE ---- */

enum err joins_arrive(struct joins *j, struct op_arrive *op, struct error *e)
{
    struct arrival taken[ARRIVE_PARENTS];
    struct join_fold f;
    size_t n;
    bool more = false;
    if (j->ops->take_left(j, ARRIVE_PARENTS, taken, &n, e))
        return e->code;
    join_fold_init(&f, j, op->now_ms, 0);
    for (size_t i = 0; i < n; i++)
        join_fold_push(&f, taken[i]);
    enum err rc = join_fold_run(&f, e);
    rc = rc || !n ? rc : j->ops->has_left(j, &more, e);
    if (!rc) {
        op->ret_applied = f.applied;
        op->ret_more = more;
        op->ret_unblocked_lanes = f.unblocked;
    }
    join_fold_release(&f);
    return rc;
}
