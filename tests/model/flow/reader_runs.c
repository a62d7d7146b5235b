/* Reads runs of workflows: each call looks at all rows. */
#include <stdlib.h>

#include "model/internal.h"
#include "store/common/reading.h"

enum err memory_definition(struct reader *r, int32_t tenant, const uint8_t hash[DEFINITION_HASH], struct arena *a,
                           struct str *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    for (size_t i = 0; i < s->runs.definition_count; i++) {
        const struct definition *d = &s->runs.definitions[i].definition;
        if (d->tenant == tenant && memcmp(d->hash, hash, DEFINITION_HASH) == 0)
            return arena_str(a, d->text, ret) ? ERR_OK : memory_no_room(e);
    }
    return memory_not_found("definition", e);
}

static const struct definition *memory_definition_next(const struct store_memory *s, const struct definition *after)
{
    const struct definition *best = NULL;
    for (size_t i = 0; i < s->runs.definition_count; i++) {
        const struct definition *d = &s->runs.definitions[i].definition;
        if (definition_cmp(d, after) > 0 && (!best || definition_cmp(d, best) < 0))
            best = d;
    }
    return best;
}

enum err memory_definitions(struct reader *r, const struct definition *after, size_t max, struct arena *a,
                            struct definition_page *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct definition_page page = { .v = arena_array(a, struct definition, max) };
    bool has_room = page.v;
    if (!has_room)
        return memory_no_room(e);
    while (has_room && page.n < max && (after = memory_definition_next(s, after)))
        if (definition_page_add(&page, after, max, a, &has_room, e))
            return e->code;
    *ret = page;
    return ERR_OK;
}

/* ---- names of definitions ---- */

/* Copies into the arena. */
static enum err memory_workflow_copy(const struct workflow_row *row, struct arena *a, struct workflow_row *ret,
                                     struct error *e)
{
    struct workflow_row copy = *row;
    if (!arena_str(a, row->name, &copy.name))
        return memory_no_room(e);
    *ret = copy;
    return ERR_OK;
}

enum err memory_workflow(struct reader *r, int32_t tenant, struct str name, int64_t version, struct arena *a,
                         struct workflow_row *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct workflow_row *best = NULL;
    for (size_t i = 0; i < s->runs.workflow_count; i++) {
        const struct memory_workflow *x = &s->runs.workflows[i];
        bool fits = !x->removed && x->row.tenant == tenant && str_eq(x->row.name, name) &&
                    (!version || x->row.version == version);
        if (fits && (!best || x->row.version > best->version))
            best = &x->row;
    }
    return best ? memory_workflow_copy(best, a, ret, e) : memory_not_found("workflow", e);
}

/* The lowest name behind `after`, and of that the latest version. */
static const struct workflow_row *memory_workflow_next(const struct memory_runs *v, int32_t tenant, struct str after)
{
    const struct workflow_row *best = NULL;
    for (size_t i = 0; i < v->workflow_count; i++) {
        const struct workflow_row *x = &v->workflows[i].row;
        if (v->workflows[i].removed || x->tenant != tenant || str_cmp(x->name, after) <= 0)
            continue;
        int order = best ? str_cmp(x->name, best->name) : -1;
        if (order < 0 || (order == 0 && x->version > best->version))
            best = x;
    }
    return best;
}

enum err memory_workflows(struct reader *r, int32_t tenant, struct str after, size_t max, struct arena *a,
                          struct workflow_rows *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct workflow_rows rows = { .v = arena_array(a, struct workflow_row, max) };
    if (!rows.v)
        return memory_no_room(e);
    const struct workflow_row *next;
    while ((next = memory_workflow_next(&s->runs, tenant, after)) && rows.n < max) {
        if (memory_workflow_copy(next, a, &rows.v[rows.n], e))
            return e->code;
        after = rows.v[rows.n++].name;
    }
    rows.more = next != NULL;
    *ret = rows;
    return ERR_OK;
}

/* ---- runs ---- */

enum err memory_run(struct reader *r, int32_t tenant, struct uuid run, struct arena *a, struct run_row *ret,
                    struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct run_row *row = memory_run_find(s, run);
    if (!row || row->tenant != tenant)
        return memory_not_found("run", e);
    struct run_row copy = *row;
    if (!arena_str(a, row->workflow, &copy.workflow) || !arena_str(a, row->stopped_by, &copy.stopped_by))
        return memory_no_room(e);
    *ret = copy;
    return ERR_OK;
}

static bool memory_step_matches(const struct step_filter *f, const struct task *t)
{
    bool is_step = place_kind(t->place) != PLACE_KIND_DEADLINE && place_step(t->place) == f->step;
    return t->tenant == f->tenant && memory_state_matches(f->states, f->shown_at_ms, t) && (!f->by_step || is_step) &&
           (!f->has_after || t->place > f->after);
}

enum err memory_steps(struct reader *r, const struct step_filter *f, struct arena *a, struct tasks *ret,
                      struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    cleanup_with(picks_release) struct picks all = memory_steps_of(s, f->run);
    cleanup_with(picks_release) struct picks p = { 0 };
    for (size_t i = 0; i < all.n && p.n < f->limit; i++)
        if (memory_step_matches(f, all.v[i]))
            picks_add(&p, all.v[i]);
    return picks_copy(&p, a, ret, e);
}

/* ---- outputs and signals ---- */

static int memory_outputs_by_place(const void *a, const void *b)
{
    int64_t x = ((const struct run_output *)a)->place, y = ((const struct run_output *)b)->place;
    return (x > y) - (x < y);
}

enum err memory_outputs(struct reader *r, struct uuid run, int64_t from, int64_t to, size_t max, struct arena *a,
                        struct run_outputs *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct run_outputs found = { .v = arena_array(a, struct run_output, s->runs.output_count + 1) };
    if (!found.v)
        return memory_no_room(e);
    for (size_t i = 0; i < s->runs.output_count; i++) {
        const struct memory_output *x = &s->runs.outputs[i];
        if (uuid_eq(x->run, run) && x->output.place >= from && x->output.place <= to)
            found.v[found.n++] = x->output;
    }
    qsort(found.v, found.n, sizeof *found.v, memory_outputs_by_place);
    found.n = min_of(found.n, max);
    for (size_t i = 0; i < found.n; i++)
        if (!arena_str(a, found.v[i].text, &found.v[i].text))
            return memory_no_room(e);
    *ret = found;
    return ERR_OK;
}

static int memory_signals_compare(const void *a, const void *b)
{
    const struct signal_row *x = a, *y = b;
    return x->time_ms != y->time_ms ? (x->time_ms > y->time_ms) - (x->time_ms < y->time_ms)
                                    : str_cmp(x->sender, y->sender);
}

enum err memory_signals(struct reader *r, struct uuid run, struct str name, struct arena *a, struct signal_rows *ret,
                        struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct signal_rows found = { .v = arena_array(a, struct signal_row, s->runs.signal_count + 1) };
    if (!found.v)
        return memory_no_room(e);
    for (size_t i = 0; i < s->runs.signal_count; i++)
        if (uuid_eq(s->runs.signals[i].run, run) && str_eq(s->runs.signals[i].name, name))
            found.v[found.n++] = s->runs.signals[i];
    qsort(found.v, found.n, sizeof *found.v, memory_signals_compare);
    for (size_t i = 0; i < found.n; i++) {
        struct signal_row *x = &found.v[i];
        if (!arena_str(a, x->name, &x->name) || !arena_str(a, x->sender, &x->sender) ||
            !arena_str(a, x->payload, &x->payload))
            return memory_no_room(e);
    }
    *ret = found;
    return ERR_OK;
}
