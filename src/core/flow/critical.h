#pragma once
/* core/flow/critical.h - where the time of a run went, and when it will end.
 *
 * The critical path is the chain of steps that made the run as long as it was: it ends with the step that ended last,
 * and each of its steps was released by the one before it, the parent that ended last. If that parent was skipped, the
 * step waited for what the skipped one had waited for. Whatever is not on it could have taken longer without any effect
 * on the end.
 *
 * The estimate walks over what is left: a step ends its usual time after its parents, or after its start. The usual
 * time is the median over earlier runs of the same definition. */
#include "base/arena.h"

enum { CRITICAL_RUNS_MAX = 5 }; /* earlier runs that a median is taken of */

struct critical_step {
    const uint32_t *parents; /* indexes of other steps */
    uint32_t parent_count;
    int64_t released_ms, started_ms, completed_ms; /* 0: not yet */
    int64_t usual_ms;                              /* from its release to its end, in earlier runs; -1: unknown */
    bool is_final;                                 /* also without a time: skipped, cancelled */
    int64_t first_ms;                              /* the start of its first attempt; 0: that of started_ms */
};

struct critical_path {
    uint32_t *v; /* steps, the first one first */
    size_t n;
    int64_t waited_ms, ran_ms; /* of these steps: between release and first start, and after that */
};

/* Steps that have not started are not part of the path. now_ms: the end, so far, of steps that run. ERR_LIMIT: the
 * arena is full. */
enum err critical_path(const struct critical_step *steps, size_t n, int64_t now_ms, struct arena *a,
                       struct critical_path *ret, struct error *e) must_use;

/* The time that a step spent between its release and its first start, so far; 0 if it has not been released. */
int64_t critical_waited_ms(const struct critical_step *s, int64_t now_ms);

/* The time from its first start to its end, with all its attempts, so far; 0 if it has not started. */
int64_t critical_ran_ms(const struct critical_step *s, int64_t now_ms);

struct critical_estimate {
    int64_t end_ms;
    uint32_t unknown; /* steps without a usual time, for which nothing was added: the run ends later than that */
};

/* When the run ends. Parents that form a cycle, which no definition has, are ERR_INVALID. */
enum err critical_estimate(const struct critical_step *steps, size_t n, int64_t now_ms, struct arena *a,
                           struct critical_estimate *ret, struct error *e) must_use;

/* Of n > 0 values, which are sorted in place; of an even number the lower one of the two in the middle. */
int64_t critical_median(int64_t *v, size_t n);
