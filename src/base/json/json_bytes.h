#pragma once
/* base/json/json_bytes.h - scans JSON text eight bytes at a time. */
#include "base/str.h"

static inline bool json_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* True if a quote, a backslash or a control character is among the eight bytes. Sets the high bit of each such byte;
 * bytes above the first match may be false positives, so callers use the result as a whole only. */
static inline bool json_word_is_special(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;
    uint64_t quote = word ^ (ones * '"'), backslash = word ^ (ones * '\\');
    uint64_t hits = ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) | ((word - ones * ' ') & ~word);
    return hits & high;
}

/* Returns the first byte at or after p that must be escaped in a string or ends it, or `end`. */
static inline const char *json_plain_end(const char *p, const char *end)
{
    for (uint64_t word; end - p >= (ptrdiff_t)sizeof word; p += sizeof word) {
        memcpy(&word, p, sizeof word);
        if (json_word_is_special(word))
            break;
    }
    while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= ' ')
        p++;
    return p;
}
