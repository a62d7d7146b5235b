#include "core/target/address.h"

#include <assert.h>
#include <stdio.h>

enum { ADDRESS_GROUPS = 8 /* of IPv6 */ };

static int address_bits(struct address a)
{
    return a.is_v6 ? 128 : 32;
}

/* Reads one to three digits, at most 255, without a leading zero; moves *at past them. */
static bool address_parse_octet(struct str s, size_t *at, uint8_t *ret)
{
    size_t from = *at;
    int v = 0;
    while (*at < s.n && *at - from < 3 && is_digit(s.p[*at]))
        v = v * 10 + (s.p[(*at)++] - '0');
    size_t digits = *at - from;
    if (digits == 0 || v > 255 || (digits > 1 && s.p[from] == '0'))
        return false;
    *ret = (uint8_t)v;
    return true;
}

static bool address_parse_v4(struct str s, uint8_t out[4])
{
    size_t at = 0;
    for (int i = 0; i < 4; i++) {
        if (i && (at == s.n || s.p[at++] != '.'))
            return false;
        if (!address_parse_octet(s, &at, &out[i]))
            return false;
    }
    return at == s.n;
}

/* Reads one to four hex digits; moves *at past them. */
static bool address_parse_v6_group(struct str s, size_t *at, uint8_t out[2])
{
    size_t from = *at;
    int v = 0;
    for (int h; *at < s.n && *at - from < 4 && (h = hex_value(s.p[*at])) >= 0; (*at)++)
        v = v * 16 + h;
    out[0] = (uint8_t)(v >> 8);
    out[1] = (uint8_t)v;
    return *at > from;
}

/* Reads groups separated by ':'; the last four bytes may be written as IPv4. Fills at most max bytes. An empty text has
 * no groups. */
static bool address_parse_v6_groups(struct str s, uint8_t *out, size_t max, size_t *ret_n)
{
    size_t at = 0, n = 0;
    while (at < s.n) {
        if (n && s.p[at++] != ':')
            return false;
        struct str rest = str_sub(s, at, s.n);
        if (str_find(rest, '.', 0) < rest.n && str_find(rest, ':', 0) == rest.n) {
            *ret_n = n + 4;
            return n + 4 <= max && address_parse_v4(rest, out + n);
        }
        if (n + 2 > max || !address_parse_v6_group(s, &at, out + n))
            return false;
        n += 2;
    }
    *ret_n = n;
    return true;
}

static size_t address_find_v6_gap(struct str s)
{
    for (size_t at = 0; at + 1 < s.n; at++)
        if (s.p[at] == ':' && s.p[at + 1] == ':')
            return at;
    return s.n;
}

static bool address_parse_v6(struct str s, uint8_t out[16])
{
    size_t gap = address_find_v6_gap(s), head_n = 0, tail_n = 0;
    uint8_t head[16] = { 0 }, tail[16];
    if (!address_parse_v6_groups(str_sub(s, 0, gap), head, sizeof head, &head_n))
        return false;
    if (gap < s.n) {
        struct str before = str_sub(s, 0, gap); /* IPv4 notation is allowed at the end only */
        if (str_find(before, '.', 0) < before.n)
            return false;
        if (!address_parse_v6_groups(str_sub(s, gap + 2, s.n), tail, sizeof tail, &tail_n) || head_n + tail_n > 14)
            return false;
        memcpy(head + 16 - tail_n, tail, tail_n);
    } else if (head_n != 16) {
        return false;
    }
    memcpy(out, head, 16);
    return true;
}

bool address_parse(struct str text, struct address *ret)
{
    struct address a = { .is_v6 = str_find(text, ':', 0) < text.n };
    if (!(a.is_v6 ? address_parse_v6(text, a.b) : address_parse_v4(text, a.b)))
        return false;
    *ret = a;
    return true;
}

static unsigned address_group(struct address a, size_t i)
{
    return (unsigned)a.b[2 * i] << 8 | a.b[2 * i + 1];
}

/* The longest run of zero groups, the first of several; one alone is no run. *ret_from: where it begins. */
static size_t address_zero_groups(struct address a, size_t *ret_from)
{
    size_t longest = 1;
    *ret_from = ADDRESS_GROUPS;
    for (size_t from = 0; from < ADDRESS_GROUPS; from++) {
        size_t to = from;
        while (to < ADDRESS_GROUPS && !address_group(a, to))
            to++;
        if (to - from > longest) {
            longest = to - from;
            *ret_from = from;
        }
    }
    return longest;
}

void address_format(struct address a, char out[ADDRESS_TEXT])
{
    size_t at = 0, gap, zeros = address_zero_groups(a, &gap);
    if (!a.is_v6) {
        snprintf(out, ADDRESS_TEXT, "%u.%u.%u.%u", a.b[0], a.b[1], a.b[2], a.b[3]);
        return;
    }
    for (size_t i = 0; i < ADDRESS_GROUPS; i++) {
        bool is_behind_colon = i == 0 || i == gap + zeros;
        if (i == gap)
            at += (size_t)snprintf(out + at, ADDRESS_TEXT - at, "::");
        else if (i < gap || i >= gap + zeros)
            at +=
                (size_t)snprintf(out + at, ADDRESS_TEXT - at, "%s%x", is_behind_colon ? "" : ":", address_group(a, i));
    }
}

static bool address_bit_at(struct address a, int i)
{
    return a.b[i / 8] >> (7 - i % 8) & 1;
}

enum err address_range_parse(struct str text, struct address_range *ret, struct error *e)
{
    size_t slash = str_find(text, '/', 0);
    struct address_range r = { 0 };
    if (!address_parse(str_sub(text, 0, slash), &r.first))
        return error_set(e, ERR_INVALID, "is no address or range such as 10.0.0.0/8 or fd00::/8");
    int64_t bits = address_bits(r.first);
    if (slash < text.n && !str_to_i64(str_sub(text, slash + 1, text.n), 0, bits, &bits))
        return error_set(e, ERR_INVALID, "needs a prefix length between 0 and %d", address_bits(r.first));
    r.bits = (int)bits;
    for (int i = r.bits; i < address_bits(r.first); i++)
        if (address_bit_at(r.first, i))
            return error_set(e, ERR_INVALID, "has bits set beyond its first %d", r.bits);
    *ret = r;
    return ERR_OK;
}

/* Whether the text ends in a port: "127.0.0.1:80" or "[::1]:80". An IPv6 address without brackets has none. */
static bool address_cut_port(struct str text, struct str *ret_address, struct str *ret_port)
{
    size_t end = text.n && text.p[0] == '[' ? str_find(text, ']', 0) + 1 : str_find(text, ':', 0);
    if (end >= text.n || text.p[end] != ':' || str_find(text, ':', end + 1) < text.n)
        return false;
    *ret_port = str_sub(text, end + 1, text.n);
    *ret_address = text.p[0] == '[' ? str_sub(text, 1, end - 1) : str_sub(text, 0, end);
    return true;
}

enum err address_allowed_parse(struct str text, struct address_range *ret, struct error *e)
{
    struct str address, port;
    int64_t number = 0;
    if (!address_cut_port(text, &address, &port))
        return address_range_parse(text, ret, e);
    if (!str_to_i64(port, 1, 65535, &number))
        return error_set(e, ERR_INVALID, "needs a port between 1 and 65535");
    if (address_range_parse(address, ret, e))
        return e ? e->code : ERR_INVALID;
    ret->port = (int)number;
    return ERR_OK;
}

bool address_in(const struct address_range *range, struct address a)
{
    assert(range->bits >= 0 && range->bits <= address_bits(range->first));
    if (range->first.is_v6 != a.is_v6)
        return false;
    int whole = range->bits / 8, rest = range->bits % 8;
    if (memcmp(range->first.b, a.b, (size_t)whole) != 0)
        return false;
    return rest == 0 || (range->first.b[whole] ^ a.b[whole]) >> (8 - rest) == 0;
}
