#pragma once
/* tests/sim/sim.h - a world with one seed: a clock that jumps, a store that is slow, fails or loses its answers, a node that
 * crashes, a receiver that writes down each call, users who remember what was acknowledged.
 *
 * Real: core, roles, the memory store, queue and events. Simulated: time, the writer, the network, people. Everything
 * happens in one thread, from one heap of timers and one random stream, so the same seed gives the same run.
 * The oracle (oracle.c) never asks the store what happened: it knows what users were told and what the receiver got. */
#include <stdio.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/prng.h"
#include "core/action.h"
#include "role/node.h"

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
    X(TWICE_MADE, "one idempotency key, two tasks")                                                                    \
    X(LATE, "late although nothing was wrong")                                                                         \
    X(STUCK, "something does not come to rest: slots, queue, events, a spinning loop")

enum breach {
#define X(name, text) BREACH_##name,
    BREACH_MAP(X)
#undef X
        BREACH_COUNT
};

/* Bugs put in on purpose, to see them caught. */
#define PLANT_MAP(X)                                                                                                   \
    X(NONE, 0, "none")                                                                                                 \
    X(NO_FENCE, BREACH_TWO_RESULTS, "no-fence")         /* the store settles under any fence */                        \
    X(EARLY, BREACH_EARLY, "early")                     /* the node's clock is a millisecond ahead */                  \
    X(LOST_SETTLE, BREACH_LOST, "lost-settle")          /* a settle is confirmed and not done */                       \
    X(LOST_INSERT, BREACH_LOST, "lost-insert")          /* an insert is confirmed and not done */                      \
    X(LOST_PUT, BREACH_AFTER_STOP, "lost-put")          /* a cancel or pause is confirmed and not done */              \
    X(DOUBLE_SPAWN, BREACH_UNASKED, "double-spawn")     /* each occurrence is put in twice */                          \
    X(LOST_SPAWN, BREACH_OCCURRENCE, "lost-spawn")      /* the cursor moves, an occurrence is left out */              \
    X(FORGETFUL, BREACH_TOO_OFTEN, "forgetful")         /* attempts are not counted */                                 \
    X(AMO_AGAIN, BREACH_REPEATED, "at-most-once-again") /* a lost AT_MOST_ONCE task runs again */                      \
    X(SWALLOWED, BREACH_STUCK, "swallowed")             /* a completion never comes */                                 \
    X(DOUBLE_KEY, BREACH_TWICE_MADE, "double-key")      /* idempotency keys are not looked at */                       \
    X(SLEEPY, BREACH_LATE, "sleepy")                    /* nobody nudges */

enum plant {
#define X(name, breach, text) PLANT_##name,
    PLANT_MAP(X)
#undef X
        PLANT_COUNT
};

/* ---- what is counted over many seeds ---- */

#define FAULT_MAP(X)                                                                                                   \
    X(CRASH, "crash")                                                                                                  \
    X(DOWN, "store down")                                                                                              \
    X(FAIL_BEFORE, "write failed")                                                                                     \
    X(FAIL_AFTER, "answer lost")                                                                                       \
    X(JUMP_FORWARD, "clock set forward")                                                                               \
    X(JUMP_BACK, "clock set back")                                                                                     \
    X(EVENT_TWICE, "event duplicated")                                                                                 \
    X(EVENT_ORDER, "events reordered")                                                                                 \
    X(EVENT_FAIL, "events failed")                                                                                     \
    X(QUEUE_FAIL, "queue failed")

enum fault {
#define X(name, text) FAULT_##name,
    FAULT_MAP(X)
#undef X
        FAULT_COUNT
};

struct stats {
    int64_t seeds, tasks, acknowledged, calls, steps, refused;
    int64_t faults[FAULT_COUNT];
    int64_t breaches[BREACH_COUNT];
    int64_t duplicated; /* allowed: what was in flight at a crash */
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

enum { SLOW_US_MAX = 400000, CALLS_MAX = 20000 };

/* How wild this seed is. */
struct profile {
    bool sparse;        /* few tasks and much trouble: nobody else's traffic hides what was forgotten */
    bool calm;          /* no faults at all, room for everything: then nothing may be late */
    int64_t latency_us; /* of the writer, at most; each way */
    int fail_percent;   /* of batches, before; as many after */
    int ports_percent;  /* of calls of queue and events */
    int crashes, downs, jumps;
    int impatient_percent; /* of users: act on the same task again at once */
    size_t slots;
    int requests;
    int64_t poll_ms;
    int64_t length_us; /* until everything heals */
};

struct sim_writer {
    struct writer base;
    struct list pending, done; /* ops: not yet applied; applied or failed, not yet delivered */
    struct list swallowed;     /* by a planted bug */
    bool busy;
    int64_t down_until_us, deliver_us;
};

struct sim_runner {
    struct runner base;
    struct list calls;
};

struct sim {
    uint64_t seed;
    bool verbose;
    enum plant plant;
    struct profile profile;
    struct stats *stats;

    struct prng random;
    int64_t steady_us, offset_us, wall_max_us;
    int64_t jumped; /* how often the clock was set */
    struct heap timers;
    bool healed;
    int64_t healed_ms;  /* by the wall clock */
    int64_t stopped_ms; /* by the wall clock: when the node was asked to drain, in the end */

    struct store *store;
    struct reader *reader;
    struct zoneinfo *zones;
    struct metrics *metrics;
    struct uuid_gen ids;

    struct sim_writer writer;
    struct sim_runner runner;
    struct queue queue; /* shaky ones around the next two */
    struct events events;
    struct queue *queue_inner;
    struct events *events_inner;

    struct node *node; /* NULL: down */
    uint64_t lives;
    int64_t wake_ms;
    bool poked; /* something happened that a loop would step for */
    bool ghost; /* the node is dead and only being taken apart: nothing it does counts */
    int spins;

    struct oracle *oracle;
    struct list requests;
    char first_breach[512]; /* "" while all is well */
};

int64_t wall_us(const struct sim *s);
int64_t wall_ms(const struct sim *s);
struct timer *after_us(struct sim *s, int64_t delay_us, timer_fn *fn, void *context);
void timer_cancel(struct sim *s, struct timer *t);

bool chance(struct sim *s, int percent);
int64_t between(struct sim *s, int64_t low, int64_t high);
bool faulty(struct sim *s, int percent, enum fault kind); /* happens now, and is counted */

void trace(const struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void breach(struct sim *s, enum breach kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const char *short_id(struct uuid id); /* for traces; one of a few rotating buffers */

/* ---- parts ---- */

/* writer.c: gathers operations into batches, applies them late, answers later, or fails. */
void sim_writer_init(struct sim *s);
void sim_writer_crash(struct sim *s); /* what was submitted is applied or not; nobody is told by it */
void sim_writer_answer_ghosts(struct sim *s);

/* plant.c: the store below the writer, with the planted bugs. */
enum err plant_apply(struct sim *s, struct op *const *ops, size_t n, struct error *e);
bool plant_swallows(struct sim *s, struct op *op);

/* ports.c: queue and events that fail, repeat and reorder; the receiver behind the runner. */
void sim_ports_open(struct sim *s);
void sim_ports_close(struct sim *s);
void sim_runner_init(struct sim *s);
void sim_runner_crash(struct sim *s);

/* client.c: users and what an API does for them. */
void client_act(struct sim *s); /* one random request */
void client_free(struct sim *s);

/* oracle.c: what users and the receiver know. */
struct known_call {
    int64_t fence, due_ms, started_us, started_wall_ms;
    enum outcome_kind outcome;
    enum failure failure;
    int64_t retry_after_ms;
    bool ended, sent, settled, at_crash;
    enum task_state next; /* if settled */
    bool redriven;        /* a user asked for more after it */
};

struct subject {
    struct uuid id, parent;
    enum task_kind kind;
    bool acked, busy, manual;
    int max_attempts;
    int64_t max_delay_ms;
    enum delivery delivery;
    bool stop_sent, pause_sent, force_sent, schedule_edited, withdrawn;
    int redrives;
    int64_t quiet_us;   /* since when nothing of it may start; INT64_MAX: it may */
    int64_t due_min_ms; /* the earliest that anybody asked for */
    int64_t scheduled_ms;
    int64_t acked_wall_ms;
    struct subject *rival; /* the same idempotency key under another id */

    struct recurrence rules[4]; /* RECURRING: all that it had */
    size_t rule_count;
    struct tz *zone;
    struct schedule schedule;
    int64_t cursor_ms;

    struct known_call *calls;
    size_t call_count, call_cap;
};

struct oracle {
    struct map by_id;
    struct subject **v; /* in the order they became known */
    size_t n, cap;
};

struct oracle *oracle_new(void);
void oracle_free(struct oracle *o);
struct subject *oracle_find(struct sim *s, struct uuid id);
struct subject *oracle_add(struct sim *s, const struct task *t);
void oracle_acked(struct sim *s, struct subject *x);
void oracle_quiet(struct sim *s, struct subject *x); /* a cancel, pause or delete was acknowledged */
void oracle_awake(struct sim *s, struct subject *x); /* a resume, run-now or retry is being sent */
void oracle_redriven(struct subject *x);             /* a retry is being sent */
struct known_call *oracle_started(struct sim *s, const struct task *t);
void oracle_ended(struct sim *s, const struct task *t, const struct outcome *o);
void oracle_settled(struct sim *s, const struct settlement *v, int64_t now_ms);
void oracle_crashed(struct sim *s);
void oracle_check(struct sim *s); /* all has drained */

/* run.c */
void sim_run(uint64_t seed, enum plant plant, bool verbose, struct zoneinfo *zones, struct stats *stats,
             char first_breach[512]);
void sim_crash(struct sim *s);
const char *breach_text(enum breach b);
const char *fault_text(enum fault f);
const char *plant_name(enum plant p);
enum breach plant_breach(enum plant p);
