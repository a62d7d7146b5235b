/* Of a recurring task, its next occurrence is explained: the one that is stored, or else the one that will be. */
#include <stdio.h>

#include "api/forecast/explain_shared.h"
#include "api/forecast/resumption.h"
#include "api/server/request_context.h"
#include "api/task/json.h"
#include "base/rfc3339.h"
#include "core/time/recurrence_shown.h"

enum { EXPLAIN_LEFT_OUT = 3 /* days that are named */ };

static enum handled explain_no_occurrence(struct request *q, const struct task *t)
{
    struct explanation x = { .outcome = EXPLAIN_WILL_ENDED, .position = -1 };
    bool runs_used_up = t->schedule.max_runs && t->runs_count >= t->schedule.max_runs;
    explain_state(&x, EXPLAIN_SCHEDULE_END, "it is recurring, and no occurrence is to come: %s",
                  runs_used_up                      ? "it has had all its max_runs"
                  : t->schedule.end_ms != INT64_MAX ? "its end_date comes first"
                                                    : "its schedule names no further time");
    return explain_respond(q, t, NULL, &x);
}

/* "2030-12-24 (Christmas Eve) is excluded by the calendar; 3 times, the last at 14:00" */
static void explain_add_reason(const struct explain_query *query, const struct occurrence *o, struct buf *out)
{
    const struct str skipped = S("skipped: ");
    cleanup_with(buf_release) struct buf note;
    buf_init(&note, EXPLAIN_NOTE_MAX);
    occurrence_explain(&query->rule, o, &note);
    struct str why = buf_str(&note);
    buf_add(out, str_starts(why, skipped) ? str_sub(why, skipped.n, why.n) : why);
}

/* The times of the schedule before the next occurrence that do not run, those of one day together, and why. */
static void explain_left_out(struct explain_query *query)
{
    struct occurrence o;
    int64_t from_ms = query->q->now_ms, first_ms = 0, times = 0;
    char when[RFC3339_TEXT + 1];
    cleanup_with(buf_release) struct buf why;
    buf_init(&why, EXPLAIN_LEFT_OUT * EXPLAIN_NOTE_MAX);
    size_t n = 0;
    for (; recurrence_next_shown(&query->rule, from_ms, &o) && !o.fires && o.at_ms < query->next.at_ms; n++) {
        if (n == EXPLAIN_LEFT_OUT) {
            buf_text(&why, "; and more");
            break;
        }
        first_ms = n ? first_ms : o.at_ms;
        times += o.count;
        buf_text(&why, n ? "; " : "");
        explain_add_reason(query, &o, &why);
        from_ms = occurrence_behind(&query->rule, &o);
    }
    if (!n)
        return;
    rfc3339_format(first_ms, when);
    query->left_out.gate = EXPLAIN_CALENDAR;
    query->left_out.until_ms = query->next.at_ms;
    snprintf(query->left_out.text, sizeof query->left_out.text,
             times > 1 ? "its times from %s on are left out: " STR_FMT : "its time %s is left out: " STR_FMT, when,
             STR_ARG(str_utf8_cut(buf_str(&why), EXPLAIN_TEXT - 80)));
}

/* The sentence about the occurrence, without what it says first: that it is due. */
static const char *explain_rest(const struct explanation *x)
{
    size_t n = strlen(x->steps[0].text);
    return strncmp(x->text, x->steps[0].text, n) == 0 ? x->text + n : "";
}

/* The occurrence's row is of no interest to the reader: its steps are those of the recurring task. */
static void explain_name_next(const struct explain_query *query, struct explanation *x)
{
    char when[RFC3339_TEXT + 1], first[EXPLAIN_TEXT], text[EXPLAIN_SENTENCE];
    cleanup_with(buf_release) struct buf note;
    buf_init(&note, EXPLAIN_NOTE_MAX);
    rfc3339_format(query->next.at_ms, when);
    occurrence_explain(&query->rule, &query->next, &note);
    snprintf(first, sizeof first, "it is recurring, and its next occurrence is at %s%s%s%s", when, note.n ? " (" : "",
             note.n ? buf_cstr(&note) : "", note.n ? ")" : "");
    bool is_due_step = x->n && (x->steps[0].gate == EXPLAIN_DUE_TIME || x->steps[0].gate == EXPLAIN_ARMED);
    snprintf(text, sizeof text, "%s%s%s", first, is_due_step ? "" : ": ", is_due_step ? explain_rest(x) : x->text);
    memcpy(x->text, text, sizeof x->text);
    if (!is_due_step)
        return;
    x->steps[0].gate = x->gate = EXPLAIN_DUE_TIME;
    memcpy(x->steps[0].text, first, sizeof x->steps[0].text);
}

/* If a run that waits makes occurrences be skipped: from when on they are not. */
static void explain_say_resumes(const struct explain_query *query, struct explanation *x)
{
    struct occurrence after;
    char next[RFC3339_TEXT + 1];
    size_t n = strlen(x->text);
    if (x->outcome != EXPLAIN_WILL_SKIPPED || !x->resumes_ms || !recurrence_next(&query->rule, x->resumes_ms, &after))
        return;
    rfc3339_format(after.at_ms, next);
    snprintf(x->text + n, sizeof x->text - n,
             ". All occurrences until then are skipped; the next one is at %s, if that run is over by then", next);
}

static void explain_add_left_out(const struct explain_query *query, struct explanation *x)
{
    char text[EXPLAIN_SENTENCE];
    if (!query->left_out.text[0])
        return;
    x->text[0] = (char)(x->text[0] - 'a' + 'A'); /* explain_name_next wrote it */
    snprintf(text, sizeof text, "%s. %s", query->left_out.text, x->text);
    memcpy(x->text, text, sizeof x->text);
    x->n = min_of(x->n, (size_t)EXPLAIN_STEPS_MAX - 1);
    memmove(&x->steps[1], &x->steps[0], x->n * sizeof x->steps[0]);
    x->steps[0] = query->left_out;
    x->n++;
    x->gate = EXPLAIN_CALENDAR;
}

static void explain_on_occurrence_answer(struct explain_answer *a)
{
    struct explain_query *query = container_of(a, struct explain_query, answer);
    struct explanation *x = &a->explanation;
    explain_name_next(query, x);
    explain_say_resumes(query, x);
    explain_add_left_out(query, x);
    explain_respond(query->q, &query->recurring, &query->facts, x);
    rule_base_release(&query->base);
    request_answer(query->q);
}

/* The next occurrence as it is stored, or as it will be. */
static enum err explain_next_row(struct request *q, struct reader *r, struct explain_query *query, struct error *e)
{
    const struct task *t = &query->recurring;
    struct uuid id = occurrence_id(t->id, query->next.scheduled_ms);
    enum err rc = reader_get(r, t->tenant, id, &q->arena, &query->task, e);
    bool waits =
        query->task.state == TASK_SCHEDULED || query->task.state == TASK_BLOCKED || query->task.state == TASK_RUNNING;
    query->row = query->task;
    if (rc != ERR_NOT_FOUND && (rc || waits))
        return rc;
    query->row.state = TASK_BLOCKED; /* it is not stored */
    query->task = *t;
    query->task.id = id;
    query->task.kind = TASK_OCCURRENCE;
    query->task.state = TASK_SCHEDULED;
    query->task.parent = t->id;
    query->task.due_ms = query->next.at_ms;
    query->task.scheduled_ms = query->next.scheduled_ms;
    query->task.overlap = t->schedule.overlap;
    query->task.attempts = query->task.losses = 0;
    query->task.last_error = S("");
    return ERR_OK;
}

enum handled explain_recurring(struct request *q, struct reader *r, const struct task *t)
{
    struct task_context c = request_context(q);
    struct error e = { 0 };
    int64_t next_ms;
    if (!task_next_execution(t, &c, &next_ms))
        return explain_no_occurrence(q, t);
    struct explain_query *query = explain_query_new(q, t);
    query->recurring = *t;
    if (task_rule(t, c.zones, c.catalog, &query->rule, &query->base, &e))
        return request_fail(q, &e);
    if (!recurrence_next(&query->rule, next_ms, &query->next)) {
        rule_base_release(&query->base);
        return explain_no_occurrence(q, t);
    }
    explain_left_out(query);
    if (explain_next_row(q, r, query, &e)) {
        rule_base_release(&query->base);
        return request_fail(q, &e);
    }
    return explain_ask_node(q, r, query, explain_on_occurrence_answer);
}

/* ---- a pause that has an end ---- */

static void explain_on_paused_answer(struct explain_answer *a)
{
    struct explain_query *query = container_of(a, struct explain_query, answer);
    explain_use_names(query->q, &query->facts, &a->explanation);
    explain_respond(query->q, &query->recurring, &query->facts, &a->explanation);
    rule_base_release(&query->base);
    request_answer(query->q);
}

/* Says behind the pause what becomes of the times that it takes. */
static void explain_say_resumption(const struct task *t, const struct resumption *s, struct explain_hold *pause)
{
    size_t n = strlen(pause->text);
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, EXPLAIN_NOTE_MAX);
    resumption_explain(s, t, "then", &text);
    if (text.n)
        snprintf(pause->text + n, sizeof pause->text - n, "; " STR_FMT, STR_ARG(buf_str(&text)));
}

/* What runs first when the pause ends, or after that. False: nothing. */
static bool explain_first_behind(const struct explain_query *query, const struct resumption *s, int64_t ends_ms,
                                 struct occurrence *ret)
{
    const struct task *t = &query->recurring;
    *ret = (struct occurrence){ .scheduled_ms = s->first_ms, .at_ms = ends_ms };
    bool used_up = t->schedule.max_runs && t->runs_count >= t->schedule.max_runs;
    return s->runs || (!used_up && recurrence_next(&query->rule, ends_ms, ret));
}

static enum err explain_read_behind(struct request *q, struct reader *r, struct explain_query *query, bool *ret_runs,
                                    struct error *e)
{
    struct resumption s;
    struct explain_hold *pause = &query->holds.v[0];
    const struct task *t = &query->recurring;
    int64_t ends_ms = max_of(pause->until_ms, q->now_ms);
    if (resumption_read(r, t, &query->rule, ends_ms, ends_ms, &s, e))
        return e->code;
    explain_say_resumption(t, &s, pause);
    *ret_runs = explain_first_behind(query, &s, ends_ms, &query->next);
    if (!*ret_runs)
        return ERR_OK;
    if (explain_next_row(q, r, query, e))
        return e->code;
    if (s.runs)
        query->task.overlap = s.overlap;
    else if (resumption_runs(&s, t)) /* an earlier one may run */
        pause->why = "which one runs is decided when it is resumed";
    query->task = explain_behind(&query->task, &query->holds, q->now_ms);
    return ERR_OK;
}

enum handled explain_recurring_paused(struct request *q, struct reader *r, const struct task *t,
                                      const struct explain_holds *holds)
{
    struct task_context c = request_context(q);
    struct error e = { 0 };
    bool runs = false;
    struct explanation x = { .outcome = EXPLAIN_WILL_ENDED, .position = -1 };
    struct explain_query *query = explain_query_new(q, t);
    query->recurring = *t;
    query->holds = *holds;
    query->answer.holds = &query->holds;
    if (task_rule(t, c.zones, c.catalog, &query->rule, &query->base, &e))
        return request_fail(q, &e);
    enum err rc = explain_read_behind(q, r, query, &runs, &e);
    if (rc == ERR_OK && runs)
        return explain_ask_node(q, r, query, explain_on_paused_answer);
    rule_base_release(&query->base);
    if (rc)
        return request_fail(q, &e);
    explain_add(&x, EXPLAIN_PAUSED, holds->v[0].until_ms, "%s", query->holds.v[0].text);
    explain_state(&x, EXPLAIN_PAUSED, "%s. No occurrence is to come", query->holds.v[0].text);
    return explain_respond(q, t, NULL, &x);
}
