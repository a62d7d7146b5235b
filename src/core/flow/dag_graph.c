/* Makes the graph: edges by child and by parent, an order in which parents come before their children, layers, and the
 * steps that end a run. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "core/flow/dag_internal.h"

static int dag_compare_edges(const void *a, const void *b)
{
    const struct dag_edge *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return (x->type > y->type) - (x->type < y->type);
}

/* ---- edges ---- */

static bool dag_link_in(struct dag *d, const struct dag_links *links)
{
    for (uint32_t i = 0; i < d->n; i++) {
        struct dag_step *s = &d->steps[i];
        uint32_t from = links->from[i], n = links->from[i + 1] - from;
        struct dag_edge *v = arena_array(&d->memory, struct dag_edge, n);
        if (n && !v)
            return false;
        for (uint32_t k = 0; k < n; k++) {
            const struct dag_link *l = &links->v[from + k];
            v[k] = (struct dag_edge){ .step = l->parent, .at = l->at, .type = l->type, .named = l->named };
        }
        if (n)
            qsort(v, n, sizeof *v, dag_compare_edges);
        s->in = (struct dag_edges){ v, n };
    }
    return true;
}

/* Children are visited in order, so each parent's list is sorted by child. */
static bool dag_link_out(struct dag *d)
{
    struct dag_edge *all = arena_array(&d->memory, struct dag_edge, d->edges);
    struct dag_edge **next = arena_array(&d->memory, struct dag_edge *, d->n);
    if ((d->edges && !all) || !next)
        return false;
    for (uint32_t i = 0; i < d->n; i++)
        for (uint32_t k = 0; k < d->steps[i].in.n; k++)
            d->steps[d->steps[i].in.v[k].step].out.n++;
    for (uint32_t i = 0; i < d->n; i++) {
        next[i] = all;
        d->steps[i].out.v = all;
        all = d->steps[i].out.n ? all + d->steps[i].out.n : all;
    }
    for (uint32_t i = 0; i < d->n; i++) {
        for (uint32_t k = 0; k < d->steps[i].in.n; k++) {
            struct dag_edge e = d->steps[i].in.v[k];
            struct dag_edge *to = next[e.step]++;
            *to = e;
            to->step = i;
        }
    }
    return true;
}

/* ---- cycles ---- */

enum { CYCLE_SHOWN_ENDS = 4 };

static void dag_write_cycle(const struct dag *d, const uint32_t *cycle, uint32_t n, struct buf *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (n > 2 * CYCLE_SHOWN_ENDS && i == CYCLE_SHOWN_ENDS) {
            buf_printf(out, "… (%u more) → ", n - 2 * CYCLE_SHOWN_ENDS);
            i = n - CYCLE_SHOWN_ENDS;
        }
        buf_printf(out, STR_FMT " → ", STR_ARG(d->steps[cycle[i]].name));
    }
    buf_add(out, d->steps[cycle[0]].name);
}

/* The edge by which `child` depends on `parent`, as it was written. */
static uint32_t dag_edge_position(const struct dag *d, uint32_t child, uint32_t parent)
{
    const struct dag_edges *in = &d->steps[child].in;
    uint32_t k = 0;
    while (in->v[k].step != parent)
        k++;
    return in->v[k].at;
}

/* Each step that is left has a parent that is left, too: going from parent to parent, a step comes up again. */
static enum err dag_refuse_cycle(const struct dag *d, const uint32_t *missing, struct error *e)
{
    uint32_t *path = xcalloc(d->n, sizeof *path), *seen_at = xcalloc(d->n, sizeof *seen_at), at = 0, n = 0;
    while (missing[at] == 0)
        at++;
    while (seen_at[at] == 0) {
        path[n++] = at;
        seen_at[at] = n;
        const struct dag_edges *in = &d->steps[at].in;
        uint32_t k = 0;
        while (missing[in->v[k].step] == 0)
            k++;
        at = in->v[k].step;
    }
    uint32_t from = seen_at[at] - 1, length = n - from;
    for (uint32_t i = 0; i < length / 2; i++) { /* the path goes upwards; shown is the order in which steps would run */
        uint32_t other = path[from + i];
        path[from + i] = path[n - 1 - i];
        path[n - 1 - i] = other;
    }
    cleanup_with(buf_release) struct buf text;
    char field[DAG_PATH_TEXT];
    buf_init(&text, sizeof e->text);
    dag_write_cycle(d, path + from, length, &text);
    uint32_t child = path[from], parent = path[n - 1];
    snprintf(field, sizeof field, "steps[%u].depends_on[%u]", child, dag_edge_position(d, child, parent));
    free(path);
    free(seen_at);
    return error_field(e, field, "the steps wait for each other in a cycle: %s", buf_cstr(&text));
}

/* ---- order ---- */

/* missing: for each step the edges from parents that are not in the order yet. */
static enum err dag_sort_steps(struct dag *d, uint32_t *missing, struct error *e)
{
    uint32_t done = 0, found = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        missing[i] = d->steps[i].in.n;
        if (missing[i] == 0)
            d->order[found++] = i;
    }
    for (; done < found; done++) { /* first in, first out: layer after layer */
        const struct dag_step *s = &d->steps[d->order[done]];
        for (uint32_t k = 0; k < s->out.n; k++) {
            struct dag_step *child = &d->steps[s->out.v[k].step];
            child->layer = s->layer + 1;
            if (--missing[s->out.v[k].step] == 0)
                d->order[found++] = s->out.v[k].step;
        }
        d->layers = s->layer + 1;
    }
    return found == d->n ? ERR_OK : dag_refuse_cycle(d, missing, e);
}

/* ---- what follows from the graph ---- */

static void dag_count_parents(struct dag_step *s)
{
    bool can_break;
    for (uint32_t at = 0, parent; dag_next(&s->in, &at, &parent, &can_break);) {
        s->parents++;
        s->breaking += can_break;
    }
}

static bool dag_ends_run(const struct dag *d, const struct dag_step *s)
{
    bool can_break;
    for (uint32_t at = 0, child; dag_next(&s->out, &at, &child, &can_break);)
        if (dag_waits_for(&d->steps[child], can_break))
            return false;
    return true;
}

static void dag_derive(struct dag *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        dag_count_parents(&d->steps[i]);
    for (uint32_t i = 0; i < d->n; i++)
        d->steps[i].ends_run = dag_ends_run(d, &d->steps[i]);
}

enum err dag_link_steps(struct dag *d, const struct dag_links *links, struct error *e)
{
    d->edges = links->n;
    d->order = arena_array(&d->memory, uint32_t, d->n);
    uint32_t *missing = arena_array(&d->memory, uint32_t, d->n);
    if (!d->order || !missing || !dag_link_in(d, links) || !dag_link_out(d))
        return error_no_room(e);
    if (dag_sort_steps(d, missing, e))
        return ERR_INVALID;
    dag_derive(d);
    return ERR_OK;
}
