#pragma once
/* core/sharing/queue_rules.h - what a queue is held to (R3.7), as its catalog entry says. A queue without an entry has the defaults: no
 * limits. */
#include "base/arena.h"
#include "base/json/jsonw.h"

struct queue_rules {
    double rate;        /* max_dispatches_per_second; 0: no limit */
    int64_t burst;      /* max_burst: how many at once after a rest; with a rate at least 1 */
    int64_t concurrent; /* max_concurrent: claimed and not settled; 0: no limit */
    int64_t weight;     /* its share among its tenant's queues, 1 to 1000; 100 */
    bool paused;
    struct str paused_by, paused_reason;
    int64_t paused_ms;       /* since when */
    int64_t paused_until_ms; /* 0: until someone resumes it */
    int64_t resumed_ms;      /* when it last went on: it ramps up from there; 0: never paused */
};
#define QUEUE_RULES_DEFAULT ((struct queue_rules){ .weight = 100 })

/* The entry's doc, both ways; texts live in the arena. Fields are named as in API.md, paused is an object or null. */
enum err queue_rules_read(struct str doc, struct arena *a, struct queue_rules *ret, struct error *e) must_use;
void queue_rules_write(struct jw *w, const struct queue_rules *r); /* the members, inside an object that is open */

bool queue_is_paused(const struct queue_rules *r, int64_t now_ms);

/* A resumed queue does not meet its backlog all at once: for RAMP_MS after it went on, at most this many dispatches a second; 0: no
 * limit any more. Doubles each second from RAMP_FIRST on. */
enum { RAMP_MS = 10000, RAMP_FIRST = 50 };
double queue_ramp_rate(const struct queue_rules *r, int64_t now_ms);
