#include "core/flow/place.h"

struct uuid place_id(struct uuid run, int64_t place)
{
    return uuid_derived_from(uuid_time_ms(run), run, place);
}
