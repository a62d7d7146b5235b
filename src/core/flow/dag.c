#include "core/flow/dag.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sentence.h"
#include "core/flow/dag_internal.h"

const char *const dag_type_names[] = { [DAG_MUST_SUCCEED] = "MUST_SUCCEED",
                                       [DAG_MUST_NOT_FAIL] = "MUST_NOT_FAIL",
                                       [DAG_MUST_FINISH] = "MUST_FINISH",
                                       [DAG_MUST_FAIL] = "MUST_FAIL",
                                       [DAG_MUST_FAIL + 1] = NULL };
const char *const dag_join_names[] = {
    [DAG_ALL] = "ALL", [DAG_ANY] = "ANY", [DAG_SOME] = "SOME", [DAG_SOME + 1] = NULL
};

void dag_free(struct dag *d)
{
    if (!d)
        return;
    arena_release(&d->memory);
    free(d);
}

void dag_freep(struct dag **d)
{
    dag_free(*d);
}

size_t dag_bytes(const struct dag *d)
{
    return sizeof *d + d->memory.total;
}

/* ---- names ---- */

static int dag_compare_names(const void *a, const void *b)
{
    const struct dag_name *x = a, *y = b;
    int order = str_cmp(x->name, y->name);
    return order ? order : (x->step > y->step) - (x->step < y->step);
}

const char *dag_step_path(uint32_t step, char out[DAG_PATH_TEXT])
{
    snprintf(out, DAG_PATH_TEXT, "steps[%u]", step);
    return out;
}

enum err dag_index_names(struct dag *d, struct error *e)
{
    struct dag_name *names = arena_array(&d->memory, struct dag_name, d->n);
    if (!names)
        return error_no_room(e);
    for (uint32_t i = 0; i < d->n; i++)
        names[i] = (struct dag_name){ d->steps[i].name, i };
    qsort(names, d->n, sizeof *names, dag_compare_names);
    for (uint32_t i = 1; i < d->n; i++) {
        char path[DAG_PATH_TEXT];
        snprintf(path, sizeof path, "steps[%u].name", names[i].step);
        if (str_eq(names[i - 1].name, names[i].name))
            return error_field(e, path, "'" STR_FMT "' is the name of steps[%u], too", STR_ARG(names[i].name),
                               names[i - 1].step);
    }
    d->names = names;
    return ERR_OK;
}

bool dag_find(const struct dag *d, struct str name, uint32_t *ret_step)
{
    uint32_t low = 0, high = d->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = str_cmp(d->names[middle].name, name);
        if (order == 0) {
            *ret_step = d->names[middle].step;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

enum err dag_find_or_explain(const struct dag *d, struct str name, uint32_t *ret_step, struct error *e)
{
    if (dag_find(d, name, ret_step))
        return ERR_OK;
    char quoted[QUOTE_TEXT];
    struct suggest s;
    suggest_init(&s, name);
    for (uint32_t i = 0; i < d->n; i++)
        suggest_offer(&s, d->steps[i].name);
    quote_text(name, quoted);
    if (s.closest.p)
        return error_set(e, ERR_NOT_FOUND, "no step is named %s; did you mean '" STR_FMT "'?", quoted,
                         STR_ARG(s.closest));
    return error_set(e, ERR_NOT_FOUND, "no step is named %s", quoted);
}

/* ---- the graph ---- */

bool dag_next(const struct dag_edges *edges, uint32_t *at, uint32_t *ret_step, bool *ret_can_break)
{
    if (*at == edges->n)
        return false;
    *ret_step = edges->v[*at].step;
    *ret_can_break = false;
    for (; *at < edges->n && edges->v[*at].step == *ret_step; ++*at)
        *ret_can_break |= dag_type_can_break(edges->v[*at].type);
    return true;
}

void dag_mark_below(const struct dag *d, const bool *from, bool *below)
{
    for (uint32_t i = 0; i < d->n; i++) {
        const struct dag_step *s = &d->steps[d->order[i]];
        bool is_below = false;
        for (uint32_t k = 0; k < s->in.n && !is_below; k++)
            is_below = from[s->in.v[k].step] || below[s->in.v[k].step];
        below[d->order[i]] = below[d->order[i]] || is_below;
    }
}
