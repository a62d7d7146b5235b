#pragma once
/* core/sharing/partition.h - who looks after which tasks: live nodes share 256 partitions by rendezvous hashing (DESIGN §7).
 *
 * Every node computes the same answer from the same list; there is no coordinator. When a node comes or goes, only the partitions that
 * it gains or had change hands. Two owners for a moment are harmless: the claim is what is exclusive. */
#include "base/uuid.h"

enum { PARTITIONS = 256 };

/* A task's partition is a hash of its id that never changes: stores keep it. */
int partition_of(struct uuid task);

struct partitions {
    uint64_t bits[PARTITIONS / 64];
};

/* Those of `node` among the nodes, which are in any order and each there once; of a node that is not among them, none. */
struct partitions partitions_share(struct uuid node, const struct uuid *nodes, size_t n);
size_t partitions_count(const struct partitions *p);

static inline bool partitions_have(const struct partitions *p, int partition)
{
    return p->bits[partition / 64] >> (partition % 64) & 1;
}
