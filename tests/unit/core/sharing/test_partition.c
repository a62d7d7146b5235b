#include "check.h"

#include "base/mem.h"
#include "core/sharing/partition.h"
#include "seed.h"

enum { NODES_MAX = 16, CLUSTERS = 200 };

static void make_ids(struct uuid *v, size_t n, uint64_t seed)
{
    struct uuid_gen ids;
    uuid_gen_init(&ids, seed);
    for (size_t i = 0; i < n; i++)
        v[i] = uuid_next(&ids, 1770710400000 + (int64_t)i);
}

/* Finds the owner of each partition as an index into v. Each partition must have exactly one. */
static void owners_of(const struct uuid *v, size_t n, int owners[PARTITIONS])
{
    for (int p = 0; p < PARTITIONS; p++)
        owners[p] = -1;
    for (size_t i = 0; i < n; i++) {
        struct partitions own = partitions_share(v[i], v, n);
        for (int p = 0; p < PARTITIONS; p++) {
            if (!partitions_have(&own, p))
                continue;
            assert_int_equal(owners[p], -1);
            owners[p] = (int)i;
        }
    }
    for (int p = 0; p < PARTITIONS; p++)
        assert_true(owners[p] >= 0);
}

static void every_partition_has_one_owner_whatever_the_order(void **state)
{
    (void)state;
    struct uuid v[NODES_MAX], turned[NODES_MAX];
    int owners[PARTITIONS], others[PARTITIONS];
    for (size_t n = 1; n <= NODES_MAX; n++) {
        make_ids(v, n, n);
        for (size_t i = 0; i < n; i++)
            turned[i] = v[n - 1 - i];
        owners_of(v, n, owners);
        owners_of(turned, n, others);
        for (int p = 0; p < PARTITIONS; p++)
            assert_int_equal(owners[p], (int)n - 1 - others[p]);
    }
}

static void one_node_has_all_and_a_stranger_none(void **state)
{
    (void)state;
    struct uuid v[2];
    make_ids(v, 2, 1);
    struct partitions all = partitions_share(v[0], v, 1), none = partitions_share(v[1], v, 1);
    assert_int_equal(partitions_count(&all), PARTITIONS);
    assert_int_equal(partitions_count(&none), 0);
    none = partitions_share(v[0], NULL, 0);
    assert_int_equal(partitions_count(&none), 0);
}

static void when_a_node_comes_or_goes_only_its_own_change_hands(void **state)
{
    (void)state;
    struct uuid v[NODES_MAX + 1];
    int before[PARTITIONS], after[PARTITIONS];
    for (size_t n = 1; n <= NODES_MAX; n++) {
        make_ids(v, n + 1, 100 + n);
        owners_of(v, n, before);
        owners_of(v, n + 1, after);
        for (int p = 0; p < PARTITIONS; p++)
            assert_true(after[p] == before[p] || after[p] == (int)n);
    }
}

/* The number of partitions of a node is random. Over many clusters, checks the mean and the largest deviation. */
static void partitions_are_shared_evenly(void **state)
{
    (void)state;
    struct prng seeds = seeded_prng("partition");
    for (size_t n = 2; n <= NODES_MAX; n++) {
        double fair = (double)PARTITIONS / (double)n, off = 0, within = 0;
        for (int c = 0; c < CLUSTERS; c++) {
            struct uuid v[NODES_MAX];
            make_ids(v, n, prng_u64(&seeds));
            for (size_t i = 0; i < n; i++) {
                struct partitions own = partitions_share(v[i], v, n);
                double miss = ((double)partitions_count(&own) - fair) / fair;
                miss = miss < 0 ? -miss : miss;
                off += miss;
                within += miss <= 0.3;
                assert_true(miss < 1.5);
            }
        }
        off /= (double)n * CLUSTERS;
        within /= (double)n * CLUSTERS;
        assert_true(off < 0.25);   /* 0.19 is expected for 16 nodes, 0.07 for three */
        assert_true(within > 0.7); /* 0.78 for 16 nodes */
        assert_true(n > 4 || within > 0.98);
    }
}

static void tasks_are_spread_evenly(void **state)
{
    (void)state;
    enum { TASKS = PARTITIONS * 1000 };
    static int counts[PARTITIONS];
    struct uuid_gen ids;
    uuid_gen_init(&ids, 7);
    for (int i = 0; i < TASKS; i++) /* created within one second, as the ids of one node are */
        counts[partition_of(uuid_next(&ids, 1770710400000 + i / 256))]++;
    for (int p = 0; p < PARTITIONS; p++)
        assert_in_range(counts[p], 850, 1150);
}

/* Stores save the partition, and nodes of different versions must agree on it. */
static void none_of_it_ever_changes(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        int partition;
    } tasks[] = {
        { "019c3f2e-7a40-7000-8000-000000000001", 43 },
        { "019c3f2e-7a40-7000-8000-000000000002", 194 },
        { "ffffffff-ffff-ffff-ffff-ffffffffffff", 44 },
        { "00000000-0000-0000-0000-000000000000", 137 },
    };
    for (size_t i = 0; i < array_count(tasks); i++) {
        struct uuid id;
        assert_true(uuid_parse(str_from(tasks[i].id), &id));
        assert_int_equal(partition_of(id), tasks[i].partition);
    }
    struct uuid v[3];
    assert_true(uuid_parse(S("019c3f2e-7a40-7000-8000-00000000000a"), &v[0]));
    assert_true(uuid_parse(S("019c3f2e-7a40-7000-8000-00000000000b"), &v[1]));
    assert_true(uuid_parse(S("01a00000-0000-7000-8000-00000000000c"), &v[2]));
    static const uint64_t bits[3][4] = {
        { 0x2e09a2d104428828, 0x2600298e82009014, 0x410ab0aa580842c0, 0x0d80192402300641 },
        { 0x9142552ed3ad4487, 0x8896120034194e81, 0x8205095081639017, 0xa026c259a4cf502a },
        { 0x40b4080028103350, 0x5169c47149e6216a, 0x3cf0460526942d28, 0x525924825900a994 },
    };
    for (size_t i = 0; i < 3; i++) {
        struct partitions own = partitions_share(v[i], v, 3);
        for (size_t j = 0; j < array_count(own.bits); j++)
            assert_true(own.bits[j] == bits[i][j]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_partition_has_one_owner_whatever_the_order),
        cmocka_unit_test(one_node_has_all_and_a_stranger_none),
        cmocka_unit_test(when_a_node_comes_or_goes_only_its_own_change_hands),
        cmocka_unit_test(partitions_are_shared_evenly),
        cmocka_unit_test(tasks_are_spread_evenly),
        cmocka_unit_test(none_of_it_ever_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
