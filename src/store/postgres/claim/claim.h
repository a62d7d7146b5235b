#pragma once
/* store/postgres/claim/claim.h - shared by the files of OP_CLAIM.
 *
 *   - claim_walk.c walks the lanes and picks tasks.
 *   - slot_gate.c reads the tasks that need slots; store/common/slots.h decides what becomes of them.
 *   - claim.c marks the picked tasks RUNNING and makes the result.
 *
 * One statement reads many candidates and locks them. If a candidate that finds no slot is dealt with, other rows of
 * the same result may have changed. Then the rest of the result is discarded, and the lanes are walked again from
 * behind that candidate. */
#include "store/common/slots.h"
#include "store/postgres/internal.h"

/* The columns of a candidate. */
enum due_column {
    DUE_LANE, /* position of its lane in the array parameter, from 1 */
    DUE_ID,
    DUE_MS,
    DUE_BYTES, /* of its payload and target_config; NULL, like the rest: another transaction has the row locked */
    DUE_TENANT,
    DUE_KIND,
    DUE_PARENT,
    DUE_SCHEDULED_MS,
    DUE_DELETED,
    DUE_FENCE,
    DUE_GATES,
    DUE_TARGET,
    DUE_LINKS,
    DUE_GIVES_WAY /* with gates: it leaves its overlap slot to an earlier occurrence (OP_CLAIM 11) */
};

/* NULL: it does not exist. Leased tasks are never late. */
static inline const struct lane_row *pg_claim_lane(const struct store_postgres *s, const struct op_claim *op, size_t i,
                                                   bool suspects)
{
    const struct lane *lane = &op->lanes[i].lane;
    if (op->lease && lane->late)
        return NULL;
    return store_lanes_find(&s->lanes, *lane, lane_pool(lane, op->lease != NULL, suspects));
}

/* Reads the state of the slots that the candidates in a result need, and takes their locks without waiting: a slot
 * whose lock another transaction has is SLOT_BUSY. */
enum err pg_gate_prefetch(struct store_postgres *s, const struct pg_result *r, struct error *e) must_use;
/* Reads the candidate in that row: its slot row and task. Strings are in s->arena. Nothing may be in flight. */
enum err pg_candidate_read(struct store_postgres *s, const struct pg_result *r, int row, struct candidate *ret,
                           struct error *e) must_use;
/* Whether another node holds the lock of a slot that the candidate needs: then it is left to the next claim. */
bool pg_gate_is_busy(struct store_postgres *s, const struct candidate *k);

/* A position in a lane, in the order of due_ms, then id. The walk continues behind it. */
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

/* The walk through one lane; or through all lanes of suspects, which are walked as one. */
struct pg_lane_walk {
    struct lane_quota *quota; /* NULL: suspects */
    int64_t number;
    struct pg_scan scan;
    size_t asked, got, passed;
    struct pg_claim_position position;
    /* When the earliest passed-over task may be taken, and the earliest of the caller's partitions; INT64_MAX: none. */
    int64_t passed_ms, passed_own_ms;
    bool is_seen; /* the walk has reached the end of the takeable tasks */
};

/* The walk through the lanes of one line (struct claim_line). */
struct pg_line_walk {
    struct pg_lane_walk *lanes; /* those that exist */
    size_t lane_count;
    size_t max, taken;
    size_t asked;
};

struct pg_claim {
    struct op_claim *op;
    struct arena *arena;
    struct gate gate;
    struct pg_lane_walk *lanes; /* those of op->lanes, then the lanes of suspects */
    size_t lane_count, suspect_count;
    struct pg_line_walk *lines; /* those that have lanes */
    size_t line_count;
    struct pg_lane_walk suspects;
    struct uuid *picked; /* ids, in the order of the result */
    size_t n, picked_cap;
    size_t bytes;
    bool full; /* the claim may take nothing more from any lane */
    bool met_gates;
    size_t busy; /* candidates left because another node holds the lock of their slot */
};

/* When to look again for rows that another transaction has locked: it takes them, unless it fails. */
enum { CONFLICT_RETRY_MS = 10 };

/* Picks tasks from the lanes and among the suspects. All picked rows are locked; claim.c makes them RUNNING
 * afterwards. */
void pg_claim_init(struct pg_claim *c, struct store_postgres *s, struct op_claim *op);
void pg_claim_release(struct pg_claim *c);
enum err pg_claim_walk(struct store_postgres *s, struct pg_claim *c, struct error *e) must_use;

/* Conditions for tasks of lane q.lane. $1 until_ms, $2 now_ms, $3 own partitions (NULL: all), $4 other partitions'
 * tasks due up to this time may be taken as well. */
#define IN_LANE  "lane = q.lane AND state = " SQL_SCHEDULED " AND kind <> 1"
#define IS_OURS  "($3 IS NULL OR get_bit($3, part) = 1)"
#define MAY_TAKE "due_ms <= $1 AND (delivery <> 1 OR due_ms <= $2) AND (" IS_OURS " OR due_ms <= $4)"

/* Parameters: $1 to $4 of these conditions; an array of lane numbers; arrays of due times and of ids. */
void pg_claim_add_rules(struct pg_params *p, const struct op_claim *op);
void pg_claim_add_lanes(struct pg_params *p, const struct pg_lane_walk *v, size_t n);
void pg_claim_add_positions(struct pg_params *p, const struct pg_claim_position *v, size_t n);

/* Reads all rows of a result, with the columns "part" and TASK_COLUMNS. */
enum err pg_claim_read_tasks(struct store_postgres *s, const struct pg_result *r, struct arena *a, struct tasks *ret,
                             struct error *e) must_use;
