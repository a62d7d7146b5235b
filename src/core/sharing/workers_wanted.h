#pragma once
/* core/sharing/workers_wanted.h - how many workers the load needs, for an autoscaler.
 *
 * (arrivals * run time / 0.8 + backlog * run time / 60 s) / slots of a worker, rounded up: workers that are busy for
 * 80 % of the time, and end the backlog within a minute. Arrivals are the attempts that ended plus the growth of the
 * backlog. All are averages over about a minute. The number rises at once, and falls by at most 10 % a minute. */
#include <stdbool.h>
#include <stdint.h>

/* Totals over all nodes, at a time. */
struct workload {
    int64_t at_ns;         /* steady */
    int64_t ended, ran_us; /* attempts; the time they took */
    int64_t backlog;
    double slots; /* of a worker; above 0 */
};

struct workers_wanted {
    bool begun, measured;
    struct workload last;
    double ended_rate, busy, growth; /* a second, averaged; busy: the seconds of attempts that ended */
    double mean_s;                   /* run time of an attempt, while some ended */
    double wanted;                   /* not rounded */
};

/* before: what the last leader wanted; 0: not known. */
void workers_wanted_init(struct workers_wanted *w, double before);
/* Returns the number; -1: nothing was measured yet. */
int64_t workers_wanted_add(struct workers_wanted *w, const struct workload *now);
