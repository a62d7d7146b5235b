#pragma once
/* core/task/job.h - jobs: long-running work of the server, either a bulk action on all tasks that match a filter or a
 * gradual re-drive of dead letters.
 *
 * A job is a catalog entry; the API shows its document. A job walks from the newest task to older ones, so tasks that
 * are created meanwhile are not included. Its cursor is saved after each page: after a restart, or on another node, the
 * job continues from there.
 *
 * A re-drive retries one task, then ten, then the rest at a given rate. After each step it checks the outcomes of the
 * tasks that it retried. If too many failed again, it stops and leaves the rest unchanged. */
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
    struct str filter;      /* JSON object text, as it was given */
    struct str pause;       /* of ACTION_PAUSE, its reason and end: JSON object text; empty: none */
    struct str by;          /* the API key that created it */
    bool without_workflows; /* that key may not change runs of workflows and their schedules */
    enum job_state state;
    bool cancelling;   /* it runs, and will stop before its next page */
    struct str reason; /* why it was stopped; empty: it was not */
    int64_t created_ms, finished_ms;
    struct uuid cursor; /* the last task that was handled; nil: none yet */
    int64_t total;      /* as counted at its start */
    bool total_exact;
    int64_t done, failed;
    struct job_failure failures[JOB_FAILURES_MAX]; /* the first ones */
    size_t failure_count;

    /* re-drive only */
    int64_t rate, max_failed_percent;
    enum job_phase phase;
    struct uuid watched[JOB_WATCHED_MAX]; /* retried, outcome not known yet */
    size_t watched_count;
    int64_t succeeded, failed_again;
};

/* Reads and writes the entry's document. Texts live in the arena. */
enum err job_read(struct str doc, struct arena *a, struct job *ret, struct error *e) must_use;
void job_write(struct jw *w, const struct job *j); /* writes one object */

/* Counts a task as done, or as failed if error is not NULL. error must outlive the job. */
void job_count(struct job *j, struct uuid task, const char *error);

/* The outcome of a task that a re-drive retried. */
enum job_outcome { JOB_UNKNOWN, JOB_SUCCEEDED, JOB_FAILED_AGAIN };
enum job_outcome job_outcome_of(const struct task *t);

/* How many tasks the job may take in this step; 0: it waits for the outcomes of the tasks that it watches. Moves a
 * re-drive to its next phase, or stops it. */
size_t job_allowance(struct job *j);

/* How long to wait before the next step if `taken` tasks were taken in this one. */
int64_t job_pause_ms(const struct job *j, size_t taken);
