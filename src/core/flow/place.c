#include "core/flow/place.h"

#include <assert.h>

#include "core/flow/dag.h"

enum { ITEM_BITS = 14, STEP_BITS = UUID_RANK_BITS - ITEM_BITS, STEP_SHIFT = 2 };
static_assert(DAG_STEPS_MAX >> STEP_SHIFT < 1 << STEP_BITS && DAG_ITEMS_MAX + 1 < 1 << ITEM_BITS,
              "an id has room for them");

struct uuid place_id(struct uuid run, int64_t place)
{
    uint32_t step = place_step(place) >> STEP_SHIFT, item = (uint32_t)(place_item(place) + 1);
    return uuid_derived_ranked(uuid_time_ms(run), step << ITEM_BITS | item, run, place);
}
