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
};

void workflow_plan(const struct planner_context *c, struct plan *p);
