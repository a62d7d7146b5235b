#pragma once
/* api/forecast/resumption.h - what runs of a recurring task when its pause ends. The core decides, as it does at that
 * time (core/task/spawn.h). */
#include "core/time/recurrence.h"
#include "port/store.h"

struct resumption {
    int64_t missed;       /* times that count as missed then */
    int64_t runs;         /* how many run then: missed ones, or if nothing is missed, those that are only late */
    int64_t expired;      /* how many would run, but expire */
    int64_t first_ms;     /* scheduled_ms of the first that runs; 0: none does */
    enum overlap overlap; /* of that one */
    bool cut;             /* there are too many to look at all of them */
};

/* If the pause ends at at_ms, and nothing starts before starts_ms. */
enum err resumption_read(struct reader *r, const struct task *t, const struct recurrence *rule, int64_t at_ms,
                         int64_t starts_ms, struct resumption *ret, struct error *e) must_use;
/* Whether something of the task runs then. */
bool resumption_runs(const struct resumption *s, const struct task *t);
/* "of the times that it has missed, the latest one runs now, that of TIME (catch_up_mode)"; when: "now", or "then".
 * Nothing, if no time comes during the pause. */
void resumption_explain(const struct resumption *s, const struct task *t, const char *when, struct buf *out);
