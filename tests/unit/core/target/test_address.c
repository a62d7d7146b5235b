#include <stdio.h>

#include "check.h"
#include "core/target/blocked_addresses.h"

static const struct address_policy nothing_allowed;

static struct address address(const char *text)
{
    struct address a;
    if (!address_parse(str_from(text), &a))
        fail_msg("'%s' is no address", text);
    return a;
}

static bool is_blocked(const char *text)
{
    return address_blocked(&nothing_allowed, address(text), 0);
}

static void addresses_are_read_as_bytes(void **state)
{
    (void)state;
    struct address a = address("203.0.113.9");
    assert_false(a.is_v6);
    assert_memory_equal(a.b, ((uint8_t[4]){ 203, 0, 113, 9 }), 4);
    a = address("2001:DB8::c0:ffee:192.0.2.1");
    assert_true(a.is_v6);
    assert_memory_equal(
        a.b, ((uint8_t[16]){ 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0x00, 0xc0, 0xff, 0xee, 192, 0, 2, 1 }), 16);
    a = address("1:2:3:4:5:6:7:8");
    assert_memory_equal(a.b, ((uint8_t[16]){ 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8 }), 16);
    a = address("1:2:3:4:5:6:7::");
    assert_memory_equal(a.b, ((uint8_t[16]){ 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 0 }), 16);
    a = address("::");
    assert_memory_equal(a.b, ((uint8_t[16]){ 0 }), 16);
    a = address("::1");
    assert_int_equal(a.b[15], 1);
    a = address("fe80::1");
    assert_int_equal(a.b[0], 0xfe);
    assert_int_equal(a.b[15], 1);
}

static void forms_that_others_guess_at_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        ".",
        "1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f.0.0.1",
        "0x7f000001",
        "0177.0.0.1",
        "127.0.0.01",
        "00.0.0.0",
        "256.0.0.1",
        "1.2.3.4.",
        ".1.2.3.4",
        "1.2.3.4.5",
        "1.2.3.-4",
        " 1.2.3.4",
        "1.2.3.4 ",
        "1.2.3.1000",
        "1..2.3",
        "1.2.3",
        ":",
        ":::",
        "1::2::3",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7:8::",
        "::1:2:3:4:5:6:7:8",
        "1:",
        ":1",
        "1:2:3:4:5:6:7:",
        "12345::",
        "g::",
        "fe80::1%eth0",
        "fe80::1%25eth0",
        "[::1]",
        "::1.2.3",
        "::0x7f.0.0.1",
        "1.2.3.4::",
        "::1.2.3.4:5",
        "1:2:3:4:5:6:7:1.2.3.4",
        "::ffff:127.1",
        "1.2.3.4:80",
    };
    for (size_t i = 0; i < array_count(texts); i++) {
        struct address a = { .b = { 42 } };
        if (address_parse(str_from(texts[i]), &a))
            fail_msg("'%s' was read", texts[i]);
        assert_int_equal(a.b[0], 42);
    }
}

static void an_address_has_one_text(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "192.0.2.7", "192.0.2.7" },
        { "0.0.0.0", "0.0.0.0" },
        { "::", "::" },
        { "0:0:0:0:0:0:0:1", "::1" },
        { "1:0:0:0:0:0:0:0", "1::" },
        { "2001:0DB8:0:0:0:0:0:0001", "2001:db8::1" },
        { "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1" }, /* the first of two runs */
        { "2001:0:0:1:0:0:0:1", "2001:0:0:1::1" },
        { "1::3:4:5:6:7:8", "1:0:3:4:5:6:7:8" }, /* one group is no run */
        { "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
        { "::ffff:192.0.2.7", "::ffff:c000:207" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct address a, again;
        char text[ADDRESS_TEXT];
        assert_true(address_parse(str_from(rows[i][0]), &a));
        address_format(a, text);
        assert_string_equal(text, rows[i][1]);
        assert_true(address_parse(str_from(text), &again) && memcmp(a.b, again.b, sizeof a.b) == 0);
    }
}

/* Checks each row of the table by its first and last address, and by the neighbours on both sides that are not
 * blocked. */
static void every_row_is_blocked_to_its_edges(void **state)
{
    (void)state;
    static const struct {
        /* NULL: the neighbour is blocked by another row, or does not exist */
        const char *first, *last, *before, *after;
    } rows[] = {
        { "0.0.0.0", "0.255.255.255", NULL, "1.0.0.0" },
        { "10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0" },
        { "100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0" },
        { "127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0" },
        { "168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17" },
        { "169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0" },
        { "172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0" },
        { "192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0" },
        { "192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0" },
        { "192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0" },
        { "192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0" },
        { "198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0" },
        { "198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0" },
        { "203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0" },
        { "224.0.0.0", "239.255.255.255", "223.255.255.255", NULL },
        { "240.0.0.0", "255.255.255.255", NULL, NULL },
        { "::", "::fffe:ffff:ffff", NULL, NULL }, /* then mapped IPv4 */
        { "::1:0:0:0", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "2000::" },
        { "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::" },
        { "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
          "2001:db9::" },
        { "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::" },
        { "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
          "3fff:1000::" },
        { "4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        if (!is_blocked(rows[i].first) || !is_blocked(rows[i].last))
            fail_msg("%s to %s is not blocked", rows[i].first, rows[i].last);
        if (rows[i].before && is_blocked(rows[i].before))
            fail_msg("%s is blocked", rows[i].before);
        if (rows[i].after && is_blocked(rows[i].after))
            fail_msg("%s is blocked", rows[i].after);
    }
}

static void public_addresses_are_free(void **state)
{
    (void)state;
    static const char *const texts[] = { "1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700::1111",
                                         "2a00:1450:4001::1" };
    for (size_t i = 0; i < array_count(texts); i++)
        assert_false(is_blocked(texts[i]));
}

static void mapped_ipv4_is_judged_as_ipv4(void **state)
{
    (void)state;
    assert_true(is_blocked("::ffff:127.0.0.1"));
    assert_true(is_blocked("::ffff:7f00:1"));
    assert_true(is_blocked("::ffff:169.254.169.254"));
    assert_false(is_blocked("::ffff:8.8.8.8"));
}

/* D: dotted, H: two groups of hex digits, O: dotted octal, X: dotted hex, N: one number; the rest as it is. */
static void write_notation(const char *format, const uint8_t b[4], char out[128])
{
    size_t n = 0;
    for (const char *f = format; *f; f++) {
        size_t left = 128 - n;
        switch (*f) {
        case 'D': n += (size_t)snprintf(out + n, left, "%d.%d.%d.%d", b[0], b[1], b[2], b[3]); break;
        case 'H': n += (size_t)snprintf(out + n, left, "%x:%x", b[0] << 8 | b[1], b[2] << 8 | b[3]); break;
        case 'O': n += (size_t)snprintf(out + n, left, "0%o.0%o.0%o.0%o", b[0], b[1], b[2], b[3]); break;
        case 'X': n += (size_t)snprintf(out + n, left, "0x%x.%d.%d.%d", b[0], b[1], b[2], b[3]); break;
        case 'N':
            n +=
                (size_t)snprintf(out + n, left, "%u", (unsigned)b[0] << 24 | (unsigned)(b[1] << 16 | b[2] << 8 | b[3]));
            break;
        default: n += (size_t)snprintf(out + n, left, "%c", *f);
        }
    }
}

/* Each internal IPv4 address in each notation that reaches it: by a mapping, a translator, a tunnel or a lax parser. A
 * notation that is read must be blocked; one that is not read is no address. */
static void no_notation_of_an_internal_address_is_free(void **state)
{
    (void)state;
    static const uint8_t internal[][4] = {
        { 0, 0, 0, 0 },       { 0, 1, 2, 3 },         { 10, 0, 0, 1 },        { 10, 255, 255, 254 },
        { 100, 64, 0, 1 },    { 100, 100, 100, 200 }, { 127, 0, 0, 1 },       { 127, 255, 255, 254 },
        { 168, 63, 129, 16 }, { 169, 254, 0, 1 },     { 169, 254, 169, 254 }, { 169, 254, 170, 2 },
        { 172, 16, 0, 1 },    { 172, 31, 255, 254 },  { 192, 0, 0, 192 },     { 192, 0, 2, 1 },
        { 192, 88, 99, 1 },   { 192, 168, 0, 1 },     { 192, 168, 255, 1 },   { 198, 18, 0, 1 },
        { 198, 51, 100, 1 },  { 203, 0, 113, 1 },     { 224, 0, 0, 1 },       { 255, 255, 255, 255 },
    };
    static const struct {
        const char *format;
        bool is_read;
    } notations[] = {
        { "D", true },           { "::ffff:D", true },     { "::ffff:H", true },     { "0:0:0:0:0:ffff:H", true },
        { "::D", true },         { "::H", true },          { "::ffff:0:D", true },   { "::ffff:0:H", true },
        { "64:ff9b::D", true },  { "64:ff9b:1::H", true }, { "2002:H::", true },     { "2002:H::1", true },
        { "2001:0:H::", true },  { "2001::H", true },      { "fe80::5efe:D", true }, { "fd00::H", true },
        { "O", false },          { "X", false },           { "N", false },           { "D.", false },
        { "[::ffff:D]", false }, { "::ffff:O", false },    { "::ffff:X", false },    { "D%lo", false },
    };
    size_t checked = 0;
    for (size_t i = 0; i < array_count(internal); i++) {
        for (size_t k = 0; k < array_count(notations); k++, checked++) {
            char text[128];
            struct address a;
            write_notation(notations[k].format, internal[i], text);
            bool is_read = address_parse(str_from(text), &a);
            if (is_read != notations[k].is_read || (is_read && !address_blocked(&nothing_allowed, a, 0)))
                fail_msg("%s is %s", text, is_read ? "free" : "not read");
        }
    }
    assert_true(checked >= 300);
}

/* IANA's special-purpose ranges of IPv6, and what is reserved or not given out. */
static void special_ipv6_ranges_are_blocked(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "::",          "::1",        "::2",         "::ffff:0:7f00:1", "64:ff9b::1",    "64:ff9b:1::1", "100::1",
        "100:0:0:1::", "2001::1",    "2001:1::1",   "2001:1::2",       "2001:2::1",     "2001:3::1",    "2001:4:112::1",
        "2001:10::1",  "2001:20::1", "2001:2f::1",  "2001:30::1",      "2001:db8::1",   "2002::1",      "3fff::1",
        "3fff:fff::1", "5f00::1",    "5f00:ffff::", "fc00::1",         "fd00:ec2::254", "fe80::1",      "fec0::1",
        "ff02::1",     "ff0e::1",    "200::1",      "400::1",          "1000::1",       "4000::1",      "6000::1",
        "8000::1",     "a000::1",    "c000::1",     "e000::1",         "f000::1",       "fe00::1",
    };
    for (size_t i = 0; i < array_count(texts); i++)
        if (!is_blocked(texts[i]))
            fail_msg("%s is free", texts[i]);
}

static struct address_range range(const char *text)
{
    struct address_range r;
    struct error e;
    assert_ok(address_range_parse(str_from(text), &r, &e), &e);
    return r;
}

static void an_operator_allows_ranges(void **state)
{
    (void)state;
    struct address_range allowed[] = { range("10.20.0.0/15"), range("::1"), range("127.0.0.1") };
    struct address_policy p = { .allowed = allowed, .allowed_count = array_count(allowed) };
    assert_false(address_blocked(&p, address("10.20.0.1"), 0));
    assert_false(address_blocked(&p, address("10.21.255.255"), 0));
    assert_true(address_blocked(&p, address("10.22.0.0"), 0));
    assert_false(address_blocked(&p, address("::1"), 0));
    assert_true(address_blocked(&p, address("::2"), 0));
    assert_false(address_blocked(&p, address("::ffff:127.0.0.1"), 0));
    assert_true(address_blocked(&p, address("127.0.0.2"), 0));
    struct address_range all[] = { range("0.0.0.0/0") };
    p = (struct address_policy){ .allowed = all, .allowed_count = 1 };
    assert_false(address_blocked(&p, address("192.168.1.1"), 0));
    assert_true(address_blocked(&p, address("fd00::1"), 0));
}

static void an_operator_allows_a_port(void **state)
{
    (void)state;
    static const struct {
        const char *text, *address;
        int port;
        bool blocked;
    } rows[] = {
        { "127.0.0.1:8080", "127.0.0.1", 8080, false },
        { "127.0.0.1:8080", "127.0.0.1", 8081, true },
        { "127.0.0.1:8080", "127.0.0.1", 0, false },
        { "127.0.0.1:8080", "127.0.0.2", 8080, true },
        { "[::1]:80", "::1", 80, false },
        { "[::1]:80", "::1", 81, true },
        { "[fd00::/8]:443", "fd12::1", 443, false },
        { "10.0.0.0/8:443", "10.1.2.3", 443, false },
        { "10.0.0.0/8:443", "10.1.2.3", 80, true },
        { "10.0.0.0/8", "10.1.2.3", 80, false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct address_range r;
        struct error e;
        assert_ok(address_allowed_parse(str_from(rows[i].text), &r, &e), &e);
        struct address_policy p = { .allowed = &r, .allowed_count = 1 };
        assert_int_equal(address_blocked(&p, address(rows[i].address), rows[i].port), rows[i].blocked);
    }
    static const char *const wrong[] = {
        "",      "host:80", "127.0.0.1:",      "127.0.0.1:0",   "127.0.0.1:65536", "[::1]:",   "[::1",
        "[::1]", "[]:80",   "127.0.0.1:80:81", "10.1.0.0/8:80", "10.0.0.0/33",     "127.1:80", "::1:x"
    };
    for (size_t i = 0; i < array_count(wrong); i++) {
        struct address_range r;
        struct error e;
        if (address_allowed_parse(str_from(wrong[i]), &r, &e) != ERR_INVALID)
            fail_msg("'%s' was read", wrong[i]);
    }
}

static void our_own_interfaces_are_blocked_unless_allowed(void **state)
{
    (void)state;
    struct address own[] = { address("8.8.4.4"), address("2606:4700::1") };
    struct address_range allowed[] = { range("8.8.4.0/24") };
    struct address_policy p = { .own = own, .own_count = 2 };
    assert_true(address_blocked(&p, address("8.8.4.4"), 0));
    assert_true(address_blocked(&p, address("::ffff:8.8.4.4"), 0));
    assert_true(address_blocked(&p, address("2606:4700::1"), 0));
    assert_false(address_blocked(&p, address("8.8.4.5"), 0));
    p.allowed = allowed;
    p.allowed_count = 1;
    assert_false(address_blocked(&p, address("8.8.4.4"), 0));
}

static void a_range_that_looks_like_a_mistake_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "10.1.0.0/8", "has bits set beyond its first 8" },
        { "fd00::1/64", "has bits set beyond its first 64" },
        { "10.0.0.0/33", "needs a prefix length between 0 and 32" },
        { "::/129", "needs a prefix length between 0 and 128" },
        { "10.0.0.0/", "needs a prefix length" },
        { "10.0.0.0/-1", "needs a prefix length" },
        { "10.0.0/8", "is no address or range such as 10.0.0.0/8 or fd00::/8" },
        { "example.com", "is no address" },
        { "", "is no address" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct address_range r = { .bits = -7 };
        struct error e;
        assert_int_equal(address_range_parse(str_from(rows[i].text), &r, &e), ERR_INVALID);
        assert_says(&e, rows[i].says);
        assert_int_equal(r.bits, -7);
    }
    assert_int_equal(range("0.0.0.0/0").bits, 0);
    assert_int_equal(range("1.2.3.4").bits, 32);
    assert_int_equal(range("::1").bits, 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_as_bytes),
        cmocka_unit_test(forms_that_others_guess_at_are_refused),
        cmocka_unit_test(an_address_has_one_text),
        cmocka_unit_test(every_row_is_blocked_to_its_edges),
        cmocka_unit_test(public_addresses_are_free),
        cmocka_unit_test(mapped_ipv4_is_judged_as_ipv4),
        cmocka_unit_test(no_notation_of_an_internal_address_is_free),
        cmocka_unit_test(special_ipv6_ranges_are_blocked),
        cmocka_unit_test(an_operator_allows_ranges),
        cmocka_unit_test(an_operator_allows_a_port),
        cmocka_unit_test(our_own_interfaces_are_blocked_unless_allowed),
        cmocka_unit_test(a_range_that_looks_like_a_mistake_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
