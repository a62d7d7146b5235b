#pragma once
/* core/target/address.h - network addresses and ranges of them.
 *
 * Text is parsed strictly: four decimal numbers without leading zeros, or IPv6 without zone and brackets. The octal,
 * hex and short forms that other parsers accept are refused. */
#include "base/str.h"

struct address {
    uint8_t b[16]; /* network byte order; IPv4 uses the first four */
    bool is_v6;
};

struct address_range {
    struct address first;
    int bits; /* length of the prefix */
    int port; /* of an allowed range: the only port; 0: every port */
};

bool address_parse(struct str text, struct address *ret);
/* The one text that RFC 5952 recommends for an address: "::1". */
enum { ADDRESS_TEXT = 40 };
void address_format(struct address a, char out[ADDRESS_TEXT]);

/* Parses "10.0.0.0/8", "fd00::/8" or a single address. Bits beyond the prefix must be zero, since 10.1.0.0/8 is more
 * likely a mistake. */
enum err address_range_parse(struct str text, struct address_range *ret, struct error *e) must_use;

/* Parses what an operator allows: a range, or an address and a port, such as 127.0.0.1:8080 or [::1]:8080. */
enum err address_allowed_parse(struct str text, struct address_range *ret, struct error *e) must_use;

/* does not unwrap mapped addresses: an IPv4 range holds no IPv6 address */
bool address_in(const struct address_range *range, struct address a);
