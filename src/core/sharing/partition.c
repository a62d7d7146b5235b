/* Each node has a score for each partition, a hash of both. The node with the highest score owns the partition. So a
 * partition moves only if its owner leaves (to the node with the next score) or if a node with a higher score joins.
 * This computation must never change: nodes of two versions would disagree. */
#include "core/sharing/partition.h"

#include <assert.h>

#include "base/mem.h"

enum { SCORED_BYTES = sizeof(struct uuid) + 1 };
static_assert(PARTITIONS == 256, "a partition is a byte");

int partition_of(struct uuid task)
{
    return (int)(hash_bytes(HASH_STABLE, uuid_bytes(&task)) >> 56);
}

static uint64_t partition_score(struct uuid node, int partition)
{
    char bytes[SCORED_BYTES];
    memcpy(bytes, node.b, sizeof node.b);
    bytes[sizeof node.b] = (char)partition;
    return hash_bytes(HASH_STABLE, (struct str){ bytes, sizeof bytes });
}

static bool partition_scores_higher(struct uuid node, struct uuid of, int partition)
{
    uint64_t a = partition_score(node, partition), b = partition_score(of, partition);
    return a != b ? a > b : uuid_cmp(node, of) > 0;
}

static bool partition_owns(struct uuid node, const struct uuid *nodes, size_t n, int partition)
{
    for (size_t i = 0; i < n; i++)
        if (partition_scores_higher(nodes[i], node, partition))
            return false;
    return true;
}

struct partitions partitions_share(struct uuid node, const struct uuid *nodes, size_t n)
{
    struct partitions own = { { 0 } };
    size_t at = 0;
    while (at < n && !uuid_eq(nodes[at], node))
        at++;
    for (int p = 0; at < n && p < PARTITIONS; p++)
        if (partition_owns(node, nodes, n, p))
            own.bits[p / 64] |= UINT64_C(1) << (p % 64);
    return own;
}

size_t partitions_count(const struct partitions *p)
{
    size_t count = 0;
    for (size_t i = 0; i < array_count(p->bits); i++)
        count += (size_t)__builtin_popcountll(p->bits[i]);
    return count;
}
