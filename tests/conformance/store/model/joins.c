/* Dependencies in random sequences; see store_model.h. */
#include <stdio.h>

#include "store_model.h"

#define differ(...) (snprintf(why, WHY_MAX, __VA_ARGS__), false)
#define number_same(what, a, b)                                                                                        \
    ((a) == (b) ? true : differ("%s: %lld and %lld", (what), (long long)(a), (long long)(b)))

enum { PARENTS_MAX = 4 };

/* Mostly tasks that can be parents, each once. */
static struct dependency *some_parents(struct model *m, int32_t tenant, struct uuid not, size_t *ret_n)
{
    struct dependency *v = arena_array(&m->arena, struct dependency, PARENTS_MAX);
    size_t n = 0, wanted = 1 + below(m, PARENTS_MAX);
    for (int tries = 0; n < wanted && tries < 60; tries++) {
        struct task t;
        if (!model_look(m, &t))
            break;
        bool fits = t.kind == TASK_ONE_TIME && t.tenant == tenant && !uuid_eq(t.id, not );
        if (!fits && !chance(m, 2))
            continue;
        size_t same = 0;
        for (size_t i = 0; i < n; i++)
            same += uuid_eq(v[i].parent, t.id);
        if (!same)
            v[n++] = (struct dependency){ t.id, (enum dag_type)below(m, DAG_MUST_FAIL + 1) };
    }
    *ret_n = n;
    return v;
}

void model_depend_insert(struct model *m, struct op_insert *op)
{
    const struct task *t = &op->tasks[0];
    if (!chance(m, 20) || t->kind != TASK_ONE_TIME || t->state != TASK_SCHEDULED)
        return;
    struct depends_on *d = arena_array(&m->arena, struct depends_on, op->count);
    memset(d, 0, op->count * sizeof *d);
    d->join = (enum dag_join)below(m, DAG_SOME + 1);
    d->v = some_parents(m, t->tenant, t->id, &d->n);
    op->depends = d;
}

void model_depend_put(struct model *m, struct op_put *op)
{
    if (!chance(m, 20) || op->task->kind != TASK_ONE_TIME || op->state >= TASK_RUNNING || op->also ||
        op->task->deleted || task_is_final(op->task->state) || op->task->state == TASK_RUNNING ||
        op->task->links & TASK_OPENED || !uuid_is_nil(op->task->run)) /* its opener says what it waits for */
        return;
    struct depends_change *c = arena_array(&m->arena, struct depends_change, 1);
    *c = (struct depends_change){ .sets_join = chance(m, 30), .join = (enum dag_join)below(m, DAG_SOME + 1) };
    struct uuid not = chance(m, 5) ? (struct uuid){ 0 } : op->task->id;
    c->add = some_parents(m, op->task->tenant, not, &c->n);
    struct task_links l;
    if (chance(m, 40) && reader_links(m->reader, op->task->tenant, op->task->id, &m->arena, &l, NULL) == ERR_OK &&
        l.parent_count) {
        c->remove = l.parents[below(m, l.parent_count)].id;
        c->n = chance(m, 50) ? 0 : c->n;
    } else if (chance(m, 3)) {
        c->remove = uuid_next(&m->ids, m->now_ms);
    }
    op->depends = c;
}

void model_make_arrive(struct model *m, union any_op *op)
{
    op->arrive = (struct op_arrive){ .op.kind = OP_ARRIVE, .now_ms = m->now_ms };
}

static bool same_linked(const struct linked_task *a, const struct linked_task *b, size_t n, char why[WHY_MAX])
{
    for (size_t i = 0; i < n; i++) {
        if (!uuid_eq(a[i].id, b[i].id) || !number_same("an edge's type", a[i].type, b[i].type) ||
            !number_same("an edge's state", a[i].edge, b[i].edge) ||
            !number_same("the other task", a[i].exists, b[i].exists))
            return differ("edge %zu differs", i);
        if (a[i].exists && (a[i].state != b[i].state || a[i].due_ms != b[i].due_ms || !str_eq(a[i].name, b[i].name)))
            return differ("the task of edge %zu differs", i);
    }
    return true;
}

bool same_links(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct task t;
    struct task_links x, y;
    if (!model_look(m, &t))
        return true;
    if (reader_links(a, t.tenant, t.id, &m->arena, &x, NULL) || reader_links(b, t.tenant, t.id, &m->arena, &y, NULL))
        return differ("links failed");
    return number_same("join", x.has_join, y.has_join) && number_same("join's kind", x.join, y.join) &&
           number_same("expected", x.expected, y.expected) &&
           number_same("arrived", x.counts.arrived, y.counts.arrived) &&
           number_same("met", x.counts.met, y.counts.met) && number_same("broken", x.counts.broken, y.counts.broken) &&
           number_same("parents", x.parent_count, y.parent_count) &&
           number_same("children", x.child_count, y.child_count) &&
           same_linked(x.parents, y.parents, x.parent_count, why) &&
           same_linked(x.children, y.children, x.child_count, why);
}

/* ---- planted bugs ---- */

bool forgets_parents(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_INSERT)
        container_of(op, struct op_insert, op)->depends = NULL;
    return false;
}

bool joins_any_for_all(struct op *op, struct prng *random)
{
    static struct depends_on spoilt[INSERT_MAX];
    (void)random;
    struct op_insert *insert = container_of(op, struct op_insert, op);
    if (op->kind != OP_INSERT || !insert->depends || !insert->depends[0].n)
        return false;
    memcpy(spoilt, insert->depends, insert->count * sizeof *spoilt);
    spoilt[0].join = DAG_ANY;
    insert->depends = spoilt;
    return false;
}

bool ignores_changed_parents(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_PUT)
        container_of(op, struct op_put, op)->depends = NULL;
    return false;
}
