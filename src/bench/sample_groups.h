#pragma once
/* bench/sample_groups.h - tells the samples of several workloads apart, by the ids of their tasks. */
#include "bench/bench_server.h"

enum { SAMPLE_GROUP_NONE = -1 };

struct sample_groups {
    struct sample_member *v;
    size_t n;
    bool sorted;
};
void sample_groups_release(struct sample_groups *g);
void sample_groups_add(struct sample_groups *g, int group, const struct uuid *ids, size_t n);
int sample_groups_find(struct sample_groups *g, struct uuid id); /* SAMPLE_GROUP_NONE: in no group */

/* The lags of a group's samples so far, in microseconds, sorted; the caller frees them. Returns their number. */
size_t sample_groups_lags(struct sample_groups *g, int group, const struct bench_server *s, int64_t **ret_us);
