#include "check.h"

#include <stdio.h>

#include "base/hash.h"

/* Vectors of the reference implementation: key 00 01 … 0f, input i is the bytes 00 01 … (i bytes); output
 * little-endian. */
static const char *const reference[64] = {
    "310e0edd47db6f72", "fd67dc93c539f874", "5a4fa9d909806c0d", "2d7efbd796666785", "b7877127e09427cf",
    "8da699cd64557618", "cee3fe586e46c9cb", "37d1018bf50002ab", "6224939a79f5f593", "b0e4a90bdf82009e",
    "f3b9dd94c5bb5d7a", "a7ad6b22462fb3f4", "fbe50e86bc8f1e75", "903d84c02756ea14", "eef27a8e90ca23f7",
    "e545be4961ca29a1", "db9bc2577fcc2a3f", "9447be2cf5e99a69", "9cd38d96f0b3c14b", "bd6179a71dc96dbb",
    "98eea21af25cd6be", "c7673b2eb0cbf2d0", "883ea3e395675393", "c8ce5ccd8c030ca8", "94af49f6c650adb8",
    "eab8858ade92e1bc", "f315bb5bb835d817", "adcf6b0763612e2f", "a5c91da7acaa4dde", "716595876650a2a6",
    "28ef495c53a387ad", "42c341d8fa92d832", "ce7cf2722f512771", "e37859f94623f3a7", "381205bb1ab0e012",
    "ae97a10fd434e015", "b4a31508beff4d31", "81396229f0907902", "4d0cf49ee5d4dcca", "5c73336a76d8bf9a",
    "d0a704536ba93e0e", "925958fcd6420cad", "a915c29bc8067318", "952b79f3bc0aa6d4", "f21df2e41d4535f9",
    "87577519048f53a9", "10a56cf5dfcd9adb", "eb75095ccd986cd0", "51a9cb9ecba312e6", "96afadfc2ce666c7",
    "72fe52975a4364ee", "5a1645b276d592a1", "b274cb8ebf87870a", "6f9bb4203de7b381", "eaecb2a30b22a87f",
    "9924a43cc1315724", "bd838d3aafbf8db7", "0b1a2a3265d51aea", "135079a3231ce660", "932b2846e4d70666",
    "e1915f5cb1eca46c", "f325965ca16d629f", "575ff28e60381be5", "724506eb4c328a95",
};

static const struct hash_key counting = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };

static void all_reference_vectors_come_out(void **state)
{
    (void)state;
    char input[64];
    for (size_t n = 0; n < 64; n++) {
        input[n] = (char)n;
        uint64_t h = hash_bytes(counting, (struct str){ input, n });
        char text[17];
        for (int i = 0; i < 8; i++)
            snprintf(text + 2 * i, 3, "%02x", (unsigned)(h >> (8 * i) & 0xff));
        assert_string_equal(text, reference[n]);
    }
}

static void the_papers_example_comes_out(void **state)
{
    (void)state;
    assert_true(hash_bytes(counting, S("\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16")) == 0xa129ca6149be45e5);
}

static void alignment_does_not_matter(void **state)
{
    (void)state;
    char room[40];
    uint64_t first = hash_bytes(counting, S("the same text, anywhere"));
    for (size_t shift = 0; shift < 9; shift++) {
        memcpy(room + shift, "the same text, anywhere", 23);
        assert_true(hash_bytes(counting, (struct str){ room + shift, 23 }) == first);
    }
}

static void no_bytes_may_be_null(void **state)
{
    (void)state;
    assert_true(hash_bytes(counting, (struct str){ NULL, 0 }) == hash_bytes(counting, S("")));
}

/* Stored ids and spreads depend on these values: if one changes, tasks run at other times. */
static void stable_values_never_change(void **state)
{
    (void)state;
    assert_true(hash_bytes(HASH_STABLE, S("")) == 0xa3adeb40e0423ad8);
    assert_true(hash_bytes(HASH_STABLE, S("nightly-report")) == 0x015c50bd804ecfab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reference_vectors_come_out), cmocka_unit_test(the_papers_example_comes_out),
        cmocka_unit_test(alignment_does_not_matter),      cmocka_unit_test(no_bytes_may_be_null),
        cmocka_unit_test(stable_values_never_change),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
