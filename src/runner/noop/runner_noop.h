#pragma once
/* runner/noop/runner_noop.h - a target that does nothing and always succeeds: for rehearsals, benchmarks and tests.
 * runner_start calls `done` before it returns, on the calling thread. */
#include "port/clock.h"
#include "port/runner.h"

struct runner *runner_noop_new(struct clock *clock);
