#pragma once
/* api/workflow/steps.h - how a step of a run is found and shown. A pool thread that owns the request. */
#include "api/workflow/holds.h"
#include "api/workflow/run.h"

/* What one step is shown with. */
struct step_view {
    struct request *q;
    struct reader *r;
    const struct dag *d;
    bool outputs; /* with what it answered */
    struct run_holds *holds;
    const char *notice; /* NULL: none */
};

/* Writes a step as one object. */
enum err steps_write(const struct step_view *v, struct jw *w, const struct task *t, struct error *e) must_use;

/* The step in the path, or an item of it. Without an item: -1. */
enum err steps_find(struct request *q, struct reader *r, const struct workflow_run *run, const struct dag *d,
                    int64_t item, struct task *ret, struct error *e) must_use;

/* Whether the task is a step with items, not one of the items. */
bool steps_is_map(const struct dag_step *s, const struct task *t);
/* Adds up how many of its items are shown in which state. */
enum err steps_count_items(struct reader *r, const struct task *map, int64_t now_ms, int64_t by_state[TASK_STATES],
                           int64_t *ret_total, struct error *e) must_use;
