#pragma once
/* core/sharing/queue_rules.h - the limits and the pause of a queue, as read from its catalog entry. A queue without an
 * entry has the defaults: no limits. */
#include "base/arena.h"
#include "base/json/jsonw.h"

struct queue_rules {
    double rate;        /* max_dispatches_per_second; 0: no limit */
    int64_t burst;      /* max_burst: dispatches at once; at least 1 if there is a rate */
    int64_t concurrent; /* max_concurrent: tasks claimed and not settled; 0: no limit */
    int64_t weight;     /* its share among its tenant's queues, 1 to 1000; default 100 */
    bool paused;
    struct str paused_by, paused_reason;
    int64_t paused_ms;       /* since when */
    int64_t paused_until_ms; /* 0: until a user resumes it */
    int64_t resumed_ms;      /* when it was last resumed: the ramp starts there; 0: never paused */
};
#define QUEUE_RULES_DEFAULT ((struct queue_rules){ .weight = 100 })

/* Reads and writes the entry's document. Texts live in the arena. `paused` is an object or null. */
enum err queue_rules_read(struct str doc, struct arena *a, struct queue_rules *ret, struct error *e) must_use;
void queue_rules_write(struct jw *w, const struct queue_rules *r); /* writes the members into an object that is open */

bool queue_is_paused(const struct queue_rules *r, int64_t now_ms);

/* Ramp after a pause: for RAMP_MS after it is resumed, a queue is limited to this many dispatches a second, so that its
 * backlog does not start all at once. The limit starts at RAMP_FIRST and doubles each second. 0: the ramp is over. */
enum { RAMP_MS = 10000, RAMP_FIRST = 50 };
double queue_ramp_rate(const struct queue_rules *r, int64_t now_ms);
