#pragma once
/* core/notify/check.h - dead-man checks: a task that is expected to succeed in time.
 *
 * Pure. `expect` of a task says when a success is due. A record of the store holds the state of its check. The notifier
 * reads it, asks check_plan what to do at a time, and writes it back.
 *
 *  1. success_by: the deadlines are that time of day on `days`, in the zone and the calendar of the task's schedule and
 *     with its policy at clock changes, but never two a day: BOTH is FIRST here. A deadline is met if an occurrence
 *     that was scheduled after the deadline before it has succeeded.
 *  2. The first deadline of a new check comes after the next occurrence: a task that is created at noon and runs at
 *     night is not late in between. The same holds after a change of the schedule and after a pause.
 *  3. within_seconds: the deadline is so long after the last success, or after the creation, a change or the resumption
 *     of the task, its start_time or run_at, whichever is latest.
 *  4. A deadline is judged CHECK_GRACE_MS later. If nobody was there to judge, only the first one counts: the others up
 *     to now are passed over.
 *  5. A check of within_seconds is missed once, until the task succeeds or is changed. */
#include "base/arena.h"
#include "base/json/jsonw.h"
#include "core/task/task.h"

enum {
    CHECK_GRACE_MS = 10000,
    CHECK_AGAIN_MS = 5000, /* a task that is late is looked at so often, or as often as its deadlines come */
    CHECK_DAYS_MAX = 64,   /* bytes of `days` */
    CHECK_FIRES_MAX = 1000 /* that expectation_warn looks at */
};
#define CHECK_WITHIN_MAX_MS (366LL * DAY_MS)

/* What a task's user expects. All zero: nothing. */
struct expectation {
    struct str success_by, days; /* "06:00"; "MON-FRI", empty: every day */
    int64_t within_ms;           /* 0: success_by applies */
};

/* Reads the JSON text of `expect`; an empty text, or an object without values, is none. Errors name the member. */
enum err expectation_read(struct str text, bool is_recurring, struct arena *a, struct expectation *ret,
                          struct error *e) must_use;
bool expectation_is_none(const struct expectation *x);

/* Writes why the schedule alone misses within_seconds: some of the next fires are further apart, whatever becomes of
 * them. Nothing, if it does not. */
void expectation_warn(const struct expectation *x, const struct recurrence *schedule, int64_t now_ms, struct buf *out);

/* The deadlines of success_by. zone and calendar (may be NULL) must outlive the rule. */
enum err expectation_rule(const struct expectation *x, const struct task *t, const struct tz *zone,
                          const struct calendar *calendar, struct recurrence *ret, struct error *e) must_use;

/* The state of a check. All zero: it is new. */
struct check {
    int64_t since_ms;    /* it counts from here on */
    int64_t after_ms;    /* success_by: the next deadline is the first one at or after this time */
    int64_t from_ms;     /* success_by: only occurrences that were scheduled later count */
    int64_t deadline_ms; /* the next one, or of a late task the last one; 0: none */
    int64_t missed_ms;   /* the last deadline, if it was missed; 0: it was met */
    int64_t version;     /* of the task, when it was looked at last */
    int64_t of;          /* identifies what the deadlines depend on */
    bool was_paused;
};

enum err check_read(struct str doc, struct arena *a, struct check *ret, struct error *e) must_use;
void check_write(struct jw *w, const struct check *c); /* one object */

/* What a check is about. */
struct check_facts {
    const struct task *task;
    struct expectation expect;
    const struct recurrence *schedule;  /* of a RECURRING task; else NULL */
    const struct recurrence *deadlines; /* success_by; else NULL */
    int64_t ok_ms;                      /* when the task has succeeded last; 0: never */
};

/* Starts the check again if it is new, or if the task was changed or resumed since it was looked at. */
void check_begin(struct check *c, const struct check_facts *f);
/* The next deadline that is to be judged; INT64_MAX: there is none. */
int64_t check_deadline(const struct check *c, const struct check_facts *f);
/* Whether an attempt that succeeded meets the deadline of success_by. */
bool check_is_met_by(const struct check *c, int64_t deadline_ms, const struct execution *x);

struct check_plan {
    bool is_missed;      /* tell it */
    int64_t deadline_ms; /* that was missed */
    int64_t next_ms;     /* when to look again; 0: never */
};
/* What to do now; *c becomes the new state. is_met: check_is_met_by is true of some attempt. */
struct check_plan check_plan(struct check *c, const struct check_facts *f, bool is_met, int64_t now_ms);
/* Whether the task is late: a deadline was missed, and it has not succeeded since. */
bool check_is_late(const struct check *c, int64_t ok_ms);
/* The next deadline, for people: a success since the last look moves that of within_seconds. 0: there is none. */
int64_t check_shown_deadline(const struct check *c, const struct expectation *x, int64_t ok_ms);

/* Why there was no success, as far as is known. */
struct check_reason {
    bool tenant_disabled, queue_paused;
    int64_t running_ms;           /* it runs since then; 0: it does not */
    const struct execution *last; /* the last attempt; NULL: there was none */
};
/* The sentence of a missed deadline: "no success by …: the task is paused". */
void check_explain(const struct check_facts *f, const struct check_reason *r, int64_t deadline_ms, struct buf *out);
