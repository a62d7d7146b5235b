/* A place that stalls or fails leaves slots for others, and is tried again. */
#include "check.h"
#include "server/notify/channel_places.h"

#define NOW INT64_C(1770710400000) /* 2026-02-10T08:00:00Z */
enum { ACME = 2, ZOO = 3 };

static struct channel_places places;

static int place_of(int32_t tenant, enum channel_kind kind, const char *url)
{
    struct channel c = { .url = str_from(url) };
    return channel_places_get(&places, tenant, kind, &c, NOW);
}

static int empty(void **state)
{
    (void)state;
    places = (struct channel_places){ 0 };
    return 0;
}

static void a_place_is_a_host_of_a_tenant(void **state)
{
    (void)state;
    int a = place_of(ACME, CHANNEL_HTTP_WEBHOOK, "https://a.example/x");
    assert_int_equal(place_of(ACME, CHANNEL_PUSH, "https://a.example/"), a);
    assert_int_equal(place_of(ACME, CHANNEL_PUSH, "https://a.example"), a);
    assert_int_equal(place_of(ACME, CHANNEL_PUSH, "https://a.example?x=/y"), a);
    assert_int_not_equal(place_of(ZOO, CHANNEL_HTTP_WEBHOOK, "https://a.example/x"), a);
    assert_int_not_equal(place_of(ACME, CHANNEL_HTTP_WEBHOOK, "https://a.example:8443/x"), a);
    assert_int_not_equal(place_of(ACME, CHANNEL_SLACK_WEBHOOK, "https://a.example/1"),
                         place_of(ACME, CHANNEL_SLACK_WEBHOOK, "https://a.example/2"));
    assert_int_equal(place_of(ACME, CHANNEL_EMAIL, ""), place_of(ZOO, CHANNEL_EMAIL, ""));
}

static void it_has_a_few_slots(void **state)
{
    (void)state;
    struct channel_place *p = &places.v[place_of(ACME, CHANNEL_HTTP_WEBHOOK, "https://a.example/")];
    for (int i = 0; i < PLACE_SLOTS; i++) {
        assert_true(channel_place_is_free(p, NOW));
        channel_place_start(p, CHANNEL_HTTP_WEBHOOK, NOW);
    }
    assert_false(channel_place_is_free(p, NOW));
    assert_false(channel_place_is_closed(p, NOW));
    channel_place_end(p, false, NOW);
    assert_true(channel_place_is_free(p, NOW));
}

static void failures_in_a_row_close_it_and_a_trial_opens_it(void **state)
{
    (void)state;
    struct channel_place *p = &places.v[place_of(ACME, CHANNEL_HTTP_WEBHOOK, "https://a.example/")];
    const bool faults[] = { true, true, true, false, true, true, true, true };
    for (size_t i = 0; i < array_count(faults); i++) {
        assert_false(channel_place_is_closed(p, NOW));
        channel_place_start(p, CHANNEL_HTTP_WEBHOOK, NOW);
        channel_place_end(p, faults[i], NOW);
    }
    assert_true(channel_place_is_closed(p, NOW + PLACE_CLOSED_MS - 1));
    assert_true(channel_place_is_free(p, NOW + PLACE_CLOSED_MS));
    channel_place_start(p, CHANNEL_HTTP_WEBHOOK, NOW + PLACE_CLOSED_MS);
    channel_place_end(p, true, NOW + PLACE_CLOSED_MS);
    assert_true(channel_place_is_closed(p, NOW + PLACE_CLOSED_MS));
    channel_place_start(p, CHANNEL_HTTP_WEBHOOK, NOW + 2 * PLACE_CLOSED_MS);
    channel_place_end(p, false, NOW + 2 * PLACE_CLOSED_MS);
    assert_true(channel_place_is_free(p, NOW + 2 * PLACE_CLOSED_MS));
}

static void slack_gets_one_a_second(void **state)
{
    (void)state;
    struct channel_place *p = &places.v[place_of(ACME, CHANNEL_SLACK_WEBHOOK, "https://a.example/")];
    channel_place_start(p, CHANNEL_SLACK_WEBHOOK, NOW);
    assert_false(channel_place_is_free(p, NOW + PLACE_SLACK_MS - 1));
    assert_true(channel_place_is_free(p, NOW + PLACE_SLACK_MS));
}

static void places_that_are_used_are_kept(void **state)
{
    (void)state;
    for (int32_t i = 0; i < PLACES_MAX; i++)
        channel_place_start(&places.v[place_of(i, CHANNEL_HTTP_WEBHOOK, "https://a.example/")], CHANNEL_HTTP_WEBHOOK,
                            NOW);
    assert_int_equal(place_of(PLACES_MAX, CHANNEL_HTTP_WEBHOOK, "https://a.example/"), PLACE_NONE);
    channel_place_end(&places.v[7], false, NOW);
    assert_int_equal(place_of(PLACES_MAX, CHANNEL_HTTP_WEBHOOK, "https://a.example/"), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_place_is_a_host_of_a_tenant, empty),
        cmocka_unit_test_setup(it_has_a_few_slots, empty),
        cmocka_unit_test_setup(failures_in_a_row_close_it_and_a_trial_opens_it, empty),
        cmocka_unit_test_setup(slack_gets_one_a_second, empty),
        cmocka_unit_test_setup(places_that_are_used_are_kept, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
