/* What happens with a claimed step: a worker calls what its definition says, or it is skipped; a map is opened; an
 * await waits for signals; at its deadline a run is stopped. */
#include <stdio.h>

#include "api/task/secret_headers.h"
#include "workflow/internal.h"

/* A step with its definition and its data. */
struct step_view {
    struct run_view *v;
    const struct dag_step *s;
    struct step_data data;
    struct run_data run;
    struct reference_data references;
};

static enum err step_fails(struct step_view *x, struct error *e)
{
    char path[STEP_NAME_MAX + 16];
    snprintf(path, sizeof path, "steps." STR_FMT, STR_ARG(x->s->name));
    return error_in(e, path);
}

/* ---- calls ---- */

/* A queue carries the call, and the store may keep it. */
static enum err plan_seal(struct step_view *x, struct plan *p, struct error *e)
{
    const struct task *t = p->task;
    struct secret_sealer sealer = {
        .secrets = x->v->c->secrets, .tenant = t->tenant, .row = t->id, .keeps_hidden = true, .keeps_sealed = true
    };
    return sealer.secrets
               ? secret_headers_keep(NULL, t->target, p->target_config, &sealer, &p->arena, &p->target_config, e)
               : ERR_OK;
}

static enum err plan_call(struct step_view *x, struct plan *p, struct error *e)
{
    enum step_part part = place_kind(p->task->place) == PLACE_KIND_UNDO ? STEP_COMPENSATION : STEP_ITSELF;
    struct step_target target;
    if (step_data_target(&x->data, part, &x->references, &p->arena, &target, e))
        return step_fails(x, e);
    p->kind = PLAN_CALL;
    p->target_config = target.config;
    p->payload = target.payload;
    /* A step that a user starts does not wait for those that it refers to. */
    bool is_early = part == STEP_ITSELF && (x->s->keeps_input || p->task->links & TASK_BY_HAND);
    p->keeps = p->task->target == TARGET_WORKER || is_early;
    return plan_seal(x, p, e) ? step_fails(x, e) : ERR_OK;
}

/* ---- maps ---- */

struct map_count {
    size_t rows, done, failed, cancelled, open; /* failed: final and not done, cancelled ones among them */
    size_t old, to_replace;                     /* from before a retry; of those: not done */
    bool *is_done;                              /* by index: COMPLETED, or skipped, as only a user can */
};

static enum err map_count_items(struct step_view *x, const struct tasks *rows, struct map_count *ret, struct plan *p,
                                struct error *e)
{
    *ret = (struct map_count){ .is_done = arena_array(&p->arena, bool, DAG_ITEMS_MAX + 1) };
    if (!ret->is_done)
        return error_no_room(e);
    for (size_t i = 0; i < rows->n; i++) {
        const struct task *t = &rows->v[i];
        if (place_kind(t->place) != PLACE_KIND_STEP || place_item(t->place) < 0 ||
            &x->v->dag->steps[place_step(t->place)] != x->s)
            continue;
        bool done = t->state == TASK_COMPLETED || t->state == TASK_SKIPPED, open = !task_is_final(t->state);
        ret->rows++;
        ret->done += done;
        ret->open += open;
        ret->failed += !done && !open;
        ret->cancelled += t->state == TASK_CANCELLED;
        ret->old += t->created_ms < p->task->created_ms;
        ret->to_replace += t->created_ms < p->task->created_ms && !done;
        ret->is_done[place_item(t->place)] = done;
    }
    return ERR_OK;
}

/* Items that are runs and waited for their next attempt: they are stopped, and undo what they did. */
static void plan_map_undo(const struct uuid *runs, size_t n, struct plan *p)
{
    p->kind = PLAN_STOP;
    p->stop.run = runs[0];
    p->stop.others = runs + 1;
    p->stop.other_count = n - 1;
    p->stop.stop = RUN_CANCELLED_AND_UNDONE;
    p->stop.why = S(MAP_HAS_FAILED);
}

/* The rest of the items is stopped, and waited for. */
static void plan_map_stop(struct step_view *x, const struct tasks *rows, struct plan *p)
{
    size_t n = 0, run_count = 0;
    struct uuid *open = arena_array(&p->arena, struct uuid, rows->n + 1);
    struct uuid *runs = arena_array(&p->arena, struct uuid, rows->n + 1);
    bool waits = false;
    for (size_t i = 0; open && runs && i < rows->n; i++) {
        const struct task *t = &rows->v[i];
        if (place_item(t->place) < 0 || place_kind(t->place) != PLACE_KIND_STEP || task_is_final(t->state))
            continue;
        waits = waits || t->state != TASK_RUNNING;
        open[n++] = t->id;
        if (t->links & TASK_OPEN && t->links & TASK_AGAIN)
            runs[run_count++] = t->id;
    }
    if (!waits && run_count) {
        plan_map_undo(runs, run_count, p);
        return;
    }
    if (waits) {
        p->kind = PLAN_STOP;
        p->stop.run = x->v->task.id;
        p->stop.stop = RUN_GOES_ON;
        p->stop.why = S(MAP_HAS_FAILED);
        p->stop.has_range = true;
        p->stop.from = place_of_item(place_step(p->task->place), 0);
        p->stop.to = place_of_item(place_step(p->task->place), DAG_ITEMS_MAX);
        return;
    }
    open_begin(x->v, p);
    p->open.also = open;
    p->open.also_count = n;
}

static void plan_map_end(struct step_view *x, const struct map_count *c, struct plan *p)
{
    char text[160];
    if ((int64_t)c->failed <= x->s->map.max_failures) {
        plan_end(p, &(struct outcome){ .kind = OUTCOME_OK, .started_us = plan_started_us(p) });
        return;
    }
    int n = snprintf(text, sizeof text, "%zu of %zu item%s failed, %zu w%s cancelled; max_failures is %lld",
                     c->failed - c->cancelled, c->rows, c->rows == 1 ? "" : "s", c->cancelled,
                     c->cancelled == 1 ? "as" : "ere", (long long)x->s->map.max_failures);
    plan_fail_text(p, FAILURE_INTERNAL, (struct str){ text, (size_t)n });
    p->outcome.by_step = true;
}

static enum err plan_map_open(struct step_view *x, const struct map_count *c, struct plan *p, struct error *e)
{
    struct str items;
    size_t n;
    if (step_data_items(&x->data, &x->references, &p->arena, &items, &n, e))
        return step_fails(x, e);
    if (n == c->done) {
        plan_map_end(x, c, p);
        return ERR_OK;
    }
    bool again = !(p->task->links & TASK_OPENED) && c->rows;
    return open_item_rows(x->v, place_step(p->task->place), items, n, again ? c->is_done : NULL, p, e);
}

static enum err plan_map(struct step_view *x, struct plan *p, struct error *e)
{
    struct tasks rows;
    struct map_count c;
    if (run_view_tasks_of(x->v, place_step(p->task->place), &rows, e) || map_count_items(x, &rows, &c, p, e))
        return e->code;
    if (!(p->task->links & TASK_OPENED))
        return plan_map_open(x, &c, p, e);
    struct str items;
    size_t n;
    if (step_data_items(&x->data, &x->references, &p->arena, &items, &n, e))
        return step_fails(x, e);
    /* Its opening was cut off, or the answer to the last page was lost: then the store says that it is open. */
    bool is_opening = c.open && !(p->task->links & TASK_BROKEN);
    if (c.rows < n || c.to_replace || is_opening)
        return open_item_rows(x->v, place_step(p->task->place), items, n, c.old ? c.is_done : NULL, p, e);
    if (c.open)
        plan_map_stop(x, &rows, p);
    else
        plan_map_end(x, &c, p);
    return ERR_OK;
}

/* ---- awaits ---- */

/* The API key that is the sender. False: it is a name that an application gave. */
static bool await_key(struct step_view *x, struct str sender, struct plan *p, struct api_key *ret)
{
    struct error ignored;
    bool known = reader_key(x->v->c->reader, sender, &p->arena, ret, &ignored) == ERR_OK;
    return known && ret->tenant == p->task->tenant;
}

/* "key" says that the key itself has sent it: names of keys may be equal, and an application may have users of the
 * same names. */
static void await_write_sender(struct step_view *x, struct jw *w, struct str sender, struct plan *p)
{
    struct api_key key;
    bool is_key = await_key(x, sender, p, &key);
    jw_kv_str(w, "by", is_key && key.name.n ? key.name : sender);
    if (is_key)
        jw_kv_str(w, "key", key.id);
}

static enum err await_output(struct step_view *x, const struct signal_rows *signals, struct plan *p, struct str *ret,
                             struct error *e)
{
    cleanup_with(buf_release) struct buf out;
    struct jw w;
    buf_init(&out, 2 * SIGNAL_BYTES_MAX + SIGNALS_MAX * 512);
    jw_init(&w, &out);
    jw_array(&w);
    for (size_t i = 0; i < signals->n; i++) {
        const struct signal_row *s = &signals->v[i];
        jw_object(&w);
        await_write_sender(x, &w, s->sender, p);
        jw_kv_time(&w, "at", s->time_ms);
        jw_kv_cstr(&w, "decision", s->rejects ? "REJECT" : "APPROVE");
        if (s->payload.n) {
            jw_key(&w, "payload");
            jw_raw(&w, s->payload);
        }
        jw_object_end(&w);
    }
    jw_array_end(&w);
    return !out.full && arena_str(&p->arena, buf_str(&out), ret) ? ERR_OK : error_no_room(e);
}

static void plan_rejected(struct step_view *x, const struct signal_rows *signals, struct plan *p)
{
    char text[SIGNAL_SENDER_MAX + 256];
    for (size_t i = 0; i < signals->n; i++) {
        struct api_key key;
        if (!signals->v[i].rejects)
            continue;
        bool named = await_key(x, signals->v[i].sender, p, &key) && key.name.n;
        struct str by = str_utf8_cut(named ? key.name : signals->v[i].sender, SIGNAL_SENDER_MAX);
        int n = snprintf(text, sizeof text, "rejected by " STR_FMT "%s" STR_FMT "%s", STR_ARG(by),
                         named ? " (key " : "", STR_ARG(named ? str_utf8_cut(key.id, 128) : S("")), named ? ")" : "");
        plan_fail_text(p, FAILURE_REFUSED, (struct str){ text, (size_t)n });
        return;
    }
}

static void plan_timed_out(struct step_view *x, size_t received, struct plan *p)
{
    char text[200];
    if (x->s->await.has_on_timeout) {
        plan_end(p, &(struct outcome){ .kind = OUTCOME_OK,
                                       .output = step_data_on_timeout(&x->data, &p->arena),
                                       .started_us = plan_started_us(p) });
        return;
    }
    int n = snprintf(text, sizeof text, "timed out: %zu of %lld signals '" STR_FMT "' came in time", received,
                     (long long)x->s->await.approvals, STR_ARG(x->s->await.signal));
    plan_fail_text(p, FAILURE_REFUSED, (struct str){ text, (size_t)n });
}

/* Only signals that came in time: another step may have taken later ones. */
static void await_keep_timely(struct signal_rows *signals, const struct task *t, int64_t timeout_ms)
{
    size_t n = 0;
    for (size_t i = 0; i < signals->n; i++)
        if (!await_is_over(t, timeout_ms, signals->v[i].time_ms))
            signals->v[n++] = signals->v[i];
    signals->n = n;
}

static enum err plan_await(struct step_view *x, struct plan *p, struct error *e)
{
    const struct dag_await *w = &x->s->await;
    struct signal_rows signals;
    struct str output;
    if (reader_signals(x->v->c->reader, x->v->task.id, w->signal, &p->arena, &signals, e))
        return e->code;
    size_t seen = signals.n;
    await_keep_timely(&signals, p->task, w->timeout_ms);
    bool *rejects = arena_array(&p->arena, bool, signals.n + 1);
    if (!rejects)
        return error_no_room(e);
    for (size_t i = 0; i < signals.n; i++)
        rejects[i] = signals.v[i].rejects;
    enum flow_outcome o = flow_await(w->approvals, rejects, signals.n);
    if (o == FLOW_FAILED) {
        plan_rejected(x, &signals, p);
    } else if (o == FLOW_COMPLETED) {
        if (await_output(x, &signals, p, &output, e))
            return e->code;
        int64_t started_ms = p->task->started_ms ? p->task->started_ms : p->now_ms;
        plan_end(p, &(struct outcome){ .kind = OUTCOME_OK, .output = output, .started_us = started_ms * 1000 });
    } else if (w->timeout_ms && !x->v->row.paused && p->task->started_ms &&
               p->now_ms >=
                   p->task->started_ms + w->timeout_ms) { /* a pause since its claim stops the time: OP_AWAIT */
        plan_timed_out(x, signals.n - signal_rejections(&signals), p);
    } else {
        p->kind = PLAN_AWAIT;
        p->await.signal = w->signal;
        p->await.seen = seen;
        p->await.timeout_ms = w->timeout_ms;
        return arena_str(&p->arena, w->signal, &p->await.signal) ? ERR_OK : error_no_room(e);
    }
    return ERR_OK;
}

/* ---- deadlines ---- */

/* It may have been claimed a moment before it is due. If all steps are over by then, the run is about to end, unless it
 * waits for its next attempt; if it is being undone, it has ended, and the deadline is none of the compensation's. */
static enum err plan_deadline(struct run_view *v, struct plan *p, struct error *e)
{
    struct run_progress g = { 0 };
    if (run_view_task(v, e))
        return e->code;
    bool over = task_is_final(v->task.state) || v->row.stop != RUN_GOES_ON;
    if (!over && run_progress_read(v, &g, e))
        return e->code;
    bool waits = v->task.links & TASK_AGAIN && run_awaits_attempt(&v->task);
    if (over || g.has_undo || (!g.open_count && !g.missing && !waits)) {
        plan_end(p, &(struct outcome){ .kind = OUTCOME_OK, .started_us = p->now_ms * 1000 });
        return ERR_OK;
    }
    p->kind = PLAN_STOP;
    p->stop.run = v->task.id;
    p->stop.stop = RUN_AT_DEADLINE;
    p->stop.why = run_stop_reason(RUN_AT_DEADLINE);
    return ERR_OK;
}

/* ---- steps ---- */

/* The condition of a map is the step's own, not its items'. */
static enum err plan_skips(struct step_view *x, struct plan *p, bool *ret, struct error *e)
{
    bool holds = true;
    *ret = false;
    if (!x->s->has_when || place_item(p->task->place) >= 0 || place_kind(p->task->place) != PLACE_KIND_STEP ||
        p->task->links & (TASK_OPENED | TASK_AWAITS | TASK_BY_HAND))
        return ERR_OK;
    if (step_data_when(&x->data, &x->references, &holds, e))
        return step_fails(x, e);
    *ret = !holds;
    if (!holds)
        plan_end(p, &(struct outcome){ .kind = OUTCOME_SKIPPED, .error = S("skipped: its condition does not hold") });
    return ERR_OK;
}

/* Its delay counts from its release, which is its scheduled time. A user who starts it by hand does not wait. */
static bool plan_is_delayed(struct step_view *x, struct plan *p)
{
    int64_t left_ms = p->task->scheduled_ms + x->s->delay_ms - p->now_ms;
    if (!x->s->delay_ms || !x->s->in.n || place_kind(p->task->place) != PLACE_KIND_STEP ||
        place_item(p->task->place) >= 0 || p->task->attempts || p->task->started_ms || left_ms <= 0 ||
        p->task->links & TASK_BY_HAND)
        return false;
    plan_end(p, &(struct outcome){ .kind = OUTCOME_RETURNED, .retry_after_ms = left_ms });
    return true;
}

static enum err plan_one_step(struct step_view *x, struct plan *p, struct error *e)
{
    bool is_item = place_item(p->task->place) >= 0, skips;
    if (plan_is_delayed(x, p))
        return ERR_OK;
    if (plan_skips(x, p, &skips, e))
        return e->code;
    if (skips)
        return ERR_OK;
    if (place_kind(p->task->place) == PLACE_KIND_STEP && x->s->map.is_set && !is_item)
        return plan_map(x, p, e);
    if (place_kind(p->task->place) == PLACE_KIND_STEP && x->s->await.signal.n)
        return plan_await(x, p, e);
    return plan_call(x, p, e);
}

enum err plan_step(struct run_view *v, struct plan *p, struct error *e)
{
    const struct task *t = p->task;
    if (place_kind(t->place) == PLACE_KIND_DEADLINE)
        return plan_deadline(v, p, e);
    if (v->row.stop != RUN_GOES_ON && place_kind(t->place) != PLACE_KIND_UNDO) {
        plan_cancel(p, run_stop_reason(v->row.stop));
        return ERR_OK;
    }
    struct step_view x = { .v = v, .s = &v->dag->steps[place_step(t->place)], .run = { v, t } };
    x.references = run_data_references(&x.run);
    if (step_data_read(x.s, &x.data, e))
        return e->code;
    enum err rc = plan_one_step(&x, p, e);
    step_data_release(&x.data);
    return rc;
}

/* ---- for people ---- */

static enum err call_resolve(struct run_view *v, const struct task *t, struct step_target *ret, struct error *e)
{
    struct step_view x = { .v = v, .s = &v->dag->steps[place_step(t->place)], .run = { v, t } };
    enum step_part part = place_kind(t->place) == PLACE_KIND_UNDO ? STEP_COMPENSATION : STEP_ITSELF;
    x.references = run_data_references(&x.run);
    if (step_data_read(x.s, &x.data, e))
        return e->code;
    enum err rc = step_data_target(&x.data, part, &x.references, v->a, ret, e);
    step_data_release(&x.data);
    return rc;
}

enum err workflow_call(const struct planner_context *c, const struct task *t, struct arena *a, struct str *ret_config,
                       struct str *ret_payload, struct error *e)
{
    struct run_view v;
    struct step_target target = { 0 };
    enum err rc = run_view_read(&v, c, t->tenant, t->run, a, e);
    if (rc == ERR_OK)
        rc = v.has_row ? call_resolve(&v, t, &target, e) : error_set(e, ERR_NOT_FOUND, "the run is gone");
    run_view_release(&v);
    *ret_config = target.config;
    *ret_payload = target.payload;
    return rc;
}
