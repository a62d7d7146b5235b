#pragma once
/* api/workflow/holds.h - what holds a step that could go on: a pause, a key, a signal. Steps that it waits for are not
 * among these (waits.h). A pool thread that owns the request. */
#include "api/workflow/run.h"
#include "node/explain.h"

struct run_hold {
    enum explain_gate gate; /* NONE: nothing is known to hold it */
    struct str name;        /* of the queue, the key or the signal; empty: none */
    struct uuid run;        /* the run below in which a step is held; nil: the step itself is */
    struct str text;        /* "queue 'mail' is paused", in the request's arena */
};

/* For the steps of one answer. Looks at the store are counted, so that a long list stays cheap: beyond the limit only
 * what the node has in memory is told. */
struct run_holds {
    struct request *q;
    struct reader *r;
    const struct dag *d; /* of the run that the steps belong to */
    enum run_stop stop;  /* of that run */
    int depth;           /* of runs within runs */
    size_t looks;
    struct str key; /* the key that was looked up last, and what was found */
    struct run_hold of_key;
};

enum err run_hold_read(struct run_holds *c, const struct task *t, struct run_hold *ret, struct error *e) must_use;

/* Writes `waits_for`: an object, or null. */
void run_hold_write(struct jw *w, const struct run_hold *h);
