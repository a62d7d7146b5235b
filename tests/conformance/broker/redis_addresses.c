/* Addresses of Redis: their parts, and errors in them. */
#include "broker/redis/url.h"
#include "check.h"

static struct redis_address read_url(const char *url)
{
    struct redis_address a;
    struct error e = { 0 };
    assert_ok(redis_address_read(str_from(url), &a, &e), &e);
    return a;
}

static void a_host_is_enough(void **state)
{
    (void)state;
    struct redis_address a = read_url("redis://queue");
    assert_int_equal(a.host_count, 1);
    assert_string_equal(a.hosts[0].name, "queue");
    assert_true(a.hosts[0].port == 6379 && a.database == 0 && !a.user[0] && !a.password[0] && !a.master[0]);
    assert_string_equal(a.prefix, "belfry");
}

static void all_parts_are_read(void **state)
{
    (void)state;
    struct redis_address a = read_url("redis://me:s3%3Ac%40%25@a:1,[::1]:2,c/7?prefix=x-1&database=7");
    assert_int_equal(a.host_count, 3);
    assert_string_equal(a.hosts[1].name, "::1");
    assert_true(a.hosts[0].port == 1 && a.hosts[1].port == 2 && a.hosts[2].port == 6379);
    assert_string_equal(a.user, "me");
    assert_string_equal(a.password, "s3:c@%");
    assert_int_equal(a.database, 7);
    assert_string_equal(a.prefix, "x-1");
}

static void a_password_alone_and_one_with_an_at_are_read(void **state)
{
    (void)state;
    struct redis_address a = read_url("redis://:p@ss@host");
    assert_string_equal(a.password, "p@ss");
    assert_string_equal(a.user, "");
    assert_string_equal(a.hosts[0].name, "host");
}

static void a_socket_is_read(void **state)
{
    (void)state;
    struct redis_address a = read_url("redis+unix:///run/redis.sock?database=2&prefix=p");
    assert_string_equal(a.hosts[0].name, "/run/redis.sock");
    assert_true(a.hosts[0].port == 0 && a.database == 2);
}

static void sentinels_are_read(void **state)
{
    (void)state;
    struct redis_address a = read_url("redis+sentinel://u:p@s1,s2:5/main/3?sentinel_password=q");
    assert_true(a.host_count == 2 && a.hosts[0].port == 26379 && a.hosts[1].port == 5 && a.database == 3);
    assert_string_equal(a.master, "main");
    assert_string_equal(a.sentinel_password, "q");
    assert_string_equal(a.password, "p");
}

static void tls_is_read_with_its_files(void **state)
{
    (void)state;
    struct redis_address a = read_url("rediss://u:p@a,b:2/3?cacert=/a%20b/ca.pem&cert=/c.pem&key=/k.pem&prefix=p");
    assert_true(a.tls && a.host_count == 2 && a.hosts[0].port == 6379 && a.hosts[1].port == 2 && a.database == 3);
    assert_string_equal(a.cacert, "/a b/ca.pem");
    assert_string_equal(a.cert, "/c.pem");
    assert_string_equal(a.key, "/k.pem");
    a = read_url("rediss+sentinel://s/main");
    assert_true(a.tls && a.hosts[0].port == 26379 && a.cacert[0] == '\0');
    assert_string_equal(a.master, "main");
    assert_false(read_url("redis://host").tls);
}

static void what_is_no_address_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *url, *says;
    } rows[] = {
        { "redis://host?cacert=/ca.pem", "for rediss://" },
        { "rediss+unix:///run/redis.sock", "must begin with" },
        { "http://host", "redis://" },
        { "redis://", "no host" },
        { "redis://host:0", "a port is" },
        { "redis://host:70000", "a port is" },
        { "redis://host:", "a port is" },
        { "redis://host/x", "a database is" },
        { "redis://host/-1", "a database is" },
        { "redis://host?prefix=", "a prefix is" },
        { "redis://host?prefix={a}", "a prefix is" },
        { "redis://host?tls=on", "no parameter 'tls'" },
        { "redis://a%4@host", "escaped wrongly" },
        { "redis://a%zz@host", "escaped wrongly" },
        { "redis+sentinel://host", "master is missing" },
        { "redis+unix://relative", "whole path" },
        { "redis://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct redis_address a;
        struct error e = { 0 };
        if (redis_address_read(str_from(rows[i].url), &a, &e) != ERR_INVALID)
            fail_msg("%s is taken for an address", rows[i].url);
        assert_says(&e, rows[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_enough),
        cmocka_unit_test(all_parts_are_read),
        cmocka_unit_test(a_password_alone_and_one_with_an_at_are_read),
        cmocka_unit_test(a_socket_is_read),
        cmocka_unit_test(sentinels_are_read),
        cmocka_unit_test(tls_is_read_with_its_files),
        cmocka_unit_test(what_is_no_address_is_said),
    };
    return cmocka_run_group_tests_name("redis_addresses", tests, NULL, NULL);
}
