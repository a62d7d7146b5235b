/* Records of runs beside their tasks: run rows, definitions and their names, outputs, signals. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/internal.h"

static struct str memory_text(struct str s)
{
    char *p = s.n ? memcpy(xmalloc(s.n), s.p, s.n) : NULL;
    return (struct str){ p, s.n };
}

static void memory_text_free(struct str s)
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

/* ---- signals ---- */

static bool memory_signal_is(const struct signal_row *x, struct uuid run, struct str name)
{
    return uuid_eq(x->run, run) && (!name.n || str_eq(x->name, name));
}

size_t memory_signals_count(const struct store_memory *s, struct uuid run, struct str name, size_t *ret_bytes)
{
    size_t n = 0, bytes = 0;
    for (size_t i = 0; i < s->runs.signal_count; i++) {
        const struct signal_row *x = &s->runs.signals[i];
        n += memory_signal_is(x, run, name);
        bytes += memory_signal_is(x, run, name) ? x->payload.n : 0;
    }
    if (ret_bytes)
        *ret_bytes = bytes;
    return n;
}

static void memory_signal_free(struct signal_row *x)
{
    memory_text_free(x->name);
    memory_text_free(x->sender);
    memory_text_free(x->payload);
}

void memory_signals_drop(struct store_memory *s, struct uuid run, struct str name)
{
    size_t n = 0;
    for (size_t i = 0; i < s->runs.signal_count; i++) {
        struct signal_row *x = &s->runs.signals[i];
        if (memory_signal_is(x, run, name))
            memory_signal_free(x);
        else
            s->runs.signals[n++] = *x;
    }
    s->runs.signal_count = n;
}

static const struct signal_row *memory_signal_find(const struct store_memory *s, const struct signal_row *wanted)
{
    for (size_t i = 0; i < s->runs.signal_count; i++) {
        const struct signal_row *x = &s->runs.signals[i];
        if (memory_signal_is(x, wanted->run, wanted->name) && str_eq(x->sender, wanted->sender))
            return x;
    }
    return NULL;
}

static bool memory_steps_are_over(const struct store_memory *s, const struct op_signal *op)
{
    size_t n = 0;
    for (size_t i = 0; i < op->n; i++) {
        const struct task *t = table_get(&s->table, op->steps[i]);
        n += t && !signal_takes(op, t);
    }
    return op->n && n == op->n;
}

/* OP_SIGNAL 2 to 5. */
static enum err memory_signal_check(const struct store_memory *s, struct op_signal *op, struct error *e)
{
    const struct task *run = table_get(&s->table, op->signal->run);
    const struct signal_row *there = memory_signal_find(s, op->signal);
    size_t bytes, n = memory_signals_count(s, op->signal->run, op->signal->name, &bytes);
    if (signal_check_run(run, run != NULL, op->tenant, e) || (there && signal_check_same(there, op->signal, e)))
        return e->code;
    op->ret_repeated = there != NULL;
    if (there)
        return ERR_OK;
    if (memory_steps_are_over(s, op))
        return signal_too_late(e);
    return signal_check_room(n + 1, (int64_t)(bytes + op->signal->payload.n), e);
}

static void memory_signal_wake(struct store_memory *s, const struct op_signal *op, struct uuid step,
                               uint64_t *unblocked)
{
    const struct task *t = table_get(&s->table, step);
    struct task next = t ? *t : (struct task){ 0 };
    if (!t || !signal_takes(op, t) || !signal_wakes(&next, op->signal->time_ms))
        return;
    if (next.state == TASK_SCHEDULED)
        *unblocked |= lane_bit(task_lane(&next));
    table_put(&s->table, &next);
}

enum err memory_signal(struct store_memory *s, struct op *base)
{
    struct op_signal *op = container_of(base, struct op_signal, op);
    struct memory_runs *v = &s->runs;
    if (memory_idempotency_check(s, op->idempotency, &base->error) || memory_signal_check(s, op, &base->error))
        return base->error.code;
    op->ret_unblocked_lanes = 0;
    memory_idempotency_put(s, op->idempotency);
    if (op->ret_repeated)
        return ERR_OK;
    struct signal_row x = *op->signal;
    x.name = memory_text(x.name);
    x.sender = memory_text(x.sender);
    x.payload = memory_text(x.payload);
    MEMORY_GROW(v->signals, v->signal_count, v->signal_cap);
    v->signals[v->signal_count++] = x;
    for (size_t i = 0; i < op->n; i++)
        memory_signal_wake(s, op, op->steps[i], &op->ret_unblocked_lanes);
    return ERR_OK;
}

/* ---- definitions ---- */

static bool memory_hash_eq(const uint8_t a[DEFINITION_HASH], const uint8_t b[DEFINITION_HASH])
{
    return memcmp(a, b, DEFINITION_HASH) == 0;
}

void memory_definition_put(struct store_memory *s, const struct definition *d, int64_t now_ms)
{
    struct memory_runs *v = &s->runs;
    for (size_t i = 0; i < v->definition_count; i++) {
        struct memory_definition *x = &v->definitions[i];
        if (x->definition.tenant == d->tenant && memory_hash_eq(x->definition.hash, d->hash)) {
            x->put_ms = max_of(x->put_ms, now_ms);
            return;
        }
    }
    MEMORY_GROW(v->definitions, v->definition_count, v->definition_cap);
    struct memory_definition *x = &v->definitions[v->definition_count++];
    *x = (struct memory_definition){ *d, now_ms };
    x->definition.text = memory_text(d->text);
}

bool memory_definition_reseal(struct store_memory *s, const struct resealed_definition *r)
{
    struct memory_runs *v = &s->runs;
    for (size_t i = 0; i < v->definition_count; i++) {
        struct definition *d = &v->definitions[i].definition;
        if (definition_cmp(d, r->definition) != 0 || !str_eq(d->text, r->definition->text))
            continue;
        memory_text_free(d->text);
        d->text = memory_text(r->becomes);
        return true;
    }
    return false;
}

/* The latest version of the name, removed or not; NULL: it never had one. */
static struct memory_workflow *memory_workflow_latest(const struct memory_runs *v, int32_t tenant, struct str name)
{
    struct memory_workflow *best = NULL;
    for (size_t i = 0; i < v->workflow_count; i++) {
        struct memory_workflow *x = &v->workflows[i];
        if (x->row.tenant == tenant && str_eq(x->row.name, name) && (!best || x->row.version > best->row.version))
            best = x;
    }
    return best;
}

static void memory_workflow_add(struct store_memory *s, struct op_define *op, int64_t version)
{
    struct memory_runs *v = &s->runs;
    struct workflow_row row = { .tenant = op->tenant, .version = version, .created_ms = op->now_ms };
    memcpy(row.hash, op->definition->hash, sizeof row.hash);
    row.name = memory_text(op->name);
    MEMORY_GROW(v->workflows, v->workflow_count, v->workflow_cap);
    v->workflows[v->workflow_count++] = (struct memory_workflow){ .row = row };
    memory_definition_put(s, op->definition, op->now_ms);
}

static void memory_workflow_remove(struct memory_runs *v, const struct op_define *op)
{
    for (size_t i = 0; i < v->workflow_count; i++)
        if (v->workflows[i].row.tenant == op->tenant && str_eq(v->workflows[i].row.name, op->name))
            v->workflows[i].removed = true;
}

enum err memory_define(struct store_memory *s, struct op *base)
{
    struct op_define *op = container_of(base, struct op_define, op);
    if (memory_idempotency_check(s, op->idempotency, &base->error))
        return base->error.code;
    if (!op->name.n) {
        memory_definition_put(s, op->definition, op->now_ms);
        memory_idempotency_put(s, op->idempotency);
        return ERR_OK;
    }
    const struct memory_workflow *last = memory_workflow_latest(&s->runs, op->tenant, op->name);
    bool exists = last && !last->removed;
    if (op->remove && !exists)
        return memory_not_found("workflow", &base->error);
    bool same = !op->remove && exists && memory_hash_eq(last->row.hash, op->definition->hash);
    op->ret_version = op->remove ? 0 : same ? last->row.version : last ? last->row.version + 1 : 1;
    op->ret_created_ms = op->remove ? 0 : same ? last->row.created_ms : op->now_ms;
    op->ret_changed = !same;
    if (op->remove)
        memory_workflow_remove(&s->runs, op);
    else if (!same)
        memory_workflow_add(s, op, op->ret_version);
    memory_idempotency_put(s, op->idempotency);
    return ERR_OK;
}

static bool memory_definition_is_used(const struct memory_runs *v, const struct definition *d)
{
    for (size_t i = 0; i < v->workflow_count; i++) {
        const struct memory_workflow *w = &v->workflows[i];
        if (!w->removed && w->row.tenant == d->tenant && memory_hash_eq(w->row.hash, d->hash))
            return true;
    }
    for (size_t i = 0; i < v->run_count; i++)
        if (v->runs[i].tenant == d->tenant && memory_hash_eq(v->runs[i].hash, d->hash))
            return true;
    return false;
}

/* By a task that was not opened yet: its target_config has the hash as text. */
static bool memory_definition_is_awaited(const struct store_memory *s, const struct definition *d)
{
    char hex[2 * DEFINITION_HASH + 1];
    for (size_t i = 0; i < DEFINITION_HASH; i++)
        snprintf(hex + 2 * i, 3, "%02x", d->hash[i]);
    for (size_t i = 0; i < order_count(&s->table.by_id); i++) {
        const struct task *t = task_at(&s->table.by_id, i);
        if (t->tenant == d->tenant && t->target == TARGET_WORKFLOW && !(t->links & TASK_OPENED) && t->target_config.n &&
            memmem(t->target_config.p, t->target_config.n, hex, 2 * DEFINITION_HASH))
            return true;
    }
    return false;
}

size_t memory_purge_definitions(struct store_memory *s, int64_t before_ms, size_t max)
{
    struct memory_runs *v = &s->runs;
    size_t n = 0, gone = 0;
    for (size_t i = 0; i < v->definition_count; i++) {
        struct memory_definition *x = &v->definitions[i];
        bool old = gone < max && x->put_ms < before_ms && !memory_definition_is_used(v, &x->definition);
        if (old && !memory_definition_is_awaited(s, &x->definition)) {
            memory_text_free(x->definition.text);
            gone++;
        } else {
            v->definitions[n++] = *x;
        }
    }
    v->definition_count = n;
    return gone;
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
