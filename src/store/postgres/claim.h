#pragma once
/* store/postgres/claim.h - what the parts of OP_CLAIM share: claim_walk.c walks the lanes, slot_gate.c reads
 * the tasks that need slots (what becomes of those is decided in store/common/slots.h), claim.c marks what was chosen.
 *
 * A walk brings many candidates at once, all of them locked for us. After one was dealt with, the rows that were brought with it may
 * have changed: they are forgotten, and the lanes walked anew from behind it. */
#include "store/common/slots.h"
#include "store/postgres/internal.h"

/* What a walk says of a candidate. */
enum due_column {
    DUE_LANE, /* which of the lanes asked for, from 1 */
    DUE_ID,
    DUE_MS,
    DUE_BYTES, /* of its payload and target_config */
    DUE_TENANT,
    DUE_KIND,
    DUE_PARENT,
    DUE_SCHEDULED_MS,
    DUE_DELETED,
    DUE_FENCE,
    DUE_GATES
};

static inline int pg_claim_pool(const struct op_claim *op, bool suspects)
{
    return pool_of_suspects(op->lease ? POOL_LEASED : POOL_DISPATCHED, suspects);
}

/* Brings what is to be known of the slots that a walk's candidates need, and their locks, as far as nobody else has them. */
enum err pg_gate_prefetch(struct store_postgres *s, const struct pg_result *r, struct error *e) must_use;
/* The candidate at that row of a walk, row and task; its texts are in s->arena. Nothing is in flight. */
enum err pg_candidate_read(struct store_postgres *s, const struct pg_result *r, int row, struct candidate *ret,
                           struct error *e) must_use;
/* Another node is seeing to a slot that it needs: it is left for the next claim. */
bool pg_gate_is_busy(struct store_postgres *s, const struct candidate *k);

/* Where a walk through a lane stands: behind this one. */
struct pg_claim_position {
    int64_t due_ms;
    struct uuid id;
};

#define LAST_ID                                                                                                        \
    {                                                                                                                  \
        {                                                                                                              \
            255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255                             \
        }                                                                                                              \
    }
#define POSITION_START ((struct pg_claim_position){ INT64_MIN, LAST_ID })

/* A lane; or all lanes of suspects, which are walked as one. */
struct pg_lane_walk {
    struct lane_quota *quota; /* NULL: of suspects */
    int64_t number;
    struct pg_scan scan;
    size_t asked, passed;
    struct pg_claim_position position;
    int64_t passed_ms; /* the earliest that was passed over; INT64_MAX: none */
    bool is_seen;      /* all that may be taken was */
};

struct pg_claim {
    struct op_claim *op;
    struct arena *arena;
    struct gate gate;
    struct pg_lane_walk *lanes; /* as in op->lanes, and then those of suspects */
    size_t lane_count, suspect_count;
    struct pg_lane_walk suspects;
    struct uuid *picked; /* in the order of the answer */
    size_t n, picked_cap;
    size_t bytes;
    bool full; /* nothing more may be taken, from this lane or the next */
    bool met_gates;
    size_t busy; /* candidates that were left because another node is seeing to their slots */
};

/* Picks what there is in the lanes and among the suspects; all of it is locked, and RUNNING only when all is chosen. */
enum { CONFLICT_RETRY_MS = 10 }; /* what others have locked they have taken, unless they fail */
void pg_claim_init(struct pg_claim *c, struct store_postgres *s, struct op_claim *op);
void pg_claim_release(struct pg_claim *c);
enum err pg_claim_walk(struct store_postgres *s, struct pg_claim *c, struct error *e) must_use;

/* Of the lane q.lane: what may be taken. $1 until, $2 now, $3 own partitions (NULL: all), $4 up to when others' are left to them. */
#define IN_LANE  "lane = q.lane AND state = " SQL_SCHEDULED " AND kind <> 1"
#define IS_OURS  "($3 IS NULL OR get_bit($3, part) = 1)"
#define MAY_TAKE "due_ms <= $1 AND (delivery <> 1 OR due_ms <= $2) AND (" IS_OURS " OR due_ms <= $4)"

/* Those four; and arrays of lanes, of due times and ids. */
void pg_claim_add_rules(struct pg_params *p, const struct op_claim *op);
void pg_claim_add_lanes(struct pg_params *p, const struct pg_lane_walk *v, size_t n);
void pg_claim_add_positions(struct pg_params *p, const struct pg_claim_position *v, size_t n);
