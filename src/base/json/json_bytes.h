#pragma once
/* base/json/json_bytes.h - passes over what needs no second look in a JSON string, eight bytes at a time. */
#include "base/str.h"

/* Whether a quote, a backslash or a control character is among eight bytes. A bit on top of each tells; once one has told, those
 * of higher bytes may tell of innocents. */
static inline bool json_word_is_special(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;
    uint64_t quote = word ^ (ones * '"'), backslash = word ^ (ones * '\\');
    uint64_t hits = ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) | ((word - ones * ' ') & ~word);
    return hits & high;
}

/* The first byte at or after p that can not stand in a string as it is, or end. */
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
