/* Both stores tell the same changes of tasks (port/store/changes.h). */
#include <stdio.h>
#include <stdlib.h>

#include "store_changes.h"
#include "store_model.h"

static struct told told[2];

void model_listen(struct store *a, struct store *b)
{
    told_listen(&told[0], a);
    told_listen(&told[1], b);
}

void model_listen_no_more(void)
{
    for (size_t i = 0; i < array_count(told); i++) {
        arena_release(&told[i].arena);
        told[i] = (struct told){ 0 };
    }
}

static int by_task_and_states(const void *x, const void *y)
{
    const struct task_change *a = x, *b = y;
    int order = uuid_cmp(a->task.id, b->task.id);
    order = order ? order : (a->from > b->from) - (a->from < b->from);
    return order ? order : (a->to > b->to) - (a->to < b->to);
}

static void describe(const struct task_change *c, char out[WHY_MAX / 3])
{
    char id[UUID_TEXT + 1];
    uuid_format(c->task.id, id);
    snprintf(out, WHY_MAX / 3, "%s %s to %s", id,
             c->from == CHANGE_NEW ? "new" : task_state_name((enum task_state)c->from), task_state_name(c->to));
}

static bool same_change(const struct task_change *a, const struct task_change *b, char why[WHY_MAX])
{
    char x[WHY_MAX / 3], y[WHY_MAX / 3];
    const char *field = task_difference(&a->task, &b->task);
    describe(a, x);
    describe(b, y);
    if (by_task_and_states(a, b) == 0 && !field)
        return true;
    snprintf(why, WHY_MAX, "told: %s and %s, %s", x, y, field ? field : "states");
    return false;
}

bool same_changes(struct tally *t, char why[WHY_MAX])
{
    struct told *a = &told[0], *b = &told[1];
    bool same = a->left_out == b->left_out;
    if (a->n)
        qsort(a->v, a->n, sizeof *a->v, by_task_and_states);
    if (b->n)
        qsort(b->v, b->n, sizeof *b->v, by_task_and_states);
    if (!same)
        snprintf(why, WHY_MAX, "left out: %zu and %zu", a->left_out, b->left_out);
    for (size_t i = 0; same && i < max_of(a->n, b->n); i++)
        same = same_change(&a->v[i], &b->v[i], why);
    t->told += a->n;
    for (size_t i = 0; i < array_count(told) && told[i].listener.told; i++)
        told_clear(&told[i]);
    return same;
}
