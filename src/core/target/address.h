#pragma once
/* core/target/address.h - which addresses we call: the guard against being used to reach what only we can reach.
 *
 * An address is bytes, never text, by the time it is judged. Text is read strictly: four decimal numbers without leading
 * zeros, or IPv6 without zone and brackets; the octal, hex and short forms that other parsers guess at are no addresses here.
 * What is blocked is a table; an operator may allow ranges of it. */
#include "base/str.h"

struct address {
    uint8_t b[16]; /* network order; IPv4 in the first four */
    bool is_v6;
};

struct address_range {
    struct address first;
    int bits; /* of the prefix */
};

/* allowed wins over everything; own are this machine's interfaces, blocked like the table. */
struct address_policy {
    const struct address_range *allowed;
    size_t allowed_count;
    const struct address *own;
    size_t own_count;
};

bool address_parse(struct str text, struct address *ret);

/* "10.0.0.0/8", "fd00::/8", or one address. Bits beyond the prefix must be zero: 10.1.0.0/8 is more likely a mistake. */
enum err address_range_parse(struct str text, struct address_range *ret, struct error *e) must_use;

bool address_in(const struct address_range *range, struct address a); /* no unwrapping: families differ, ranges too */

/* IPv4 mapped into IPv6 (::ffff:0:0/96) is judged as the IPv4 address it is. */
bool address_blocked(const struct address_policy *policy, struct address a);
