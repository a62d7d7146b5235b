#pragma once
/* tests/sim/fleet.h - a fleet in the simulated world: worker processes, and a queue and events that all processes
 * share, over a network that is slow, fails, loses answers and is cut off; and a queue that is wiped.
 *
 * fleet_forgives knows which tasks a fault may repeat: those that ran, or were on their way, when it happened. Any
 * other task that runs twice, or under a fence that is used up, is a breach. If a claim was handed over, the death of
 * its node repeats nothing of it. */
#include "base/list.h"
#include "node/worker/worker.h"

struct sim;
struct sim_node;

enum { WORKERS_MAX = 4, PLACES = 5 };

/* The line in which requests wait: one is on its way at a time. */
struct sim_place {
    struct sim_node *process;
    struct list io_requests;
    struct timer *timer;
    bool applied, waits;
    bool unblocked;   /* does not wait */
    int64_t until_us; /* while it waits */
};

struct sim_async_io {
    struct async_io base;
    struct sim_place places[PLACES];
};

struct sim_fleet {
    struct queue *queue;
    struct events *events;
    uint64_t epoch;
    int64_t queue_down_us, events_down_us, cut_us; /* until when they are down; cut_us: until when nobody can poll */
    int64_t trouble_us;                            /* a task that starts before that may be repeated */
    struct map claims;                             /* id → struct fleet_claim */
    struct map claimed;                            /* fenced_id → struct claimed */
    struct map doubtful;                           /* fenced_id → struct doubt */
    int64_t even_us;                               /* when no node last held more than runs */
    bool push_again, fallback, collecting;
};
