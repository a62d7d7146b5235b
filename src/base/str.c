#include "base/str.h"

#include <stdio.h>

bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

int str_cmp(struct str a, struct str b)
{
    size_t n = min_of(a.n, b.n);
    int difference = n ? memcmp(a.p, b.p, n) : 0;
    return difference ? difference : (a.n > b.n) - (a.n < b.n);
}

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
            return false;
    return true;
}

bool str_contains_nocase(struct str s, struct str part)
{
    for (size_t i = 0; i + part.n <= s.n; i++)
        if (str_eq_nocase(str_sub(s, i, i + part.n), part))
            return true;
    return false;
}

bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_eq(str_sub(s, 0, prefix.n), prefix);
}

static bool str_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool str_has_control(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        const unsigned char *p = (const unsigned char *)s.p + i;
        bool is_c1 = p[0] == 0xC2 && i + 1 < s.n && p[1] < 0xA0;
        bool is_separator = p[0] == 0xE2 && i + 2 < s.n && p[1] == 0x80 && (p[2] == 0xA8 || p[2] == 0xA9);
        if (p[0] < ' ' || p[0] == 0x7F || is_c1 || is_separator)
            return true;
    }
    return false;
}

struct str str_trim(struct str s)
{
    size_t from = 0, to = s.n;
    while (from < to && str_is_blank(s.p[from]))
        from++;
    while (to > from && str_is_blank(s.p[to - 1]))
        to--;
    return str_sub(s, from, to);
}

size_t str_find(struct str s, char c, size_t from)
{
    const char *found = from < s.n ? memchr(s.p + from, c, s.n - from) : NULL;
    return found ? (size_t)(found - s.p) : s.n;
}

bool str_cut(struct str *rest, char sep, struct str *ret_piece)
{
    if (rest->n == 0)
        return false;
    size_t at = str_find(*rest, sep, 0);
    *ret_piece = str_sub(*rest, 0, at);
    *rest = str_sub(*rest, min_of(at + 1, rest->n), rest->n);
    return true;
}

bool str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret)
{
    bool negative = s.n > 0 && s.p[0] == '-';
    size_t i = negative ? 1 : 0;
    if (i == s.n)
        return false;
    int64_t v = 0; /* negative while parsing: reaches INT64_MIN */
    for (; i < s.n; i++) {
        if (!is_digit(s.p[i]) || __builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, s.p[i] - '0', &v))
            return false;
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, v, &v))
        return false;
    if (v < min || v > max)
        return false;
    *ret = v;
    return true;
}

size_t str_distance(struct str a, struct str b)
{
    enum { LONGEST = 64 };
    if (a.n > LONGEST || b.n > LONGEST)
        return SIZE_MAX;
    /* rows[i % 3][j]: distance between the first i bytes of a and the first j bytes of b */
    size_t rows[3][LONGEST + 1];
    for (size_t j = 0; j <= b.n; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            char x = ascii_lower(a.p[i - 1]), y = ascii_lower(b.p[j - 1]);
            row[j] = min_of(above[j - 1] + (x != y), min_of(row[j - 1], above[j]) + 1);
            bool swapped = i > 1 && j > 1 && x == ascii_lower(b.p[j - 2]) && y == ascii_lower(a.p[i - 2]);
            if (swapped)
                row[j] = min_of(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a.n % 3][b.n];
}

/* Length of the well-formed sequence at p, or 0. The range of the second byte excludes overlong forms, surrogates and
 * code points above U+10FFFF (Unicode standard, table 3-7). */
static size_t str_utf8_sequence(const unsigned char *p, size_t n)
{
    unsigned char lead = p[0], low = 0x80, high = 0xBF;
    size_t len;
    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF)
        len = 2;
    else if ((lead & 0xF0) == 0xE0)
        len = 3;
    else if (lead >= 0xF0 && lead <= 0xF4)
        len = 4;
    else
        return 0;
    if (len > n)
        return 0;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

size_t str_utf8_at(struct str s, size_t at)
{
    return str_utf8_sequence((const unsigned char *)s.p + at, s.n - at);
}

bool str_is_utf8(struct str s)
{
    for (size_t i = 0; i < s.n;) {
        size_t len = str_utf8_at(s, i);
        if (len == 0)
            return false;
        i += len;
    }
    return true;
}

size_t str_utf8_count(struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += ((unsigned char)s.p[i] & 0xC0) != 0x80; /* every byte but the following ones of a sequence */
    return n;
}

struct str str_utf8_cut(struct str s, size_t max)
{
    if (s.n <= max)
        return s;
    size_t to = max;
    while (to > 0 && max - to < 3 &&
           (s.p[to] & 0xC0) == 0x80) /* at most 3 steps: more continuation bytes are invalid UTF-8 */
        to--;
    return str_sub(s, 0, to);
}

struct str str_pack(struct str s, char **at)
{
    if (s.n == 0)
        return S("");
    char *p = memcpy(*at, s.p, s.n);
    p[s.n] = '\0';
    *at += s.n + 1;
    return (struct str){ p, s.n };
}

bool str_percent_decode(struct str s, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '%') {
            int high = i + 2 < s.n ? hex_value(s.p[i + 1]) : -1, low = high < 0 ? -1 : hex_value(s.p[i + 2]);
            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || n + 1 >= size)
            return false;
        out[n++] = c;
    }
    if (size == 0)
        return false;
    out[n] = '\0';
    return true;
}

enum { URL_NAME_MAX = 128 };

bool str_url_parameter(struct str url, const char *name, char *out, size_t size)
{
    struct str rest = str_sub(url, min_of(str_find(url, '?', 0) + 1, url.n), url.n), one;
    char found[URL_NAME_MAX];
    while (str_cut(&rest, '&', &one)) {
        size_t equals = str_find(one, '=', 0);
        if (equals < one.n && str_percent_decode(str_sub(one, 0, equals), found, sizeof found) &&
            strcmp(found, name) == 0)
            return str_percent_decode(str_sub(one, equals + 1, one.n), out, size);
    }
    return false;
}

const char *str_show_char(char c, char out[STR_CHAR_TEXT])
{
    snprintf(out, STR_CHAR_TEXT, c >= ' ' && c <= '~' ? "'%c'" : "byte 0x%02x", (unsigned char)c);
    return out;
}

unsigned str_code_point(struct str s, size_t at, size_t len)
{
    static const unsigned char lead_mask[] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
    unsigned c = (unsigned char)s.p[at] & lead_mask[len];
    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)s.p[at + i] & 0x3F);
    return c;
}

bool is_hidden_char(unsigned c)
{
    static const struct {
        unsigned from, to;
    } ranges[] = {
        { 0, 0x1F },        { 0x7F, 0x9F },     { 0xAD, 0xAD },     { 0x061C, 0x061C }, { 0x180E, 0x180E },
        { 0x200B, 0x200F }, { 0x2028, 0x202E }, { 0x2060, 0x2069 }, { 0xFEFF, 0xFEFF }, { 0xE0000, 0xE007F },
    };
    for (size_t i = 0; i < array_count(ranges); i++)
        if (c >= ranges[i].from && c <= ranges[i].to)
            return true;
    return false;
}

bool str_has_hidden(struct str s)
{
    for (size_t i = 0; i < s.n;) {
        size_t bytes = str_utf8_at(s, i);
        if (bytes && is_hidden_char(str_code_point(s, i, bytes)))
            return true;
        i += max_of(bytes, (size_t)1);
    }
    return false;
}
