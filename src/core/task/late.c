#include "core/task/late.h"

const char *const late_cause_names[LATE_CAUSES + 1] = {
#define X(id, text) [LATE_##id] = #id,
    LATE_CAUSE_MAP(X)
#undef X
};

enum late_cause late_cause_of(int64_t delay_ms, enum late_cause known)
{
    if (delay_ms < LATE_MS)
        return LATE_NONE;
    return known ? known : LATE_BACKLOG;
}
