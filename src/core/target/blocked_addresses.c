#include "core/target/blocked_addresses.h"

/* Ranges that hold no public hosts (IANA's registries of special-purpose addresses), or hosts that users must not reach
 * through this server. Bytes that are not given are zero. */
enum { V4 = false, V6 = true };
static const struct address_range blocked[] = {
    { { { 0 }, V4 }, 8 },  /* 0.0.0.0: this network */
    { { { 10 }, V4 }, 8 }, /* 10.0.0.0: private */
    /* 100.64.0.0: carrier-grade NAT; some clouds have metadata services there */
    { { { 100, 64 }, V4 }, 10 },
    { { { 127 }, V4 }, 8 },                     /* 127.0.0.0: loopback */
    { { { 168, 63, 129, 16 }, V4 }, 32 },       /* 168.63.129.16: Azure's platform service */
    { { { 169, 254 }, V4 }, 16 },               /* 169.254.0.0: link local, metadata services */
    { { { 172, 16 }, V4 }, 12 },                /* 172.16.0.0: private */
    { { { 192, 0, 0 }, V4 }, 24 },              /* 192.0.0.0: protocol assignments */
    { { { 192, 0, 2 }, V4 }, 24 },              /* 192.0.2.0: documentation */
    { { { 192, 88, 99 }, V4 }, 24 },            /* 192.88.99.0: 6to4 relays */
    { { { 192, 168 }, V4 }, 16 },               /* 192.168.0.0: private */
    { { { 198, 18 }, V4 }, 15 },                /* 198.18.0.0: benchmarks */
    { { { 198, 51, 100 }, V4 }, 24 },           /* 198.51.100.0: documentation */
    { { { 203, 0, 113 }, V4 }, 24 },            /* 203.0.113.0: documentation */
    { { { 224 }, V4 }, 4 },                     /* 224.0.0.0: multicast */
    { { { 240 }, V4 }, 4 },                     /* 240.0.0.0: reserved, and broadcast */
    { { { 0x20, 0x01 }, V6 }, 23 },             /* 2001::/23: protocol assignments, Teredo, ORCHID, benchmarks */
    { { { 0x20, 0x01, 0x0d, 0xb8 }, V6 }, 32 }, /* 2001:db8:: documentation */
    { { { 0x20, 0x02 }, V6 }, 16 },             /* 2002:: 6to4 */
    { { { 0x3f, 0xff }, V6 }, 20 },             /* 3fff:: documentation */
};
/* All other IPv6 addresses are local, multicast, reserved, or stand for an IPv4 address. */
static const struct address_range global_v6 = { { { 0x20 }, V6 }, 3 };            /* 2000:: */
static const struct address_range mapped = { { { [10] = 0xff, 0xff }, V6 }, 96 }; /* ::ffff:0.0.0.0 */

static struct address address_unwrap_mapped(struct address a)
{
    if (!address_in(&mapped, a))
        return a;
    struct address v4 = { .is_v6 = false };
    memcpy(v4.b, a.b + 12, 4);
    return v4;
}

static bool address_in_any(const struct address_range *ranges, size_t count, struct address a)
{
    for (size_t i = 0; i < count; i++)
        if (address_in(&ranges[i], a))
            return true;
    return false;
}

static bool address_is_own_interface(const struct address_policy *p, struct address a)
{
    for (size_t i = 0; i < p->own_count; i++)
        if (address_in(&(struct address_range){ p->own[i], p->own[i].is_v6 ? 128 : 32 }, a))
            return true;
    return false;
}

static bool address_is_allowed(const struct address_policy *p, struct address a, int port)
{
    for (size_t i = 0; i < p->allowed_count; i++) {
        const struct address_range *range = &p->allowed[i];
        if (address_in(range, a) && (!range->port || !port || range->port == port))
            return true;
    }
    return false;
}

bool address_blocked(const struct address_policy *policy, struct address a, int port)
{
    a = address_unwrap_mapped(a);
    if (address_is_allowed(policy, a, port))
        return false;
    if (a.is_v6 && !address_in(&global_v6, a))
        return true;
    return address_is_own_interface(policy, a) || address_in_any(blocked, array_count(blocked), a);
}
