/* Pauses of runs that have started, which end by themselves. The record of such a run has its pause, and is due at the
 * end of it. The run and the runs below it are resumed by OP_STOPs, page by page. Before the first one, the record is
 * marked: a kill leaves a run that is not paused any more, and steps that are; whoever finds the mark goes on. */
#include "api/server/audit.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "core/task/pause.h"
#include "server/pause/internal.h"

enum {
    RESUMED_ROWS = 1000,
    RESUME_ARENA = 4 << 20,
    PAUSE_DOC = 16 << 10,
    AUDIT_OF_RESUMPTION = 1,
    ENDLESS_LOOK_MS = DAY_MS /* whether the record of a pause without an end is still needed */
};

struct run_ids {
    struct uuid *v;
    size_t n, cap;
};

static bool run_ids_add(struct run_ids *ids, struct uuid id, struct arena *a)
{
    for (size_t i = 0; i < ids->n; i++)
        if (uuid_eq(ids->v[i], id))
            return true;
    if (ids->n == ids->cap) {
        size_t cap = 2 * ids->cap + 16;
        struct uuid *v = arena_array(a, struct uuid, cap);
        if (!v)
            return false;
        if (ids->n)
            memcpy(v, ids->v, ids->n * sizeof *v);
        ids->v = v;
        ids->cap = cap;
    }
    ids->v[ids->n++] = id;
    return true;
}

/* One page of one run. *ret_next: the run has no more. */
static enum err run_pause_apply(const struct pause_turn *t, struct op_stop *op, struct run_ids *ids, bool *ret_next,
                                struct error *e)
{
    bool fits = true, is_below = !uuid_eq(op->run, ids->v[0]);
    arena_init(&op->op.arena, RESUME_ARENA);
    failpoint("before_resume");
    enum err rc = t->apply(t->context, &op->op, e);
    failpoint("after_resume");
    for (size_t i = 0; !rc && !op->ret_more && fits && i < op->ret_run_count; i++)
        fits = run_ids_add(ids, op->ret_runs[i], t->arena);
    *ret_next = rc || !op->ret_more;
    arena_release(&op->op.arena);
    if (is_below && (rc == ERR_NOT_FOUND || rc == ERR_CONFLICT)) /* a map, which is no run, or it has ended */
        rc = ERR_OK;
    return rc || fits ? rc : error_no_room(e);
}

/* With `follows`, only if the run is still as `change` makes it: its steps follow it. */
static enum err run_pause_change(const struct pause_turn *t, const struct task *run, enum run_change change,
                                 bool follows, const struct audit *audit, struct error *e)
{
    struct run_ids ids = { 0 };
    if (!run_ids_add(&ids, run->id, t->arena))
        return error_no_room(e);
    for (size_t at = 0; at < ids.n;) {
        bool next;
        struct op_stop op = { .op = { .kind = OP_STOP, .audit = at == 0 ? audit : NULL },
                              .tenant = run->tenant,
                              .run = ids.v[at],
                              .change = change,
                              .follows = follows && at == 0,
                              .why = S("resumed at the end of its pause"),
                              .max = RESUMED_ROWS,
                              .now_ms = t->now_ms };
        if (run_pause_apply(t, &op, &ids, &next, e))
            return e->code;
        at += next;
    }
    return ERR_OK;
}

static enum err run_pause_mark(const struct pause_turn *t, struct record *r, struct pause *p, struct error *e)
{
    cleanup_with(buf_release) struct buf doc;
    struct jw w;
    buf_init(&doc, PAUSE_DOC);
    jw_init(&w, &doc);
    p->ending_ms = t->now_ms;
    pause_write(&w, p);
    if (doc.full || !arena_str(t->arena, buf_str(&doc), &r->doc))
        return error_no_room(e);
    struct record_change c = { .record = *r, .version = r->version };
    r->version++;
    return t->write(t->context, &c, e);
}

/* Whoever goes on after a kill writes the same audit row. */
static enum err run_pause_resume(const struct pause_turn *t, const struct record *r, const struct pause *p,
                                 const struct task *run, struct error *e)
{
    struct run_row row = { 0 };
    char id[UUID_TEXT + 1];
    uuid_format(run->id, id);
    struct audit audit = audit_by_system("resume run", "workflow_run", str_from(id), p->ending_ms);
    audit.id = uuid_derived_from(p->ending_ms, r->id, AUDIT_OF_RESUMPTION);
    audit.tenant = run->tenant;
    audit.object_name = run->name;
    if (run_pause_change(t, run, RUN_RESUME, false, &audit, e) ||
        reader_run(t->reader, run->tenant, run->id, t->arena, &row, e))
        return e->code;
    log_info("task_resumed", kv_uuid("task", run->id), kv_i64("tenant", run->tenant));
    t->changed(t->context, run);
    if (!row.paused)
        return pauses_remove(t, r, e);
    return run_pause_change(t, run, RUN_PAUSE, true, NULL, e); /* a user has paused it meanwhile: its steps are, too */
}

enum err run_pause_end(const struct pause_turn *t, const struct record *r, const struct task *run, struct error *e)
{
    struct run_row row = { 0 };
    struct record now = *r;
    struct pause p;
    enum err rc = reader_run(t->reader, r->tenant, run->id, t->arena, &row, e);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    if (rc || !pause_read(r->doc, t->arena, &p) || (!row.paused && !p.ending_ms))
        return pauses_remove(t, r, e);
    if (p.ending_ms)
        return run_pause_resume(t, &now, &p, run, e);
    if (!p.until_ms || p.until_ms > t->now_ms)
        return pauses_put_off(t, r, p.until_ms ? p.until_ms : t->now_ms + ENDLESS_LOOK_MS, e);
    return run_pause_mark(t, &now, &p, e) ? e->code : run_pause_resume(t, &now, &p, run, e);
}
