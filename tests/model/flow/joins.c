/* Dependencies, as port/store/dependencies.h says. There are no counts: a join is decided by looking at all edges of the
 * child, so this is a check on the stores that count. */
#include <assert.h>
#include <stdlib.h>

#include "model/internal.h"

/* ---- lists ---- */

static void memory_edge_add(struct memory_joins *j, struct memory_edge e)
{
    MEMORY_GROW(j->edges, j->edge_count, j->edge_cap);
    j->edges[j->edge_count++] = e;
}

static struct memory_edge *memory_edge_find(const struct memory_joins *j, struct uuid parent, struct uuid child)
{
    for (size_t i = 0; i < j->edge_count; i++)
        if (uuid_eq(j->edges[i].parent, parent) && uuid_eq(j->edges[i].child, child))
            return &j->edges[i];
    return NULL;
}

static struct memory_join *memory_join_find(const struct memory_joins *j, struct uuid child)
{
    for (size_t i = 0; i < j->join_count; i++)
        if (uuid_eq(j->joins[i].child, child))
            return &j->joins[i];
    return NULL;
}

static struct memory_join *memory_join_open(struct memory_joins *j, struct uuid child)
{
    struct memory_join *found = memory_join_find(j, child);
    if (found)
        return found;
    MEMORY_GROW(j->joins, j->join_count, j->join_cap);
    j->joins[j->join_count] = (struct memory_join){ .child = child, .join = DAG_ALL, .max_broken = -1 };
    return &j->joins[j->join_count++];
}

static bool memory_left_add(struct memory_joins *j, struct memory_arrival a)
{
    for (size_t i = 0; i < j->left_count; i++)
        if (uuid_eq(j->left[i].parent, a.parent))
            return false;
    MEMORY_GROW(j->left, j->left_count, j->left_cap);
    j->left[j->left_count++] = a;
    return true;
}

bool memory_is_left(const struct store_memory *s, struct uuid parent)
{
    for (size_t i = 0; i < s->joins.left_count; i++)
        if (uuid_eq(s->joins.left[i].parent, parent))
            return true;
    return false;
}

bool memory_run_is_left(const struct store_memory *s, struct uuid run)
{
    for (size_t i = 0; i < s->joins.left_count; i++) {
        const struct task *t = table_get(&s->table, s->joins.left[i].parent);
        if (t && uuid_eq(t->run, run))
            return true;
    }
    return false;
}

/* ---- planted bugs ---- */

void store_memory_plant(struct store *s, enum memory_bug bug)
{
    container_of(s, struct store_memory, base)->joins.bug = bug;
}

void store_memory_uncount_skip(struct store *base, struct uuid recurring)
{
    struct store_memory *s = container_of(base, struct store_memory, base);
    const struct task *t = table_get(&s->table, recurring);
    if (!t)
        return;
    struct task next = *t;
    next.skipped_count = max_of(next.skipped_count - 1, (int64_t)0);
    table_put(&s->table, &next);
}

static bool memory_is_planted(struct memory_joins *j, enum memory_bug bug)
{
    return j->bug == bug && ++j->turns % 3 == 0;
}

/* One more open edge of the child arrives with this one. */
static void memory_double_arrival(struct memory_joins *j, const struct memory_edge *arrived)
{
    for (size_t i = 0; i < j->edge_count; i++) {
        struct memory_edge *edge = &j->edges[i];
        if (edge->state == EDGE_OPEN && uuid_eq(edge->child, arrived->child)) {
            edge->state = EDGE_MET;
            return;
        }
    }
}

void memory_joins_release(struct store_memory *s)
{
    free(s->joins.edges);
    free(s->joins.joins);
    free(s->joins.left);
}

void memory_joins_drop(struct store_memory *s, struct uuid child)
{
    struct memory_joins *j = &s->joins;
    size_t edges = 0, joins = 0;
    for (size_t i = 0; i < j->edge_count; i++)
        if (!uuid_eq(j->edges[i].child, child))
            j->edges[edges++] = j->edges[i];
    for (size_t i = 0; i < j->join_count; i++)
        if (!uuid_eq(j->joins[i].child, child))
            j->joins[joins++] = j->joins[i];
    j->edge_count = edges;
    j->join_count = joins;
}

/* ---- decisions ---- */

/* Every edge of the child's join; *ret_n is their number. */
static struct flow_counts memory_join_counts(const struct memory_joins *j, struct uuid child, uint32_t *ret_n)
{
    struct flow_counts c = { 0 };
    *ret_n = 0;
    for (size_t i = 0; i < j->edge_count; i++) {
        if (!uuid_eq(j->edges[i].child, child) || j->edges[i].old)
            continue;
        ++*ret_n;
        c.arrived += j->edges[i].state != EDGE_OPEN;
        c.met += j->edges[i].state == EDGE_MET;
        c.broken += j->edges[i].state == EDGE_BROKEN;
    }
    return c;
}

enum flow_decision memory_join_decide(const struct memory_joins *j, const struct task *child)
{
    uint32_t n;
    struct flow_counts c = memory_join_counts(j, child->id, &n);
    const struct memory_join *join = memory_join_find(j, child->id);
    return child->links & TASK_OPENED ? open_decide(join->expected, join->max_broken, c)
                                      : dependency_decide(join->join, n, c);
}

static enum edge_state memory_edge_state(const struct task *parent, enum dag_type type)
{
    enum flow_outcome o = dependency_outcome(parent->state, parent->links);
    return o == FLOW_OPEN ? EDGE_OPEN : edge_arrives(type, o);
}

/* The reason for a skip: of these edges of the child the broken one with the lowest parent, else the unmet one. */
static struct str memory_skip_reason(const struct memory_edge *v, const enum flow_outcome *outcomes, size_t n,
                                     struct uuid child, char out[DEPENDENCY_REASON_MAX])
{
    for (enum edge_state wanted = EDGE_BROKEN; wanted <= EDGE_UNMET; wanted++) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (v[i].state == wanted && uuid_eq(v[i].child, child) &&
                (best == n || uuid_cmp(v[i].parent, v[best].parent) < 0))
                best = i;
        if (best < n)
            return dependency_skip_reason(v[best].parent, v[best].type, outcomes[best], out);
    }
    return S("skipped: no task that it depends on ended as it asks");
}

/* ---- children that are created or changed ---- */

enum err memory_depends_check(const struct store_memory *s, const struct dependency *v, size_t n, int32_t tenant,
                              struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        const struct task *p = table_get(&s->table, v[i].parent);
        if (dependency_check(p, p != NULL, &v[i], i, tenant, e))
            return e->code;
    }
    return ERR_OK;
}

void memory_mark_parent(struct store_memory *s, struct uuid id)
{
    struct task p = *table_get(&s->table, id);
    if (p.links & TASK_HAS_CHILDREN)
        return;
    p.links |= TASK_HAS_CHILDREN;
    table_put(&s->table, &p);
}

/* Adds the edges that are new and decides what the child becomes. */
static void memory_add_edges(struct store_memory *s, const struct dependency *v, size_t n, struct task *child,
                             char why[DEPENDENCY_REASON_MAX])
{
    size_t first = s->joins.edge_count;
    enum flow_outcome *outcomes = xcalloc(n + 1, sizeof *outcomes);
    for (size_t i = 0; i < n; i++) {
        const struct task *p = table_get(&s->table, v[i].parent);
        struct memory_edge edge = { v[i].parent, child->id, v[i].type, memory_edge_state(p, v[i].type), false };
        if (memory_is_planted(&s->joins, MEMORY_ARRIVES_EARLY))
            edge.state = EDGE_MET;
        if (memory_edge_find(&s->joins, edge.parent, edge.child))
            continue;
        outcomes[s->joins.edge_count - first] = dependency_outcome(p->state, p->links);
        memory_edge_add(&s->joins, edge);
        if (edge.state == EDGE_OPEN)
            memory_mark_parent(s, edge.parent);
    }
    struct str reason =
        memory_skip_reason(s->joins.edges + first, outcomes, s->joins.edge_count - first, child->id, why);
    child->links |= TASK_HAS_PARENTS;
    dependency_apply(child, memory_join_decide(&s->joins, child), reason, child->updated_ms);
    free(outcomes);
}

void memory_insert_child(struct store_memory *s, const struct task *t, const struct depends_on *d)
{
    char why[DEPENDENCY_REASON_MAX];
    struct task child = *t;
    if (table_get(&s->table, t->id))
        return;
    memory_join_open(&s->joins, t->id)->join = d->join;
    child.updated_ms = t->created_ms;
    memory_add_edges(s, d->v, d->n, &child, why);
    table_put(&s->table, &child);
}

/* Whether `from` waits for `to`, by open edges. */
static bool memory_waits_for(const struct memory_joins *j, struct uuid from, struct uuid to, struct map *seen)
{
    for (size_t i = 0; i < j->edge_count; i++) {
        const struct memory_edge *edge = &j->edges[i];
        if (edge->state != EDGE_OPEN || !uuid_eq(edge->child, from))
            continue;
        if (uuid_eq(edge->parent, to))
            return true;
        if (map_put(seen, uuid_bytes(&edge->parent), seen) == NULL && memory_waits_for(j, edge->parent, to, seen))
            return true;
    }
    return false;
}

static enum err memory_check_cycle(const struct store_memory *s, const struct depends_change *c, struct uuid child,
                                   struct error *e)
{
    for (size_t i = 0; i < c->n; i++) {
        cleanup_with(map_release) struct map seen;
        map_init(&seen, HASH_STABLE);
        struct uuid parent = c->add[i].parent;
        const struct memory_edge *there = memory_edge_find(&s->joins, parent, child);
        const struct task *p = table_get(&s->table, parent);
        if ((there && there->state != EDGE_OPEN) || dependency_outcome(p->state, p->links) != FLOW_OPEN)
            continue;
        if (uuid_eq(parent, child) || memory_waits_for(&s->joins, parent, child, &seen))
            return dependency_cycle((struct uuid[]){ child, parent, child }, 3, e);
    }
    return ERR_OK;
}

static enum err memory_change_check(const struct store_memory *s, const struct depends_change *c,
                                    const struct task *next, struct error *e)
{
    uint32_t n;
    (void)memory_join_counts(&s->joins, next->id, &n);
    for (size_t i = 0; i < c->n; i++)
        n += !memory_edge_find(&s->joins, c->add[i].parent, next->id) || uuid_eq(c->add[i].parent, c->remove);
    if (!uuid_is_nil(c->remove) && !memory_edge_find(&s->joins, c->remove, next->id)) {
        error_set(e, ERR_NOT_FOUND, "the task does not depend on that task");
        return error_in(e, "depends_on");
    }
    if (memory_depends_check(s, c->add, c->n, next->tenant, e))
        return e->code;
    n -= !uuid_is_nil(c->remove);
    if (n > DEPENDENCIES_MAX) {
        error_set(e, ERR_LIMIT, "too many");
        return error_in(e, "depends_on");
    }
    return memory_check_cycle(s, c, next->id, e);
}

enum err memory_depends_change(struct store_memory *s, const struct depends_change *c, struct task *next,
                               char why[DEPENDENCY_REASON_MAX], struct error *e)
{
    struct memory_joins *j = &s->joins;
    if (memory_change_check(s, c, next, e))
        return e->code;
    struct memory_join *join = memory_join_open(j, next->id);
    if (c->sets_join)
        join->join = c->join;
    if (!uuid_is_nil(c->remove)) {
        struct memory_edge *gone = memory_edge_find(j, c->remove, next->id);
        *gone = j->edges[--j->edge_count];
    }
    memory_add_edges(s, c->add, c->n, next, why);
    return ERR_OK;
}

/* ---- parents that became final ---- */

static void memory_arrivals_push(struct memory_arrivals *a, struct memory_arrival x)
{
    MEMORY_GROW(a->v, a->n, a->cap);
    a->v[a->n++] = x;
}

void memory_arrivals_add(struct memory_arrivals *a, const struct task *t)
{
    if (task_is_final(t->state) && t->links & TASK_HAS_CHILDREN)
        memory_arrivals_push(a, (struct memory_arrival){ t->id, dependency_outcome(t->state, t->links) });
}

static int memory_by_parent(const void *a, const void *b)
{
    return uuid_cmp(((const struct memory_arrival *)a)->parent, ((const struct memory_arrival *)b)->parent);
}

/* The open edge of the parent with the lowest child; NULL: none. */
static struct memory_edge *memory_next_open(const struct memory_joins *j, struct uuid parent)
{
    struct memory_edge *best = NULL;
    for (size_t i = 0; i < j->edge_count; i++) {
        struct memory_edge *edge = &j->edges[i];
        if (edge->state == EDGE_OPEN && uuid_eq(edge->parent, parent) &&
            (!best || uuid_cmp(edge->child, best->child) < 0))
            best = edge;
    }
    return best;
}

static void memory_arrive_at(struct store_memory *s, struct memory_arrivals *a, struct uuid child,
                             const struct memory_edge *wave, const enum flow_outcome *outcomes, size_t n,
                             int64_t now_ms, uint64_t *unblocked)
{
    const struct task *t = table_get(&s->table, child);
    char why[DEPENDENCY_REASON_MAX];
    if (!t)
        return;
    struct task next = *t;
    if (!dependency_arrive(&next, memory_join_decide(&s->joins, t), memory_skip_reason(wave, outcomes, n, child, why),
                           now_ms))
        return;
    if (next.state == TASK_SCHEDULED)
        *unblocked |= lane_bit(task_lane(&next));
    if (s->joins.bug != MEMORY_KEEPS_SKIPS)
        memory_arrivals_add(a, &next);
    table_put(&s->table, &next);
}

/* One wave: a->v from `at` on. */
static void memory_arrive_wave(struct store_memory *s, struct memory_arrivals *a, size_t at, int64_t now_ms,
                               uint64_t *unblocked)
{
    size_t parents = a->n - at, n = 0;
    struct memory_edge *wave = xcalloc(a->budget + 1, sizeof *wave);
    enum flow_outcome *outcomes = xcalloc(a->budget + 1, sizeof *outcomes);
    qsort(a->v + at, parents, sizeof *a->v, memory_by_parent);
    for (size_t i = at; i < at + parents; i++) {
        struct memory_edge *edge;
        while ((edge = memory_next_open(&s->joins, a->v[i].parent)) && n < a->budget) {
            if (memory_is_planted(&s->joins, MEMORY_LOSES_ARRIVALS)) {
                edge = NULL;
                break;
            }
            edge->state = edge_arrives(edge->type, a->v[i].outcome);
            outcomes[n] = a->v[i].outcome;
            wave[n++] = *edge;
            if (memory_is_planted(&s->joins, MEMORY_DOUBLES_ARRIVALS))
                memory_double_arrival(&s->joins, edge);
        }
        if (edge) {
            (void)memory_left_add(&s->joins, a->v[i]);
            a->left = true;
        }
    }
    a->budget -= n;
    a->applied += n;
    for (size_t i = 0; i < n; i++)
        memory_arrive_at(s, a, wave[i].child, wave, outcomes, n, now_ms, unblocked);
    free(wave);
    free(outcomes);
}

void memory_arrivals_run(struct store_memory *s, struct memory_arrivals *a, int64_t now_ms, uint64_t *unblocked)
{
    for (size_t at = 0, end; at < a->n; at = end) {
        end = a->n;
        memory_arrive_wave(s, a, at, now_ms, unblocked);
    }
    free(a->v);
}

enum err memory_arrive(struct store_memory *s, struct op *base)
{
    enum { PARENTS_MAX = 64 };
    struct op_arrive *op = container_of(base, struct op_arrive, op);
    struct memory_joins *j = &s->joins;
    struct memory_arrivals a = { .budget = ARRIVALS_MAX };
    size_t n = min_of(j->left_count, (size_t)PARENTS_MAX);
    for (size_t i = 0; i < n; i++)
        memory_arrivals_push(&a, j->left[i]);
    if (n)
        memmove(j->left, j->left + n, (j->left_count - n) * sizeof *j->left);
    j->left_count -= n;
    op->ret_unblocked_lanes = 0;
    memory_arrivals_run(s, &a, op->now_ms, &op->ret_unblocked_lanes);
    op->ret_applied = a.applied;
    op->ret_more = j->left_count > 0;
    return ERR_OK;
}

/* ---- tasks that are opened ---- */

bool memory_leave(struct store_memory *s, const struct task *t)
{
    struct memory_arrival a = { t->id, dependency_outcome(t->state, t->links) };
    return task_is_final(t->state) && t->links & TASK_HAS_CHILDREN && memory_next_open(&s->joins, t->id) &&
           memory_left_add(&s->joins, a);
}

/* The edges to a child are those of an earlier join from now on. */
static void memory_edges_close(struct memory_joins *j, struct uuid child)
{
    for (size_t i = 0; i < j->edge_count; i++) {
        struct memory_edge *edge = &j->edges[i];
        if (!uuid_eq(edge->child, child))
            continue;
        edge->state = edge->state == EDGE_OPEN ? EDGE_UNMET : edge->state;
        edge->old = true;
    }
}

static void memory_edge_put(struct memory_joins *j, struct memory_edge edge)
{
    struct memory_edge *there = memory_edge_find(j, edge.parent, edge.child);
    if (there)
        *there = edge;
    else
        memory_edge_add(j, edge);
}

void memory_join_restart(struct store_memory *s, struct uuid child, uint32_t expected, int64_t max_broken)
{
    struct memory_joins *j = &s->joins;
    memory_edges_close(j, child);
    *memory_join_open(j, child) =
        (struct memory_join){ .child = child, .join = DAG_ALL, .expected = expected, .max_broken = max_broken };
}

void memory_open_row_edges(struct store_memory *s, const struct open_row *row)
{
    struct memory_joins *j = &s->joins;
    struct uuid child = row->task.id;
    memory_joins_drop(s, child);
    for (size_t i = 0; i < row->n; i++) {
        bool early = row->n > 1 && memory_is_planted(j, MEMORY_ARRIVES_EARLY);
        memory_edge_add(j, (struct memory_edge){ .parent = row->edges[i].parent,
                                                 .child = child,
                                                 .type = row->edges[i].type,
                                                 .state = early ? EDGE_MET : row->edges[i].state });
    }
    if (row->n)
        memory_join_open(j, child)->join = row->join;
}

bool memory_end_edge(struct store_memory *s, struct uuid parent, struct uuid child, enum dag_type type)
{
    const struct memory_edge *there = memory_edge_find(&s->joins, parent, child);
    bool counts = there && !there->old;
    enum edge_state state = memory_edge_state(table_get(&s->table, parent), type);
    if (counts && (there->state == EDGE_OPEN || state != EDGE_OPEN))
        return false;
    memory_edge_put(&s->joins, (struct memory_edge){ .parent = parent, .child = child, .type = type, .state = state });
    return !counts;
}

struct open_join memory_open_join(const struct store_memory *s, struct uuid child)
{
    uint32_t n;
    const struct memory_join *join = memory_join_find(&s->joins, child);
    return (struct open_join){ join->expected, join->max_broken, memory_join_counts(&s->joins, child, &n) };
}

void memory_join_expect_more(struct store_memory *s, struct uuid child)
{
    memory_join_find(&s->joins, child)->expected++;
}

void memory_left_drop(struct store_memory *s, struct uuid parent)
{
    struct memory_joins *j = &s->joins;
    size_t n = 0;
    for (size_t i = 0; i < j->left_count; i++)
        if (!uuid_eq(j->left[i].parent, parent))
            j->left[n++] = j->left[i];
    j->left_count = n;
}

/* ---- reading ---- */

static int memory_linked_by_id(const void *a, const void *b)
{
    return uuid_cmp(((const struct linked_task *)a)->id, ((const struct linked_task *)b)->id);
}

static struct linked_task *memory_linked(const struct store_memory *s, struct uuid task, bool parents, struct arena *a,
                                         size_t *ret_n)
{
    const struct memory_joins *j = &s->joins;
    struct linked_task *v = arena_array(a, struct linked_task, j->edge_count + 1);
    size_t n = 0;
    for (size_t i = 0; v && i < j->edge_count; i++) {
        const struct memory_edge *edge = &j->edges[i];
        if (!uuid_eq(parents ? edge->child : edge->parent, task))
            continue;
        struct uuid other = parents ? edge->parent : edge->child;
        const struct task *t = table_get(&s->table, other);
        v[n] = (struct linked_task){ .id = other, .type = edge->type, .edge = edge->state, .exists = t && !t->deleted };
        if (v[n].exists) {
            v[n].state = t->state;
            v[n].due_ms = t->due_ms;
            v[n].started_ms = t->started_ms;
            if (!arena_str(a, t->name, &v[n].name))
                return NULL;
        }
        n++;
    }
    if (v)
        qsort(v, n, sizeof *v, memory_linked_by_id);
    *ret_n = n;
    return v;
}

enum err memory_links(struct reader *r, int32_t tenant, struct uuid task, struct arena *a, struct task_links *ret,
                      struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct task *t = table_get(&s->table, task);
    const struct memory_join *join = t ? memory_join_find(&s->joins, task) : NULL;
    struct task_links l = { 0 };
    if (!t || t->tenant != tenant) {
        *ret = l;
        return ERR_OK;
    }
    l.has_join = join != NULL;
    if (join) {
        l.join = join->join;
        l.counts = memory_join_counts(&s->joins, task, &l.expected);
        l.expected = t->links & TASK_OPENED ? join->expected : l.expected;
    }
    l.parents = memory_linked(s, task, true, a, &l.parent_count);
    l.children = memory_linked(s, task, false, a, &l.child_count);
    if (!l.parents || !l.children)
        return memory_no_room(e);
    l.more_children = l.child_count > LIST_MAX;
    l.child_count = min_of(l.child_count, (size_t)LIST_MAX);
    *ret = l;
    return ERR_OK;
}
