#pragma once
/* http/budget.h - bytes that requests hold, in total and by owner (a tenant). One owner may hold a quarter of the
 * total, so that it cannot keep the others out. Any thread. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"

enum { BUDGET_SHARE_PERCENT = 25 };

struct budget {
    size_t max, share_max;
    atomic_size_t total;
    pthread_mutex_t lock;
    struct map shares; /* owner → struct budget_share, of the owners that hold something */
};

void budget_init(struct budget *b, size_t max);
void budget_release(struct budget *b);

/* False: the total or the owner's share would be exceeded; nothing is taken. */
bool budget_take(struct budget *b, int32_t owner, size_t bytes) must_use;
void budget_give_back(struct budget *b, int32_t owner, size_t bytes);
