#pragma once
/* cli/workflow/run_steps.h - the steps of a run, as the server shows them, and what follows from their times: the
 * critical path, the time lost waiting, and an estimate of the end. */
#include "base/uuid.h"
#include "cli/client.h"
#include "cli/time_text.h"
#include "cli/workflow/graph_text.h"
#include "core/flow/critical.h"

enum { RUN_MEMORY_MAX = 256 << 20, RUN_PATH_BYTES = 1024 };

struct run_step {
    struct str name, id, status, error;
    struct str items;    /* of a map: "18 COMPLETED, 2 RUNNING of 20"; otherwise empty */
    struct str *after;   /* names of its parents, as the server gave them */
    enum dag_type *type; /* likewise */
    uint32_t after_count;
    int64_t attempts;
    bool is_undo;         /* a compensation: it has no part in the graph */
    bool is_run;          /* it runs another workflow: its id is that of the run */
    bool awaits;          /* a signal */
    bool by_hand;         /* a user started, skipped or completed it */
    bool settled_by_hand; /* a user skipped or completed it */
    bool leased;          /* an external worker does it */
    int64_t due_ms;       /* SCHEDULED, and not due before; 0: otherwise */
    struct {
        struct str gate, name, text; /* gate empty: nothing is known to hold it */
        struct str run;              /* the run below in which a step is held; empty: the step itself is */
    } hold;
    struct critical_step times;
};

struct run_steps {
    struct arena a;
    struct run_step *v;
    size_t n, cap;
    int64_t items_due_ms; /* when the last item starts that waits for its time; 0: none does */
};

/* One step as the server shows it. False: the arena has no room. */
bool run_step_read(struct arena *a, const json_t *json, struct run_step *step) must_use;

/* How long it waited before its first start and has run since, with all its attempts; "-": not known. */
void run_step_times_text(const struct run_step *s, int64_t now_ms, char waited[TIME_TEXT], char ran[TIME_TEXT]);
/* Why it is in its state: what holds it, its next attempt, its error, the counts of a map, that a user decided on it.
 * False: nothing of that. */
bool run_step_note_write(const struct run_step *s, int64_t now_ms, struct buf *out);

/* Reads all steps of a run, without the items of maps. Prints errors. */
enum exit_code run_steps_load(struct client *c, const char *id, struct run_steps *ret) must_use;
void run_steps_release(struct run_steps *s);

/* Fills usual_ms of each step: the median over the latest COMPLETED runs of the same definition. *ret_runs: how many
 * there were. If the server does not answer, no step has a usual time. */
void run_steps_learn(struct client *c, const json_t *run, struct run_steps *s, size_t *ret_runs);

/* The graph and the times of the steps, without compensations; steps of one have the index of the other. */
enum err run_steps_graph(struct run_steps *s, struct graph *ret, struct critical_step **ret_times,
                         struct error *e) must_use;

/* "waits for a, b and 3 more": the parents of the step that have not ended. */
void run_parents_write(const struct graph *g, const struct graph_step *step, struct buf *out);

bool run_status_is_final(struct str status);

/* "3 COMPLETED, 1 RUNNING of 4" of {"total", "by_status"}. */
void run_counts_text(const json_t *counts, struct buf *out);
