#pragma once
/* workflow/planner.h - makes plans for claimed tasks of workflows (port/planner.h), on the thread of its caller.
 *
 * A plan is a function of what is stored: the run's row and definition, states and outputs of its steps, signals. */
#include "port/planner.h"
#include "port/store/reader.h"
#include "workflow/definition_cache.h"

struct planner_context {
    struct reader *reader;
    struct definition_cache *definitions;
    const struct secrets *secrets; /* that encrypt secret headers of steps; NULL: none */
};

void workflow_plan(const struct planner_context *c, struct plan *p);

/* What a step, an item or a compensation calls, with its references resolved as they are now; for people. It is neither
 * a map as a whole nor an await. ERR_INVALID: a reference has no value. */
enum err workflow_call(const struct planner_context *c, const struct task *t, struct arena *a, struct str *ret_config,
                       struct str *ret_payload, struct error *e) must_use;
