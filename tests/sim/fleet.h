#pragma once
/* tests/sim/fleet.h - a fleet in the simulated world: worker processes, and a queue and events that all processes share, over a network
 * that is slow, fails, loses answers, is cut off; a queue that is wiped.
 *
 * What a fault may repeat is known here: what ran, or was on its way, when it happened (fleet_forgives). Whatever else runs twice, or
 * under a fence that is used up, is a breach. A claim that was handed over is no part of its node's death. */
#include "base/list.h"
#include "node/worker/worker.h"

struct sim;
struct sim_node;

enum { WORKERS_MAX = 4, PLACES = 5 };

/* Where errands stand in line: one is on its way at a time. */
struct sim_place {
    struct sim_node *process;
    struct list io_requests;
    struct timer *timer;
    bool applied, waits;
    int64_t until_us; /* with waits */
};

struct sim_async_io {
    struct async_io base;
    struct sim_place places[PLACES];
};

struct sim_fleet {
    struct queue *queue;
    struct events *events;
    uint64_t epoch;
    int64_t queue_down_us, events_down_us, cut_us; /* until then; cut: nobody can poll */
    int64_t trouble_us;                            /* what starts before that may be repeated */
    struct map claims;                             /* id → struct fleet_claim */
    struct map claimed;                            /* fenced_id → struct claimed */
    struct map doubtful;                           /* fenced_id → struct doubt */
    int64_t even_us;                               /* when no node held more than runs, last */
    bool push_again, fallback, collecting;
};
