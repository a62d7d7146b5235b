/* Not every step has a row: one with a single parent gets its row when that parent ends, and if it is skipped then, it
 * needs none. So a step without a row is SKIPPED if its parent is over, and has not started otherwise. */
#include "api/workflow/waits.h"

#include <stdio.h>

#include "api/server/internal.h"
#include "api/workflow/steps.h"
#include "base/rfc3339.h"
#include "core/flow/place.h"

enum { WAITS_SHOWN = 5, WAITS_ARENA = 64 << 20, SUBJECT_MAX = 512, NAME_SHOWN = 120, NO_ROW = -1 };

/* ---- what it is ---- */

static void waits_write_run(struct buf *out, struct uuid run, struct str name)
{
    char id[UUID_TEXT + 1];
    uuid_format(run, id);
    if (name.n)
        buf_printf(out, "the run '" STR_FMT "'", STR_ARG(str_utf8_cut(name, NAME_SHOWN)));
    else
        buf_printf(out, "the run %s", id);
}

static enum err waits_set_subject(struct request *q, const struct task *t, struct run_place *p, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, SUBJECT_MAX);
    if (p->is_step) {
        int64_t item = place_item(t->place);
        buf_text(&text, place_kind(t->place) == PLACE_KIND_UNDO ? "the compensation of " : "");
        if (item >= 0)
            buf_printf(&text, "item %lld of ", (long long)item);
        buf_printf(&text, "step '" STR_FMT "' of ", STR_ARG(p->step));
    }
    waits_write_run(&text, p->run, p->run_name);
    return arena_str(&q->arena, buf_str(&text), &p->subject) ? ERR_OK : error_no_room(e);
}

struct str run_step_error(const struct dag *d, const struct task *t, char text[RUN_ERROR_TEXT])
{
    const struct dag_step *s = &d->steps[place_step(t->place)];
    char id[UUID_TEXT + 1];
    struct str before = S(DEPENDENCY_SKIPPED), error = t->last_error;
    struct str rest = str_starts(error, before) ? str_sub(error, before.n, error.n) : S("");
    for (uint32_t i = 0; i < s->in.n && rest.n; i++) {
        uuid_format(place_id(t->run, place_of_step(s->in.v[i].step)), id);
        if (!str_starts(rest, str_from(id)))
            continue;
        rest = str_sub(rest, UUID_TEXT, rest.n);
        int n = snprintf(text, RUN_ERROR_TEXT, DEPENDENCY_SKIPPED "'" STR_FMT "'" STR_FMT,
                         STR_ARG(d->steps[s->in.v[i].step].name), STR_ARG(rest));
        return (struct str){ text, (size_t)n };
    }
    return error;
}

static enum err waits_read_signal(struct request *q, struct reader *r, const struct dag_step *s, const struct task *t,
                                  struct run_place *p, struct error *e)
{
    struct signal_rows v = { 0 };
    if (!(t->links & TASK_AWAITS))
        return ERR_OK;
    if (reader_signals(r, t->run, s->await.signal, &q->arena, &v, e))
        return e->code;
    p->approvals = s->await.approvals;
    p->received = (int64_t)(v.n - signal_rejections(&v));
    return arena_str(&q->arena, s->await.signal, &p->signal) ? ERR_OK : error_no_room(e);
}

static enum err waits_read_step(struct request *q, struct reader *r, const struct task *t, struct run_place *p,
                                struct error *e)
{
    struct run_row row;
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    enum err rc = reader_run(r, t->tenant, t->run, &q->arena, &row, e);
    if (rc == ERR_OK)
        rc = definition_cache_get(q->server->definitions, r, t->tenant, row.hash, &d, e);
    if (rc || place_step(t->place) >= d->dag->n)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    const struct dag_step *s = &d->dag->steps[place_step(t->place)];
    bool is_item = place_item(t->place) >= 0 && place_kind(t->place) == PLACE_KIND_STEP;
    p->max_concurrent = is_item ? s->map.max_concurrent : 0;
    char error[RUN_ERROR_TEXT];
    if (!arena_str(&q->arena, s->name, &p->step) || !arena_str(&q->arena, run_step_error(d->dag, t, error), &p->error))
        return error_no_room(e);
    return waits_read_signal(q, r, s, t, p, e);
}

enum err run_place_read(struct request *q, struct reader *r, const struct task *t, struct run_place *ret,
                        struct error *e)
{
    struct run_place p = { .is_step = !uuid_is_nil(t->run) && place_kind(t->place) != PLACE_KIND_DEADLINE,
                           .is_run = uuid_is_nil(t->run) && t->target == TARGET_WORKFLOW && t->kind != TASK_RECURRING,
                           .run = t->id,
                           .run_name = t->name };
    struct task run;
    if (p.is_step) {
        p.run = t->run;
        enum err rc = reader_get(r, t->tenant, t->run, &q->arena, &run, e);
        if (rc && rc != ERR_NOT_FOUND)
            return rc;
        p.run_name = rc ? S("") : run.name;
        if (waits_read_step(q, r, t, &p, e))
            return e->code;
    }
    if ((p.is_run || p.is_step) && waits_set_subject(q, t, &p, e))
        return e->code;
    *ret = p;
    return ERR_OK;
}

/* ---- when it is stopped ---- */

/* The row of the run that the task is. *ret_found: it is one that was opened. */
static enum err waits_read_run(struct request *q, struct reader *r, const struct task *t, struct run_row *ret,
                               bool *ret_found, struct error *e)
{
    enum err rc = t->links & TASK_OPENED ? reader_run(r, t->tenant, t->id, &q->arena, ret, e) : ERR_NOT_FOUND;
    *ret_found = rc == ERR_OK;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err run_deadline_read(struct request *q, struct reader *r, const struct task *t, int64_t *ret, struct error *e)
{
    struct task at = *t;
    int64_t first_ms = INT64_MAX;
    *ret = 0;
    for (enum err rc = ERR_OK; rc == ERR_OK;) {
        struct run_row row = { 0 };
        bool is_run, is_undoing = false;
        if (waits_read_run(q, r, &at, &row, &is_run, e) ||
            (is_run && row.deadline_ms && run_is_undoing(q, r, &at, &is_undoing, e)))
            return e->code;
        if (is_run && (row.stop != RUN_GOES_ON || is_undoing))
            return ERR_OK;
        if (is_run && row.deadline_ms)
            first_ms = min_of(first_ms, row.deadline_ms);
        rc = uuid_is_nil(at.run) ? ERR_NOT_FOUND : reader_get(r, t->tenant, at.run, &q->arena, &at, e);
        if (rc && rc != ERR_NOT_FOUND)
            return rc;
    }
    *ret = first_ms == INT64_MAX ? 0 : first_ms;
    return ERR_OK;
}

/* ---- what it waits for ---- */

struct waits_state {
    int state; /* enum task_state as it is shown, or NO_ROW */
    int64_t due_ms;
    bool is_ahead;
};

/* The states of all steps of a run, by step. */
static enum err waits_read_states(struct request *q, struct reader *r, struct uuid run, const struct dag *d,
                                  struct waits_state *v, struct error *e)
{
    struct step_filter f = { .tenant = q->who.tenant, .run = run, .limit = STEPS_READ_MAX };
    cleanup_with(arena_release) struct arena page;
    arena_init(&page, WAITS_ARENA);
    for (uint32_t i = 0; i < d->n; i++)
        v[i].state = NO_ROW;
    for (bool more = true; more;) {
        struct tasks rows = { 0 };
        if (reader_steps(r, &f, &page, &rows, e))
            return e->code;
        for (size_t i = 0; i < rows.n; i++) {
            const struct task *t = &rows.v[i];
            bool is_step = place_kind(t->place) == PLACE_KIND_STEP && place_item(t->place) < 0;
            if (is_step && place_step(t->place) < d->n)
                v[place_step(t->place)] =
                    (struct waits_state){ (int)task_shown_state(t, q->now_ms), t->due_ms, t->due_ms > q->now_ms };
        }
        more = rows.n == f.limit;
        f.has_after = true;
        f.after = rows.n ? rows.v[rows.n - 1].place : 0;
        arena_reset(&page);
    }
    for (uint32_t i = 0; i < d->n; i++) { /* parents come first */
        const struct dag_step *s = &d->steps[d->order[i]];
        const struct waits_state *parent = s->in.n ? &v[s->in.v[0].step] : NULL;
        bool skipped = parent && parent->state != NO_ROW && task_is_final((enum task_state)parent->state);
        if (v[d->order[i]].state == NO_ROW && s->parents == 1 && skipped)
            v[d->order[i]].state = TASK_SKIPPED;
    }
    return ERR_OK;
}

/* "'a' (RUNNING)", or "'a' (BLOCKED, waits for signal 'approved')" */
static void waits_write_step(struct buf *out, struct str name, const struct waits_state *s, struct str hold)
{
    char when[RFC3339_TEXT + 1];
    buf_printf(out, "'" STR_FMT "' (%s", STR_ARG(name),
               s->state == NO_ROW ? "not started" : task_state_name((enum task_state)s->state));
    if (s->state == TASK_SCHEDULED && s->is_ahead) {
        rfc3339_format(s->due_ms, when);
        buf_printf(out, " for %s", when);
    }
    buf_text(out, hold.n ? ", " : "");
    buf_add(out, hold);
    buf_char(out, ')');
}

struct waits_list {
    struct run_holds holds;
    struct uuid run;
    uint32_t of, open, shown;
    struct buf names;
};

/* What holds a step that has a row. */
static enum err waits_read_hold(struct waits_list *l, uint32_t step, struct str *ret, struct error *e)
{
    struct task t;
    struct run_hold hold;
    struct request *q = l->holds.q;
    *ret = S("");
    enum err rc = reader_get(l->holds.r, q->who.tenant, place_id(l->run, place_of_step(step)), &q->arena, &t, e);
    if (rc)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    if (run_hold_read(&l->holds, &t, &hold, e))
        return e->code;
    *ret = hold.text;
    return ERR_OK;
}

static enum err waits_list_add(struct waits_list *l, uint32_t step, const struct waits_state *s, struct error *e)
{
    struct str hold = S("");
    bool open = s->state == NO_ROW || !task_is_final((enum task_state)s->state);
    l->of++;
    l->open += open;
    if (!open || l->shown == WAITS_SHOWN)
        return ERR_OK;
    if (s->state != NO_ROW && waits_read_hold(l, step, &hold, e))
        return e->code;
    buf_text(&l->names, l->shown++ ? ", " : ": ");
    waits_write_step(&l->names, l->holds.d->steps[step].name, s, hold);
    return ERR_OK;
}

static void waits_list_write(const struct waits_list *l, struct buf *out)
{
    buf_printf(out, "%u of %u step%s", l->open, l->of, l->of == 1 ? "" : "s");
    buf_add(out, buf_str(&l->names));
    if (l->open > l->shown)
        buf_printf(out, " and %u more", l->open - l->shown);
}

/* The parents of a step, or all steps of a run; the latter names those that have a row first. */
static enum err waits_collect(struct waits_list *l, const struct waits_state *v, const struct task *t, struct error *e)
{
    const struct dag *d = l->holds.d;
    if (t->links & TASK_OPEN) {
        for (int pass = 0; pass < 2; pass++)
            for (uint32_t i = 0; i < d->n; i++)
                if ((v[i].state == NO_ROW) == (pass == 1) && waits_list_add(l, i, &v[i], e))
                    return e->code;
        return ERR_OK;
    }
    const struct dag_edges *in = &d->steps[place_step(t->place)].in; /* each parent once (definition.c) */
    for (uint32_t i = 0; i < in->n; i++)
        if (waits_list_add(l, in->v[i].step, &v[in->v[i].step], e))
            return e->code;
    return ERR_OK;
}

/* The items of a map that are not over. */
static enum err waits_write_items(struct request *q, struct reader *r, const struct task *t, struct buf *out,
                                  struct error *e)
{
    int64_t by_state[TASK_STATES] = { 0 }, total, open = 0;
    if (steps_count_items(r, t, q->now_ms, by_state, &total, e))
        return e->code;
    for (int state = 0; state < TASK_STATES; state++)
        open += task_is_final((enum task_state)state) ? 0 : by_state[state];
    buf_printf(out, "%lld of its %lld item%s", (long long)open, (long long)total, total == 1 ? "" : "s");
    return ERR_OK;
}

/* What holds a map as a whole: "; queue 'mail' is paused". */
static enum err waits_write_map_hold(struct request *q, struct reader *r, const struct task *t, struct buf *out,
                                     struct error *e)
{
    struct run_row row;
    struct run_hold hold;
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    if (reader_run(r, t->tenant, t->run, &q->arena, &row, e) ||
        definition_cache_get(q->server->definitions, r, t->tenant, row.hash, &d, e))
        return e->code;
    struct run_holds holds = { .q = q, .r = r, .d = d->dag, .stop = row.stop };
    if (run_hold_read(&holds, t, &hold, e))
        return e->code;
    buf_text(out, hold.text.n ? "; " : "");
    buf_add(out, hold.text);
    return ERR_OK;
}

/* "2 of 3 compensations, because step 'b' is FAILED: 'a' (SCHEDULED for …)" */
static enum err waits_write_undo(struct request *q, struct reader *r, const struct task *t, const struct dag *d,
                                 struct buf *out, struct error *e)
{
    struct step_filter f = { .tenant = t->tenant,
                             .run = t->id,
                             .states =
                                 1U << TASK_SCHEDULED | 1U << TASK_BLOCKED | 1U << TASK_PAUSED | 1U << TASK_RUNNING,
                             .has_after = true,
                             .after = place_of_undo(0, -1) - 1,
                             .limit = WAITS_SHOWN };
    struct workflow_run run;
    struct run_tally tally;
    struct tasks v = { 0 };
    char cause[RUN_CAUSE_TEXT];
    if (run_read_of(q, r, t, &run, e) || run_tally(q, r, &run, d, &tally, e) || reader_steps(r, &f, &q->arena, &v, e))
        return e->code;
    struct str why = run_undo_cause(&run, d, &tally, cause);
    buf_printf(out, "%lld of %lld compensation%s (" STR_FMT ")", (long long)(tally.undo_total - tally.undone),
               (long long)tally.undo_total, tally.undo_total == 1 ? "" : "s", STR_ARG(why));
    for (size_t i = 0; i < v.n && place_kind(v.v[i].place) == PLACE_KIND_UNDO; i++) {
        const struct task *u = &v.v[i];
        struct waits_state s = { (int)task_shown_state(u, q->now_ms), u->due_ms, u->due_ms > q->now_ms };
        buf_text(out, i ? ", " : ": ");
        waits_write_step(out, d->steps[place_step(u->place)].name, &s,
                         u->state == TASK_PAUSED ? S("the run is paused") : S(""));
    }
    return ERR_OK;
}

enum err run_write_waits(struct request *q, struct reader *r, const struct task *t, struct buf *out, struct error *e)
{
    struct run_row row;
    struct waits_list l = { 0 };
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    bool open = t->links & TASK_OPEN, undoing = false;
    enum err rc = open ? reader_run(r, t->tenant, t->id, &q->arena, &row, e) : ERR_NOT_FOUND;
    if (open && rc == ERR_NOT_FOUND)
        return waits_write_items(q, r, t, out, e) ? e->code : waits_write_map_hold(q, r, t, out, e);
    if (!open)
        rc = reader_run(r, t->tenant, t->run, &q->arena, &row, e);
    if (rc || definition_cache_get(q->server->definitions, r, t->tenant, row.hash, &d, e))
        return e->code;
    if (open && run_is_undoing(q, r, t, &undoing, e))
        return e->code;
    if (undoing)
        return waits_write_undo(q, r, t, d->dag, out, e);
    struct waits_state *v = arena_array(&q->arena, struct waits_state, d->dag->n);
    if (!v)
        return error_no_room(e);
    if (waits_read_states(q, r, open ? t->id : t->run, d->dag, v, e))
        return e->code;
    l.holds = (struct run_holds){ .q = q, .r = r, .d = d->dag, .stop = row.stop };
    l.run = open ? t->id : t->run;
    buf_init(&l.names, SUBJECT_MAX * 4);
    rc = waits_collect(&l, v, t, e);
    waits_list_write(&l, out);
    buf_release(&l.names);
    return rc;
}
