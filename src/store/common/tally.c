/* A transaction touches few tenants: a linear search finds them. */
#include "store/common/tally.h"

#include <stdlib.h>

void tallies_release(struct tallies *t)
{
    free(t->v);
    *t = (struct tallies){ 0 };
}

void tally_add(struct tallies *t, int32_t tenant, enum task_state state, int64_t n)
{
    size_t i = 0;
    while (i < t->n && t->v[i].tenant != tenant)
        i++;
    if (i == t->n) {
        if (t->n == t->cap) {
            t->cap = t->cap * 2 + 16;
            t->v = xrealloc(t->v, t->cap * sizeof *t->v);
        }
        t->v[t->n++] = (struct tally){ .tenant = tenant };
    }
    t->v[i].n[state] += n;
}

void tally_move(struct tallies *t, int32_t tenant, bool deleted, enum task_state from, enum task_state to)
{
    if (deleted)
        return;
    tally_add(t, tenant, from, -1);
    tally_add(t, tenant, to, 1);
}

static void tallies_add_all(struct tallies *t, const struct tallies *from)
{
    for (size_t i = 0; i < from->n; i++)
        for (int state = 0; state <= TASK_EXPIRED; state++)
            if (from->v[i].n[state])
                tally_add(t, from->v[i].tenant, (enum task_state)state, from->v[i].n[state]);
}

void tallies_merge(struct tallies *t, struct tallies *from)
{
    tallies_add_all(t, from);
    from->n = 0;
}

void tallies_copy(struct tallies *t, const struct tallies *from)
{
    t->n = 0;
    tallies_add_all(t, from);
}

int64_t tally_pending(const struct tallies *t, int32_t tenant)
{
    int64_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        for (int state = 0; t->v[i].tenant == tenant && state <= TASK_RUNNING; state++)
            n += t->v[i].n[state];
    return n;
}
