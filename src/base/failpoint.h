#pragma once
/* base/failpoint.h - named places in the code where a test can kill the process or make an operation fail.
 *
 *   failpoint("before_call");                                 a test may kill the process here
 *   if (failpoint("before_commit")) return error_set(…);      a test may also make the operation fail
 *
 * Failpoints are always compiled in, so that the tested binary is the shipped one. A failpoint that is not armed costs
 * one relaxed atomic load. At most one failpoint is armed in a process. It is armed at start, before other threads
 * exist: the CLI reads it from the environment variable BELFRY_FAILPOINT. */
#include <stdatomic.h>

#include "base/str.h"

/* X(name, whether the code at this place handles the action `error`) */
#define FAILPOINT_MAP(X)                                                                                               \
    X(before_commit, true)                                                                                             \
    X(after_commit, true)                                                                                              \
    X(poison_call, false) /* reached only by tasks of the type "poison" */                                             \
    X(before_call, false)                                                                                              \
    X(after_call, false)                                                                                               \
    X(before_settle, false)                                                                                            \
    X(after_settle, false)                                                                                             \
    X(before_fire, false)                                                                                              \
    X(restore_ready, false)                                                                                            \
    X(restore_decided, false)                                                                                          \
    X(restore_halfway, false)

/* spec is "name:action[:count]". The action happens once, at the count-th pass (default: the first). The action `kill`
 * raises SIGKILL; `error` makes failpoint() return true. An empty spec disarms. */
enum err failpoint_arm(struct str spec, struct error *e) must_use;

extern atomic_bool failpoint_armed; /* only failpoint_arm changes it */
bool failpoint_pass(const char *name);

static inline bool failpoint(const char *name)
{
    return atomic_load_explicit(&failpoint_armed, memory_order_relaxed) && failpoint_pass(name);
}
