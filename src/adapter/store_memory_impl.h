#pragma once
/* adapter/store_memory_impl.h - what the memory store's writing and reading halves share. */
#include <pthread.h>

#include "adapter/store_memory.h"
#include "adapter/store_memory_table.h"

struct store_memory {
    struct store base;
    pthread_mutex_t lock; /* over all that follows */
    struct table table;
    struct order executions; /* by id: struct execution, its texts behind it */
    struct map idempotency;  /* idempotency_key → struct idempotency_row */
    struct map keys;         /* id → struct api_key, its texts behind it */
    struct map leases;       /* name → struct lease */
};

struct idempotency_key {
    int32_t tenant;
    uint8_t key[32];
};

struct idempotency_row {
    struct idempotency_key key;
    struct idempotency record; /* its answer lies behind the row */
};

static inline struct str idempotency_bytes(const struct idempotency_key *k)
{
    return (struct str){ (const char *)k, sizeof *k };
}

/* Tasks borrowed from the table, on their way into an arena. */
struct picks {
    const struct task **v;
    size_t n, cap;
};

void picks_add(struct picks *p, const struct task *t);
void picks_release(struct picks *p);
enum err picks_copy(const struct picks *p, struct arena *a, struct tasks *ret, struct error *e) must_use;
struct idempotency_key idempotency_key_of(int32_t tenant, const uint8_t key[32]);

enum err memory_reader(struct store *base, struct reader **ret, struct error *e) must_use;
