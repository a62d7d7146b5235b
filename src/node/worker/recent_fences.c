/* A ring of the tasks, in the order of their first calls, and a map from their ids to their places. */
#include "node/worker/recent_fences.h"

#include <stdlib.h>

#include "base/map.h"

struct recent_fence {
    struct uuid id;
    int64_t fence; /* 0: the place is free */
};

struct recent_fences {
    struct map places; /* id → struct recent_fence */
    size_t next;       /* the place of the next task */
    struct recent_fence v[RECENT_FENCES];
};

struct recent_fences *recent_fences_new(void)
{
    struct recent_fences *f = xnew(*f);
    map_init(&f->places, HASH_STABLE);
    return f;
}

void recent_fences_free(struct recent_fences *f)
{
    if (!f)
        return;
    map_release(&f->places);
    free(f);
}

void recent_fences_note(struct recent_fences *f, struct uuid id, int64_t fence)
{
    struct recent_fence *at = map_get(&f->places, uuid_bytes(&id));
    if (at) {
        at->fence = max_of(at->fence, fence);
        return;
    }
    at = &f->v[f->next];
    f->next = (f->next + 1) % RECENT_FENCES;
    if (at->fence)
        map_remove(&f->places, uuid_bytes(&at->id));
    *at = (struct recent_fence){ id, fence };
    map_put(&f->places, uuid_bytes(&at->id), at);
}

bool recent_fences_has_higher(const struct recent_fences *f, struct uuid id, int64_t fence)
{
    const struct recent_fence *at = map_get(&f->places, uuid_bytes(&id));
    return at && at->fence > fence;
}
