#pragma once
/* core/task/job.h - long work done by the server: an action on all tasks that a filter finds, and the careful re-drive of dead letters.
 *
 * A job is a catalog entry, and its doc is also what the API shows of it. It walks from the newest task downwards, so that what is
 * created meanwhile is not met, and its cursor is saved after each page: after a restart, or on another node, it goes on from there.
 *
 * A re-drive tries one task, then ten, then the rest at a rate, and looks after each step at what became of those it retried: when too
 * many of them failed again it stops, and leaves the rest where it was. */
#include "base/json/jsonw.h"
#include "core/task/action.h"

#define JOB_STATE_MAP(X) X(RUNNING) X(DONE) X(STOPPED) X(CANCELLED)
enum job_state {
#define X(name) JOB_##name,
    JOB_STATE_MAP(X)
#undef X
};
const char *job_state_name(enum job_state s);

enum job_phase { JOB_FIRST, JOB_TEN, JOB_REST };

enum {
    JOB_FAILURES_MAX = 100,
    JOB_WATCHED_MAX = 100,
    JOB_RATE_DEFAULT = 50,
    JOB_RATE_MAX = 10000,
    JOB_PERCENT_DEFAULT = 20
};

struct job_failure {
    struct uuid task;
    struct str error;
};

struct job {
    struct uuid id;
    bool redrive;
    enum action action;
    struct str filter; /* JSON object text, as it was given */
    struct str by;     /* the key that asked for it */
    enum job_state state;
    bool cancelling;   /* it runs, and is to stop before its next page */
    struct str reason; /* why it was stopped; empty: it was not */
    int64_t created_ms, finished_ms;
    struct uuid cursor; /* the last task done with; nil: none yet */
    int64_t total;      /* as counted at its start */
    bool total_exact;
    int64_t done, failed;
    struct job_failure failures[JOB_FAILURES_MAX]; /* the first of them */
    size_t failure_count;

    /* Of a re-drive. */
    int64_t rate, max_failed_percent;
    enum job_phase phase;
    struct uuid watched[JOB_WATCHED_MAX]; /* retried, outcome not known yet */
    size_t watched_count;
    int64_t succeeded, failed_again;
};

/* The entry's doc, both ways; texts live in the arena. */
enum err job_read(struct str doc, struct arena *a, struct job *ret, struct error *e) must_use;
void job_write(struct jw *w, const struct job *j); /* one object */

/* error: why it could not be done, a text that outlives the job; NULL: it was. */
void job_count(struct job *j, struct uuid task, const char *error);

/* What became of a task that was retried. */
enum job_outcome { JOB_UNKNOWN, JOB_SUCCEEDED, JOB_FAILED_AGAIN };
enum job_outcome job_outcome_of(const struct task *t);

/* How many tasks may be taken at this step; 0: it waits for those it watches. Moves a re-drive on to its next phase, or stops it. */
size_t job_allowance(struct job *j);

/* How long to wait until the next step, after so many were taken at this one. */
int64_t job_pause_ms(const struct job *j, size_t taken);
