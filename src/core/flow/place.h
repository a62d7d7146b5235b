#pragma once
/* core/flow/place.h - the place of a task within its run: which step, which item of a map, or which compensation.
 *
 * A place is a number that orders the tasks of a run: the deadline, the steps in the order of the definition with their
 * items behind them, then the compensations. The ids of steps are derived from run and place: every node that opens a
 * run makes the same ones. Ids of items rise with the item, and those of steps, four by four, with the step: rows that
 * are written together lie together in the indexes of a store. */
#include "base/uuid.h"

enum place_kind { PLACE_KIND_STEP, PLACE_KIND_UNDO, PLACE_KIND_DEADLINE };
enum { PLACE_RUN = -1 }; /* the run itself */

static inline int64_t place_make(enum place_kind kind, uint32_t step, int64_t item)
{
    return (int64_t)kind << 48 | (int64_t)step << 24 | (item + 1);
}

static inline int64_t place_of_step(uint32_t step)
{
    return place_make(PLACE_KIND_STEP, step, -1);
}

static inline int64_t place_of_item(uint32_t step, int64_t item)
{
    return place_make(PLACE_KIND_STEP, step, item);
}

/* Of a step, or with item, of one item. */
static inline int64_t place_of_undo(uint32_t step, int64_t item)
{
    return place_make(PLACE_KIND_UNDO, step, item);
}

static inline int64_t place_of_deadline(void)
{
    return place_make(PLACE_KIND_DEADLINE, 0, -1);
}

static inline enum place_kind place_kind(int64_t place)
{
    return (enum place_kind)(place >> 48);
}

static inline uint32_t place_step(int64_t place)
{
    return (uint32_t)(place >> 24 & 0xffffff);
}

static inline int64_t place_item(int64_t place) /* -1: none */
{
    return (place & 0xffffff) - 1;
}

struct uuid place_id(struct uuid run, int64_t place); /* core/flow/place.c */
