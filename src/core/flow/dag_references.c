/* A reference may name ancestors only: other steps may not be final when it is resolved, in one run and not in the
 * next. Sets of steps are rows of bits: 10,000 steps take 12.5 MB each for "above" and "final", for the time of the
 * check. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/flow/condition.h"
#include "core/flow/dag_internal.h"
#include "core/flow/step_data.h"
#include "core/flow/template.h"

enum { WORD_BITS = 64, CONDITION_BYTES_MAX = 1 << 20 };
#define NO_STEP UINT32_MAX

struct dag_check {
    struct dag *d;
    size_t words;    /* of a row */
    uint64_t *above; /* row s: the ancestors of s. NULL until a reference to a step is found, like the next two */
    uint64_t *final; /* row s: the steps that are certainly final when s is */
    uint64_t *ready; /* one row: the steps that are certainly final when the current step starts */
    uint32_t step;   /* the current one; NO_STEP: the result */
    uint32_t references;
    bool may_item, may_output; /* /item and /index, /output have a meaning here */
    bool before_start;         /* the reference is resolved when the step starts */
};

static bool dag_bit(const uint64_t *row, uint32_t step)
{
    return row[step / WORD_BITS] >> step % WORD_BITS & 1;
}

static void dag_add_row(struct dag_check *c, uint64_t *to, const uint64_t *rows, uint32_t parent)
{
    const uint64_t *from = rows + parent * c->words;
    for (size_t i = 0; i < c->words; i++)
        to[i] |= from[i];
    to[parent / WORD_BITS] |= (uint64_t)1 << parent % WORD_BITS;
}

static void dag_fill_rows(struct dag_check *c)
{
    c->words = (c->d->n + WORD_BITS - 1) / WORD_BITS;
    c->above = xcalloc(c->d->n * c->words, sizeof *c->above);
    c->final = xcalloc(c->d->n * c->words, sizeof *c->final);
    c->ready = xcalloc(c->words, sizeof *c->ready);
    for (uint32_t i = 0; i < c->d->n; i++) {
        uint32_t step = c->d->order[i];
        const struct dag_step *s = &c->d->steps[step];
        bool can_break;
        for (uint32_t at = 0, parent; dag_next(&s->in, &at, &parent, &can_break);) {
            dag_add_row(c, c->above + step * c->words, c->above, parent);
            if (dag_waits_for(s, can_break))
                dag_add_row(c, c->final + step * c->words, c->final, parent);
        }
    }
}

/* A join ANY starts with one parent, and it is not known with which. */
static void dag_fill_ready(struct dag_check *c)
{
    const struct dag_step *s = &c->d->steps[c->step];
    bool can_break;
    memset(c->ready, 0, c->words * sizeof *c->ready);
    if (s->join == DAG_ANY && s->parents > 1)
        return;
    for (uint32_t at = 0, parent; dag_next(&s->in, &at, &parent, &can_break);)
        dag_add_row(c, c->ready, c->final, parent);
}

static enum err dag_check_step_reference(struct dag_check *c, const struct reference *r, struct error *e)
{
    uint32_t to;
    struct error why;
    if (dag_find_or_explain(c->d, r->step, &to, &why))
        return error_field(e, "", "%s", why.text);
    c->d->steps[to].output_used |= r->root == REFERENCE_STEP_OUTPUT;
    if (c->step == NO_STEP)
        return ERR_OK;
    if (!c->above)
        dag_fill_rows(c);
    if (!dag_bit(c->above + c->step * c->words, to))
        return error_field(e, "",
                           "refers to the step '" STR_FMT "', which '" STR_FMT "' does not wait for; add it to "
                           "depends_on",
                           STR_ARG(r->step), STR_ARG(c->d->steps[c->step].name));
    if (c->before_start && !c->d->steps[c->step].keeps_input) {
        dag_fill_ready(c);
        c->d->steps[c->step].keeps_input = !dag_bit(c->ready, to);
    }
    return ERR_OK;
}

static enum err dag_on_reference(void *ctx, const struct reference *r, struct error *e)
{
    struct dag_check *c = ctx;
    if (++c->references > DAG_REFERENCES_MAX)
        return error_field(e, "", "is one reference too many; a step has at most %d", DAG_REFERENCES_MAX);
    switch (r->root) {
    case REFERENCE_STEP_OUTPUT:
    case REFERENCE_STEP_STATUS:
    case REFERENCE_STEP_ERROR: return dag_check_step_reference(c, r, e);
    case REFERENCE_ITEM:
    case REFERENCE_INDEX:
        return c->may_item ? ERR_OK : error_field(e, "", "has a meaning only for the items of a step with map");
    case REFERENCE_OUTPUT:
        if (!c->may_output)
            return error_field(e, "", "has a meaning only in compensate; write /steps/NAME/output");
        c->d->steps[c->step].output_used = true;
        return ERR_OK;
    case REFERENCE_RUN: /* it changes while the run goes on */
        if (c->step != NO_STEP && c->before_start)
            c->d->steps[c->step].keeps_input = true;
        return ERR_OK;
    case REFERENCE_INPUT: break;
    }
    return ERR_OK;
}

static enum err dag_check_when(json_t *when, const struct reference_visitor *v, struct error *e)
{
    cleanup_with(arena_release) struct arena a;
    const struct condition *c;
    arena_init(&a, CONDITION_BYTES_MAX);
    if (condition_read(when, &a, &c, e) || condition_references(c, v, e))
        return error_in(e, "when");
    return ERR_OK;
}

/* What is known of the items already. */
static enum err dag_check_over(json_t *over, struct error *e)
{
    bool refers = json_object_get(over, "$ref") != NULL;
    const char *member = refers ? "default" : json_object_get(over, "$literal") ? "$literal" : "";
    json_t *items = member[0] ? json_object_get(over, member) : over;
    if (refers && !items)
        return ERR_OK;
    if (!json_is_array(items))
        return error_field(e, member, "must be an array%s", member[0] ? "" : ", or a reference that yields one");
    if (json_array_size(items) > DAG_ITEMS_MAX)
        return error_field(e, member, "has %zu items; a map has at most %d", json_array_size(items), DAG_ITEMS_MAX);
    return ERR_OK;
}

static enum err dag_check_step_data(struct dag_check *c, json_t *step, struct error *e)
{
    const struct dag_step *s = &c->d->steps[c->step];
    struct reference_visitor v = { c, dag_on_reference };
    json_t *map = json_object_get(step, "map"), *compensate = json_object_get(step, "compensate");
    c->references = 0;
    c->before_start = true;
    c->may_item = c->may_output = false;
    if (s->has_when && dag_check_when(json_object_get(step, "when"), &v, e))
        return e->code;
    json_t *over = json_object_get(map, "over");
    if (over && (template_check(over, TEMPLATE_VALUE, &v, e) || dag_check_over(over, e)))
        return error_in(e, "map.over");
    c->may_item = s->map.is_set;
    if (step_target_check(step, &v, e))
        return e->code;
    c->before_start = false;
    c->may_output = true;
    if (compensate && step_target_check(compensate, &v, e))
        return error_in(e, "compensate");
    return ERR_OK;
}

static enum err dag_check_all(struct dag_check *c, json_t *root, struct error *e)
{
    json_t *steps = json_object_get(root, "steps"), *result = json_object_get(root, "result");
    for (c->step = 0; c->step < c->d->n; c->step++) {
        char path[DAG_PATH_TEXT];
        if (dag_check_step_data(c, json_array_get(steps, c->step), e))
            return error_in(e, dag_step_path(c->step, path));
    }
    c->step = NO_STEP;
    c->references = 0;
    c->may_item = c->may_output = c->before_start = false;
    struct reference_visitor v = { c, dag_on_reference };
    if (result && template_check(result, TEMPLATE_VALUE, &v, e))
        return error_in(e, "result");
    return ERR_OK;
}

enum err dag_check_references(struct dag *d, json_t *root, struct error *e)
{
    struct dag_check c = { .d = d };
    enum err rc = dag_check_all(&c, root, e);
    free(c.above);
    free(c.final);
    free(c.ready);
    return rc;
}
