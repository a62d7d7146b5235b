/* A recursive-descent parser. It never reads beyond the end of the text, and returns NULL for anything it cannot
 * parse. */
#include "base/json/json_build.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/json/json_bytes.h"

enum { INTEGER_DIGITS = 18 /* always fit in an int64_t */, NUMBER_MAX = 400 };

struct json_builder {
    const char *at, *end;
    int depth;
    struct arena *a;
};

static json_t *json_build_value(struct json_builder *b);

/* Skips blanks and returns the next byte without consuming it; '\0' at the end. */
static char json_build_peek(struct json_builder *b)
{
    while (b->at < b->end && json_is_space(*b->at))
        b->at++;
    return b->at < b->end ? *b->at : '\0';
}

static bool json_build_skip(struct json_builder *b, char c)
{
    if (json_build_peek(b) != c)
        return false;
    b->at++;
    return true;
}

/* ---- strings ---- */

static bool json_build_read_hex(struct json_builder *b, unsigned *ret)
{
    unsigned value = 0;
    if (b->end - b->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(*b->at++);
        if (digit < 0)
            return false;
        value = value * 16 + (unsigned)digit;
    }
    *ret = value;
    return true;
}

static char *json_build_put_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned leads[] = { 0, 0xC0, 0xE0, 0xF0 };
    *out++ = (char)(leads[more] | c >> (6 * more));
    while (more--)
        *out++ = (char)(0x80 | ((c >> (6 * more)) & 0x3F));
    return out;
}

/* Reads a code point after "\u". NULL: an unpaired surrogate or bad digits. */
static char *json_build_read_code_point(struct json_builder *b, char *out)
{
    unsigned c, low;
    if (!json_build_read_hex(b, &c) || (c >= 0xDC00 && c < 0xE000))
        return NULL;
    if (c >= 0xD800 && c < 0xDC00) {
        if (b->end - b->at < 6 || b->at[0] != '\\' || b->at[1] != 'u')
            return NULL;
        b->at += 2;
        if (!json_build_read_hex(b, &low) || low < 0xDC00 || low >= 0xE000)
            return NULL;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    return json_build_put_utf8(out, c);
}

static char *json_build_read_escape(struct json_builder *b, char *out)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    if (b->at == b->end)
        return NULL;
    char c = *b->at++;
    if (c == 'u')
        return json_build_read_code_point(b, out);
    const char *found = memchr(names, c, sizeof names - 1);
    if (!found)
        return NULL;
    *out = means[found - names];
    return out + 1;
}

/* Decodes a string with escapes. An escape is never shorter than the bytes it stands for, so the source's length up to
 * the closing quote is enough room. */
static bool json_build_read_escaped(struct json_builder *b, const char *from, struct str *ret)
{
    const char *close = from;
    while (close < b->end && *close != '"')
        close += *close == '\\' && close + 1 < b->end ? 2 : 1;
    char *decoded = arena_alloc(b->a, (size_t)(close - from) + 1), *out = decoded;
    if (!decoded)
        return false;
    b->at = from;
    while (b->at < b->end && *b->at != '"') {
        const char *stop = json_plain_end(b->at, b->end);
        memcpy(out, b->at, (size_t)(stop - b->at));
        out += stop - b->at;
        b->at = stop;
        if (stop == b->end || *stop == '"')
            break;
        b->at++;
        out = *stop == '\\' ? json_build_read_escape(b, out) : NULL;
        if (!out)
            return false;
    }
    *ret = (struct str){ decoded, (size_t)(out - decoded) };
    return b->at++ < b->end;
}

/* b->at is at the opening quote. */
static bool json_build_read_string(struct json_builder *b, struct str *ret)
{
    const char *from = ++b->at;
    b->at = json_plain_end(from, b->end);
    if (b->at < b->end && *b->at == '\\')
        return json_build_read_escaped(b, from, ret);
    *ret = (struct str){ from, (size_t)(b->at - from) };
    return b->at < b->end && *b->at++ == '"';
}

static json_t *json_build_string(struct json_builder *b)
{
    struct str s;
    return json_build_read_string(b, &s) ? json_stringn_nocheck(s.p, s.n) : NULL;
}

/* ---- numbers and literals ---- */

static bool json_build_skip_digits(struct json_builder *b)
{
    const char *from = b->at;
    while (b->at < b->end && is_digit(*b->at))
        b->at++;
    return b->at > from;
}

/* Skips a fraction and an exponent. Returns 0 if there is neither, 1 if there is one, -1 if it is malformed. */
static int json_build_skip_fraction(struct json_builder *b)
{
    bool fraction = b->at < b->end && *b->at == '.';
    if (fraction && (b->at++, !json_build_skip_digits(b)))
        return -1;
    bool exponent = b->at < b->end && (*b->at == 'e' || *b->at == 'E');
    if (!exponent)
        return fraction;
    b->at++;
    if (b->at < b->end && (*b->at == '+' || *b->at == '-'))
        b->at++;
    return json_build_skip_digits(b) ? 1 : -1;
}

static json_t *json_build_integer(struct str s)
{
    char text[NUMBER_MAX + 1];
    bool minus = s.p[0] == '-';
    if (s.n - minus > INTEGER_DIGITS) {
        memcpy(text, s.p, s.n);
        text[s.n] = '\0';
        errno = 0;
        long long i = strtoll(text, NULL, 10);
        return errno ? NULL : json_integer(i);
    }
    int64_t i = 0;
    for (size_t k = minus; k < s.n; k++)
        i = i * 10 + (s.p[k] - '0');
    return json_integer(minus ? -i : i);
}

static json_t *json_build_real(struct str s)
{
    char text[NUMBER_MAX + 1];
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    double d = strtod(text, NULL);
    return isinf(d) ? NULL : json_real(d);
}

static json_t *json_build_number(struct json_builder *b)
{
    const char *from = b->at;
    b->at += *from == '-';
    const char *whole = b->at;
    if (!json_build_skip_digits(b) || (*whole == '0' && b->at - whole > 1))
        return NULL;
    int more = json_build_skip_fraction(b);
    struct str s = { from, (size_t)(b->at - from) };
    if (more < 0 || s.n > NUMBER_MAX)
        return NULL;
    return more ? json_build_real(s) : json_build_integer(s);
}

static json_t *json_build_word(struct json_builder *b, struct str word, json_t *means)
{
    if (b->end - b->at < (ptrdiff_t)word.n || memcmp(b->at, word.p, word.n) != 0)
        return NULL;
    b->at += word.n;
    return means;
}

/* ---- objects and arrays ---- */

static bool json_build_add_member(struct json_builder *b, json_t *object) // NOLINT(misc-no-recursion)
{
    struct str key;
    if (json_build_peek(b) != '"' || !json_build_read_string(b, &key) || memchr(key.p, '\0', key.n) ||
        !json_build_skip(b, ':'))
        return false;
    json_t *value = json_build_value(b);
    size_t before = json_object_size(object);
    if (!value)
        return false;
#if JANSSON_VERSION_HEX >= 0x020E00
    int failed = json_object_setn_new_nocheck(object, key.p, key.n, value);
#else
    struct str copy;
    int failed = !arena_str(b->a, key, &copy) || json_object_set_new_nocheck(object, copy.p, value);
#endif
    return !failed && json_object_size(object) > before; /* else the key is a duplicate */
}

static bool json_build_add_element(struct json_builder *b, json_t *array) // NOLINT(misc-no-recursion)
{
    json_t *value = json_build_value(b);
    return value && json_array_append_new(array, value) == 0;
}

static bool json_build_fill(struct json_builder *b, json_t *into, char close, // NOLINT(misc-no-recursion)
                            bool (*add)(struct json_builder *b, json_t *into))
{
    b->at++;
    if (!into || b->depth-- == 0)
        return false;
    bool more = json_build_peek(b) != close;
    while (more) {
        if (!add(b, into))
            return false;
        more = json_build_skip(b, ',');
    }
    b->depth++;
    return json_build_skip(b, close);
}

/* b->at is at the opening bracket. */
static json_t *json_build_container(struct json_builder *b, json_t *into, char close, // NOLINT(misc-no-recursion)
                                    bool (*add)(struct json_builder *b, json_t *into))
{
    if (json_build_fill(b, into, close, add))
        return into;
    json_decref(into);
    return NULL;
}

/* Recursion is limited by depth_max. */
static json_t *json_build_value(struct json_builder *b) // NOLINT(misc-no-recursion)
{
    char c = json_build_peek(b);
    switch (c) {
    case '"': return json_build_string(b);
    case '{': return json_build_container(b, json_object(), '}', json_build_add_member);
    case '[': return json_build_container(b, json_array(), ']', json_build_add_element);
    case 't': return json_build_word(b, S("true"), json_true());
    case 'f': return json_build_word(b, S("false"), json_false());
    case 'n': return json_build_word(b, S("null"), json_null());
    default: return c == '-' || is_digit(c) ? json_build_number(b) : NULL;
    }
}

json_t *json_build(struct str text, int depth_max, struct arena *a)
{
    struct json_builder b = { .at = text.p, .end = text.p + text.n, .depth = depth_max, .a = a };
    json_t *root = json_build_value(&b);
    if (root && json_build_peek(&b) == '\0' && b.at == b.end)
        return root;
    json_decref(root);
    return NULL;
}
