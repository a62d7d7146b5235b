#include "core/notify/check.h"

#include <stdio.h>

#include "base/date.h"
#include "base/duration.h"
#include "base/hash.h"
#include "base/json/json.h"
#include "base/rfc3339.h"

enum { TIME_OF_DAY = 5, RULE_TEXT = CHECK_DAYS_MAX + 32, SHOWN_ERROR_MAX = 200 };

/* ---- what is expected ---- */

/* clang-format off */
#define AT(member) .offset = offsetof(struct expectation, member)
static const struct json_field expectation_fields[] = {
    { .name = "success_by", .kind = JSON_KIND_STR, AT(success_by), .min = 1, .max = CHECK_DAYS_MAX, .nullable = true },
    { .name = "days", .kind = JSON_KIND_STR, AT(days), .min = 1, .max = CHECK_DAYS_MAX, .nullable = true },
    { .name = "within_seconds", .kind = JSON_KIND_SECONDS, AT(within_ms), .min = 1000, .max = CHECK_WITHIN_MAX_MS, .nullable = true },
};
#undef AT
/* clang-format on */

bool expectation_is_none(const struct expectation *x)
{
    return !x->success_by.n && !x->within_ms;
}

/* "06:30" → 390; -1: it is no time of day. */
static int expectation_minute(struct str s)
{
    for (size_t i = 0; i < TIME_OF_DAY; i++)
        if (s.n != TIME_OF_DAY || (i == 2 ? s.p[i] != ':' : !is_digit(s.p[i])))
            return -1;
    int hour = (s.p[0] - '0') * 10 + s.p[1] - '0', minute = (s.p[3] - '0') * 10 + s.p[4] - '0';
    return hour < 24 && minute < 60 ? hour * 60 + minute : -1;
}

/* The deadlines as a cron expression. */
static void expectation_cron(const struct expectation *x, char out[RULE_TEXT])
{
    int minute = expectation_minute(x->success_by);
    struct str days = x->days.n ? x->days : S("*");
    snprintf(out, RULE_TEXT, "%d %d * * " STR_FMT, minute % 60, minute / 60, STR_ARG(days));
}

static enum err expectation_check(const struct expectation *x, bool is_recurring, struct error *e)
{
    char text[RULE_TEXT];
    struct cron cron;
    struct error why = { 0 };
    if (x->within_ms && x->success_by.n)
        return error_field(e, "within_seconds", "cannot be given together with success_by; give one of the two");
    if (x->days.n && !x->success_by.n)
        return error_field(e, "days", "needs success_by");
    if (!x->success_by.n)
        return ERR_OK;
    if (!is_recurring)
        return error_field(e, "success_by", "is only for recurring tasks; give within_seconds");
    if (expectation_minute(x->success_by) < 0)
        return error_field(e, "success_by", "must be a time of day, such as 06:00");
    for (size_t i = 0; i < x->days.n; i++)
        if (x->days.p[i] <= ' ')
            return error_field(e, "days", "must be days of the week without blanks, such as MON-FRI or MON,WED");
    expectation_cron(x, text);
    if (cron_parse(str_from(text), 0, &cron, &why))
        return error_field(e, "days", "must be days of the week, such as MON-FRI or MON,WED: %s", why.text);
    return ERR_OK;
}

enum err expectation_read(struct str text, bool is_recurring, struct arena *a, struct expectation *ret, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct expectation x = { 0 };
    if (text.n && (json_parse(text, &doc, e) ||
                   json_read(doc.root, expectation_fields, array_count(expectation_fields), &x, a, e)))
        return e->code;
    if (expectation_check(&x, is_recurring, e))
        return e->code;
    *ret = x;
    return ERR_OK;
}

/* The times between fires that follow each other. */
struct expectation_gaps {
    int64_t shortest_ms, longest_ms;
    int64_t from_ms, to_ms; /* the longest one */
};

static struct expectation_gaps expectation_find_gaps(const struct recurrence *schedule, int64_t now_ms)
{
    struct expectation_gaps g = { .shortest_ms = INT64_MAX };
    struct occurrence last, next;
    int64_t until_ms = now_ms + 2 * CHECK_WITHIN_MAX_MS;
    if (!recurrence_next(schedule, now_ms, &last))
        return g;
    for (int n = 0; n < CHECK_FIRES_MAX && last.at_ms < until_ms; n++) {
        if (!recurrence_next(schedule, last.at_ms + 1, &next))
            break;
        int64_t gap_ms = next.at_ms - last.at_ms;
        g.shortest_ms = min_of(g.shortest_ms, gap_ms);
        if (gap_ms > g.longest_ms)
            g = (struct expectation_gaps){ g.shortest_ms, gap_ms, last.at_ms, next.at_ms };
        last = next;
    }
    return g;
}

void expectation_warn(const struct expectation *x, const struct recurrence *schedule, int64_t now_ms, struct buf *out)
{
    char text[DURATION_TEXT], from[RFC3339_TEXT + 1], to[RFC3339_TEXT + 1];
    if (!x->within_ms)
        return;
    struct expectation_gaps g = expectation_find_gaps(schedule, now_ms);
    int64_t kept_ms = x->within_ms + CHECK_GRACE_MS;
    if (g.longest_ms <= kept_ms)
        return;
    duration_format(g.longest_ms, text);
    if (g.shortest_ms > kept_ms) {
        buf_printf(out,
                   "is shorter than the time from one run to the next, %s: it is missed after every run; give more "
                   "than %s",
                   text, text);
        return;
    }
    rfc3339_format(g.from_ms, from);
    rfc3339_format(g.to_ms, to);
    buf_printf(out,
               "is shorter than the longest time from one run to the next, %s: it is missed between %s and %s; give "
               "more than %s, or success_by with days",
               text, from, to, text);
}

enum err expectation_rule(const struct expectation *x, const struct task *t, const struct tz *zone,
                          const struct calendar *calendar, struct recurrence *ret, struct error *e)
{
    char text[RULE_TEXT];
    struct schedule s = t->schedule;
    expectation_cron(x, text);
    s.cron = str_from(text);
    s.interval_ms = s.spread_ms = 0;
    s.start_ms = 1; /* also before the task was created */
    s.end_ms = INT64_MAX;
    if (s.repeat == DST_REPEAT_BOTH) /* a task that runs once that night cannot meet two */
        s.repeat = DST_REPEAT_FIRST;
    return schedule_rule(&s, t->id, zone, calendar, t->created_ms, ret, e);
}

/* ---- the document ---- */

/* clang-format off */
#define AT(member) .offset = offsetof(struct check, member)
static const struct json_field check_fields[] = {
    { .name = "since_ms", .kind = JSON_KIND_I64, AT(since_ms) },
    { .name = "after_ms", .kind = JSON_KIND_I64, AT(after_ms) },
    { .name = "from_ms", .kind = JSON_KIND_I64, AT(from_ms) },
    { .name = "deadline_ms", .kind = JSON_KIND_I64, AT(deadline_ms) },
    { .name = "missed_ms", .kind = JSON_KIND_I64, AT(missed_ms) },
    { .name = "version", .kind = JSON_KIND_I64, AT(version) },
    { .name = "of", .kind = JSON_KIND_I64, AT(of) },
    { .name = "was_paused", .kind = JSON_KIND_BOOL, AT(was_paused) },
};
#undef AT
/* clang-format on */

enum err check_read(struct str doc, struct arena *a, struct check *ret, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc json = { 0 };
    struct check c = { 0 };
    if (json_parse(doc, &json, e) || json_read(json.root, check_fields, array_count(check_fields), &c, a, e))
        return error_set(e, ERR_CORRUPT, "the document of a check cannot be read");
    *ret = c;
    return ERR_OK;
}

void check_write(struct jw *w, const struct check *c)
{
    jw_object(w);
    jw_kv_i64(w, "since_ms", c->since_ms);
    jw_kv_i64(w, "after_ms", c->after_ms);
    jw_kv_i64(w, "from_ms", c->from_ms);
    jw_kv_i64(w, "deadline_ms", c->deadline_ms);
    jw_kv_i64(w, "missed_ms", c->missed_ms);
    jw_kv_i64(w, "version", c->version);
    jw_kv_i64(w, "of", c->of);
    jw_kv_bool(w, "was_paused", c->was_paused);
    jw_object_end(w);
}

/* ---- deadlines ---- */

/* Equal as long as the deadlines depend on the same things; never 0. */
static int64_t check_signature(const struct check_facts *f)
{
    const struct expectation *x = &f->expect;
    const struct task *t = f->task;
    const struct schedule *s = &t->schedule;
    const struct str texts[] = { x->success_by, x->days, s->cron, s->time_zone, s->calendar };
    const int64_t numbers[] = { x->within_ms,   t->kind == TASK_RECURRING ? 0 : t->scheduled_ms,
                                s->interval_ms, s->calendar_policy,
                                s->gap,         s->repeat,
                                s->start_ms,    s->end_ms,
                                s->spread_ms };
    uint64_t all[array_count(texts) + array_count(numbers)];
    for (size_t i = 0; i < array_count(texts); i++)
        all[i] = hash_bytes(HASH_STABLE, texts[i]);
    for (size_t i = 0; i < array_count(numbers); i++)
        all[array_count(texts) + i] = (uint64_t)numbers[i];
    return (int64_t)(hash_bytes(HASH_STABLE, (struct str){ (const char *)all, sizeof all }) >> 1) | 1;
}

static int64_t check_next(const struct recurrence *rule, int64_t from_ms)
{
    struct occurrence o;
    return rule && recurrence_next(rule, from_ms, &o) ? o.at_ms : INT64_MAX;
}

void check_begin(struct check *c, const struct check_facts *f)
{
    const struct task *t = f->task;
    int64_t of = check_signature(f);
    bool is_paused = t->state == TASK_PAUSED;
    bool is_edited = f->expect.within_ms && c->version != t->version && !is_paused;
    if (c->of != of || (c->was_paused && !is_paused) || is_edited) {
        int64_t since_ms = t->version > 1 ? t->updated_ms : t->created_ms;
        *c = (struct check){ .since_ms = since_ms, .from_ms = since_ms };
    }
    if (c->from_ms == c->since_ms) { /* nothing was judged yet, and the calendar may have changed */
        int64_t first_ms = check_next(f->schedule, c->since_ms);
        c->after_ms = first_ms == INT64_MAX ? c->since_ms + 1 : first_ms;
    }
    c->of = of;
    c->version = t->version;
    c->was_paused = is_paused;
}

int64_t check_deadline(const struct check *c, const struct check_facts *f)
{
    const struct task *t = f->task;
    if (!f->expect.within_ms)
        return check_next(f->deadlines, c->after_ms);
    int64_t start_ms = t->kind == TASK_RECURRING ? t->schedule.start_ms : t->scheduled_ms;
    return max_of(max_of(c->since_ms, start_ms), f->ok_ms) + f->expect.within_ms;
}

bool check_is_met_by(const struct check *c, int64_t deadline_ms, const struct execution *x)
{
    return x->status == EXECUTION_COMPLETED && x->scheduled_ms > c->from_ms && x->scheduled_ms <= deadline_ms &&
           x->completed_us / 1000 <= deadline_ms + CHECK_GRACE_MS;
}

/* ---- what to do ---- */

bool check_is_late(const struct check *c, int64_t ok_ms)
{
    return c->missed_ms && ok_ms <= c->missed_ms;
}

int64_t check_shown_deadline(const struct check *c, const struct expectation *x, int64_t ok_ms)
{
    if (!x->within_ms || !c->deadline_ms)
        return c->deadline_ms;
    return check_is_late(c, ok_ms) ? 0 : max_of(c->deadline_ms, ok_ms + x->within_ms);
}

static void check_plan_within(struct check *c, const struct check_facts *f, int64_t now_ms, struct check_plan *p)
{
    bool is_over = now_ms >= c->deadline_ms + CHECK_GRACE_MS;
    p->is_missed = is_over && !c->missed_ms;
    c->missed_ms = is_over ? c->deadline_ms : 0;
    p->next_ms =
        is_over ? now_ms + max_of(f->expect.within_ms, (int64_t)CHECK_AGAIN_MS) : c->deadline_ms + CHECK_GRACE_MS;
}

/* Goes on to the first deadline that is not over. */
static void check_pass_on(struct check *c, const struct check_facts *f, int64_t now_ms)
{
    int64_t next_ms = c->deadline_ms;
    do {
        c->from_ms = next_ms;
        next_ms = check_next(f->deadlines, next_ms + 1);
    } while (next_ms != INT64_MAX && now_ms >= next_ms + CHECK_GRACE_MS);
    c->after_ms = c->from_ms + 1;
    c->deadline_ms = next_ms;
}

struct check_plan check_plan(struct check *c, const struct check_facts *f, bool is_met, int64_t now_ms)
{
    struct check_plan p = { .deadline_ms = check_deadline(c, f) };
    c->deadline_ms = p.deadline_ms;
    if (f->expect.within_ms) {
        check_plan_within(c, f, now_ms, &p);
        return p;
    }
    if (c->deadline_ms != INT64_MAX && now_ms >= c->deadline_ms + CHECK_GRACE_MS) {
        p.is_missed = !is_met;
        c->missed_ms = is_met ? 0 : p.deadline_ms;
        check_pass_on(c, f, now_ms);
    }
    p.next_ms = c->deadline_ms == INT64_MAX ? 0 : c->deadline_ms + CHECK_GRACE_MS;
    c->deadline_ms = c->deadline_ms == INT64_MAX ? 0 : c->deadline_ms;
    return p;
}

/* ---- for people ---- */

static void check_explain_expected(const struct check_facts *f, struct buf *out)
{
    const struct expectation *x = &f->expect;
    char text[DURATION_TEXT];
    if (x->within_ms) {
        duration_format(x->within_ms, text);
        buf_printf(out, "within %s", text);
        return;
    }
    buf_printf(out, STR_FMT, STR_ARG(x->success_by));
    if (x->days.n)
        buf_printf(out, " on " STR_FMT, STR_ARG(x->days));
    buf_printf(out, " in " STR_FMT, STR_ARG(f->task->schedule.time_zone));
}

static void check_explain_last(const struct execution *last, struct buf *out)
{
    char at[RFC3339_TEXT + 1];
    if (!last) {
        buf_text(out, "it has not run yet");
        return;
    }
    rfc3339_format(last->completed_us / 1000, at);
    if (last->status == EXECUTION_COMPLETED)
        buf_printf(out, "it has not run since its success at %s", at);
    else
        buf_printf(out, "its last attempt, at %s, did not succeed%s" STR_FMT, at, last->error.n ? ": " : "",
                   STR_ARG(str_utf8_cut(last->error, SHOWN_ERROR_MAX)));
}

static void check_explain_running(const struct check_reason *r, struct buf *out)
{
    char at[RFC3339_TEXT + 1];
    rfc3339_format(r->running_ms, at);
    buf_printf(out, "it runs since %s", at);
    if (r->last && r->last->status != EXECUTION_COMPLETED) {
        buf_text(out, "; ");
        check_explain_last(r->last, out);
    }
}

void check_explain(const struct check_facts *f, const struct check_reason *r, int64_t deadline_ms, struct buf *out)
{
    const struct task *t = f->task;
    char at[RFC3339_TEXT + 1];
    rfc3339_format(deadline_ms, at);
    buf_printf(out, "no success by %s (", at);
    check_explain_expected(f, out);
    buf_text(out, "): ");
    if (r->tenant_disabled)
        buf_text(out, "the tenant is disabled");
    else if (t->state == TASK_PAUSED)
        buf_text(out, "the task is paused");
    else if (r->running_ms)
        check_explain_running(r, out);
    else if (r->queue_paused)
        buf_printf(out, "its queue '" STR_FMT "' is paused", STR_ARG(t->queue));
    else
        check_explain_last(r->last, out);
}
