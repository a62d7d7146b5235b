#include "check.h"
#include "core/target/broker_rules.h"

static void tenants_and_destinations_are_checked(void **state)
{
    (void)state;
    const struct broker_rule brokers[] = {
        { S("open"), MESSAGE_TARGET_REDIS, S("*"), S("") },
        { S("plain"), MESSAGE_TARGET_KAFKA, S(""), S("") },
        { S("orders"), MESSAGE_TARGET_REDIS, S("acme, zoo"), S("orders.*, list:late, stream:exact") },
        { S("rabbit"), MESSAGE_TARGET_AMQP, S("*"), S("exchange:news, queue:jobs.*") },
        { S("any"), MESSAGE_TARGET_AMQP, S("*"), S("*") },
    };
    const struct broker_rules rules = { brokers, array_count(brokers), { S("belfry"), S("prod") } };
    static const struct {
        const char *broker, *destination, *key, *tenant, *field; /* field NULL: allowed */
    } rows[] = {
        { "open", "x", "", "acme", NULL },
        { "open", "x", "", "", NULL },
        { "plain", "x", "", "default", NULL },
        { "plain", "x", "", "acme", "broker" },
        { "plain", "x", "", "", "broker" },
        { "orders", "orders.eu", "", "acme", NULL },
        { "orders", "orders.eu", "", "zoo", NULL },
        { "orders", "orders.eu", "", "default", "broker" },
        { "orders", "orders.eu", "", "acm", "broker" },
        { "orders", "stream:orders.eu", "", "acme", NULL },
        { "orders", "stream:list:late", "", "acme", "destination" },
        { "orders", "ordersx", "", "acme", "destination" },
        { "orders", "orders", "", "acme", "destination" },
        { "orders", "list:orders.eu", "", "acme", "destination" },
        { "orders", "list:late", "", "acme", NULL },
        { "orders", "late", "", "acme", "destination" },
        { "orders", "exact", "", "acme", NULL },
        { "orders", "exact.more", "", "acme", "destination" },
        { "rabbit", "news", "k", "acme", NULL },
        { "rabbit", "queue:jobs.a", "", "acme", NULL },
        { "rabbit", "queue:secret", "", "acme", "destination" },
        { "rabbit", "exchange:", "jobs.a", "acme", NULL }, /* the exchange without a name is that queue */
        { "rabbit", "exchange:", "secret", "acme", "destination" },
        { "any", "exchange:", "belfry.outcomes", "acme", "destination" },
        { "any", "belfry", "", "acme", "destination" },
        { "any", "belfry.events", "", "acme", "destination" },
        { "any", "queue:belfry.q.main", "", "acme", "destination" },
        { "any", "belfryx", "", "acme", NULL },
        { "any", "prod.events", "", "acme", "destination" },
        { "open", "list:belfry:x", "", "acme", "destination" },
        { "open", "stream:{belfry}:events", "", "acme", "destination" },
        { "open", "belfry:events", "", "acme", "destination" },
        { "unknown", "x", "", "acme", "broker" }, /* as if it were not open */
        { "unknown", "x", "", "default", NULL },  /* said elsewhere */
        { "redis://8.8.8.8", "belfry:events", "", "acme", "destination" },
        { "redis://8.8.8.8", "x", "", "acme", NULL },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct message_target t = { .broker = str_from(rows[i].broker),
                                    .kind = message_target_broker_of(str_from(rows[i].broker)),
                                    .destination = str_from(rows[i].destination),
                                    .key = str_from(rows[i].key) };
        struct error e = { 0 };
        enum err rc = broker_rules_check(&rules, &t, str_from(rows[i].tenant), &e);
        if ((rc == ERR_OK) != !rows[i].field || (rows[i].field && strcmp(e.field, rows[i].field) != 0))
            fail_msg("%s %s %s of '%s': %s %s", rows[i].broker, rows[i].destination, rows[i].key, rows[i].tenant,
                     e.field, e.text);
        assert_int_equal(broker_rules_check(NULL, &t, str_from(rows[i].tenant), &e), ERR_OK);
    }
}

static void a_star_stands_at_the_end_of_a_part(void **state)
{
    (void)state;
    static const char *const good[] = { "*", "a", "a.*", "a:*", "a/*", "a, b.*" }, *const bad[] = { "a*", "*a", "a.*b",
                                                                                                    "a.**", "a,,b" };
    struct error e;
    for (size_t i = 0; i < array_count(good); i++)
        assert_ok(broker_rules_check_destinations(str_from(good[i]), &e), &e);
    for (size_t i = 0; i < array_count(bad); i++)
        assert_int_equal(broker_rules_check_destinations(str_from(bad[i]), &e), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(tenants_and_destinations_are_checked),
                                        cmocka_unit_test(a_star_stands_at_the_end_of_a_part) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
