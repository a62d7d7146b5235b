/* A visit walks from the cursor: first through the missed occurrences, then through those ahead. Both walks are
 * bounded. So a task that fires every second and was paused for a year is caught up in many short visits and does not
 * delay other tasks. */
#include "core/task/spawn.h"

#include <assert.h>
#include <stdio.h>

#include "base/rfc3339.h"
#include "core/task/fence.h"
#include "core/task/trace.h"

enum {
    CATCH_UP_MAX = 20000 /* in one visit */,
    WITHDRAWN_MS = 1000,
    SKIP_REASON_MAX = 240,
    MOVED_TEXT = 96,
    ROWS_MORE = 8
};

/* The state of a visit. */
struct spawn_visit {
    const struct task *task;
    const struct recurrence *rule;
    int64_t now_ms, until_ms;
    int64_t runs_left; /* by max_runs */
    struct arena *arena;
    struct spawn_plan *plan;
    const struct spawn_taken *taken;
    size_t taken_at;    /* the first span of it that is not before the walk */
    int64_t skipped_ms; /* the latest time that has a row of its own already, or that the rule itself left out: no row
                           reaches over it */
    bool full;          /* the arena is full */
};

/* Consecutive occurrences that are skipped together. */
struct spawn_skipped {
    int64_t first_ms, last_ms, count;
};

static const char *const skip_texts[] = {
#define X(id, text) [SKIP_##id] = text,
    SKIP_REASON_MAP(X)
#undef X
};

/* Users change a task only while a node runs: an occurrence before the latest change was put off by a pause. */
static bool spawn_was_paused(const struct spawn_visit *v, int64_t due_ms)
{
    return v->task->version > 1 && due_ms < v->task->updated_ms;
}

/* Changes of the task withdraw occurrences. So does OP_CATCH_UP, never sooner than WITHDRAWN_MS after their time. */
static bool spawn_is_again(const struct spawn_visit *v, int64_t due_ms)
{
    return v->task->version > 1 || due_ms < v->now_ms - WITHDRAWN_MS;
}

void spawn_inherit(struct task *occurrence, const struct task *recurring)
{
    occurrence->priority = recurring->priority;
    occurrence->queue = recurring->queue;
    occurrence->name = recurring->name;
    occurrence->task_type = recurring->task_type;
    occurrence->delivery = recurring->delivery;
    occurrence->timeout_ms = recurring->timeout_ms;
    occurrence->expires_after_ms = recurring->expires_after_ms;
    occurrence->concurrency_key = recurring->concurrency_key;
    occurrence->concurrency_limit = recurring->concurrency_limit;
    occurrence->retry = recurring->retry;
    occurrence->requires = recurring->requires;
    occurrence->cpu_milli = recurring->cpu_milli;
    occurrence->memory_mb = recurring->memory_mb;
    occurrence->target = recurring->target;
    occurrence->target_config = recurring->target_config;
    occurrence->payload = recurring->payload;
    occurrence->extra = recurring->extra;
}

static struct task *spawn_add(struct spawn_visit *v, int64_t scheduled_ms, int64_t due_ms, enum task_state state)
{
    const struct task *p = v->task;
    struct task *t = &v->plan->occurrences.v[v->plan->occurrences.n];
    struct task copy = {
        .id = occurrence_id(p->id, scheduled_ms),
        .tenant = p->tenant,
        .kind = TASK_OCCURRENCE,
        .state = state,
        .parent = p->id,
        .due_ms = max_of(due_ms, v->now_ms),
        .scheduled_ms = scheduled_ms,
        .version = 1,
        .fence = fence_begin(spawn_is_again(v, due_ms), v->now_ms),
        .overlap = p->schedule.overlap,
        .trace = trace_without_state(p->trace),
        .links = p->links & TASK_KEEPS_OUTPUT,
        .runs_count = state == TASK_SCHEDULED, /* subtracted from its task's count if it is withdrawn */
        .created_ms = v->now_ms,
        .updated_ms = v->now_ms,
    };
    *t = copy;
    spawn_inherit(t, p);
    if (t->due_ms != scheduled_ms) {
        t->awaited_ms = scheduled_ms;
        t->late_by = due_ms >= v->now_ms ? LATE_SPREAD : spawn_was_paused(v, due_ms) ? LATE_PAUSED : LATE_DOWN;
    }
    v->plan->occurrences.n++;
    return t;
}

/* Adds to `extra` from where it was moved, in local time, and why. */
static void spawn_note_move(struct spawn_visit *v, const struct occurrence *o, struct task *t)
{
    char from[RFC3339_TEXT + 1], text[MOVED_TEXT];
    struct str extra = t->extra.n ? str_sub(t->extra, 0, t->extra.n - 1) : S("{");
    rfc3339_format(o->nominal_local * 1000, from);
    int n = snprintf(text, sizeof text, "%s\"moved\":{\"from\":\"%.19s\",\"reason\":\"%s\"}}", t->extra.n ? "," : "",
                     from, o->notes & NOTE_MOVED ? "CALENDAR" : "DST_GAP");
    char *all = arena_alloc(v->arena, extra.n + (size_t)n);
    v->full = v->full || !all;
    if (!all)
        return;
    memcpy(all, extra.p, extra.n);
    memcpy(all + extra.n, text, (size_t)n);
    t->extra = (struct str){ all, extra.n + (size_t)n };
}

static struct task *spawn_add_run(struct spawn_visit *v, const struct occurrence *o)
{
    v->plan->runs++;
    v->runs_left--;
    struct task *t = spawn_add(v, o->scheduled_ms, o->at_ms, TASK_SCHEDULED);
    if (o->notes & (NOTE_MOVED | NOTE_GAP_SHIFTED))
        spawn_note_move(v, o, t);
    return t;
}

/* All missed occurrences are due at the same moment. They run one after the other: with catch_up ALL they must not skip
 * or replace each other. */
static void spawn_add_missed_run(struct spawn_visit *v, const struct occurrence *o)
{
    struct task *t = spawn_add_run(v, o);
    if (t->overlap != OVERLAP_ALLOW)
        t->overlap = OVERLAP_QUEUE_ALL;
}

/* The last_error of a row; text has room for SKIP_REASON_MAX. */
static struct str spawn_skip_text(const struct spawn_skipped *g, enum skip_reason reason, char *text)
{
    const char *why = skip_texts[reason];
    char first[RFC3339_TEXT + 1], last[RFC3339_TEXT + 1];
    rfc3339_format(g->first_ms, first);
    rfc3339_format(g->last_ms, last);
    if (g->count == 1)
        snprintf(text, SKIP_REASON_MAX, "skipped: %s", why);
    else
        snprintf(text, SKIP_REASON_MAX, "skipped %lld occurrences from %s to %s: %s", (long long)g->count, first, last,
                 why);
    return str_from(text);
}

/* Adds one SKIPPED occurrence for all of them: one row for each reason, not one for each occurrence. */
static void spawn_add_skipped(struct spawn_visit *v, struct spawn_skipped *g, enum skip_reason reason)
{
    char text[SKIP_REASON_MAX];
    if (g->count == 0)
        return;
    struct task *t = spawn_add(v, g->first_ms, g->first_ms, TASK_SKIPPED);
    t->completed_ms = v->now_ms;
    t->cursor_ms = g->last_ms;
    t->skipped_count = g->count;
    t->awaited_ms = 0;
    t->late_by = LATE_NONE;
    v->full = v->full || !arena_str(v->arena, spawn_skip_text(g, reason, text), &t->last_error);
    v->plan->skipped += g->count;
    g->count = 0;
}

/* behind_ms: the latest time before at_ms that has a row of its own. */
static void spawn_skipped_extend(struct spawn_visit *v, struct spawn_skipped *g, int64_t at_ms, int64_t behind_ms,
                                 enum skip_reason reason)
{
    if (g->count && g->last_ms < behind_ms)
        spawn_add_skipped(v, g, reason);
    if (g->count++ == 0)
        g->first_ms = at_ms;
    g->last_ms = at_ms;
}

static enum skip_reason spawn_reason_of(unsigned notes)
{
    if (notes & NOTE_COPY_SKIPPED)
        return SKIP_DST_COPY;
    if (notes & NOTE_GAP_SKIPPED)
        return SKIP_DST_GAP;
    if (notes & NOTE_MERGED)
        return notes & NOTE_GAP_SHIFTED ? SKIP_DST_GAP_MERGED : SKIP_CALENDAR_MERGED;
    return SKIP_CALENDAR;
}

/* The times that the rule itself leaves out are a row of their own, which is the same whenever it is made: a cursor
 * that went back adds nothing. Its due_ms tells it from a row of what was missed (spawned_how). */
static void spawn_add_left_out(struct spawn_visit *v, const struct occurrence *o)
{
    struct spawn_skipped g = { o->scheduled_ms, o->last_ms, o->count };
    spawn_add_skipped(v, &g, spawn_reason_of(o->notes));
    struct task *t = &v->plan->occurrences.v[v->plan->occurrences.n - 1];
    t->due_ms = t->scheduled_ms;
    v->skipped_ms = o->scheduled_ms;
}

static bool spawn_has_room(const struct spawn_visit *v)
{
    return v->plan->occurrences.n < SPAWN_MAX && v->runs_left > 0;
}

/* Whether the visit ends before this entry. */
static bool spawn_is_cut_at(struct spawn_visit *v, const struct occurrence *o)
{
    bool ends = !spawn_has_room(v) || o->scheduled_ms >= v->taken->before_ms;
    if (ends)
        v->plan->more = v->runs_left > 0;
    return ends;
}

/* Whether the occurrence has a row already. The walk asks in the order of time. */
static bool spawn_pass_taken(struct spawn_visit *v, const struct occurrence *o)
{
    const struct spawn_taken *t = v->taken;
    while (v->taken_at < t->n && t->v[v->taken_at].last_ms < o->scheduled_ms)
        v->taken_at++;
    if (!o->fires || v->taken_at == t->n || t->v[v->taken_at].first_ms > o->scheduled_ms)
        return false;
    v->skipped_ms = o->scheduled_ms;
    return true;
}

/* The moment by which missed is judged: now. Shortly after a pause it is the end of the pause, so that it does not
 * depend on when the spawner comes. Later than that, no node was running meanwhile. */
static int64_t spawn_judged_at(const struct spawn_visit *v)
{
    int64_t changed_ms = v->task->updated_ms;
    bool may_have_resumed = v->task->version > 1 && changed_ms <= v->now_ms && v->now_ms - changed_ms <= MISSED_MS;
    return may_have_resumed ? changed_ms : v->now_ms;
}

/* Occurrences before this time were missed. */
static int64_t spawn_missed_before(const struct spawn_visit *v, int64_t cursor_ms, int64_t judged_ms)
{
    struct occurrence first;
    bool outage = recurrence_next_before(v->rule, cursor_ms, judged_ms - MISSED_MS, &first);
    return outage ? judged_ms : INT64_MIN;
}

/* Walks through the missed occurrences. Returns the new cursor; sets `more` if the walk was cut short. */
static int64_t spawn_catch_up(struct spawn_visit *v, int64_t cursor_ms)
{
    int64_t judged_ms = spawn_judged_at(v), missed_before = spawn_missed_before(v, cursor_ms, judged_ms);
    int64_t window_begins = judged_ms - v->task->schedule.catch_up_window_ms, last_behind_ms = 0;
    enum catch_up mode = v->task->schedule.catch_up;
    struct spawn_skipped too_old = { 0 }, passed_over = { 0 };
    struct occurrence o, last = { 0 };
    bool has_last = false;
    int seen = 0;
    enum skip_reason why = mode == CATCH_UP_ONE ? SKIP_ONE_FOR_ALL : SKIP_MISSED;
    while (recurrence_next_entry(v->rule, cursor_ms, missed_before, &o)) {
        if (spawn_is_cut_at(v, &o) || seen++ >= CATCH_UP_MAX) {
            v->plan->more = v->runs_left > 0;
            break;
        }
        cursor_ms = occurrence_behind(v->rule, &o);
        if (spawn_pass_taken(v, &o))
            continue;
        v->plan->missed += o.fires;
        if (!o.fires) {
            spawn_add_left_out(v, &o);
        } else if (o.at_ms < window_begins) {
            spawn_skipped_extend(v, &too_old, o.scheduled_ms, v->skipped_ms, SKIP_WINDOW);
        } else if (mode == CATCH_UP_ALL) {
            spawn_add_missed_run(v, &o);
        } else {
            if (mode == CATCH_UP_ONE && has_last)
                spawn_skipped_extend(v, &passed_over, last.scheduled_ms, last_behind_ms, why);
            if (mode == CATCH_UP_NONE)
                spawn_skipped_extend(v, &passed_over, o.scheduled_ms, v->skipped_ms, why);
            last = o;
            last_behind_ms = v->skipped_ms;
            has_last = true;
        }
    }
    spawn_add_skipped(v, &too_old, SKIP_WINDOW);
    if (mode == CATCH_UP_ONE && has_last && v->plan->more)
        spawn_skipped_extend(v, &passed_over, last.scheduled_ms, last_behind_ms, why); /* a later one runs for all */
    spawn_add_skipped(v, &passed_over, why);
    if (mode == CATCH_UP_ONE && has_last && !v->plan->more && v->runs_left > 0)
        spawn_add_run(v, &last);
    return cursor_ms;
}

static int64_t spawn_ahead(struct spawn_visit *v, int64_t cursor_ms)
{
    struct occurrence o;
    while (recurrence_next_entry(v->rule, cursor_ms, v->until_ms, &o)) {
        if (spawn_is_cut_at(v, &o))
            return cursor_ms;
        if (!o.fires)
            spawn_add_left_out(v, &o);
        else if (!spawn_pass_taken(v, &o))
            spawn_add_run(v, &o);
        cursor_ms = occurrence_behind(v->rule, &o);
    }
    return cursor_ms;
}

/* A run that is skipped, replaced before its start, or expires no longer counts against max_runs. That happens at its
 * due time or later. */
static bool spawn_runs_may_come_back(const struct task *t)
{
    enum overlap o = t->schedule.overlap;
    bool gives_up = o == OVERLAP_SKIP || o == OVERLAP_QUEUE_ONE || o == OVERLAP_CANCEL_PREVIOUS;
    return t->schedule.max_runs && (gives_up || t->expires_after_ms);
}

/* The times after the last run that the rule leaves out, up to the end of the schedule: the task is over. */
static void spawn_leave_out_rest(struct spawn_visit *v, int64_t cursor_ms)
{
    struct occurrence o;
    int64_t until_ms = v->rule->end_ms == INT64_MAX ? INT64_MIN : v->rule->end_ms + recurrence_spread(v->rule) + 1;
    while (spawn_has_room(v) && recurrence_next_entry(v->rule, cursor_ms, until_ms, &o) && !o.fires) {
        spawn_add_left_out(v, &o);
        cursor_ms = occurrence_behind(v->rule, &o);
    }
}

/* All runs that max_runs allows are created. The cursor stays right after the last one, so that no occurrence is passed
 * over if one of the runs no longer counts. The task is visited again in time for the next occurrence, then from time
 * to time, and ends SPAWN_PATIENCE_MS after the last run. */
static void spawn_wait_for_end(struct spawn_visit *v, int64_t cursor_ms)
{
    struct spawn_plan *plan = v->plan;
    struct occurrence next;
    bool has_next = recurrence_next(v->rule, cursor_ms, &next);
    if (plan->occurrences.n && cursor_ms < v->now_ms) /* missed occurrences are due only now */
        cursor_ms = has_next ? max_of(cursor_ms, min_of(next.at_ms, v->now_ms)) : v->now_ms;
    int64_t end_ms = cursor_ms + SPAWN_PATIENCE_MS;
    bool awaits = has_next && spawn_runs_may_come_back(v->task);
    plan->cursor_ms = cursor_ms;
    plan->ended = plan->occurrences.n == 0 && v->now_ms >= (awaits ? end_ms : cursor_ms);
    plan->look_ms = end_ms;
    if (awaits)
        plan->look_ms = min_of(end_ms, max_of(next.at_ms - SPAWN_LEAD_MS, v->now_ms + SPAWN_LEAD_MS));
    if (plan->ended && v->runs_left > 0)
        spawn_leave_out_rest(v, cursor_ms);
}

/* Where the next visit begins if this one was cut short. It moves on in any case, so that visits come to an end. */
static int64_t spawn_cut_cursor(const struct spawn_visit *v, int64_t cursor_ms)
{
    int64_t before_ms = v->taken->before_ms;
    bool nothing_done = cursor_ms == v->task->cursor_ms && v->plan->occurrences.n == 0 && before_ms != INT64_MAX;
    return nothing_done ? max_of(cursor_ms + 1, before_ms + recurrence_spread(v->rule)) : cursor_ms;
}

enum err spawn_plan(const struct task *recurring, const struct recurrence *rule, const struct spawn_taken *taken,
                    int64_t now_ms, int64_t until_ms, struct arena *a, struct spawn_plan *ret, struct error *e)
{
    static const struct spawn_taken none = { .before_ms = INT64_MAX };
    assert(recurring->kind == TASK_RECURRING && until_ms >= now_ms);
    *ret = (struct spawn_plan){ .cursor_ms = recurring->cursor_ms };
    struct spawn_visit v = {
        .task = recurring,
        .rule = rule,
        .now_ms = now_ms,
        .until_ms = until_ms,
        .arena = a,
        .plan = ret,
        .taken = taken ? taken : &none,
        .runs_left = recurring->schedule.max_runs ? recurring->schedule.max_runs - recurring->runs_count : INT64_MAX,
    };
    ret->occurrences.v =
        arena_array(a, struct task, SPAWN_MAX + ROWS_MORE); /* room for the skipped ones after the last run */
    if (!ret->occurrences.v)
        return error_set(e, ERR_LIMIT, "too little memory to spawn occurrences");
    int64_t cursor_ms = spawn_catch_up(&v, recurring->cursor_ms);
    if (!ret->more)
        cursor_ms = spawn_ahead(&v, cursor_ms);
    if (v.full)
        return error_set(e, ERR_LIMIT, "too little memory to spawn occurrences");

    struct occurrence next;
    if (v.runs_left <= 0 || !recurrence_next(rule, cursor_ms, &next))
        spawn_wait_for_end(&v, cursor_ms);
    else
        ret->cursor_ms = ret->more ? spawn_cut_cursor(&v, cursor_ms) : spawn_first_entry(rule, cursor_ms);
    return v.full ? error_set(e, ERR_LIMIT, "too little memory to spawn occurrences") : ERR_OK;
}

/* A row that is the same whenever it is made. */
static bool spawned_is_left_out(const struct task *o)
{
    return o->state == TASK_SKIPPED && o->skipped_count && o->due_ms == o->scheduled_ms;
}

/* The id has the time that the occurrence was spawned for; a user's request may have moved scheduled_ms since. */
bool spawned_span(const struct task *o, struct spawn_span *ret)
{
    int64_t at_ms = uuid_time_ms(o->id);
    if (!uuid_eq(o->id, occurrence_id(o->parent, at_ms)) || spawned_is_left_out(o))
        return false;
    *ret = (struct spawn_span){ at_ms, o->state == TASK_SKIPPED ? max_of(o->cursor_ms, at_ms) : at_ms };
    return true;
}

enum spawned spawned_how(const struct task *o, bool holds_slot)
{
    assert(o->kind == TASK_OCCURRENCE);
    if (o->runs_count == 0 && !uuid_eq(o->id, occurrence_id(o->parent, o->scheduled_ms)))
        return SPAWNED_BY_HAND;
    bool stood_in_line = holds_slot && fence_is_unclaimed(o->fence);
    if (spawned_is_left_out(o))
        return SPAWNED_BY_HAND; /* the rule left it out: it is there whatever the cursor does */
    bool untouched =
        o->state == TASK_SCHEDULED && o->version == 1 && o->runs_count && !task_has_fired(o) && !stood_in_line;
    return untouched ? SPAWNED_AHEAD : SPAWNED_FOR_GOOD;
}

bool spawned_was_missed(const struct task *o, const struct schedule *s, int64_t before_ms)
{
    int64_t at_ms = o->scheduled_ms + schedule_spread(s, o->parent);
    bool late = o->due_ms < before_ms, too_old = at_ms < before_ms - s->catch_up_window_ms;
    bool all_would_run = o->overlap == OVERLAP_ALLOW || o->overlap == OVERLAP_QUEUE_ALL;
    return s->catch_up == CATCH_UP_ALL ? too_old || (late && !all_would_run) : late;
}

int64_t spawn_first_entry(const struct recurrence *rule, int64_t from_ms)
{
    struct occurrence o;
    return recurrence_next_entry(rule, from_ms, INT64_MAX, &o) ? o.at_ms : INT64_MAX;
}

static bool skip_reason_of(const struct task *t, enum skip_reason *ret)
{
    for (size_t i = 0; t->state == TASK_SKIPPED && i < SKIP_EXPIRED; i++) {
        size_t n = strlen(skip_texts[i]);
        if (t->last_error.n < n || memcmp(t->last_error.p + t->last_error.n - n, skip_texts[i], n) != 0)
            continue;
        *ret = (enum skip_reason)i;
        return true;
    }
    *ret = SKIP_EXPIRED;
    return t->state == TASK_EXPIRED;
}

const char *skip_reason_name(const struct task *t)
{
    static const char *const names[] = {
#define X(id, text) [SKIP_##id] = #id,
        SKIP_REASON_MAP(X)
#undef X
    };
    enum skip_reason reason;
    return skip_reason_of(t, &reason) ? names[reason] : NULL;
}

enum err spawn_cut(const struct task *o, const struct recurrence *rule, int64_t before_ms, struct arena *a,
                   struct spawn_cut *ret, bool *ret_cuts, struct error *e)
{
    enum skip_reason reason;
    struct occurrence run;
    char text[SKIP_REASON_MAX];
    *ret_cuts =
        spawned_is_left_out(o) && max_of(o->cursor_ms, o->scheduled_ms) >= before_ms && skip_reason_of(o, &reason);
    if (!*ret_cuts)
        return ERR_OK;
    struct spawn_skipped left = { o->scheduled_ms, o->scheduled_ms, o->scheduled_ms < before_ms };
    bool excluded = reason == SKIP_CALENDAR || reason == SKIP_CALENDAR_MERGED;
    if (left.count && recurrence_run_before(rule, o->scheduled_ms, before_ms, excluded, &run)) {
        left.last_ms = run.last_ms;
        left.count = min_of(run.count, o->skipped_count);
    }
    *ret = (struct spawn_cut){ .id = o->id,
                               .first_ms = o->scheduled_ms,
                               .last_was_ms = max_of(o->cursor_ms, o->scheduled_ms),
                               .count_was = o->skipped_count,
                               .last_ms = left.last_ms,
                               .count = left.count };
    bool fits = !left.count || arena_str(a, spawn_skip_text(&left, reason, text), &ret->error);
    return fits ? ERR_OK : error_no_room(e);
}

int64_t skip_count(const struct task *t)
{
    return max_of(t->skipped_count, (int64_t)1);
}

int64_t spawn_first(const struct recurrence *rule, int64_t from_ms)
{
    struct occurrence o;
    return recurrence_next(rule, from_ms, &o) ? o.at_ms : INT64_MAX;
}

int64_t spawn_decided_until(const struct task *recurring, const struct recurrence *rule, int64_t now_ms)
{
    struct occurrence o;
    bool decided = recurrence_next_before(rule, now_ms + SPAWN_FAR_MS, recurring->cursor_ms, &o);
    return decided ? recurring->cursor_ms : 0;
}
