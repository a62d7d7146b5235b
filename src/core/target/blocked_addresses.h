#pragma once
/* core/target/blocked_addresses.h - which addresses tasks may not call: prevents server-side request forgery (SSRF).
 *
 * The check works on bytes, never on text. The blocked ranges are a table; an operator may allow ranges of it. Of IPv6,
 * only 2000::/3 is public, and parts of that are blocked. */
#include "core/target/address.h"

/* `allowed` overrides everything. `own` are this machine's interfaces; they are blocked like the table. */
struct address_policy {
    const struct address_range *allowed;
    size_t allowed_count;
    const struct address *own;
    size_t own_count;
};

/* An IPv4-mapped IPv6 address (::ffff:0:0/96) is checked as the IPv4 address that it stands for.
 * port 0: not known yet; an address of which any port is allowed is not blocked. */
bool address_blocked(const struct address_policy *policy, struct address a, int port);
