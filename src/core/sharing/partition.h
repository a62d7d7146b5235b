#pragma once
/* core/sharing/partition.h - divides the tasks among the live nodes: 256 partitions, shared by rendezvous hashing.
 *
 * Every node computes the same result from the same list of nodes; there is no coordinator. If a node joins or leaves,
 * only the partitions that it gains or had change their owner. Two owners for a moment do no harm: the claim is
 * exclusive. */
#include "base/uuid.h"

enum { PARTITIONS = 256 };

/* A hash of the task's id. It never changes, since stores save it in the task's row. */
int partition_of(struct uuid task);

struct partitions {
    uint64_t bits[PARTITIONS / 64];
};

/* The partitions of `node` among `nodes`, which are in any order without duplicates. None if `node` is not in the
 * list. */
struct partitions partitions_share(struct uuid node, const struct uuid *nodes, size_t n);
size_t partitions_count(const struct partitions *p);

static inline bool partitions_have(const struct partitions *p, int partition)
{
    return p->bits[partition / 64] >> (partition % 64) & 1;
}
