#pragma once
/* node/worker/recent_fences.h - the highest fences of the tasks that this process has called lately.
 *
 * If a push or a delivery gets no answer, its task may be claimed anew while a copy under the old fence is still in the
 * queue. A worker that is given such a copy after it has called the task under a higher fence does not start it:
 * receivers take the call that comes later for the one with the higher fence. The last RECENT_FENCES tasks are
 * remembered. All workers of a process share one. It is used by one thread. */
#include "base/uuid.h"

enum { RECENT_FENCES = 16384 };

struct recent_fences;

struct recent_fences *recent_fences_new(void);
void recent_fences_free(struct recent_fences *f); /* NULL is fine */

void recent_fences_note(struct recent_fences *f, struct uuid id, int64_t fence); /* a call begins */
bool recent_fences_has_higher(const struct recent_fences *f, struct uuid id, int64_t fence);
