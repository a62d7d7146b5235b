#include "base/base64.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

size_t base64_write(const void *bytes, size_t n, char *out)
{
    const uint8_t *p = bytes;
    uint32_t bits = 0;
    int count = 0;
    size_t letter_count = 0;
    for (size_t i = 0; i < n; i++) {
        bits = bits << 8 | p[i];
        for (count += 8; count >= 6; count -= 6)
            out[letter_count++] = letters[bits >> (count - 6) & 63];
    }
    if (count)
        out[letter_count++] = letters[bits << (6 - count) & 63];
    return letter_count;
}

size_t base64_read(struct str text, void *ret)
{
    uint8_t *out = ret;
    uint32_t bits = 0;
    int count = 0;
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        const char *letter = text.p[i] ? strchr(letters, text.p[i]) : NULL;
        if (!letter)
            break;
        bits = bits << 6 | (uint32_t)(letter - letters);
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        out[n++] = (uint8_t)(bits >> count);
    }
    return n;
}

size_t base64_read_exact(struct str text, void *ret)
{
    size_t n = base64_read(text, ret);
    char end[4];
    size_t rest = n % 3, letter_count = base64_write((const uint8_t *)ret + (n - rest), rest, end);
    bool exact = text.n == n / 3 * 4 + letter_count;
    return exact && memcmp(text.p + text.n - letter_count, end, letter_count) == 0 ? n : 0;
}
