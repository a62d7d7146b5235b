#pragma once
/* node/explain_internal.h - what explain*.c share.
 *
 *  - explain.c: the walk, and what it comes to
 *  - explain_gates.c: time, pauses, workers, slots of keys and overlap
 *  - explain_limits.c: rates, limits and places: gates with a line
 *  - explain_breakers.c: circuit breakers and busy hosts
 *  - explain_facts.c: what the store knows */
#include "node/explain.h"

struct explain_walk {
    const struct explain_view *view;
    const struct task *task;
    const struct explain_holds *holds; /* NULL: none */
    const struct explain_facts *facts;
    struct lanes *lanes;
    struct lane_entry *lane;      /* NULL: the node does not know it, so nothing of it waits */
    struct lane_entry *of_queue;  /* the lane, or another one of its queue; NULL: none */
    struct lane_facts lane_facts; /* of that one */
    int64_t now_ms;
    int64_t at_ms;       /* it does not start earlier */
    int64_t resumes_ms;  /* its queue is paused until then; 0: it is not */
    const char *unknown; /* why it may start later than that; NULL: it starts then */
    bool may_be_skipped; /* by its overlap policy: it may never start */
    bool near;           /* it is due within EXPLAIN_NEAR_MS */
    bool is_open;        /* a hold of the task itself ends nobody knows when: what runs now is taken to be over then */
    bool is_paused;      /* the task itself is: it does not expire before it is resumed */
    int64_t held_ms;     /* the known end of its holds; 0: none */
    bool claimed;        /* it has its slots, and waits on the wheel */
    bool placed;         /* and has a place of its queue, its tenant and its pool */
    bool over;           /* the rest does not matter: ret has the outcome */
    struct explanation *ret;
};

/* A gate that holds the task until then. */
__attribute__((format(printf, 4, 5))) void explain_gate_until(struct explain_walk *w, enum explain_gate gate,
                                                              int64_t until_ms, const char *fmt, ...);
/* A gate that opens when nobody knows, for the reason `why`. */
__attribute__((format(printf, 4, 5))) void explain_gate_unknown(struct explain_walk *w, enum explain_gate gate,
                                                                const char *why, const char *fmt, ...);
/* The same for a gate that a person must open, or a worker that joins. */
void explain_needs_people(struct explain_walk *w);
void explain_unsure(struct explain_walk *w, const char *why); /* the gate that was added last may hold it longer */
/* How many tasks, besides those that have a place, may take one before the task does. */
int64_t explain_crowd(const struct explain_walk *w);
/* How many other tasks have a place and have not reached the worker. */
int64_t explain_about_to_fire(const struct explain_walk *w);
void explain_decided(struct explain_walk *w, enum explain_outcome outcome, int64_t at_ms);

enum { EXPLAIN_SHOWN_MAX = 200 };
static inline struct str explain_cut(struct str s)
{
    return str_utf8_cut(s, EXPLAIN_SHOWN_MAX);
}

/* It could start now. */
static inline bool explain_is_due(const struct explain_walk *w)
{
    return !w->is_open && w->task->due_ms <= w->now_ms;
}

/* A time as text. */
struct explain_when {
    char text[32];
};
struct explain_when explain_when(int64_t ms);

/* Each looks at one gate, or at a few that are alike. */
void explain_look_holds(struct explain_walk *w);
void explain_look_time(struct explain_walk *w);
void explain_look_recovery(struct explain_walk *w);
void explain_look_store(struct explain_walk *w);
void explain_look_fleet_queue(struct explain_walk *w);
void explain_look_blocked(struct explain_walk *w);
void explain_look_pause(struct explain_walk *w);
void explain_look_tenant(struct explain_walk *w);
void explain_look_workers(struct explain_walk *w);
void explain_look_aside(struct explain_walk *w);
void explain_look_slots(struct explain_walk *w);
void explain_look_rate(struct explain_walk *w);
void explain_look_limits(struct explain_walk *w);
void explain_look_unseen(struct explain_walk *w);
void explain_look_places(struct explain_walk *w);
void explain_look_breakers(struct explain_walk *w);
void explain_look_host(struct explain_walk *w);
void explain_look_outside(struct explain_walk *w);
