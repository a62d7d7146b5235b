#pragma once
/* tests/support/late_lanes.h - claims for tests that do not care about late lanes (struct lane in core/task/task.h): each
 * lane of the claim gets the late lane beside it, in one line, and the results are those of both. A claim that names a
 * late lane, or lines, stays as it is. */
#include <stdlib.h>

#include "port/store.h"

struct late_lanes {
    struct op_claim *op; /* NULL: nothing was changed */
    struct lane_quota *asked;
    struct lane_quota *v;
    struct claim_line *lines;
};

static inline void late_lanes_add(struct late_lanes *t, struct op *base)
{
    struct op_claim *op = (struct op_claim *)base;
    *t = (struct late_lanes){ 0 };
    if (base->kind != OP_CLAIM || op->lease || op->lines)
        return;
    for (size_t i = 0; i < op->lane_count; i++)
        if (op->lanes[i].lane.late)
            return;
    *t = (struct late_lanes){ .op = op, .asked = op->lanes };
    t->v = xcalloc(2 * op->lane_count + 1, sizeof *t->v);
    t->lines = xcalloc(op->lane_count + 1, sizeof *t->lines);
    for (size_t i = 0; i < op->lane_count; i++) {
        t->v[2 * i] = t->v[2 * i + 1] = op->lanes[i];
        t->v[2 * i + 1].lane.late = true;
        t->lines[i] = (struct claim_line){ .lanes = 2, .max = op->lanes[i].max };
    }
    op->lines = t->lines;
    op->line_count = op->lane_count;
    op->lanes = t->v;
    op->lane_count *= 2;
}

static inline void late_lanes_fold(struct late_lanes *t)
{
    struct op_claim *op = t->op;
    if (!op)
        return;
    op->lanes = t->asked;
    op->lane_count /= 2;
    op->lines = NULL;
    op->line_count = 0;
    for (size_t i = 0; i < op->lane_count; i++) {
        const struct lane_quota *plain = &t->v[2 * i], *late = &t->v[2 * i + 1];
        struct lane_quota *both = &op->lanes[i];
        both->ret_taken = plain->ret_taken + late->ret_taken;
        both->ret_next_due_ms = min_of(plain->ret_next_due_ms, late->ret_next_due_ms);
        both->ret_next_own_ms = min_of(plain->ret_next_own_ms, late->ret_next_own_ms);
    }
    free(t->v);
    free(t->lines);
}
