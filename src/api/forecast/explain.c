/* What will happen to a task, and what holds it. What its row alone says is answered here. Only the node knows the
 * gates of a task that waits for its start, so the node is asked; it answers on a thread of its own. Of a recurring
 * task the next occurrence is explained. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "api/forecast/explain_shared.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/task/json.h"
#include "api/workflow/waits.h"
#include "base/rfc3339.h"
#include "core/task/pause.h"

#define STOPPED_RUN       "it is being stopped, and no step starts; "
#define PAUSED_STEPS      "steps that run finish, and no other starts"
#define EXPLAIN_RESUME_IT "a person must resume it"
#define EXPLAIN_THEY_END  "nobody knows when they end"
enum { BEGUN_ARENA = 64 << 20 };

/* ---- the answer ---- */

static void explain_write_gates(struct jw *w, const struct explanation *x)
{
    jw_key(w, "gates");
    jw_array(w);
    for (size_t i = 0; i < x->n; i++) {
        jw_object(w);
        jw_kv_cstr(w, "gate", explain_gate_name(x->steps[i].gate));
        jw_kv_cstr(w, "explanation", x->steps[i].text);
        jw_kv_time_or_null(w, "until", x->steps[i].until_ms);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static bool explain_has_gate(const struct explanation *x, enum explain_gate gate)
{
    for (size_t i = 0; i < x->n; i++)
        if (x->steps[i].gate == gate)
            return true;
    return false;
}

/* The holders of the slot that it waits for. */
static void explain_write_holders(struct jw *w, const struct explain_facts *facts, const struct explain_names *names,
                                  const struct explanation *x)
{
    for (size_t i = 0; facts && i < facts->slot_count; i++) {
        const struct explain_slot *s = &facts->slots[i];
        bool holds = explain_has_gate(x, s->need.kind == SLOT_OVERLAP ? EXPLAIN_OVERLAP : EXPLAIN_CONCURRENCY_KEY);
        if (!holds)
            continue;
        jw_key(w, "holders");
        jw_array(w);
        for (size_t k = 0; k < min_of(s->holders.n, (size_t)EXPLAIN_HOLDERS_SHOWN); k++) {
            jw_object(w);
            jw_kv_uuid(w, "task_id", s->holders.v[k].task);
            if (names->holders[i][k].n)
                jw_kv_str(w, "name", names->holders[i][k]);
            jw_kv_cstr(w, "status", task_state_name(s->holders.v[k].state));
            jw_kv_time(w, "scheduled_for", s->holders.v[k].scheduled_ms);
            jw_object_end(w);
        }
        jw_array_end(w);
        return;
    }
}

static void explain_write_place(struct jw *w, const struct task *t, const struct run_place *p)
{
    if (!p->is_run && !p->is_step)
        return;
    jw_kv_uuid(w, "run", p->run);
    jw_kv_str_or_null(w, "run_name", p->run_name);
    if (p->is_step)
        run_write_place(w, t, p->step);
}

/* "step 'ship' of the run 'order 7': it waits for …" */
static void explain_write_sentence(struct jw *w, const struct run_place *p, const char *text)
{
    cleanup_with(buf_release) struct buf all;
    buf_init(&all, 2 * EXPLAIN_SENTENCE);
    buf_add(&all, p->subject);
    buf_text(&all, p->subject.n ? ": " : "");
    buf_text(&all, text);
    jw_kv_str(w, "explanation", buf_str(&all));
}

/* What the deadline of its run does to it, whatever holds it. Not told of a task that starts before. */
static void explain_add_deadline(const struct explain_names *names, struct explanation *x)
{
    bool is_known = x->outcome == EXPLAIN_WILL_RUN && x->estimate_ms < names->deadline_ms;
    size_t n = strlen(x->text);
    char when[RFC3339_TEXT + 1], text[RFC3339_TEXT + 120];
    if (!names->deadline_ms || is_known || x->outcome == EXPLAIN_WILL_ENDED)
        return;
    rfc3339_format(names->deadline_ms, when);
    snprintf(text, sizeof text,
             names->place.is_run ? "its deadline is %s: if it is not over then%s, it is stopped and FAILED"
                                 : "the deadline of its run is %s: if it is not over then%s, it is cancelled",
             when, x->gate == EXPLAIN_PAUSED ? ", also if it is still paused" : "");
    if (x->n)
        explain_add(x, EXPLAIN_DEADLINE, names->deadline_ms, "%s", text);
    text[0] = (char)(text[0] - 'a' + 'A');
    snprintf(x->text + n, sizeof x->text - n, ". %s", text);
}

enum handled explain_respond(struct request *q, const struct task *t, const struct explain_facts *facts,
                             const struct explanation *told)
{
    const struct explain_names *names = q->context;
    struct explanation with_deadline = *told;
    const struct explanation *x = &with_deadline;
    explain_add_deadline(names, &with_deadline);
    struct jw w = respond_json(&q->response, 200);
    enum task_state state = x->waits && t->kind != TASK_RECURRING ? TASK_SCHEDULED : task_shown_state(t, q->now_ms);
    jw_object(&w);
    jw_kv_uuid(&w, "task_id", t->id);
    explain_write_place(&w, t, &names->place);
    jw_kv_cstr(&w, "status", task_state_name(state));
    jw_kv_cstr(&w, "gate", explain_gate_name(x->gate));
    explain_write_sentence(&w, &names->place, x->text);
    jw_kv_cstr(&w, "outcome", explain_outcome_name(x->outcome));
    jw_kv_time_or_null(&w, "estimate", x->estimate_ms);
    jw_key(&w, "position");
    if (x->position >= 0)
        jw_i64(&w, x->position);
    else
        jw_null(&w);
    explain_write_gates(&w, x);
    explain_write_holders(&w, facts, names, x);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* ---- other tasks ---- */

enum { PARENTS_SHOWN = 5, NAME_SHOWN = 120 };

static void explain_add_parent(struct buf *b, const struct linked_task *p, int64_t now_ms)
{
    struct task t = { .state = p->state, .due_ms = p->due_ms };
    enum task_state shown = task_shown_state(&t, now_ms);
    char id[UUID_TEXT + 1], when[RFC3339_TEXT + 1];
    uuid_format(p->id, id);
    buf_text(b, id);
    if (p->exists && p->name.n)
        buf_printf(b, " '" STR_FMT "'", STR_ARG(str_utf8_cut(p->name, NAME_SHOWN)));
    buf_printf(b, " (%s", p->exists ? task_state_name(shown) : "removed");
    if (p->exists && shown == TASK_SCHEDULED) {
        rfc3339_format(p->due_ms, when);
        buf_printf(b, " for %s", when);
    }
    buf_text(b, ")");
}

__attribute__((format(printf, 5, 6))) static void explain_hold(struct explain_holds *holds, enum explain_gate gate,
                                                               int64_t until_ms, const char *why, const char *fmt, ...)
{
    assert(holds->n < EXPLAIN_HOLDS_MAX);
    struct explain_hold *h = &holds->v[holds->n++];
    va_list args;
    h->gate = gate;
    h->until_ms = until_ms;
    h->why = why;
    va_start(args, fmt);
    vsnprintf(h->text, sizeof h->text, fmt, args);
    va_end(args);
}

/* "it waits for 2 of 3 tasks: ID 'load' (RUNNING), ID (SCHEDULED for …)" */
static enum err explain_hold_by_tasks(struct request *q, struct reader *r, const struct task *t,
                                      struct explain_holds *holds, struct error *e)
{
    struct task_links l;
    if (reader_links(r, q->who.tenant, t->id, &q->arena, &l, e))
        return e->code;
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, EXPLAIN_NOTE_MAX);
    uint32_t open = l.expected - l.counts.arrived;
    size_t shown = 0;
    for (size_t i = 0; i < l.parent_count && shown < PARENTS_SHOWN; i++) {
        if (l.parents[i].edge != EDGE_OPEN)
            continue;
        buf_text(&text, shown++ ? ", " : ": ");
        explain_add_parent(&text, &l.parents[i], q->now_ms);
    }
    if (open > shown)
        buf_printf(&text, " and %zu more", open - shown);
    explain_hold(holds, EXPLAIN_DEPENDENCY, 0, EXPLAIN_THEY_END, "it waits for %u of %u task%s%s", open, l.expected,
                 l.expected == 1 ? "" : "s", buf_cstr(&text));
    return ERR_OK;
}

/* A step waits for those before it. */
static enum err explain_hold_by_steps(struct request *q, struct reader *r, const struct task *t,
                                      struct explain_holds *holds, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, EXPLAIN_NOTE_MAX);
    if (run_write_waits(q, r, t, &text, e))
        return e->code;
    explain_hold(holds, EXPLAIN_DEPENDENCY, 0, EXPLAIN_THEY_END, "it waits for %s", buf_cstr(&text));
    return ERR_OK;
}

/* ---- pauses ---- */

/* "it is paused since TIME by KEY: REASON, until TIME" */
static void explain_write_pause(struct buf *out, const char *subject, const struct pause *p)
{
    char since[RFC3339_TEXT + 1], until[RFC3339_TEXT + 1];
    rfc3339_format(p->since_ms, since);
    rfc3339_format(p->until_ms, until);
    buf_printf(out, "%s is paused since %s%s" STR_FMT "%s" STR_FMT "%s%s", subject, since, p->by.n ? " by " : "",
               STR_ARG(str_utf8_cut(p->by, 80)), p->reason.n ? ": " : "", STR_ARG(str_utf8_cut(p->reason, 300)),
               p->until_ms ? ", until " : "", p->until_ms ? until : "");
}

/* The pause of a run, or of the run around it with which it was paused. *ret_run: whose it is, or, if no pause is
 * known, the outermost run: that one is resumed. */
static enum err explain_find_pause(struct request *q, struct reader *r, struct task at, struct uuid *ret_run,
                                   struct pause *ret, bool *ret_known, struct error *e)
{
    struct record ignored;
    for (*ret_known = false;;) {
        *ret_run = at.id;
        if (run_pause_read(q, r, &at, &ignored, ret, ret_known, e))
            return e->code;
        if (*ret_known || uuid_is_nil(at.run))
            return ERR_OK;
        enum err rc = reader_get(r, at.tenant, at.run, &q->arena, &at, e);
        if (rc)
            return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    }
}

/* A run that a user has paused, or one that is being stopped. */
struct explain_stop {
    bool is_paused, stops;
    int64_t until_ms;            /* of the pause; 0: not known */
    char text[EXPLAIN_NOTE_MAX]; /* of the pause */
    char what[UUID_TEXT + 16];   /* is to be resumed: "it", "the run ID" */
};

static enum err explain_run_pause(struct request *q, struct reader *r, const struct task *t, struct explain_stop *ret,
                                  struct error *e)
{
    struct pause p;
    struct uuid run;
    bool known;
    char id[UUID_TEXT + 1];
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, sizeof ret->text);
    if (explain_find_pause(q, r, *t, &run, &p, &known, e))
        return e->code;
    bool is_own = uuid_eq(run, t->id);
    uuid_format(run, id);
    const char *subject = is_own ? "it" : "the run around it";
    if (known)
        explain_write_pause(&text, subject, &p);
    else
        buf_printf(&text, "%s is paused", subject);
    ret->until_ms = known ? p.until_ms : 0;
    snprintf(ret->text, sizeof ret->text, "%s", buf_cstr(&text));
    snprintf(ret->what, sizeof ret->what, "%s%s", is_own ? "it" : "the run ", is_own ? "" : id);
    return ERR_OK;
}

/* Of a run that is being stopped, only what it undoes waits for the resume. */
static enum err explain_run_stop(struct request *q, struct reader *r, const struct task *t, struct explain_stop *ret,
                                 struct error *e)
{
    struct run_row row = { 0 };
    bool undoing = false;
    *ret = (struct explain_stop){ 0 };
    enum err rc = t->links & TASK_OPENED ? reader_run(r, t->tenant, t->id, &q->arena, &row, e) : ERR_NOT_FOUND;
    if ((rc && rc != ERR_NOT_FOUND) || (row.stop != RUN_GOES_ON && run_is_undoing(q, r, t, &undoing, e)))
        return e->code;
    ret->stops = row.stop != RUN_GOES_ON && !undoing;
    ret->is_paused = row.paused && !ret->stops;
    return ret->is_paused ? explain_run_pause(q, r, t, ret, e) : ERR_OK;
}

/* A run that has started waits for its steps, a map for its items. */
static enum handled explain_workflow(struct request *q, struct reader *r, const struct task *t)
{
    struct error e = { 0 };
    struct explanation x = { .position = -1 };
    struct explain_stop stop;
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, EXPLAIN_NOTE_MAX);
    if (explain_run_stop(q, r, t, &stop, &e) || run_write_waits(q, r, t, &text, &e))
        return request_fail(q, &e);
    const char *resume = stop.until_ms ? "" : "; resume ", *what = stop.until_ms ? "" : stop.what;
    bool by_hand = stop.is_paused && !stop.until_ms;
    if (stop.is_paused)
        explain_add(&x, EXPLAIN_PAUSED, stop.until_ms, "%s; " PAUSED_STEPS "%s%s", stop.text, resume, what);
    explain_add(&x, EXPLAIN_DEPENDENCY, 0, "%sit waits for %s", stop.stops ? STOPPED_RUN : "", buf_cstr(&text));
    explain_held_by_others(by_hand ? EXPLAIN_RESUME_IT : EXPLAIN_THEY_END, &x);
    if (stop.is_paused)
        explain_state(&x, EXPLAIN_PAUSED, "%s; " PAUSED_STEPS "%s%s. Then it waits for %s", stop.text, resume, what,
                      buf_cstr(&text));
    else
        explain_state(&x, EXPLAIN_DEPENDENCY, "%sit waits for %s", stop.stops ? STOPPED_RUN : "", buf_cstr(&text));
    return explain_respond(q, t, NULL, &x);
}

/* A run between its attempts. The pause holds the steps of the next one, not its time. */
static enum err explain_hold_attempt(struct request *q, struct reader *r, const struct task *t,
                                     struct explain_holds *holds, struct error *e)
{
    char when[RFC3339_TEXT + 1];
    struct explain_stop stop;
    if (explain_run_stop(q, r, t, &stop, e))
        return e->code;
    if (!stop.is_paused)
        return ERR_OK;
    rfc3339_format(t->due_ms, when);
    explain_hold(holds, EXPLAIN_PAUSED, stop.until_ms, stop.until_ms ? NULL : EXPLAIN_RESUME_IT,
                 "%s; its next attempt is due at %s, and no step starts before %s%s", stop.text, when,
                 stop.until_ms ? "the end of the pause" : "you resume ", stop.until_ms ? "" : stop.what);
    return ERR_OK;
}

/* It starts nothing, so no other gate is ahead of it. `holds`: its pause, if it is paused. */
static enum handled explain_signal(struct request *q, const struct task *t, const struct run_place *p,
                                   const struct explain_holds *holds)
{
    struct explanation x = { .position = -1 };
    char when[RFC3339_TEXT + 1];
    bool times_out = t->state == TASK_SCHEDULED, by_hand = holds->n && holds->v[0].why;
    rfc3339_format(t->due_ms, when);
    if (holds->n)
        explain_add(&x, holds->v[0].gate, holds->v[0].until_ms, "%s", holds->v[0].text);
    explain_add(&x, EXPLAIN_SIGNAL, times_out ? t->due_ms : 0,
                "it awaits the signal '" STR_FMT "', and %lld of %lld approvals have come%s%s", STR_ARG(p->signal),
                (long long)p->received, (long long)p->approvals, times_out ? "; it times out at " : "",
                times_out ? when : "");
    explain_held_by_others(by_hand ? EXPLAIN_RESUME_IT : "a person or a program must send it", &x);
    return explain_respond(q, t, NULL, &x);
}

/* ---- reasons in the row ---- */

/* A run that has begun is RUNNING, or waits for its next attempt. */
static bool explain_goes_on(const struct task *run, int64_t now_ms)
{
    return task_has_fired(run) || task_shown_state(run, now_ms) == TASK_RUNNING;
}

/* Neither the pause of a recurring task nor its end takes the runs that have begun. If not all can be looked at, there
 * may be more. */
static enum err explain_count_begun(struct request *q, struct reader *r, const struct task *t, struct error *e)
{
    struct explain_names *names = q->context;
    struct task_filter f = { .tenant = t->tenant,
                             .parent = t->id,
                             .states = 1u << TASK_RUNNING | 1u << TASK_SCHEDULED | 1u << TASK_BLOCKED,
                             .shown_at_ms = q->now_ms,
                             .limit = LIST_MAX,
                             .brief = true };
    struct task_page page = { 0 };
    size_t n = 0;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, BEGUN_ARENA);
    if (t->kind != TASK_RECURRING || (t->state != TASK_PAUSED && !task_is_final(t->state)))
        return ERR_OK;
    enum err rc = reader_list(r, &f, &a, &page, e);
    if (rc && rc != ERR_LIMIT)
        return rc;
    for (size_t i = 0; i < page.tasks.n; i++)
        n += explain_goes_on(&page.tasks.v[i], q->now_ms);
    if (n > 0)
        snprintf(names->begun, sizeof names->begun, "; %zu%s run%s of it go%s on", n, page.more || rc ? " or more" : "",
                 n == 1 ? "" : "s", n == 1 ? "es" : "");
    return ERR_OK;
}

static enum handled explain_final(struct request *q, const struct task *t)
{
    struct explanation x = { .outcome = EXPLAIN_WILL_ENDED, .estimate_ms = t->completed_ms, .position = -1 };
    const struct explain_names *names = q->context;
    struct str error = names->place.error.n ? names->place.error : t->last_error;
    char when[RFC3339_TEXT + 1];
    rfc3339_format(t->completed_ms, when);
    explain_state(&x, EXPLAIN_FINAL, "it ended at %s%s" STR_FMT "%s", when, error.n ? ": " : "",
                  STR_ARG(str_utf8_cut(error, 300)), names->begun);
    return explain_respond(q, t, NULL, &x);
}

/* A step is paused with its run, or with a run around that. *ret_until_ms: the end of that pause; 0: it has none. */
static enum err explain_read_run_pause(struct request *q, struct reader *r, const struct task *step,
                                       int64_t *ret_until_ms, struct error *e)
{
    struct task run;
    struct uuid ignored;
    struct pause p;
    bool known;
    *ret_until_ms = 0;
    enum err rc = reader_get(r, step->tenant, step->run, &q->arena, &run, e);
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc || explain_find_pause(q, r, run, &ignored, &p, &known, e))
        return e->code;
    *ret_until_ms = known ? p.until_ms : 0;
    return ERR_OK;
}

static enum err explain_hold_with_run(struct request *q, struct reader *r, const struct task *t,
                                      struct explain_holds *holds, struct error *e)
{
    const struct explain_names *names = q->context;
    int64_t until_ms = 0;
    char until[RFC3339_TEXT + 1];
    if (names->place.is_step && explain_read_run_pause(q, r, t, &until_ms, e))
        return e->code;
    rfc3339_format(until_ms, until);
    if (until_ms)
        explain_hold(holds, EXPLAIN_PAUSED, until_ms, NULL, "its run is paused, until %s", until);
    else
        explain_hold(holds, EXPLAIN_PAUSED, 0, EXPLAIN_RESUME_IT, "%s%s",
                     names->place.is_step ? "its run is paused; resume the run" : "it is paused; resume it",
                     names->begun);
    return ERR_OK;
}

/* A pause that has an end, which has come, is about to be ended. */
static enum err explain_hold_paused(struct request *q, struct reader *r, const struct task *t,
                                    struct explain_holds *holds, struct error *e)
{
    const struct explain_names *names = q->context;
    struct pause p;
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, EXPLAIN_NOTE_MAX);
    if (!task_pause(t, &q->arena, &p))
        return explain_hold_with_run(q, r, t, holds, e);
    explain_write_pause(&text, "it", &p);
    explain_hold(holds, EXPLAIN_PAUSED, p.until_ms, p.until_ms ? NULL : EXPLAIN_RESUME_IT, "%s%s%s", buf_cstr(&text),
                 p.until_ms ? "" : "; resume it", names->begun);
    return ERR_OK;
}

/* What the task itself waits for, before any gate that the node knows. */
static enum err explain_read_holds(struct request *q, struct reader *r, const struct task *t,
                                   struct explain_holds *holds, struct error *e)
{
    const struct explain_names *names = q->context;
    if (t->state == TASK_PAUSED && explain_hold_paused(q, r, t, holds, e))
        return e->code;
    if (t->state != TASK_PAUSED && task_awaits_attempt(t, q->now_ms))
        return explain_hold_attempt(q, r, t, holds, e);
    if (!(t->links & TASK_WAITS) || t->links & TASK_AWAITS)
        return ERR_OK;
    return names->place.is_step ? explain_hold_by_steps(q, r, t, holds, e) : explain_hold_by_tasks(q, r, t, holds, e);
}

/* ---- gates that the node knows ---- */

struct explain_query *explain_query_new(struct request *q, const struct task *t)
{
    struct explain_query *query = arena_new(&q->arena, struct explain_query);
    assert(query); /* there is room for a small object */
    query->q = q;
    query->task = query->row = *t;
    query->answer.task = &query->task;
    query->answer.facts = &query->facts;
    return query;
}

/* Reads the names of the tasks that hold its slots. */
static void explain_read_holders(struct request *q, struct reader *r, const struct explain_facts *f)
{
    struct explain_names *names = q->context;
    for (size_t i = 0; i < f->slot_count; i++) {
        for (size_t k = 0; k < min_of(f->slots[i].holders.n, (size_t)EXPLAIN_HOLDERS_SHOWN); k++) {
            struct task t;
            struct run_place p;
            struct error ignored;
            if (reader_get(r, q->who.tenant, f->slots[i].holders.v[k].task, &q->arena, &t, &ignored) == ERR_OK &&
                run_place_read(q, r, &t, &p, &ignored) == ERR_OK)
                names->holders[i][k] = p.subject.n ? p.subject : t.name;
        }
    }
}

static void explain_replace(char *text, size_t size, size_t from, size_t n, struct str by)
{
    cleanup_with(buf_release) struct buf all;
    buf_init(&all, 2 * EXPLAIN_SENTENCE);
    buf_add(&all, (struct str){ text, from });
    buf_add(&all, by);
    buf_text(&all, text + from + n);
    snprintf(text, size, STR_FMT, STR_ARG(str_utf8_cut(buf_str(&all), size - 1)));
}

/* Ids of holders become names, and the key that only the items of one map have becomes that map. */
static void explain_name_in(const struct request *q, const struct explain_facts *f, char *text, size_t size)
{
    static const char key[] = "the concurrency key 'map:";
    const struct explain_names *names = q->context;
    char id[UUID_TEXT + 1], map[64];
    for (size_t i = 0; i < f->slot_count; i++) {
        struct str name = f->slots[i].holders.n ? names->holders[i][0] : S("");
        if (!name.n)
            continue;
        uuid_format(f->slots[i].holders.v[0].task, id);
        const char *at = strstr(text, id);
        if (at)
            explain_replace(text, size, (size_t)(at - text), UUID_TEXT, name);
    }
    const char *at = names->place.max_concurrent ? strstr(text, key) : NULL;
    const char *end = at ? strchr(at + sizeof key - 1, '\'') : NULL;
    int n = snprintf(map, sizeof map, "its map, which runs %lld at once", (long long)names->place.max_concurrent);
    if (end)
        explain_replace(text, size, (size_t)(at - text), (size_t)(end + 1 - at), (struct str){ map, (size_t)n });
}

void explain_use_names(const struct request *q, const struct explain_facts *f, struct explanation *x)
{
    explain_name_in(q, f, x->text, sizeof x->text);
    for (size_t i = 0; i < x->n; i++)
        explain_name_in(q, f, x->steps[i].text, sizeof x->steps[i].text);
}

enum handled explain_ask_node(struct request *q, struct reader *r, struct explain_query *query,
                              void (*done)(struct explain_answer *answer))
{
    struct api_server *s = q->server;
    struct error e = { 0 };
    struct task counted =
        query->task; /* due when the node says so; among the tasks that wait only if it is stored so */
    counted.state = query->row.state;
    if (explain_read(r, s->setup.catalog, &counted, q->now_ms, &q->arena, &query->facts, &e)) {
        rule_base_release(&query->base);
        return request_fail(q, &e);
    }
    explain_read_holders(q, r, &query->facts);
    query->answer.done = done;
    if (s->setup.explain) {
        s->setup.explain(s->setup.context, &query->answer);
        return HANDLED_LATER;
    }
    query->answer.explanation = (struct explanation){ .outcome = EXPLAIN_WILL_RUN,
                                                      .position = -1,
                                                      .estimate_ms = max_of(query->task.due_ms, q->now_ms) };
    explain_state(&query->answer.explanation, query->holds.n ? query->holds.v[0].gate : EXPLAIN_NONE, "%s",
                  query->holds.n ? query->holds.v[0].text : "this server knows of nothing that holds it back");
    query->answer.done(&query->answer);
    return HANDLED_LATER;
}

static void explain_on_node_answer(struct explain_answer *a)
{
    struct explain_query *query = container_of(a, struct explain_query, answer);
    explain_use_names(query->q, &query->facts, &a->explanation);
    explain_respond(query->q, &query->row, &query->facts, &a->explanation);
    request_answer(query->q);
}

/* ---- tasks for outside workers ---- */

/* The worker that has the lease, its expiry and its progress. */
static enum handled explain_lease(struct request *q, struct reader *r, const struct task *t, const struct lease_row *l)
{
    struct run_row run;
    struct error ignored;
    bool stopped = !uuid_is_nil(t->run) && place_kind(t->place) != PLACE_KIND_UNDO &&
                   reader_run(r, t->tenant, t->run, &q->arena, &run, &ignored) == ERR_OK && run.stop != RUN_GOES_ON;
    struct explanation x = { .outcome = EXPLAIN_WILL_RUN, .position = -1 };
    char when[RFC3339_TEXT + 1];
    rfc3339_format(l->until_ms, when);
    explain_state(&x, EXPLAIN_LEASED, "the worker '" STR_FMT "' has it until %s%s%s" STR_FMT,
                  STR_ARG(str_utf8_cut(l->worker, 200)), when,
                  stopped       ? "; its run was stopped, and the worker was asked to end it"
                  : l->is_ended ? "; a cancel was requested, and the worker was asked to end it: it becomes CANCELLED "
                                  "when the worker gives it up, or when its lease expires"
                                : "",
                  l->progress.n ? "; its progress: " : "", STR_ARG(str_utf8_cut(l->progress, 200)));
    return explain_respond(q, t, NULL, &x);
}

static enum handled explain_worker(struct request *q, struct reader *r, const struct task *t)
{
    struct error e = { 0 };
    struct lease_row lease;
    enum err rc = reader_lease(r, q->who.tenant, t->id, &q->arena, &lease, &e);
    if (rc == ERR_OK)
        return explain_lease(q, r, t, &lease);
    if (rc != ERR_NOT_FOUND)
        return request_fail(q, &e);
    return explain_ask_node(q, r, explain_query_new(q, t), explain_on_node_answer);
}

/* ---- the question ---- */

/* The task itself, behind what it waits for. */
static enum handled explain_own(struct request *q, struct reader *r, const struct task *t,
                                const struct explain_holds *holds)
{
    struct explain_query *query = explain_query_new(q, t);
    if (holds->n) {
        query->holds = *holds;
        query->answer.holds = &query->holds;
        query->task = explain_behind(t, holds, q->now_ms);
    }
    return explain_ask_node(q, r, query, explain_on_node_answer);
}

enum handled tasks_explain(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct task t;
    struct explain_holds holds = { 0 };
    struct explain_names *names = arena_new(&q->arena, struct explain_names);
    assert(names); /* there is room for a small object */
    q->context = names;
    if (query_read(q->query, NULL, 0, NULL, &q->arena, &e) || request_get_task(q, r, &t, &e) ||
        run_place_read(q, r, &t, &names->place, &e) || explain_count_begun(q, r, &t, &e))
        return request_fail(q, &e);
    if (task_is_final(t.state))
        return explain_final(q, &t);
    if ((names->place.is_run || names->place.is_step) && run_deadline_read(q, r, &t, &names->deadline_ms, &e))
        return request_fail(q, &e);
    if (t.kind == TASK_RECURRING && t.state != TASK_PAUSED)
        return explain_recurring(q, r, &t);
    if (t.state != TASK_PAUSED && t.links & TASK_WAITS && t.links & (TASK_OPEN | TASK_OPENED))
        return explain_workflow(q, r, &t);
    if (explain_read_holds(q, r, &t, &holds, &e))
        return request_fail(q, &e);
    if (names->place.signal.n)
        return explain_signal(q, &t, &names->place, &holds);
    if (t.target == TARGET_WORKER && t.state == TASK_RUNNING)
        return explain_worker(q, r, &t);
    if (t.kind == TASK_RECURRING && task_paused_until_ms(&t))
        return explain_recurring_paused(q, r, &t, &holds);
    return explain_own(q, r, &t, &holds);
}
