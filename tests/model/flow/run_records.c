/* Records of runs beside their tasks: run rows and outputs. */
#include <stdlib.h>

#include "model/internal.h"

struct str memory_text(struct str s)
{
    char *p = s.n ? memcpy(xmalloc(s.n), s.p, s.n) : NULL;
    return (struct str){ p, s.n };
}

void memory_text_free(struct str s)
{
    free_const(s.p);
}

/* ---- run rows ---- */

struct run_row *memory_run_find(const struct store_memory *s, struct uuid run)
{
    for (size_t i = 0; i < s->runs.run_count; i++)
        if (uuid_eq(s->runs.runs[i].run, run))
            return &s->runs.runs[i];
    return NULL;
}

static void memory_run_free(struct run_row *r)
{
    memory_text_free(r->workflow);
    memory_text_free(r->stopped_by);
}

/* Owns its texts; *old may be where they come from. */
static void memory_run_put(struct run_row *old, struct run_row next)
{
    struct run_row was = *old;
    *old = next;
    old->workflow = memory_text(next.workflow);
    old->stopped_by = memory_text(next.stopped_by);
    memory_run_free(&was);
}

void memory_run_begin(struct store_memory *s, const struct op_open *op, const struct run_row *outer, int links)
{
    struct memory_runs *v = &s->runs;
    struct run_row *there = memory_run_find(s, op->begin->run);
    struct run_row next = run_begin(op, there, outer, links);
    if (!there) {
        MEMORY_GROW(v->runs, v->run_count, v->run_cap);
        there = &v->runs[v->run_count++];
        *there = (struct run_row){ 0 };
    }
    memory_run_put(there, next);
}

void memory_run_resume(struct store_memory *s, struct uuid run)
{
    struct run_row *r = memory_run_find(s, run);
    if (r)
        r->paused = false;
}

void memory_run_stop(struct run_row *r, const struct op_stop *op, int links)
{
    struct run_row next = *r;
    stop_run(&next, op, links);
    memory_run_put(r, next);
}

/* ---- outputs ---- */

static void memory_output_drop_at(struct memory_runs *v, struct uuid run, int64_t from, int64_t to)
{
    size_t n = 0;
    for (size_t i = 0; i < v->output_count; i++) {
        struct memory_output *o = &v->outputs[i];
        if (uuid_eq(o->run, run) && o->output.place >= from && o->output.place <= to)
            memory_text_free(o->output.text);
        else
            v->outputs[n++] = *o;
    }
    v->output_count = n;
}

static void memory_output_put(struct memory_runs *v, struct uuid run, int64_t place, struct str text)
{
    struct run_output kept = output_kept(text);
    kept.place = place;
    kept.text = memory_text(kept.text);
    memory_output_drop_at(v, run, place, place);
    MEMORY_GROW(v->outputs, v->output_count, v->output_cap);
    v->outputs[v->output_count++] = (struct memory_output){ .run = run, .output = kept };
}

void memory_output_keep(struct store_memory *s, const struct task *t, struct str output)
{
    bool is_step = !uuid_is_nil(t->run);
    if (is_step)
        memory_output_put(&s->runs, t->run, t->place, output);
    if (!is_step || memory_run_find(s, t->id))
        memory_output_put(&s->runs, t->id, PLACE_RUN, output);
}

void memory_output_drop(struct store_memory *s, const struct task *t)
{
    memory_output_drop_at(&s->runs, t->run, t->place, t->place);
    memory_output_drop_at(&s->runs, t->id, PLACE_RUN, PLACE_RUN);
}

/* ---- the end ---- */

void memory_run_drop(struct store_memory *s, struct uuid run)
{
    struct run_row *r = memory_run_find(s, run);
    memory_output_drop_at(&s->runs, run, INT64_MIN, INT64_MAX);
    memory_signals_drop(s, run, (struct str){ 0 });
    if (!r)
        return;
    memory_run_free(r);
    *r = s->runs.runs[--s->runs.run_count];
}

void memory_runs_release(struct store_memory *s)
{
    struct memory_runs *v = &s->runs;
    for (size_t i = 0; i < v->run_count; i++)
        memory_run_free(&v->runs[i]);
    for (size_t i = 0; i < v->definition_count; i++)
        memory_text_free(v->definitions[i].definition.text);
    for (size_t i = 0; i < v->workflow_count; i++)
        memory_text_free(v->workflows[i].row.name);
    for (size_t i = 0; i < v->output_count; i++)
        memory_text_free(v->outputs[i].output.text);
    for (size_t i = 0; i < v->signal_count; i++)
        memory_signal_free(&v->signals[i]);
    free(v->runs);
    free(v->definitions);
    free(v->workflows);
    free(v->outputs);
    free(v->signals);
}
