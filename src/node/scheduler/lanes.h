#pragma once
/* node/scheduler/lanes.h - which lanes have something due, and how much of each may be claimed now.
 *
 * A lane (core/task/task.h) keeps its earliest due time, from the answers of claims and from nudges, so that a claim
 * asks only lanes with something due. A gate (a pause, a rate, a limit, a busy host) closes a lane until a time or
 * until an event, and a closed lane costs nothing. Lanes of one queue and class are claimed as one line, by priority
 * and age. core/sharing/fair.h shares the room between lines, within the limits that the catalog cache has for queues
 * and tenants. The room is that of pools (core/sharing/pools.h): the workers that can run a lane's tasks have places
 * for so many of them, whatever other workers do.
 *
 * Counts are of tasks that were claimed here and are not settled. If limits are shared with other nodes, they are
 * held against this node's part (limit_shares.h). A rate counts tasks that fire: a task that was claimed early takes
 * its token when it fires (lanes_may_fire). Rates and gates go by wall time, like the due times that they are
 * compared with. */
#include "base/heap.h"
#include "core/sharing/fair.h"
#include "core/sharing/pools.h"
#include "core/time/moment.h"
#include "node/catalog_cache.h"
#include "port/store.h"

struct lanes_setup {
    const struct catalog_cache *catalog; /* NULL: no rules */
    size_t slots;                        /* of this node; in a fleet see lanes_set_workers */
    size_t host_calls;                   /* how many calls one host gets at once; 0: as many as there are */
    /* NULL: limits are this node's alone; else they hold for all nodes of the store, see limit_shares.h. */
    struct writer *writer;
    const struct uuid *node; /* with a writer: this node's id. It changes when the node rejoins */
};

struct lanes;
struct lane_entry; /* a known lane; lives as long as the lanes */

struct lanes *lanes_new(const struct lanes_setup *setup);
void lanes_free(struct lanes *l); /* NULL is fine */

struct lane_entry *lanes_know(struct lanes *l, struct lane lane);
struct lane_entry *lanes_get(const struct lanes *l, struct lane lane); /* NULL: not known */
/* The lane of a task of `e` that was put aside (empty: it was not) or recalled. */
struct lane_entry *lanes_after(struct lanes *l, struct lane_entry *e, struct str aside, bool recalled);
struct lane_entry *lanes_of_queue(const struct lanes *l, int32_t tenant, struct str queue); /* any; NULL: none */
size_t lanes_count(const struct lanes *l);

/* Something is due in the lane, or may be. */
void lanes_due(struct lanes *l, struct lane_entry *e, int64_t due_ms, bool suspect);
void lanes_on_unblocked(struct lanes *l, uint64_t unblocked, int64_t now_ms); /* ret_unblocked_lanes of an operation */
/* The same of a settle with a claim right behind it: lanes that this claim asks for have nothing else. */
void lanes_on_unblocked_before_claim(struct lanes *l, uint64_t unblocked, int64_t now_ms);
/* A settle is about to end tasks of this lane that others wait for. Most of those are in the same lane, or in that of
 * control work; the others are found after the commit. */
void lanes_expect_children(struct lanes *l, struct lane_entry *e, int64_t now_ms);
void lanes_all_due(struct lanes *l, int64_t now_ms); /* every lane may have something due */

/* The rules have changed, or the clock was set back: every closed lane is reopened. */
void lanes_rules_changed(struct lanes *l);

/* Each step begins with this, so that tokens of shared limits that have become stale meanwhile are not used. */
void lanes_set_time(struct lanes *l, struct moment now);

/* Sends the operations of shared limits. claiming: a claim is in flight. Returns when to call again. */
int64_t lanes_step(struct lanes *l, struct moment now, bool claiming);
bool lanes_is_idle(const struct lanes *l); /* nothing is in flight */

/* The workers of a fleet. */
struct lanes_workers {
    struct worker_groups groups;
    size_t nodes;   /* that share them; at least 1 */
    size_t waiting; /* tasks of a pool that may wait in the queue; 0: half of its slots, or more if tasks end fast */
    bool here;      /* the queue is down, and they are in this process: what the queue has does not count */
};
/* They run the tasks from now on. Lanes whose tasks none of them can run are closed, and others are open. */
void lanes_set_workers(struct lanes *l, const struct lanes_workers *w);

/* So many tasks that have a place wait in this process for their host, and use no slot. */
void lanes_set_parked(struct lanes *l, size_t parked);

/* The circuit breaker of a tenant's host is open ("*": the tenant's own): nothing is claimed from lanes of that host
 * before until_ms. Then one task is, as a trial, and the next one when that has ended. */
void lanes_open_breaker(struct lanes *l, int32_t tenant, struct str host, int64_t until_ms);
void lanes_close_breaker(struct lanes *l, int32_t tenant, struct str host); /* the lanes are as others from now on */

void lanes_shift_breakers(struct lanes *l,
                          int64_t by_ms); /* the clock was set back by so much: waits keep their length */
/* Whether a task that was not put aside must be, because of its host's breaker. If no trial runs when the breaker's
 * time is over, it is the trial: others wait for a moment, until more is known. *ret_trial: the host then, which lives
 * as long as the lanes; else empty. */
bool lanes_breaker_holds(struct lanes *l, int32_t tenant, struct str host, int64_t now_ms, struct str *ret_trial);
size_t lanes_breakers_open(const struct lanes *l); /* how many */

/* The places of all pools. */
struct lanes_places {
    size_t all, taken;
};
struct lanes_places lanes_places(const struct lanes *l);
bool lanes_has_room(const struct lanes *l); /* a place is free, or a round needs none */
/* The queue of a fleet has got a task that has a place; it has it no longer. */
void lanes_on_queued(struct lanes *l, struct lane_entry *e, bool queued);

/* What the tasks of the lane lack; need POOL_NOTHING: a worker can run them. */
struct pool_shortage lanes_shortage(struct lanes *l, const struct lane_entry *e);
/* Calls `see` for everything that due tasks lack, with the number of their lanes, in no order. */
void lanes_each_missing(const struct lanes *l, void (*see)(void *context, const struct pool_shortage *s, size_t lanes),
                        void *context);

/* Every tenant with tasks that have a place, or are leased as far as this node counts them, in no order. */
void lanes_each_tenant(const struct lanes *l, void (*see)(void *context, int32_t tenant, size_t running),
                       void *context);

/* How early tasks are claimed. */
void lanes_set_window(struct lanes *l, int64_t window_ms);

/* Suspects are claimed in rounds of their own, one at a time. */
enum lanes_wanted { LANES_DUE, LANES_SUSPECT, LANES_EITHER };

/* When a claim is worth making; INT64_MAX: only when something happens. */
int64_t lanes_next_ms(const struct lanes *l, enum lanes_wanted wanted);
int64_t lanes_next_suspect_ms(const struct lanes *l);

/* What a claim asks for: quotas of some lines, or one suspect of some lanes. */
struct lanes_round {
    struct lane_quota *v;
    struct lane_entry **entries;
    size_t n;
    struct claim_line *lines; /* that got a quota */
    struct fair_ask **asks;   /* of those */
    size_t line_count;
    bool suspects; /* one suspect, and nothing else */
    bool ahead;    /* tasks that are not due yet, for which no place is taken */
    bool missing;  /* no tasks: whether something is still due in lanes that no worker serves */
    size_t max;    /* tasks in all */
    int64_t until_ms;
    size_t *pool_room; /* of each pool with a line in the round: what the claim may take */
    size_t pool_count;
    struct fair_round fair; /* all lines that wait, also those without a quota */
};

/* What a round may give away. */
struct lanes_offer {
    size_t max;  /* tasks of one claim */
    bool claims; /* a claim can be made now; else only ready tasks get places */
    enum lanes_wanted wanted;
    struct moment now;
    /* A ready task (lanes_ready_add) gets a place: it is no longer ready, and becomes `claimed` by this call. */
    void (*grant)(void *context, struct heap_node *ready);
    void *context;
};

/* Shares the room among ready tasks and lanes with something due: grants places to ready tasks, and asks the store for
 * the rest. False: there is nothing to claim now. At most one round is open. It ends with lanes_answered, or with
 * lanes_answer_lost if the claim's answer was lost. */
bool lanes_ask(struct lanes *l, const struct lanes_offer *offer, struct lanes_round *ret);
/* Returns whether the round was full: each pool got as many tasks as it had room for. */
bool lanes_answered(struct lanes *l, struct lanes_round *r, const struct op_claim *answer);
void lanes_answer_lost(struct lanes *l, struct lanes_round *r);

/* Claims ahead. Tasks that are due within ahead_ms are claimed before they need a place (0: none are), at most `room`
 * of them, so that firing does not wait for the store. lanes_next_ahead_ms: when that is worth it. */
void lanes_set_ahead(struct lanes *l, int64_t ahead_ms);
int64_t lanes_next_ahead_ms(const struct lanes *l);
/* Up to until_ms, and no more than span_ms of due times. */
bool lanes_ask_ahead(struct lanes *l, size_t room, struct moment now, int64_t until_ms, int64_t span_ms,
                     struct lanes_round *ret);
void lanes_on_claimed_ahead(struct lanes *l, struct lane_entry *e);
void lanes_on_ahead_over(struct lanes *l, struct lane_entry *e); /* it gets a place, or is returned */

/* A task that was claimed ahead is due, and waits until a round grants it a place. */
void lanes_ready_add(struct lanes *l, struct lane_entry *e, struct heap_node *ready, int64_t due_ms);
void lanes_ready_remove(struct lanes *l, struct lane_entry *e, struct heap_node *ready);
size_t lanes_room(const struct lanes *l); /* how many tasks may get a place, in all pools */
/* Lanes with tasks that wait or have a place. */
void lanes_each_used(const struct lanes *l, void (*see)(void *context, const struct lane *lane), void *context);
size_t lanes_ready_count(const struct lanes *l);
int64_t lanes_next_ready_ms(const struct lanes *l); /* when a rate or a pause may let one of them go */
/* Whether a task that is due waits for a place of the lane's pool, or for a claim. */
bool lanes_anybody_waits(const struct lanes *l, const struct lane_entry *e, int64_t now_ms);
/* Whether queue, tenant, host and pool may run one more task of this lane. */
bool lanes_may_run(struct lanes *l, struct lane_entry *e, int64_t now_ms);

/* A task of this lane was claimed; has fired, or was recalled before it fired; was settled. */
void lanes_on_claimed(struct lanes *l, struct lane_entry *e);
void lanes_on_unarmed(struct lanes *l, struct lane_entry *e);
void lanes_on_settled(struct lanes *l, struct lane_entry *e, bool taken_back);

/* A task was put aside into this lane, because its host is busy. */
void lanes_on_host_busy(struct lanes *l, struct lane_entry *e, int64_t now_ms);

/* Whether a due task may fire now; if so, it has taken its token. If not, *ret_when_ms says when to ask again. */
bool lanes_may_fire(struct lanes *l, struct lane_entry *e, int64_t now_ms, int64_t *ret_when_ms);
/* Although it might have: it is armed again. */
void lanes_not_fired(struct lanes *l, struct lane_entry *e, int64_t now_ms);
/* It has fired, and comes back without having started: its token is for another one. */
void lanes_not_started(struct lanes *l, struct lane_entry *e, int64_t now_ms);

/* The gates that close a lane. */
#define LANE_GATE_MAP(X)                                                                                               \
    X(NONE)                                                                                                            \
    X(PAUSED)                                                                                                          \
    X(RATE) X(CONCURRENCY) X(TENANT_DISABLED) X(TENANT_LIMIT) X(TENANT_SHARE) X(HOST_BUSY) X(NO_WORKER) X(BREAKER)
enum lane_gate {
#define X(name) LANE_##name,
    LANE_GATE_MAP(X)
#undef X
};

struct lane_hold {
    enum lane_gate gate;
    int64_t until_ms; /* INT64_MAX: until an event; LANE_NONE: 0 */
};
struct lane_hold lanes_hold_of(struct lanes *l, struct lane_entry *e, int64_t now_ms);

/* What kept tasks of the lane that are due since then from being claimed; NONE: nothing that is remembered. known: what
 * has held the task since; NONE: the gates of the lane say. */
enum late_cause lanes_late_cause(const struct lanes *l, const struct lane_entry *e, int64_t due_ms,
                                 enum late_cause known);
/* The cause that a gate is; NONE: no gate. */
enum late_cause lane_gate_cause(enum lane_gate gate);

/* Leases (node/lease/leasing.h): how many tasks of the lane's queue may be leased now; 0: *ret says why.
 * lanes_lease_begin reserves n for a claim in flight, lanes_lease_end ends that. If `counts`, the leases count here
 * until lanes_lease_over; else the store counts them. */
int64_t lanes_lease_room(struct lanes *l, struct lane_entry *e, struct moment now, struct lane_hold *ret);
void lanes_lease_begin(struct lanes *l, struct lane_entry *e, size_t n);
void lanes_lease_end(struct lanes *l, struct lane_entry *e, size_t n, size_t given, int64_t now_ms, bool counts);
void lanes_lease_over(struct lanes *l, int32_t tenant, struct str queue);
void lanes_lease_found(struct lanes *l, int32_t tenant, struct str queue); /* it was given before this node started */

/* Whether a claimed task that has not fired is to be returned, because its queue or tenant may run less than it did,
 * or nothing. True only once for each task, which then counts as returning until it is settled. */
bool lanes_is_to_return(struct lanes *l, struct lane_entry *e, int64_t now_ms);

/* Whether a running task may be claimed anew in place: it may run, and it counts here already (held) or nothing
 * limits its queue and tenant. */
bool lanes_may_retake(struct lanes *l, struct lane_entry *e, bool held, int64_t now_ms);

struct lane_facts {
    size_t queue_held, tenant_held;
    int64_t queue_limit, tenant_limit;         /* 0: none */
    int64_t queue_elsewhere, tenant_elsewhere; /* places that this node wanted and other nodes have */
    bool shared;         /* limits hold for all nodes together: what other nodes use of them is not known */
    int64_t next_due_ms; /* the lane's earliest, as far as is known */
    size_t queue_ahead, tenant_ahead;   /* claimed ahead, without a place */
    size_t queue_armed;                 /* tasks with a place that have not fired: each will take a token */
    size_t queue_leased, tenant_leased; /* that outside workers have, if only this node counts them */
    size_t tenant_pool_held;            /* of the tenant, in its pool */
    int64_t tenant_share;               /* the most of the pool's places for its tenant; INT64_MAX: all */
    size_t pool_places, pool_taken;     /* of its pool */
    size_t pool_slots, pool_workers;    /* no workers: this node's own slots */
    size_t pool_room;                   /* how many tasks of its class find a place now */
    bool pool_waits;                    /* none does */
};
struct lane_facts lanes_facts(struct lanes *l, struct lane_entry *e);

/* The earliest due time of a class, in lanes that are not paused and whose tenant is not disabled; INT64_MAX: none. */
int64_t lanes_oldest_ms(const struct lanes *l, enum priority_class class_);

/* ---- forecasts, for explain (lanes_forecast.c) ---- */

/* When the rate of the lane's queue lets a task go that is due at at_ms. `overdue` others wait ahead of it at from_ms;
 * `coming` become due between then and at_ms, it is not known when. */
struct lanes_rate_question {
    int64_t from_ms, at_ms;
    int64_t overdue, coming;
    int64_t mortal; /* of these two: tasks that may end without taking a token */
    int64_t maybe;  /* others that may be ahead of it, or behind it */
};
struct lanes_rate_forecast {
    double rate; /* 0: it has none, and the rest is not set */
    bool shared; /* other nodes take tokens, too: the times are only what this node would need */
    int64_t earliest_ms, latest_ms;
};
struct lanes_rate_forecast lanes_forecast_rate(struct lanes *l, struct lane_entry *e,
                                               const struct lanes_rate_question *q, int64_t now_ms);

/* Whether something of the queue's other lanes waits that is due by then: it may overtake tasks of this lane. */
bool lanes_queue_has_others(const struct lane_entry *e, int64_t until_ms);

/* The same for all lanes of the tenant. Those that differ only in the host for which their tasks were put aside do not
 * count: if such a task comes to this lane, it is behind those that are due before it. */
bool lanes_tenant_has_others(const struct lane_entry *e, int64_t until_ms);

/* Whether a gate that closes a lane now may open by then without a person: what is due there would take places. */
bool lanes_may_open_by(const struct lanes *l, int64_t until_ms);

/* The breaker of a host ("*": of the tenant), as it closes lanes. */
struct lanes_breaker_forecast {
    bool open;
    int64_t until_ms; /* when the next trial may go */
    bool trial_runs;
    size_t lanes; /* of the host that have tasks waiting */
};
struct lanes_breaker_forecast lanes_forecast_breaker(const struct lanes *l, int32_t tenant, struct str host);
