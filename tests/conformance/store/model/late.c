/* Planted bugs of late lanes (struct lane in core/task/task.h). */
#include <stdlib.h>

#include "store_model.h"

bool forgets_recalls(struct op *op, struct prng *random)
{
    (void)random;
    struct op_settle *settle = container_of(op, struct op_settle, op);
    for (size_t i = 0; op->kind == OP_SETTLE && i < settle->n; i++)
        settle->v[i].verdict.recalled = false;
    return false;
}

/* ---- claims that give late tasks from ordinary lanes ---- */

/* A claim as it was given; in the claim itself, late twins stand behind their ordinary lanes. */
struct widened {
    struct op_claim *op;
    struct op_claim given;
    struct lane_quota *lanes;
    struct claim_line *lines;
};
static struct widened widened[BATCH_MAX];
static size_t widened_count;

static bool claim_names(const struct op_claim *op, struct lane lane)
{
    for (size_t i = 0; i < op->lane_count; i++)
        if (lane_eq(&op->lanes[i].lane, &lane))
            return true;
    return false;
}

static bool gets_a_twin(const struct op_claim *op, size_t i, struct lane *ret)
{
    *ret = op->lanes[i].lane;
    ret->late = true;
    return !op->lanes[i].lane.late && !claim_names(op, *ret);
}

/* The lanes of one line, with their twins; how many they are. */
static size_t widen_line(const struct op_claim *given, size_t first, size_t lanes, struct lane_quota *to)
{
    size_t n = 0;
    for (size_t i = first; i < first + lanes; i++) {
        struct lane twin;
        to[n++] = given->lanes[i];
        if (gets_a_twin(given, i, &twin))
            to[n++] = (struct lane_quota){ twin, given->lanes[i].max };
    }
    return n;
}

bool gives_late_tasks_from_ordinary_lanes(struct op *op, struct prng *random)
{
    (void)random;
    struct op_claim *claim = container_of(op, struct op_claim, op);
    if (op->kind != OP_CLAIM || claim->lease)
        return false;
    struct widened *w = &widened[widened_count++];
    *w = (struct widened){ .op = claim, .given = *claim };
    w->lanes = xcalloc(2 * claim->lane_count, sizeof *w->lanes);
    w->lines = xcalloc(claim->lane_count, sizeof *w->lines);
    claim->lane_count = claim->line_count = 0;
    for (size_t i = 0, first = 0; first < w->given.lane_count; i++) {
        struct claim_line line = claim_line_at(&w->given, i, first);
        size_t n = widen_line(&w->given, first, line.lanes, w->lanes + claim->lane_count);
        first += line.lanes;
        claim->lane_count += n;
        w->lines[claim->line_count++] = (struct claim_line){ n, line.max };
    }
    claim->lanes = w->lanes;
    claim->lines = w->lines;
    return false;
}

/* A lane has the results of its twin, too. */
static void fold(struct widened *w)
{
    struct op_claim *claim = w->op;
    for (size_t i = 0, at = 0; i < w->given.lane_count; i++) {
        struct lane_quota *to = &w->given.lanes[i];
        struct lane twin;
        bool has_twin = gets_a_twin(&w->given, i, &twin);
        *to = w->lanes[at++];
        if (!has_twin)
            continue;
        to->ret_taken = min_of(to->ret_taken + w->lanes[at].ret_taken, to->max);
        to->ret_next_due_ms = min_of(to->ret_next_due_ms, w->lanes[at].ret_next_due_ms);
        to->ret_next_own_ms = min_of(to->ret_next_own_ms, w->lanes[at].ret_next_own_ms);
        at++;
    }
    claim->lanes = w->given.lanes;
    claim->lane_count = w->given.lane_count;
    claim->lines = w->given.lines;
    claim->line_count = w->given.line_count;
    free(w->lanes);
    free(w->lines);
}

void fold_late_lanes(void)
{
    while (widened_count)
        fold(&widened[--widened_count]);
}
