#pragma once
/* base/failpoint.h - named places in the code where a test can kill the process or make an operation fail.
 *
 *   failpoint("before_call");                                 a test may kill the process here
 *   if (failpoint("before_commit")) return error_set(…);      a test may also make the operation fail
 *
 * One more makes commits of the store wait, as a disk that stalls does: "stall=900ms/4s", for 900 ms once in every 4 s.
 *
 * Failpoints are always compiled in, so that the tested binary is the shipped one. A failpoint that is not armed costs
 * one relaxed atomic load. At most one failpoint is armed in a process. It is armed at start, before other threads
 * exist: the CLI reads it from the environment variable BELFRY_FAILPOINT, and `belfry bench` arms its own processes. */
#include <stdatomic.h>

#include "base/str.h"

/* X(name, whether the code at this place handles the action `error`) */
#define FAILPOINT_MAP(X)                                                                                               \
    X(before_commit, true)                                                                                             \
    X(after_commit, true)                                                                                              \
    X(poison_call, false) /* reached only by tasks of the type "poison" */                                             \
    X(before_call, false)                                                                                              \
    X(after_call, false)                                                                                               \
    X(before_handoff, false)                                                                                           \
    X(before_settle, false)                                                                                            \
    X(after_settle, false)                                                                                             \
    X(before_resume, false)                                                                                            \
    X(after_resume, false)                                                                                             \
    X(before_fold, false)                                                                                              \
    X(after_fold, false)                                                                                               \
    X(before_send, false)                                                                                              \
    X(after_send, false)                                                                                               \
    X(before_fire, false)                                                                                              \
    X(restore_ready, false)                                                                                            \
    X(restore_decided, false)                                                                                          \
    X(restore_halfway, false)

/* spec is "name:action[:count]". The action happens once, at the count-th pass (default: the first). The action `kill`
 * raises SIGKILL; `error` makes failpoint() return true. "stall=LENGTH/PERIOD" is the stall. An empty spec disarms. */
enum err failpoint_arm(struct str spec, struct error *e) must_use;

extern atomic_bool failpoint_armed; /* only failpoint_arm changes it */
bool failpoint_pass(const char *name);

static inline bool failpoint(const char *name)
{
    return atomic_load_explicit(&failpoint_armed, memory_order_relaxed) && failpoint_pass(name);
}

/* Stalls begin at multiples of the period in steady time, so that all writers of all processes on a machine stall at
 * the same moments, as on one disk. */
struct failpoint_stall {
    int64_t length_ms, period_ms; /* length_ms < period_ms */
};
enum err failpoint_parse_stall(struct str text, struct failpoint_stall *ret, struct error *e) must_use; /* "900ms/4s" */
int64_t failpoint_stall_left_ns(struct failpoint_stall s, int64_t steady_ns); /* until its end; 0: no stall now */
int64_t failpoint_commit_wait_ns(int64_t steady_ns); /* how long a commit waits for the armed stall; 0: not at all */
