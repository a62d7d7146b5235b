/* Future fires: of a body that is not stored, of one task, or of all tasks between two times, also as a count per
 * minute or hour. */
#include <stdio.h>
#include <stdlib.h>

#include "api/forecast/due_task.h"
#include "api/forecast/resumption.h"
#include "api/resource/listing.h"
#include "api/server/internal.h"
#include "api/server/request_context.h"
#include "api/task/json.h"
#include "base/json/json.h"
#include "base/rfc3339.h"
#include "core/notify/check.h"
#include "core/task/pause.h"
#include "core/task/settle.h"
#include "core/task/spawn.h"
#include "core/time/recurrence_shown.h"

enum {
    COUNT_DEFAULT = 10,
    COUNT_MAX = 1000,
    SKIPS_MAX = 366, /* lines of skipped times beside the fires: a year of excluded days */
    FIRES_DEFAULT = 100,
    TASKS_MAX = 20000,  /* read for one answer */
    STEPS_MAX = 300000, /* occurrences computed for one answer */
    MINUTES_MAX = 2 * 1440,
    SPAN_DEFAULT_MS = 3600000,
    MINUTE_MS = 60000,
    HOUR_MS = 3600000,
    NOTE_MAX = 1024,
    HOLD_MAX = 320,
    QUEUE_SHOWN = 200,
};
#define SPAN_MAX_MS (31LL * 86400000)

/* ---- the fires of one task ---- */

struct upcoming_params {
    int64_t count, from_ms;
};

static const struct query_field preview_upcoming_fields[] = {
    { .name = "count",
      .kind = QUERY_I64,
      .offset = offsetof(struct upcoming_params, count),
      .min = 1,
      .max = COUNT_MAX },
    { .name = "from", .kind = QUERY_TIME, .offset = offsetof(struct upcoming_params, from_ms) },
};

/* What holds all fires of a task up to a time. */
struct preview_hold {
    int64_t until_ms;         /* 0: nothing holds them; INT64_MAX: nobody knows until when */
    bool by_queue;            /* occurrences that are due wait for it */
    bool may_skip;            /* a fire that it holds is skipped if the run before is not over by then (overlap SKIP) */
    int64_t expires_after_ms; /* a fire that it holds expires so long after its time; 0: it does not */
    char text[HOLD_MAX];
};

/* Its pause, the tasks that it waits for, or else the pause of its queue. */
static struct preview_hold preview_hold_of(struct request *q, const struct task *t)
{
    struct preview_hold h = { 0 };
    struct catalog_cache *catalog = q->server->setup.catalog;
    struct queue_rules r = catalog ? catalog_cache_queue(catalog, t->tenant, t->queue, NULL) : QUEUE_RULES_DEFAULT;
    char until[RFC3339_TEXT + 1];
    if (t->state == TASK_PAUSED && !task_paused_until_ms(t)) {
        h.until_ms = INT64_MAX;
        snprintf(h.text, sizeof h.text, "not while it is paused");
    } else if (t->links & TASK_WAITS) {
        h.until_ms = INT64_MAX;
        snprintf(h.text, sizeof h.text, "not before the tasks that it waits for have ended");
    } else if (queue_is_paused(&r, q->now_ms)) {
        h.by_queue = true;
        h.may_skip = t->kind == TASK_RECURRING && t->schedule.overlap == OVERLAP_SKIP;
        h.until_ms = r.paused_until_ms ? r.paused_until_ms : INT64_MAX;
        h.expires_after_ms = t->expires_after_ms;
        rfc3339_format(r.paused_until_ms, until);
        snprintf(h.text, sizeof h.text, "not while its queue " STR_FMT " is paused%s%s",
                 STR_ARG(str_utf8_cut(t->queue, QUEUE_SHOWN)), r.paused_until_ms ? ", until " : "",
                 r.paused_until_ms ? until : "");
    }
    return h;
}

/* Whether a fire expires before the end of the hold. If that is not known, somebody may end it in time. */
static bool preview_expires(const struct preview_hold *h, int64_t scheduled_ms)
{
    bool known = h->expires_after_ms && h->until_ms != INT64_MAX;
    return known && scheduled_ms <= h->until_ms - h->expires_after_ms;
}

static void preview_add_hold(struct buf *note, const struct preview_hold *h, int64_t at_ms)
{
    if (at_ms < h->until_ms)
        buf_printf(note, "%s%s%s", note->n ? "; " : "", h->text,
                   h->may_skip ? "; skipped if the run before it is not over by then" : "");
}

/* rule NULL: of a task that fires once. */
static void preview_add_expiry(struct buf *note, const struct preview_hold *h, const struct recurrence *rule,
                               const struct occurrence *o)
{
    char at[RFC3339_TEXT + 1];
    struct occurrence next;
    rfc3339_format(o->scheduled_ms + h->expires_after_ms, at);
    buf_printf(note, "%s%s; it expires before that, at %s", note->n ? "; " : "", h->text, at);
    if (!rule || !recurrence_next(rule, occurrence_behind(rule, o), &next) || !preview_expires(h, next.scheduled_ms))
        return;
    rfc3339_format(h->until_ms - h->expires_after_ms, at);
    buf_printf(note, ", as do all its times up to %s", at);
}

/* Where the first fire is looked for that does not expire. */
static int64_t preview_behind_expired(const struct preview_hold *h, const struct recurrence *rule)
{
    return h->until_ms - h->expires_after_ms + recurrence_spread(rule) + 1;
}

static void preview_write_at(struct jw *w, int64_t at_ms, bool fires, struct buf *note, const struct preview_hold *h)
{
    if (fires)
        preview_add_hold(note, h, at_ms);
    jw_object(w);
    jw_kv_time(w, "at", at_ms);
    jw_kv_cstr(w, "note", note->n ? buf_cstr(note) : NULL);
    if (!fires)
        jw_kv_bool(w, "skipped", true);
    jw_object_end(w);
}

static void preview_write_fire(struct jw *w, const struct recurrence *rule, const struct occurrence *o, bool expires,
                               const struct preview_hold *h)
{
    cleanup_with(buf_release) struct buf note;
    buf_init(&note, NOTE_MAX);
    occurrence_explain(rule, o, &note);
    if (expires)
        preview_add_expiry(&note, h, rule, o);
    preview_write_at(w, o->at_ms, o->fires && !expires, &note, h);
}

/* The end of its pause, if times have come by then. */
static void preview_write_resume(struct jw *w, const struct task *t, int64_t until_ms, const struct resumption *at_end,
                                 const struct preview_hold *h)
{
    struct preview_hold held = *h;
    cleanup_with(buf_release) struct buf note, what;
    buf_init(&note, NOTE_MAX);
    buf_init(&what, NOTE_MAX);
    resumption_explain(at_end, t, "now", &what);
    if (!what.n)
        return;
    buf_printf(&note, "its pause ends; " STR_FMT, STR_ARG(buf_str(&what)));
    held.may_skip = h->may_skip && at_end->overlap == OVERLAP_SKIP;
    preview_write_at(w, until_ms, resumption_runs(at_end, t), &note, &held);
}

/* The runs that max_runs still allows. runs_count includes those before the cursor. */
static int64_t preview_runs_left(const struct task *t)
{
    return t->schedule.max_runs ? max_of(t->schedule.max_runs - t->runs_count, (int64_t)0) : INT64_MAX;
}

/* The occurrences that are due and wait for the end of the pause of their queue: the latest ones, newest first. */
static enum err preview_read_due(struct request *q, struct reader *r, const struct task *t,
                                 const struct preview_hold *h, const struct upcoming_params *p, struct tasks *ret,
                                 struct error *e)
{
    struct task_page page = { 0 };
    struct task_filter f = { .tenant = t->tenant,
                             .parent = t->id,
                             .states = 1U << TASK_SCHEDULED | 1U << TASK_BLOCKED,
                             .due_before_ms = q->now_ms,
                             .limit = LIST_MAX,
                             .brief = true };
    if (!h->by_queue || p->from_ms >= h->until_ms)
        return ERR_OK;
    if (reader_list(r, &f, &q->arena, &page, e))
        return e->code;
    *ret = page.tasks;
    return ERR_OK;
}

static size_t preview_write_due(struct jw *w, const struct tasks *due, int64_t count, const struct preview_hold *h)
{
    size_t fires = 0;
    for (size_t i = due->n; i-- > 0 && fires < (size_t)count;) {
        const struct task *t = &due->v[i];
        struct occurrence o = { .at_ms = task_awaited_ms(t), .scheduled_ms = t->scheduled_ms };
        bool expires = preview_expires(h, t->scheduled_ms);
        cleanup_with(buf_release) struct buf note;
        buf_init(&note, NOTE_MAX);
        buf_text(&note, t->attempts ? "a retry" : "");
        if (expires)
            preview_add_expiry(&note, h, NULL, &o);
        preview_write_at(w, o.at_ms, !expires, &note, h);
        fires += !expires;
    }
    return fires;
}

/* Skipped occurrences are shown in their place, but do not count among the fires asked for. */
static void preview_write_fires(struct jw *w, const struct task *t, const struct recurrence *rule, int64_t count,
                                int64_t from_ms, const struct resumption *at_end, const struct preview_hold *h)
{
    struct occurrence o;
    int64_t left = preview_runs_left(t) - at_end->runs, resumes_ms = task_paused_until_ms(t);
    size_t fires = 0;
    if (from_ms < resumes_ms) {
        preview_write_resume(w, t, resumes_ms, at_end, h);
        fires += resumption_runs(at_end, t);
        from_ms = resumes_ms;
    }
    for (size_t lines = 0; lines < (size_t)count + SKIPS_MAX && fires < (size_t)count; lines++) {
        if (!recurrence_next_shown(rule, from_ms, &o))
            return;
        bool expires = o.fires && preview_expires(h, o.scheduled_ms);
        if (o.fires && !expires && o.scheduled_ms >= t->cursor_ms && left-- == 0)
            return;
        preview_write_fire(w, rule, &o, expires, h);
        fires += o.fires && !expires;
        from_ms = expires ? preview_behind_expired(h, rule) : occurrence_behind(rule, &o);
    }
}

/* A task whose time has come, but that is held beyond from_ms, is still to start. */
static void preview_write_once(struct jw *w, const struct task *t, int64_t now_ms, int64_t from_ms,
                               const struct preview_hold *h)
{
    int64_t resumes_ms = task_paused_until_ms(t), at_ms = max_of(t->due_ms, resumes_ms);
    bool waits = task_shown_state(t, now_ms) != TASK_RUNNING && from_ms < h->until_ms;
    bool expires_then = at_ms >= h->until_ms && resumes_ms && is_expired(task_expires_ms(t), at_ms);
    bool expires = !expires_then && preview_expires(h, t->scheduled_ms);
    struct occurrence o = { .at_ms = at_ms, .scheduled_ms = t->scheduled_ms };
    cleanup_with(buf_release) struct buf note;
    buf_init(&note, NOTE_MAX);
    if (at_ms < from_ms && !waits)
        return;
    buf_text(&note, t->attempts ? "a retry" : "");
    if (resumes_ms > t->due_ms)
        buf_printf(&note, "%sits pause ends%s", note.n ? "; " : "", expires_then ? "; it expires then" : "");
    if (expires)
        preview_add_expiry(&note, h, NULL, &o);
    preview_write_at(w, at_ms, !expires && !expires_then, &note, h);
}

/* What the user may not have meant. */
static void preview_write_warnings(struct jw *w, struct request *q, const struct task *t, const struct recurrence *rule)
{
    struct expectation expect = { 0 };
    struct error ignored;
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, NOTE_MAX);
    if (rule && preview_runs_left(t) > 1 &&
        expectation_read(task_extra(t, TASK_EXPECT), true, &q->arena, &expect, &ignored) == ERR_OK)
        expectation_warn(&expect, rule, q->now_ms, &text);
    jw_key(w, "warnings");
    jw_array(w);
    if (text.n) {
        jw_object(w);
        jw_kv_cstr(w, "field", TASK_EXPECT ".within_seconds");
        jw_kv_cstr(w, "message", buf_cstr(&text));
        jw_object_end(w);
    }
    jw_array_end(w);
}

/* What the end of its pause runs, unless its queue holds that until it has expired. */
static enum err preview_read_resumption(struct request *q, struct reader *r, const struct task *t,
                                        const struct recurrence *rule, const struct preview_hold *h,
                                        struct resumption *ret, struct error *e)
{
    int64_t at_ms = max_of(task_paused_until_ms(t), q->now_ms);
    int64_t starts_ms = h->until_ms == INT64_MAX ? at_ms : max_of(at_ms, h->until_ms);
    return resumption_read(r, t, rule, at_ms, starts_ms, ret, e);
}

/* reader NULL: of a task that is not stored. */
static enum handled preview_answer(struct request *q, struct reader *r, const struct task *t,
                                   const struct upcoming_params *p)
{
    struct error e = { 0 };
    struct resumption at_end = { 0 };
    int64_t resumes_ms = task_paused_until_ms(t);
    struct recurrence rule;
    cleanup_with(rule_base_release) struct rule_base base = { 0 };
    bool recurring = t->kind == TASK_RECURRING;
    struct preview_hold hold = preview_hold_of(q, t);
    struct tasks due = { 0 };
    if (recurring && task_rule(t, q->server->setup.zones, q->server->setup.catalog, &rule, &base, &e))
        return request_fail(q, &e);
    if (r && recurring && resumes_ms && preview_read_resumption(q, r, t, &rule, &hold, &at_end, &e))
        return request_fail(q, &e);
    if (r && recurring && preview_read_due(q, r, t, &hold, p, &due, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_cstr(&w, "status", task_state_name(task_shown_state(t, q->now_ms)));
    jw_key(&w, "upcoming");
    jw_array(&w);
    if (recurring && !task_is_final(t->state)) {
        int64_t rest = p->count - (int64_t)preview_write_due(&w, &due, p->count, &hold);
        preview_write_fires(&w, t, &rule, rest, max_of(p->from_ms, spawn_decided_until(t, &rule, q->now_ms)), &at_end,
                            &hold);
    } else if (!task_is_final(t->state)) {
        preview_write_once(&w, t, q->now_ms, p->from_ms, &hold);
    }
    jw_array_end(&w);
    preview_write_warnings(&w, q, t, recurring && !task_is_final(t->state) ? &rule : NULL);
    jw_object_end(&w);
    return HANDLED_DONE;
}

enum handled upcoming_of_task(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct task t;
    struct upcoming_params p = { .count = COUNT_DEFAULT, .from_ms = q->now_ms };
    if (query_read(q->query, preview_upcoming_fields, array_count(preview_upcoming_fields), &p, &q->arena, &e) ||
        request_get_task(q, r, &t, &e))
        return request_fail(q, &e);
    if (due_task_may_wait(&t, q->now_ms) && preview_hold_of(q, &t).until_ms <= q->now_ms)
        return due_task_answer(q, r, &t, p.from_ms);
    return preview_answer(q, r, &t, &p);
}

enum handled preview_body(struct request *q, struct reader *r)
{
    (void)r;
    struct error e = { 0 };
    struct task t;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct task_context c = request_context(q);
    struct upcoming_params p = { .count = COUNT_DEFAULT, .from_ms = q->now_ms };
    c.id = request_new_id(q);
    c.only_times = true;
    if (query_read(q->query, preview_upcoming_fields, array_count(preview_upcoming_fields), &p, &q->arena, &e) ||
        json_parse(buf_str(&q->body), &doc, &e) || task_from_json(&doc, &c, &q->arena, &t, &e))
        return request_fail(q, &e);
    if (t.kind != TASK_RECURRING)
        p.from_ms = min_of(p.from_ms, t.due_ms);
    return preview_answer(q, NULL, &t, &p);
}

/* ---- all tasks between two times ---- */

struct between_params {
    int64_t from_ms, to_ms, limit;
    int64_t first_ms; /* fires before it do not count; the first group may begin before it */
    int group_by;
    struct str queue;
};

enum { PREVIEW_SINGLE, PREVIEW_BY_MINUTE, PREVIEW_BY_HOUR };
static const char *const preview_group_names[] = { "minute", "hour", NULL };
static const int64_t preview_group_ms[] = { [PREVIEW_BY_MINUTE] = MINUTE_MS, [PREVIEW_BY_HOUR] = HOUR_MS };
static const struct query_field preview_between_fields[] = {
    { .name = "from", .kind = QUERY_TIME, .offset = offsetof(struct between_params, from_ms) },
    { .name = "to", .kind = QUERY_TIME, .offset = offsetof(struct between_params, to_ms) },
    { .name = "limit",
      .kind = QUERY_I64,
      .offset = offsetof(struct between_params, limit),
      .min = 1,
      .max = COUNT_MAX },
    { .name = "group_by",
      .kind = QUERY_CHOICE,
      .offset = offsetof(struct between_params, group_by),
      .names = preview_group_names },
    { .name = "queue", .kind = QUERY_TEXT, .offset = offsetof(struct between_params, queue) },
};

struct fire {
    int64_t at_ms;
    struct uuid task;
    struct str name;
    const char *note; /* NULL: none */
    bool expires;
};

/* The result: single fires, of which the earliest are kept, or the number of fires in each minute or hour. */
struct forecast {
    const struct between_params *params;
    struct request *q;
    struct fire *fires; /* room for twice the limit: when it is full, the earliest half is kept */
    size_t fire_count;
    int64_t *counts; /* of each group, from from_ms on; NULL: single fires are wanted */
    size_t group_count;
    int64_t group_ms;
    size_t steps;
    bool cut; /* not everything could be looked at */
};

static int preview_compare_fires(const void *a, const void *b)
{
    const struct fire *x = a, *y = b;
    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    return memcmp(&x->task, &y->task, sizeof x->task);
}

static void preview_keep_earliest(struct forecast *f)
{
    if (f->fire_count)
        qsort(f->fires, f->fire_count, sizeof *f->fires, preview_compare_fires);
    size_t limit = (size_t)f->params->limit;
    f->cut = f->cut || f->fire_count > limit;
    f->fire_count = min_of(f->fire_count, limit);
}

static void preview_add_fire(struct forecast *f, const struct task *t, int64_t at_ms, bool expires, const char *note)
{
    if (!f->fires && expires)
        return;
    if (!f->fires) {
        f->counts[(at_ms - f->params->from_ms) / f->group_ms]++;
        return;
    }
    if (f->fire_count == 2 * (size_t)f->params->limit)
        preview_keep_earliest(f);
    f->fires[f->fire_count++] = (struct fire){ at_ms, t->id, t->name, note, expires };
}

/* rule NULL: of a task that fires once. */
static const char *preview_note_of(struct forecast *f, const struct recurrence *rule, const struct occurrence *o,
                                   const struct preview_hold *h)
{
    struct str kept;
    cleanup_with(buf_release) struct buf note;
    buf_init(&note, NOTE_MAX);
    if (rule)
        occurrence_explain(rule, o, &note);
    if (preview_expires(h, o->scheduled_ms))
        preview_add_expiry(&note, h, rule, o);
    else
        preview_add_hold(&note, h, o->at_ms);
    return note.n && arena_str(&f->q->arena, buf_str(&note), &kept) ? kept.p : NULL;
}

/* Whether the fires of a task are as far apart as its interval, for ever. */
static bool preview_is_regular(const struct task *t)
{
    const struct schedule *s = &t->schedule;
    return !s->cron.n && s->interval_ms > 0 && !s->calendar.n && !s->spread_ms && !s->max_runs;
}

/* Counts fires from first_ms on without computing each of them: a task may fire every second. */
static void preview_count_regular(struct forecast *f, const struct task *t, int64_t first_ms)
{
    const struct between_params *p = f->params;
    int64_t interval_ms = t->schedule.interval_ms, to_ms = min_of(p->to_ms - 1, t->schedule.end_ms) + 1;
    int64_t before = 0; /* fires before the group */
    for (size_t i = 0; i < f->group_count; i++) {
        int64_t end_ms = min_of(p->from_ms + (int64_t)(i + 1) * f->group_ms, to_ms);
        int64_t until = end_ms > first_ms ? (end_ms - 1 - first_ms) / interval_ms + 1 : 0;
        f->counts[i] += until - before;
        before = until;
    }
    f->steps = min_of(f->steps + f->group_count, (size_t)STEPS_MAX);
}

/* Adds the fires of a recurring task: at most as many as the answer may hold, unless fires are counted. */
static void preview_add_recurring(struct forecast *f, const struct task *t)
{
    struct error e;
    struct recurrence rule;
    struct occurrence o;
    cleanup_with(rule_base_release) struct rule_base base = { 0 };
    const struct api_setup *setup = &f->q->server->setup;
    if (task_rule(t, setup->zones, setup->catalog, &rule, &base, &e))
        return; /* its time zone is gone: the spawner logs it */
    int64_t left = preview_runs_left(t);
    struct preview_hold hold = preview_hold_of(f->q, t);
    int64_t from_ms = max_of(f->params->first_ms, spawn_decided_until(t, &rule, f->q->now_ms));
    size_t most = f->counts ? SIZE_MAX : (size_t)f->params->limit + 1;
    for (; most > 0; most--) {
        f->cut = f->cut || f->steps == STEPS_MAX;
        if (f->steps == STEPS_MAX || !recurrence_next_before(&rule, from_ms, f->params->to_ms, &o))
            return;
        bool expires = preview_expires(&hold, o.scheduled_ms);
        if (f->counts && !expires && preview_is_regular(t)) {
            preview_count_regular(f, t, o.at_ms);
            return;
        }
        f->steps++;
        if (!expires && o.scheduled_ms >= t->cursor_ms && left-- == 0)
            return;
        preview_add_fire(f, t, o.at_ms, expires, f->counts ? NULL : preview_note_of(f, &rule, &o, &hold));
        from_ms = expires ? preview_behind_expired(&hold, &rule) : o.at_ms + 1;
    }
}

static void preview_add_once(struct forecast *f, const struct task *t)
{
    struct preview_hold hold = preview_hold_of(f->q, t);
    struct occurrence o = { .at_ms = t->due_ms, .scheduled_ms = t->scheduled_ms };
    preview_add_fire(f, t, t->due_ms, preview_expires(&hold, t->scheduled_ms),
                     f->counts ? NULL : preview_note_of(f, NULL, &o, &hold));
}

static enum err preview_collect(struct forecast *f, struct reader *r, bool recurring, struct error *e)
{
    const struct between_params *p = f->params;
    struct task_filter filter = { .tenant = f->q->who.tenant,
                                  .states = 1U << TASK_SCHEDULED,
                                  .by_kind = true,
                                  .recurring = recurring,
                                  .queue = p->queue,
                                  .limit = LIST_MAX };
    if (!recurring) {
        filter.due_after_ms = p->first_ms;
        filter.due_before_ms = p->to_ms;
    }
    struct task_page page = { .more = true };
    for (size_t seen = 0; page.more; seen += page.tasks.n) {
        if (seen >= TASKS_MAX) {
            f->cut = true;
            return ERR_OK;
        }
        if (reader_list(r, &filter, &f->q->arena, &page, e))
            return e->code;
        for (size_t i = 0; i < page.tasks.n; i++) {
            if (recurring)
                preview_add_recurring(f, &page.tasks.v[i]);
            else
                preview_add_once(f, &page.tasks.v[i]);
        }
        filter.before = page.next_before;
    }
    return ERR_OK;
}

static enum err preview_check_between(struct between_params *p, struct error *e)
{
    if (!p->to_ms)
        p->to_ms = p->from_ms + SPAN_DEFAULT_MS;
    p->first_ms = p->from_ms;
    if (p->group_by) { /* whole minutes; hours are counted from there, so that they can be those of any time zone */
        p->from_ms -= floor_mod(p->from_ms, (int64_t)MINUTE_MS);
        p->to_ms += floor_mod(-p->to_ms, (int64_t)MINUTE_MS);
    }
    if (query_check_range(p->from_ms, p->to_ms, e))
        return e->code;
    if (p->to_ms - p->from_ms > SPAN_MAX_MS)
        return error_field(e, "to", "is more than 31 days after 'from'");
    if (p->group_by == PREVIEW_BY_MINUTE && (p->to_ms - p->from_ms) / MINUTE_MS > MINUTES_MAX)
        return error_field(e, "to",
                           "is more than two days after 'from', which is too long to count by the minute; "
                           "use group_by=hour");
    return ERR_OK;
}

static void preview_write_fire_list(struct jw *w, struct forecast *f)
{
    preview_keep_earliest(f);
    jw_key(w, "upcoming");
    jw_array(w);
    for (size_t i = 0; i < f->fire_count; i++) {
        jw_object(w);
        jw_kv_time(w, "at", f->fires[i].at_ms);
        jw_kv_uuid(w, "task_id", f->fires[i].task);
        jw_kv_str_or_null(w, "name", f->fires[i].name);
        jw_kv_cstr(w, "note", f->fires[i].note);
        if (f->fires[i].expires)
            jw_kv_bool(w, "skipped", true);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void preview_write_counts(struct jw *w, const struct forecast *f)
{
    jw_key(w, f->params->group_by == PREVIEW_BY_HOUR ? "hours" : "minutes");
    jw_array(w);
    for (size_t i = 0; i < f->group_count; i++) {
        if (!f->counts[i])
            continue;
        jw_object(w);
        jw_kv_time(w, "at", f->params->from_ms + (int64_t)i * f->group_ms);
        jw_kv_i64(w, "fires", f->counts[i]);
        jw_object_end(w);
    }
    jw_array_end(w);
}

enum handled upcoming_of_all(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct between_params p = { .from_ms = q->now_ms, .limit = FIRES_DEFAULT };
    if (query_read(q->query, preview_between_fields, array_count(preview_between_fields), &p, &q->arena, &e) ||
        preview_check_between(&p, &e))
        return request_fail(q, &e);
    struct forecast f = { .params = &p, .q = q, .group_ms = preview_group_ms[p.group_by] };
    if (p.group_by) {
        f.group_count = (size_t)((p.to_ms - p.from_ms + f.group_ms - 1) / f.group_ms);
        f.counts = arena_zarray(&q->arena, f.group_count, sizeof *f.counts);
    } else
        f.fires = arena_array(&q->arena, struct fire, 2 * (size_t)p.limit);
    if (!f.fires && !f.counts)
        return request_refuse(q, PROBLEM_INVALID, LISTING_TOO_LARGE);
    if (preview_collect(&f, r, true, &e) || preview_collect(&f, r, false, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_time(&w, "from", p.from_ms);
    jw_kv_time(&w, "to", p.to_ms);
    if (p.group_by)
        preview_write_counts(&w, &f);
    else
        preview_write_fire_list(&w, &f);
    jw_kv_bool(&w, "complete", !f.cut);
    jw_object_end(&w);
    return HANDLED_DONE;
}
