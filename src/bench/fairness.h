#pragma once
/* bench/fairness.h - the parts of the scenario `fairness`, and what they share. A part finds a fresh server. */
#include "bench/scenario.h"

/* How long tasks are measured beside a busy host or pool: --seconds. */
size_t fairness_seconds(const struct bench *b);

/* Creates a second tenant and an API key for it. */
struct second_tenant {
    char key[256];
};
enum err fairness_create_second_tenant(struct bench *b, struct second_tenant *ret, struct error *e) must_use;

/* A workload whose tasks are told apart from those of others. */
struct fairness_group {
    const char *label; /* of its figures; NULL: it has none */
    const char *target, *key;
    size_t tasks;
    int64_t after_ms, spread_ms; /* after the first due time of all */
    bool waited_for;             /* all of its tasks must start */
};
enum { FAIRNESS_GROUPS_MAX = 8 };

/* Creates all groups, waits until those that are waited for have ended, and adds p50, p99 and max of their lags.
 * ret_groups tells the samples apart. wait_ms: how long after the last due time. */
struct sample_groups;
enum err fairness_run_groups(struct bench *b, const struct fairness_group *v, size_t n, int64_t wait_ms,
                             struct sample_groups *ret_groups, struct error *e) must_use;

/* The parts; each says in its file what it measures. */
enum err fairness_beside_busy_host(struct bench *b, struct error *e) must_use;
enum err fairness_of_one_slot(struct bench *b, struct error *e) must_use;
enum err fairness_of_pools(struct bench *b, struct error *e) must_use;

enum { FAIRNESS_POOLS = 2 };
extern const struct queue_filter fairness_pool_filters[FAIRNESS_POOLS];
