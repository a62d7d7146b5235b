#pragma once
/* base/failpoint.h - named places where a test makes the process die, or an operation fail, at a chosen pass.
 *
 *   failpoint("before_call");                                 somebody may kill us here
 *   if (failpoint("before_commit")) return error_set(…);      or make us fail
 *
 * Compiled in always, so that what is tested is what is shipped; unarmed a place costs one relaxed load. One place can be
 * armed in a process, at start and before other threads: cli does it from BELFRY_FAILPOINT. */
#include <stdatomic.h>

#include "base/str.h"

/* X(name, whether those who pass there heed `error`) */
#define FAILPOINT_MAP(X)                                                                                               \
    X(before_commit, true)                                                                                             \
    X(after_commit, true)                                                                                              \
    X(poison_call, false) /* passed by tasks of the type "poison" alone */                                             \
    X(before_call, false)                                                                                              \
    X(after_call, false)                                                                                               \
    X(before_settle, false)                                                                                            \
    X(after_settle, false)                                                                                             \
    X(before_fire, false)                                                                                              \
    X(restore_ready, false)                                                                                            \
    X(restore_decided, false)                                                                                          \
    X(restore_halfway, false)

/* "name:action[:count]". At the count-th pass (default the first), and only then, the action happens: `kill` is SIGKILL,
 * `error` makes failpoint() true. An empty spec disarms. */
enum err failpoint_arm(struct str spec, struct error *e) must_use;

extern atomic_bool failpoint_armed; /* failpoint_arm's alone to change */
bool failpoint_pass(const char *name);

static inline bool failpoint(const char *name)
{
    return atomic_load_explicit(&failpoint_armed, memory_order_relaxed) && failpoint_pass(name);
}
