#include "core/sharing/workers_wanted.h"

#include <assert.h>
#include <math.h>

static const double AVERAGE_S = 60, USE = 0.8, DRAIN_S = 60, FALL = 0.9, FALL_S = 60, NONE_BELOW = 0.1;
static const double UNKNOWN_RUN_S = 1; /* until an attempt has ended */

void workers_wanted_init(struct workers_wanted *w, double before)
{
    *w = (struct workers_wanted){ .mean_s = UNKNOWN_RUN_S, .wanted = before };
}

static double workers_wanted_mix(double old, double new_, double part)
{
    return old + (new_ - old) * part;
}

/* A node that died takes its totals with it: that interval tells nothing of ends. */
static void workers_wanted_average(struct workers_wanted *w, const struct workload *now, double seconds)
{
    double part = w->measured ? 1 - exp(-seconds / AVERAGE_S) : 1;
    int64_t ended = now->ended - w->last.ended, ran_us = now->ran_us - w->last.ran_us;
    w->growth = workers_wanted_mix(w->growth, (double)(now->backlog - w->last.backlog) / seconds, part);
    if (ended < 0 || ran_us < 0)
        return;
    w->ended_rate = workers_wanted_mix(w->ended_rate, (double)ended / seconds, part);
    w->busy = workers_wanted_mix(w->busy, (double)ran_us / 1e6 / seconds, part);
    if (ended > 0)
        w->mean_s = w->busy / w->ended_rate;
    w->measured = true;
}

int64_t workers_wanted_add(struct workers_wanted *w, const struct workload *now)
{
    assert(now->slots > 0);
    double seconds = (double)(now->at_ns - w->last.at_ns) / 1e9;
    bool first = !w->begun;
    if (!first && seconds > 0)
        workers_wanted_average(w, now, seconds);
    w->begun = true;
    w->last = *now;
    if (first)
        return w->wanted > 0 ? (int64_t)ceil(w->wanted) : -1;
    double arrivals = fmax(w->ended_rate + w->growth, 0);
    double need = (arrivals * w->mean_s / USE + (double)now->backlog * w->mean_s / DRAIN_S) / now->slots;
    w->wanted = fmax(need, w->wanted * pow(FALL, seconds / FALL_S));
    if (w->wanted < NONE_BELOW && need < NONE_BELOW / 1000)
        w->wanted = 0;
    return (int64_t)ceil(w->wanted - 1e-9);
}
