/* What clients may hold: bytes by owner (http/budget.h), connections by address (http/peers.h). */
#include <arpa/inet.h>

#include "check.h"
#include "http/budget.h"
#include "http/peers.h"

static void one_owner_has_a_quarter(void **state)
{
    (void)state;
    struct budget b;
    budget_init(&b, 1000);
    assert_true(budget_take(&b, 1, 200));
    assert_false(budget_take(&b, 1, 51));
    assert_true(budget_take(&b, 1, 50));
    assert_false(budget_take(&b, 1, 1));
    assert_false(budget_take(&b, 2, SIZE_MAX));
    for (int32_t owner = 2; owner <= 4; owner++)
        assert_true(budget_take(&b, owner, 250));
    assert_false(budget_take(&b, 5, 1)); /* all is taken */
    budget_give_back(&b, 3, 250);
    assert_true(budget_take(&b, 5, 250));
    budget_give_back(&b, 1, 50);
    assert_int_equal(atomic_load(&b.total), 950);
    assert_true(budget_take(&b, 1, 50));
    for (int32_t owner = 1; owner <= 5; owner++)
        budget_give_back(&b, owner, owner == 3 ? 0 : 250);
    assert_int_equal(atomic_load(&b.total), 0);
    budget_release(&b);
}

static union peer peer_of(const char *address)
{
    union peer p = { 0 };
    if (strchr(address, ':')) {
        p.v6.sin6_family = AF_INET6;
        p.v6.sin6_port = htons(4711);
        assert_int_equal(inet_pton(AF_INET6, address, &p.v6.sin6_addr), 1);
    } else {
        p.v4.sin_family = AF_INET;
        p.v4.sin_port = htons(4711);
        assert_int_equal(inet_pton(AF_INET, address, &p.v4.sin_addr), 1);
    }
    return p;
}

/* Each row: the addresses count as one. */
static void a_network_of_ipv6_is_one_address(void **state)
{
    (void)state;
    static const struct {
        const char *one, *other;
        bool same;
    } rows[] = {
        { "192.0.2.1", "192.0.2.1", true },
        { "192.0.2.1", "192.0.2.2", false },
        { "192.0.2.1", "::ffff:192.0.2.1", true },
        { "2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true },
        { "2001:db8:1:2::1", "2001:db8:1:3::1", false },
        { "::1", "192.0.2.1", false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct peers p;
        union peer one = peer_of(rows[i].one), other = peer_of(rows[i].other);
        peers_init(&p, 1);
        assert_true(peers_add(&p, &one));
        if (peers_add(&p, &other) == rows[i].same)
            fail_msg("%s and %s", rows[i].one, rows[i].other);
        peers_remove(&p, &one);
        if (!rows[i].same)
            peers_remove(&p, &other);
        assert_true(peers_add(&p, &one)); /* there is room again */
        peers_remove(&p, &one);
        peers_release(&p);
    }
}

static void an_address_is_shown_with_its_port(void **state)
{
    (void)state;
    char text[PEER_TEXT];
    union peer four = peer_of("192.0.2.1"), six = peer_of("2001:db8::1");
    assert_string_equal(peer_text(&four, text), "192.0.2.1:4711");
    assert_string_equal(peer_text(&six, text), "[2001:db8::1]:4711");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_owner_has_a_quarter),
        cmocka_unit_test(a_network_of_ipv6_is_one_address),
        cmocka_unit_test(an_address_is_shown_with_its_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
