#pragma once
/* core/flow/flow_join.h - whether a step starts, by how the steps ended that it waits for. Also for the dependencies of
 * plain tasks.
 *
 * | edge | met by | broken by |
 * |---|---|---|
 * | MUST_SUCCEED | COMPLETED | FAILED, EXPIRED, CANCELLED, a broken skip |
 * | MUST_NOT_FAIL | COMPLETED, a clean skip | the same |
 * | MUST_FINISH | every final state | |
 * | MUST_FAIL | FAILED, EXPIRED | |
 *
 * | join | starts | is skipped |
 * |---|---|---|
 * | ALL | all met | first broken; all arrived, not all met |
 * | ANY | first met | all arrived, none met |
 * | SOME | all arrived, one met | all arrived, none met |
 *
 * An arrival says that a parent is final. A step counts the arrivals of its edges. Counts only grow, so their order has
 * no effect: a join that is decided stays decided the same way. A skip by the join is broken if an edge is; a skip by a
 * condition or by hand is clean. */
#include "core/flow/dag.h"

/* How a step ended. */
enum flow_outcome {
    FLOW_OPEN, /* it has not */
    FLOW_COMPLETED,
    FLOW_FAILED,
    FLOW_EXPIRED,
    FLOW_CANCELLED,
    FLOW_SKIPPED, /* clean */
    FLOW_BROKEN,  /* skipped by its join because an edge is broken */
    FLOW_FORCED,  /* for flow_state only: it has not ended, and a user lets it run whatever its join says */
};

struct flow_counts {
    uint32_t arrived, met, broken;
};

enum flow_decision { FLOW_WAIT, FLOW_START, FLOW_SKIP, FLOW_SKIP_BROKEN };

struct flow_counts flow_arrival(enum dag_type type, enum flow_outcome parent); /* parent is final */
enum flow_decision flow_decide(enum dag_join join, uint32_t expected, struct flow_counts c);
void flow_add_counts(struct flow_counts *to, struct flow_counts more);
