#pragma once
/* tests/sim/sim.h - a simulated world with one seed.
 *
 * In it are a wall clock that is set forward and back; a store that is slow, fails or loses its answers; a node that
 * crashes, or several nodes that also are stopped and have different clocks; a receiver that records each call; and
 * users who remember what was acknowledged.
 *
 * Real: core, node, the memory store, queue and events. Simulated: time, the writer, the network, people. Everything
 * happens on one thread, from one heap of timers and one random stream, so the same seed gives the same run. The
 * oracle (oracle.c) never asks the store what happened: it knows what users were told and what the receiver got. */
#include <stdio.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/prng.h"
#include "core/task/action.h"
#include "fleet.h"
#include "flows.h"
#include "node/node.h"

struct sim;

/* ---- what may go wrong with Belfry ---- */

#define BREACH_MAP(X)                                                                                                  \
    X(LOST, "an acknowledged task is neither final nor due")                                                           \
    X(EARLY, "a call before its due time")                                                                             \
    X(UNASKED, "a call that nobody asked for")                                                                         \
    X(AFTER_STOP, "a start after an acknowledged cancel or pause")                                                     \
    X(REPEATED, "a repeat of what no fault interrupted")                                                               \
    X(TWO_RESULTS, "two results accepted for one attempt, or a wrong one")                                             \
    X(TOO_OFTEN, "more attempts than max_attempts, or a retry out of its bounds")                                      \
    X(OCCURRENCE, "an occurrence that neither ran nor was counted as skipped")                                         \
    X(CATCH_UP, "more late runs after an outage than catch_up_mode allows")                                            \
    X(TWICE_MADE, "one idempotency key, two tasks")                                                                    \
    X(LIMIT, "more at once than a limit allows, or something that is closed")                                          \
    X(RATE, "more dispatches than the rate of a queue allows")                                                         \
    X(HELD, "a call to a host that had asked to be left alone")                                                        \
    X(EXPIRED, "a start after it expired")                                                                             \
    X(INNOCENT, "a task dead-lettered for another's fault, or a poison task that is not")                              \
    X(SLOT, "a slot that nobody lets go, or a wait for nobody")                                                        \
    X(STALE, "a start of what had been taken from the node")                                                           \
    X(BURIED, "a node buried that lived and could be heard")                                                           \
    X(UNOWNED, "a partition that nobody looks after, or two do for long")                                              \
    X(FAILOVER, "what a dead node held was not run by others in time")                                                 \
    X(SUSPECT, "a suspect that does not run alone on a worker")                                                        \
    X(IDLE, "usable room beside a due task for longer than a second")                                                  \
    X(STARVED, "a line that is overtaken more often than its share allows")                                            \
    X(RESERVE, "a start in a slot that is kept for a higher class")                                                    \
    X(ORDER, "a start before a task of its line that comes first by priority and age")                                 \
    X(JOIN, "a start before the tasks that it depends on allow it")                                                    \
    X(ARRIVAL, "a task that was not told of the end of one that it depends on, or told of another")                    \
    X(SKIPPED_RAN, "a start of a step that has ended or was skipped")                                                  \
    X(ENDS, "a run that does not end, or ends otherwise than its steps")                                               \
    X(DATA, "a body unlike what the receiver answered before")                                                         \
    X(SIGNAL, "a signal without effect, or an await that ends without one")                                            \
    X(MAP, "an item of a map that is missing, or more at once than its limit")                                         \
    X(UNDO, "a compensation of what was not done, out of order, twice or not at all")                                  \
    X(PINNED, "a run that changes its definition")                                                                     \
    X(RETRY, "a call of a step that is COMPLETED")                                                                     \
    X(RERUN, "a rerun that repeats other steps than those from its step on")                                           \
    X(RECORD, "an attempt in the history that never started")                                                          \
    X(AHEAD, "a slot of a concurrency key that is held long before the task is due")                                   \
    X(BLAME, "a breaker that holds a call to a host that is well, or no call at all")                                  \
    X(STALL, "late because the store was slow, although it was created long before")                                   \
    X(HOST, "more calls to a host at once than it has connections")                                                    \
    X(LATE, "late although nothing was wrong")                                                                         \
    X(STUCK, "something does not come to rest: slots, queue, events, a spinning loop")

enum breach {
#define X(name, text) BREACH_##name,
    BREACH_MAP(X)
#undef X
        BREACH_COUNT
};

/* Bugs that are planted on purpose. The oracle must catch each of them. */
#define PLANT_MAP(X)                                                                                                   \
    X(NONE, 0, "none")                                                                                                 \
    X(NO_FENCE, BREACH_TWO_RESULTS, "no-fence")         /* the store settles under any fence */                        \
    X(EARLY, BREACH_EARLY, "early")                     /* the node's clock is a millisecond ahead */                  \
    X(LOST_SETTLE, BREACH_LOST, "lost-settle")          /* a settle is confirmed and not done */                       \
    X(LOST_INSERT, BREACH_LOST, "lost-insert")          /* an insert is confirmed and not done */                      \
    X(LOST_PUT, BREACH_AFTER_STOP, "lost-put")          /* a cancel or pause is confirmed and not done */              \
    X(DOUBLE_SPAWN, BREACH_UNASKED, "double-spawn")     /* each occurrence is put in twice */                          \
    X(LOST_SPAWN, BREACH_OCCURRENCE, "lost-spawn")      /* the cursor moves, an occurrence is left out */              \
    X(LOST_MISSED, BREACH_CATCH_UP, "lost-missed")      /* overdue occurrences are not withdrawn */                    \
    X(FORGETFUL, BREACH_TOO_OFTEN, "forgetful")         /* attempts are not counted */                                 \
    X(AMO_AGAIN, BREACH_REPEATED, "at-most-once-again") /* a lost AT_MOST_ONCE task runs again */                      \
    X(SWALLOWED, BREACH_STUCK, "swallowed")             /* a completion never comes */                                 \
    X(DOUBLE_KEY, BREACH_TWICE_MADE, "double-key")      /* idempotency keys are not looked at */                       \
    X(SLEEPY, BREACH_LATE, "sleepy")                    /* nudges are dropped */                                       \
    X(DEAF, BREACH_LIMIT, "deaf")                       /* the node never hears of changed rules */                    \
    X(GENEROUS, BREACH_LIMIT, "generous")               /* every node gets all that it asks for of a shared limit */   \
    X(CROWDED, BREACH_LIMIT, "crowded")                 /* a concurrency key lets one more in */                       \
    X(HASTY, BREACH_RATE, "hasty")                      /* queues have twice their rate and burst */                   \
    X(RUDE, BREACH_HELD, "rude")                        /* Retry-After of the target is not reported */                \
    X(UNDYING, BREACH_EXPIRED, "undying")               /* nothing expires */                                          \
    X(HANGING_JUDGE, BREACH_INNOCENT, "hanging-judge")  /* every suspect that is lost is dead-lettered */              \
    X(LOST_WAKE, BREACH_LOST, "lost-wake")              /* unblocked lanes are not reported */                         \
    X(UNCOUNTED, BREACH_OCCURRENCE, "uncounted")        /* what is skipped at its due time is not counted */           \
    X(NO_SELF_FENCE, BREACH_STALE, "no-self-fence")     /* a node that was stopped fires what it held */               \
    X(NO_GAP, BREACH_BURIED, "no-gap")                  /* silence counts while the store is down */                   \
    X(NO_BURIAL, BREACH_LOST, "no-burial")              /* dead nodes are never marked dead */                         \
    X(SLOW_BURIAL, BREACH_FAILOVER, "slow-burial") /* heartbeats are four times as slow, and so is all that follows */ \
    X(OWN_CLOCK, BREACH_EARLY, "own-clock")        /* nodes go by their own clocks */                                  \
    X(UNDEAD, BREACH_STALE, "undead")              /* a node is not told that it was marked dead */                    \
    X(HOARDER, BREACH_UNOWNED, "hoarder")          /* a node takes all partitions for its own */                       \
    X(HAND_EARLY, BREACH_FAILOVER, "hand-early")   /* a claim is handed over before the queue has it */                \
    X(LOST_PUSH, BREACH_LOST, "lost-push")         /* a push is confirmed and not done */                              \
    X(SURE, BREACH_TWO_RESULTS, "sure")            /* a task that may be in the queue is treated as if it were not */  \
    X(ACK_FIRST, BREACH_TWO_RESULTS, "ack-first")  /* a worker acknowledges before it publishes */                     \
    X(NOT_PASSED, BREACH_REPEATED, "not-passed")   /* missing tasks are settled before the event barrier has passed */ \
    X(HELD_FOREVER, BREACH_STUCK, "held-forever")  /* nodes are not notified that others have settled their tasks */   \
    X(NO_LAPSE, BREACH_LOST, "no-lapse")           /* a delivery of a dead worker never times out */                   \
    X(REDELIVER, BREACH_TWO_RESULTS, "redeliver")  /* a queue delivers again what timed out */                         \
    X(SAME_EPOCH, BREACH_LOST, "same-epoch")       /* a queue that was wiped claims to know everything */              \
    X(DEAF_TO_JOINS, BREACH_IDLE, "deaf-to-joins") /* a node hears of no worker that joins later */                    \
    X(ONE_BOUND, BREACH_IDLE, "one-bound")         /* one bound for all workers, whatever they serve */                \
    X(WRONG_CLASS, BREACH_IDLE, "wrong-class")     /* a worker that waits for high tasks is not told of low ones */    \
    X(PARKED_SLOT, BREACH_IDLE, "parked-slot")     /* a task that waits for its host holds a slot */                   \
    X(ASKS_DROPPED, BREACH_STARVED, "asks-dropped")         /* a line without a quota loses its turn */                \
    X(NO_KEEP, BREACH_RESERVE, "no-keep")                   /* no slot is kept for a higher class */                   \
    X(NO_HOST_LIMIT, BREACH_HOST, "no-host-limit")          /* workers do not know how many calls a host takes */      \
    X(SLOT_AT_SETTLE, BREACH_STALL, "slot-at-settle")       /* a task holds its slot until it is settled */            \
    X(NO_RELEASE, BREACH_FAILOVER, "no-release")            /* what a dead node had claimed ahead stays claimed */     \
    X(DUE_ORDER, BREACH_ORDER, "due-order")                 /* priorities of a class do not matter */                  \
    X(KEY_AT_CLAIM, BREACH_AHEAD, "key-at-claim")           /* tasks with a key are claimed ahead, too */              \
    X(ANY_HOST, BREACH_BLAME, "any-host")                   /* one host's breaker holds all calls of its tenant */     \
    X(BLAMED_ON_SUCCESS, BREACH_BLAME, "blamed-on-success") /* a success opens a breaker, if many calls failed */      \
    X(ARRIVAL_LOST, BREACH_ARRIVAL, "arrival-lost")         /* some children are not told that a parent has ended */   \
    X(ARRIVAL_DOUBLED, BREACH_JOIN, "arrival-doubled")      /* one parent counts for two */                            \
    X(ARRIVAL_EARLY, BREACH_JOIN, "arrival-early")          /* a parent counts before it has ended */                  \
    X(STEP_LOST, BREACH_ARRIVAL, "step-arrival-lost")       /* the same three of steps of workflows */                 \
    X(STEP_DOUBLED, BREACH_JOIN, "step-arrival-doubled")                                                               \
    X(STEP_EARLY, BREACH_JOIN, "step-arrival-early")                                                                   \
    X(SKIP_KEPT, BREACH_ARRIVAL, "skip-kept")        /* children are not told that a parent was skipped */             \
    X(EARLY_SIGNAL, BREACH_SIGNAL, "early-signal")   /* a signal that nobody awaits yet is dropped */                  \
    X(WIDE_WINDOW, BREACH_MAP, "wide-window")        /* one item of a map more at once */                              \
    X(RESUME_PAST, BREACH_JOIN, "resume-past")       /* a resume releases steps whose parents are open */              \
    X(OPENED_TWICE, BREACH_UNASKED, "opened-twice")  /* a step of a run has two rows */                                \
    X(FORGOTTEN, BREACH_ENDS, "forgotten")           /* ended steps of a run that is open are purged */                \
    X(UNDO_ORDER, BREACH_UNDO, "undo-order")         /* what was done first is undone first */                         \
    X(RETRY_DONE, BREACH_RETRY, "retry-completed")   /* a retry repeats a step that is COMPLETED */                    \
    X(RERUN_SHORT, BREACH_RERUN, "rerun-short")      /* a rerun repeats its step, and nothing below it */              \
    X(RERUN_LONG, BREACH_RERUN, "rerun-long")        /* a rerun repeats all steps */                                   \
    X(ABORT_RECORD, BREACH_RECORD, "abort-recorded") /* a claimed step that is cancelled leaves an attempt */

enum plant {
#define X(name, breach, text) PLANT_##name,
    PLANT_MAP(X)
#undef X
        PLANT_COUNT
};

/* ---- counters over many seeds ---- */

#define FAULT_MAP(X)                                                                                                   \
    X(CRASH, "crash")                                                                                                  \
    X(STOP, "process stopped")                                                                                         \
    X(BURIAL, "live node buried")                                                                                      \
    X(STALL, "store stalled")                                                                                          \
    X(DOWN, "store down")                                                                                              \
    X(FAIL_BEFORE, "write failed")                                                                                     \
    X(FAIL_AFTER, "answer lost")                                                                                       \
    X(JUMP_FORWARD, "clock set forward")                                                                               \
    X(JUMP_BACK, "clock set back")                                                                                     \
    X(EVENT_TWICE, "event duplicated")                                                                                 \
    X(EVENT_ORDER, "events reordered")                                                                                 \
    X(EVENT_FAIL, "events failed")                                                                                     \
    X(QUEUE_FAIL, "queue failed")                                                                                      \
    X(NO_ZONES, "time zones gone")                                                                                     \
    X(WORKER_CRASH, "worker crashed")                                                                                  \
    X(WORKER_STOP, "worker stopped")                                                                                   \
    X(WIPE, "queue wiped")                                                                                             \
    X(QUEUE_DOWN, "shared queue down")                                                                                 \
    X(EVENTS_DOWN, "shared events down")                                                                               \
    X(CUT, "updaters cut off")                                                                                         \
    X(IO_FAIL, "asynchronous request failed")                                                                          \
    X(IO_LOST, "its answer lost")                                                                                      \
    X(PLAN, "plan failed")

enum fault {
#define X(name, text) FAULT_##name,
    FAULT_MAP(X)
#undef X
        FAULT_COUNT
};

/* What happened, by the node's own metrics: a run in which no task was gated proves nothing about gates. */
#define PASS_MAP(X)                                                                                                    \
    X(TASKS_BLOCKED, "blocked")                                                                                        \
    X(RUNS_SKIPPED, "skipped")                                                                                         \
    X(TASKS_REPLACED, "replaced")                                                                                      \
    X(TASKS_EXPIRED, "expired")                                                                                        \
    X(TASKS_HELD, "held")

struct sim_stats {
    int64_t seeds, tasks, acknowledged, calls, steps, refused;
    int64_t faults[FAULT_COUNT];
    int64_t breaches[BREACH_COUNT];
    int64_t duplicated; /* allowed: the call was in flight at a crash */
    int64_t rules, poisoned, children, runs;
    int64_t retried, rerun, copied; /* runs that began again, runs that are reruns, steps of these that are copies */
#define X(metric, text) int64_t passed_##metric;
    PASS_MAP(X)
#undef X
    int32_t *late_ms;
    size_t late_count, late_cap;
};

/* ---- the world ---- */

typedef void timer_fn(struct sim *s, void *context);
struct timer {
    struct heap_node node;
    timer_fn *fn;
    void *context;
};

enum { SLOW_US_MAX = 400000, CALLS_MAX = 20000, ROOM_FOR_ALL = 1000 };

/* Worlds without faults in which somebody could hold up others (isolation.c):
 *  - BUSY: one node with few slots and a backlog, and perhaps a host with few connections;
 *  - POOLS: workers that serve different tasks; one with a label that no other has joins late;
 *  - STALLS: a node with room for everything, and a store that takes seconds for a commit now and then;
 *  - BREAKERS: some hosts of some tenants fail for a while, others never do; tasks have concurrency keys. */
enum isolation {
    ISOLATION_NONE,
    ISOLATION_BUSY,
    ISOLATION_POOLS,
    ISOLATION_STALLS,
    ISOLATION_BREAKERS,
    ISOLATION_KINDS
};

/* How much goes wrong with this seed. */
struct profile {
    bool sparse; /* few tasks and many faults: no other traffic hides a forgotten task */
    bool calm;   /* no faults, and room for everything: then nothing may be late */
    /* The only fault is that nodes crash, and never all of them: then no task is later than a failover takes. */
    bool failover;
    int64_t latency_us; /* of the writer, each way, at most */
    int fail_percent;   /* of batches, before they are applied; as many after */
    int ports_percent;  /* of calls of queue and events */
    int nodes;          /* on the store; one: it is not shared */
    int workers;        /* processes of their own: a fleet; 0: none */
    int worker_crashes, worker_stops, wipes, queue_downs, events_downs, cuts;
    int crashes, downs, jumps, zone_losses, stops;
    int impatient_percent; /* of users: they act on the same task again at once */
    size_t slots;
    int tenants;
    bool rules;  /* queues have limits, rates and pauses, which change */
    bool limits; /* so do tenants */
    bool hosts;  /* hosts fail for a while */
    bool keys;   /* tasks have concurrency keys and overlap policies, and expire */
    bool poison; /* one task takes the node down whenever it runs; nothing else does */
    int requests;
    int64_t poll_ms;
    int64_t ahead_ms;   /* how far ahead nodes claim; 0: not ahead */
    int64_t length_us;  /* until all faults end */
    size_t connections; /* of a host, in each process; 0: no limit */
    enum isolation isolation;
    int queues;             /* ISOLATION: that tasks use */
    int64_t call_us;        /* ISOLATION: how long a call takes, at most */
    bool joins;             /* tasks depend on others */
    bool flows;             /* users run workflows */
    bool purges;            /* the same, and nothing else; what has ended is purged soon */
    int fail_calls_percent; /* BREAKERS: of calls to a failing host; if 100: all hosts but one fail at the same time */
};

struct sim_writer {
    struct writer base;
    struct list pending, done; /* operations that are not yet applied; applied or failed, and not yet delivered */
    struct list swallowed;     /* by a planted bug */
    bool busy;
    int64_t deliver_us;
};

struct call {
    struct list link;
    struct sim_node *node;
    struct run *run;
    struct timer *timer;
    struct outcome outcome;
};

struct sim_runner {
    struct runner base;
    struct list calls;
};

/* The limits of a queue or tenant as its user set them, and since when. */
enum { TENANTS_MAX = 3, QUEUES = 3, HOSTS = 6, COMMON_HOSTS = 3 /* of users that are not isolated */ };

/* What tasks need of a worker. */
enum need { NEED_NOTHING, NEED_CPU, NEED_LABEL, NEED_MUCH, NEEDS };

/* When a process last had no room: steady. */
struct sim_full {
    int64_t class_us[CLASSES], host_us[HOSTS], need_us[NEEDS], tenant_us[TENANTS_MAX];
};

struct sim_queue {
    struct queue_rules rules;
    int64_t changed_us; /* steady; for tasks that started under the old limits */
    double level;       /* of a token bucket of the oracle's own */
    int64_t level_us, level_wall_us;
};

/* What the receiver knows of a host's answers to a tenant. */
enum { ANSWERS_MAX = 256 };
struct sim_host {
    struct {
        int64_t us;
        bool failed;
    } answers[ANSWERS_MAX]; /* the latest, round and round */
    size_t answer_count;
    bool open;         /* so many failed that its breaker may be open */
    int64_t open_us;   /* steady: since when */
    int64_t well_us;   /* steady: when it last answered well; 0: never */
    int64_t blamed_ms; /* of the planted bug BLAMED_ON_SUCCESS: until when it is held */
};

struct sim_tenant {
    struct tenant_rules rules;
    int64_t changed_us;
    struct sim_queue queues[QUEUES];
    struct sim_host hosts[HOSTS];
    int64_t left_alone_ms[HOSTS]; /* wall: until then, the host asked not to be called */
};

struct gates {
    struct catalog_cache *catalog, *deaf; /* of the planted bug DEAF, which stays empty */
    struct sim_tenant tenants[TENANTS_MAX];
    bool failing[HOSTS];
    struct uuid poison;
};

enum { NODES_MAX = 4, UNHEARD_US = 3000000 /* that a node may be silent after a fault */ };

/* A process on a machine of its own. */
struct sim_node {
    struct sim *sim;
    int number;
    struct sim_writer writer;
    struct sim_runner runner;
    struct queue queue; /* faulty ones around the next two */
    struct events events;
    struct async_io *async_io; /* to the faulty ones */
    struct queue *queue_inner;
    struct events *events_inner;

    struct clock clock;                       /* with several nodes: the machine's, or as corrected by the store */
    int64_t skew_us, corrected_us, behind_us; /* corrected_us: 0 if it was not corrected yet */
    struct node *node;                        /* NULL: down, or this is the process of a worker */
    struct worker *worker;                    /* NULL: down, or this is the process of a node */
    struct sim_async_io fleet_async_io;
    uint64_t life;
    int64_t wake_ms; /* wall, by its clock */
    bool poked;      /* something happened for which a loop would step */
    int spins;
    int64_t stopped_until_us, slept_us; /* stopped by SIGSTOP until then; how long in all */
    int64_t trouble_us;                 /* steady: until when it had a reason to be silent */
    bool buried;                        /* marked dead, and does not know it yet */

    struct uuid dead; /* its id, if it crashed and was not marked dead yet; else nil */

    const struct sim_worker_kind *kind; /* of a worker; NULL: it serves everything */
    int64_t joined_us;
    struct sim_full full;

    struct planner planner;
    struct list plans; /* that it waits for */
};

struct sim {
    uint64_t seed;
    bool verbose;
    enum plant plant;
    struct profile profile;
    struct sim_stats *stats;

    struct prng random;
    int64_t steady_us, offset_us, wall_max_us;
    int64_t jumped; /* how often the wall clock was set */
    struct heap timers;
    bool healed;
    int64_t healed_ms;   /* wall: when all faults ended */
    int64_t breakers_ms; /* wall: until when a breaker holds tasks, or when the last one closed */
    int64_t stopped_ms;  /* wall: when the node was asked to drain, at the end */
    int64_t stopped_us;  /* the same, steady */
    bool ended_late;     /* a call ended after that */
    bool crowded;        /* all slots are taken, or all that one tenant gets */
    int64_t crowded_ms;  /* wall: until when that was so, last time */

    struct store *store;
    struct reader *reader;
    struct zoneinfo *zones;
    struct zoneinfo node_zones; /* the same, as the node sees them: one is gone at times */
    int64_t no_zone_until_us;
    struct metrics *metrics;
    struct uuid_gen ids;

    struct sim_node nodes[NODES_MAX];
    struct sim_node workers[WORKERS_MAX];
    struct sim_fleet fleet;
    int64_t down_until_us; /* of the store */
    int64_t stalled_us;    /* until when its commit takes */
    int64_t crashed_us;    /* steady: when a node crashed last */
    uint64_t lives;        /* how often a node started or rejoined */
    int64_t born_ms;       /* wall: the end of the last outage; INT64_MIN: not known, the clock was set back since */
    int64_t outages;
    struct sim_node *ghost;   /* a dead node that is being taken apart: nothing it does counts */
    int64_t joined_ms;        /* wall: until then, nodes that start at once find out which is first */
    int64_t suspect_ended_ms; /* wall: when a suspect's call ended last */
    int64_t unowned_us;       /* since when the partitions are not evenly shared; 0: they are */

    size_t plant_groups; /* kinds of workers that the node knows of */
    /* ISOLATION, by line: how many others started while its head was due; steady: when something of it was last settled
     * that had not fired. */
    int64_t *overtaken, *unfired_us;

    struct gates gates;
    struct flows flows;
    struct oracle *oracle;
    struct list requests;
    char first_breach[512]; /* empty while all is well */
};

int64_t wall_us(const struct sim *s); /* the store's clock; with one node, also the node's */
int64_t wall_ms(const struct sim *s);
int64_t node_wall_ms(struct sim_node *n);  /* by the node's clock */
bool is_stopped(const struct sim_node *n); /* by SIGSTOP: its completions wait */
struct sim_node *some_node(struct sim *s); /* a node that users may ask; NULL: there is none */
bool is_cluster(const struct sim *s);
struct timer *after_us(struct sim *s, int64_t delay_us, timer_fn *fn, void *context);
void timer_cancel(struct sim *s, struct timer *t);

bool chance(struct sim *s, int percent);
int64_t between(struct sim *s, int64_t low, int64_t high);
bool faulty(struct sim *s, int percent, enum fault kind); /* whether this fault happens now; if so, it is counted */

void trace(const struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void breach(struct sim *s, enum breach kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const char *short_id(struct uuid id); /* for traces; one of a few rotating buffers */

/* ---- parts ---- */

/* writer.c: gathers operations into batches, applies them late, answers later, or fails. */
void sim_writer_init(struct sim_node *n);
void sim_writer_crash(struct sim_node *n); /* submitted operations are applied or not; the node gets no answer */
void sim_writer_answer_ghosts(struct sim_node *n);

/* planted_bugs.c: the store below the writer, with the planted bugs. */
enum err plant_apply(struct sim *s, struct op *const *ops, size_t n, struct error *e);
bool plant_swallows(struct sim_node *n, struct op *op);
void plant_store(struct sim *s); /* a bug of the store itself */

/* planted_bugs_wrap.c: planted bugs inside the node. */
void plant_wrap(struct sim *s); /* of this run; NULL: none */

/* ports.c: queue and events that fail, repeat and reorder; time zones that are gone; the receiver behind the runner. */
void sim_ports_open(struct sim_node *n);
void sim_ports_close(struct sim_node *n);
void sim_zones_init(struct sim *s);
void sim_runner_init(struct sim_node *n);
void sim_runner_crash(struct sim_node *n);

/* nodes.c: several nodes on one store. */
void nodes_choose(struct sim *s, struct profile *p);
void nodes_init(struct sim *s);
void nodes_plan(struct sim *s);                               /* schedules the faults */
void nodes_applied(struct sim_node *by, const struct op *op); /* an operation that may mark a node dead */
void nodes_crashed(struct sim_node *n);                       /* it is about to be taken apart */
void nodes_judge_start(struct sim_node *n, const struct task *t);
int64_t nodes_behind_ms(const struct sim *s); /* the store's time, at most: as long as its answers take */
void nodes_judge_shares(struct sim *s);       /* now and then */

void nodes_init_clock(struct sim *s, struct sim_node *n, int number);

/* fleet.c: workers in processes of their own, and a queue and events that all share. */
struct known_call;
bool is_fleet(const struct sim *s);
int sim_process_count(const struct sim *s);
struct sim_node *sim_process(struct sim *s, int i); /* nodes first */
bool is_up(const struct sim_node *n);
void fleet_choose(struct sim *s, struct profile *p);
void fleet_init(struct sim *s);
void fleet_release(struct sim *s);
void fleet_plan(struct sim *s);
void fleet_heal(struct sim *s);
void fleet_setup(struct sim_node *n, struct node_setup *setup);
void fleet_applied(struct sim_node *by, const struct op *op);
void fleet_node_died(struct sim_node *n);
/* The task may be in the queue: the push's answer was lost. */
void fleet_doubt(struct sim *s, struct uuid id, int64_t fence);
bool fleet_forgives(struct sim *s, const struct task *t); /* the task may run although it ran before, or was settled */
bool fleet_forgives_call(struct sim *s, const struct known_call *c);
void fleet_judge_start(struct sim_node *n, const struct task *t);
bool fleet_workers_are_idle(const struct sim *s);
void fleet_stop_workers(struct sim *s);
void fleet_bury_workers(struct sim *s);
bool fleet_plant_runs(struct sim_node *n, struct io_request *e); /* a planted bug handled it instead */

/* fleet_async_io.c: how processes reach the shared queue and events. */
void fleet_async_io_init(struct sim_node *n);
void fleet_async_io_crash(struct sim_node *n);
void fleet_async_io_answer_ghosts(struct sim_node *n);
void fleet_events_again(struct sim *s); /* delivers again what was polled and not acknowledged */

/* gates.c: queues, tenants and hosts, and changes of their rules. */
void gates_init(struct sim *s);
void gates_release(struct sim *s);
void gates_plan(struct sim *s); /* schedules the changes */
void gates_heal(struct sim *s);
void gates_node_starts(struct sim *s);                    /* with full buckets, and no memory of hosts */
struct catalog_cache *gates_catalog_cache(struct sim *s); /* the node's */
struct sim_tenant *gates_tenant(struct sim *s, const struct task *t);
struct sim_queue *gates_queue(struct sim *s, const struct task *t);
int gates_host(const struct task *t); /* -1: it calls none */
struct str gates_queue_name(int number);
struct str gates_target(int host);
bool gates_were_ever_closed(const struct sim *s);            /* something may be late for a reason */
bool gates_strike(struct sim_node *n, const struct task *t); /* a poison task started: the node is about to die */

/* limits.c: what must hold at each start. */
void limits_judge_start(struct sim_node *n, const struct task *t);
void limits_ended(struct sim *s, const struct task *t, const struct outcome *o);
void limits_check(struct sim *s, const struct task *t); /* everything has drained: no slot is left in use */
/* The task waits for a slot that others hold, or that it was just given. */
bool limits_is_in_line(struct sim *s, const struct task *t);

/* isolation.c: worlds in which somebody could hold up others. */
struct subject;
bool isolation_is_due(const struct sim *s); /* this seed is for one of them */
struct profile isolation_profile(struct sim *s);
void isolation_init(struct sim *s);
void isolation_release(struct sim *s);
void isolation_plan(struct sim *s);
void isolation_make_task(struct sim *s, struct task *t);          /* one of a burst; t: any task */
void isolation_make_alike(const struct task *as, struct task *t); /* of the same line */
int64_t isolation_join_us(struct sim *s, int worker);             /* when the worker starts */
void isolation_setup_worker(struct sim_node *w, struct worker_setup *setup);

/* isolation_judge.c: nobody waits for another. */
enum need isolation_need(const struct task *t);
bool isolation_serves(const struct sim_node *n, const struct subject *x); /* the process can run it, if it has room */
bool isolation_serves_class(const struct sim_node *n, enum priority_class c);
bool isolation_has(const struct sim_node *n, const int64_t used[2], enum need need); /* enough CPU and memory */
void isolation_note_room(struct sim_node *n); /* before and after the calls of a process change */
void isolation_judge_start(struct sim_node *n, const struct task *t);
void isolation_look(struct sim *s, void *context);              /* now and then */
void isolation_unfired(struct sim *s, const struct subject *x); /* it was put aside, returned or lost */

/* blame.c: breakers hold calls to hosts that fail, and nothing else. */
void blame_answered(struct sim *s, const struct task *t, const struct outcome *o, int64_t started_us);
void blame_judge(struct sim *s, const struct event *e); /* an outcome is published */

/* client.c: users, and what an API does for them. */
void client_act(struct sim *s); /* one random request */
void client_free(struct sim *s);

/* oracle.c: what users and the receiver know. */
struct known_call {
    struct uuid claim;
    int64_t fence, due_ms, started_us, started_wall_ms, ended_wall_ms;
    enum outcome_kind outcome;
    enum failure failure;
    int64_t retry_after_ms;
    bool ended, sent, settled, at_crash;
    struct sim_node *at;           /* who made it */
    int64_t crashed_us;            /* with at_crash: when */
    const struct sim_node *reaper; /* the node that was told last that its delivery timed out; NULL: none */
    enum task_state next;          /* if settled */
    bool retried;                  /* if settled: by its result, not as lost */
    bool redriven;                 /* a user asked for another run after it */
};

enum { SUBJECT_PARENTS = 3 };

struct subject {
    struct uuid id, parent;
    struct dependency parents[SUBJECT_PARENTS]; /* that it depends on */
    size_t parent_count;
    enum dag_join join;
    int32_t tenant;
    enum task_kind kind;
    enum overlap overlap;     /* as its user set it, like the next two */
    int key_limit;            /* 0: no key */
    int64_t expires_after_ms; /* 0: never */
    bool acked, busy, manual;
    int max_attempts;
    int64_t max_delay_ms;
    enum delivery delivery;
    bool stop_sent, pause_sent, force_sent, schedule_edited, withdrawn;

    int priority, queue, host; /* host: -1, it calls none */
    enum need need;
    bool waits;       /* nothing of it runs, and it is not final */
    int64_t waits_us; /* since when; steady */
    int64_t due_ms;   /* while it waits */
    bool idle_told;
    struct uuid holder;   /* the node that has claimed it; nil: none. Perhaps it is dead */
    int64_t holder_fence; /* of that claim */

    int redrives;
    int64_t quiet_us;   /* steady: since when nothing of it may start; INT64_MAX: it may */
    int64_t stopped_us; /* steady: when its cancel or delete was acknowledged; INT64_MAX: it was not */
    int64_t due_min_ms; /* the earliest due time that any user asked for */
    int64_t scheduled_ms;
    int64_t acked_wall_ms;
    struct subject *rival; /* the same idempotency key under another id */
    bool flow;             /* it is a run of a workflow, or a task of one (flows.h) */

    struct recurrence rules[4]; /* RECURRING: all rules that it had */
    size_t rule_count;
    struct tz *zone;
    struct schedule schedule;
    int64_t cursor_ms;
    int64_t late_after; /* of this outage: so many occurrences that were due before its end ran after it */
    int late_runs;

    struct known_call *calls;
    size_t call_count, call_cap;
};

struct oracle {
    struct map by_id;
    struct map fences;  /* id → the highest fence that was settled */
    struct subject **v; /* in the order they became known */
    size_t n, cap;
};

/* joins.c: tasks that depend on others. */
void joins_judge_start(struct sim *s, const struct subject *x);
bool joins_explain(const struct subject *x, const struct task *t); /* it need not have run */
void joins_check(struct sim *s, const struct subject *x, const struct task *t);

struct oracle *oracle_new(void);
void oracle_free(struct oracle *o);
struct subject *oracle_find(struct sim *s, struct uuid id);
struct subject *oracle_add(struct sim *s, const struct task *t);
void oracle_acked(struct sim *s, struct subject *x);
void oracle_quiet(struct sim *s, struct subject *x, enum action a); /* a cancel, pause or delete was acknowledged */
void oracle_awake(struct sim *s, struct subject *x);                /* a resume, run-now or retry is being sent */
void oracle_redriven(struct subject *x);                            /* a retry is being sent */
struct known_call *oracle_started(struct sim_node *n, const struct task *t);
const struct known_call *oracle_call(struct sim *s, struct uuid id, int64_t fence); /* NULL: there was none */
int64_t oracle_settled_fence(struct sim *s, struct uuid id);                        /* the latest; 0: none */
void oracle_ended(struct sim *s, const struct task *t, const struct outcome *o);
void oracle_breakers(struct sim *s, const struct op_breakers *op);
void oracle_settled(struct sim *s, const struct settlement *v, int64_t now_ms);
void oracle_crashed(struct sim_node *n); /* the calls that it had under way may be lost */
/* A control node was told that a delivery timed out: it is to settle it. */
void oracle_timed_out(const struct sim_node *n, const struct task *t);
/* Those calls may be lost. */
void oracle_forgive(struct sim *s, bool (*forgives)(struct sim *s, const struct known_call *c));
void oracle_check(struct sim *s); /* everything has drained */

/* run.c */
void sim_run(uint64_t seed, enum plant plant, bool verbose, struct zoneinfo *zones, struct sim_stats *stats,
             char first_breach[512]);
void sim_know_lanes(struct sim_node *n);
void sim_crash(struct sim_node *n);
void sim_come_back(struct sim_node *n); /* after a while */
void sim_come_back_soon(struct sim_node *n);
const char *breach_text(enum breach b);
const char *fault_text(enum fault f);
const char *plant_name(enum plant p);
enum breach plant_breach(enum plant p);
