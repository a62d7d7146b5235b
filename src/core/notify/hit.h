#pragma once
/* core/notify/hit.h - something that happened to tasks, and that a user may want to be told of. Operations of the store
 * leave hits behind (port/store/incidents.h); the notifier folds them into incidents. */
#include "base/str.h"
#include "base/uuid.h"

#define HIT_KIND_MAP(X) X(SUCCESS) X(FAILURE) X(RETRY) X(MISSED)
enum hit_kind {
#define X(name) HIT_##name,
    HIT_KIND_MAP(X)
#undef X
};

enum { HIT_KINDS = HIT_MISSED + 1 };

enum { HIT_TASKS_MAX = 10, HITS_MAX = 64, HIT_CAUSE_MAX = 32, HIT_TASKS_TEXT = HIT_TASKS_MAX * (UUID_TEXT + 1) };

struct hit {
    struct uuid id; /* derived from its first task, and unique */
    int32_t tenant;
    enum hit_kind kind;
    int64_t at_ms, count;
    struct str cause; /* the fingerprint of a failure, or a word */
    struct str tasks; /* ids, separated by blanks; of an OCCURRENCE its own */
};
