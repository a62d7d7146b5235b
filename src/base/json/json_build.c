/* A parser by recursive descent. It never asks for a byte beyond the end, and whatever it is not sure of is NULL. */
#include "base/json/json_build.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/json/json_bytes.h"

enum { INTEGER_DIGITS = 18 /* as many always fit */, NUMBER_MAX = 400 };

struct builder {
    const char *at, *end;
    int depth;
    struct arena *a;
};

static json_t *build_value(struct builder *b);

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The next byte that is no blank, not yet taken; '\0' at the end. */
static char peek(struct builder *b)
{
    while (b->at < b->end && is_space(*b->at))
        b->at++;
    return b->at < b->end ? *b->at : '\0';
}

static bool skip(struct builder *b, char c)
{
    if (peek(b) != c)
        return false;
    b->at++;
    return true;
}

/* ---- strings ---- */

static bool read_hex(struct builder *b, unsigned *ret)
{
    unsigned value = 0;
    if (b->end - b->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = *b->at++, l = ascii_lower(c);
        if (!is_digit(c) && !(l >= 'a' && l <= 'f'))
            return false;
        value = value * 16 + (unsigned)(is_digit(c) ? c - '0' : l - 'a' + 10);
    }
    *ret = value;
    return true;
}

static char *put_utf8(char *out, unsigned c)
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

/* Behind "\u". NULL: a half of a pair. */
static char *read_code_point(struct builder *b, char *out)
{
    unsigned c, low;
    if (!read_hex(b, &c) || (c >= 0xDC00 && c < 0xE000))
        return NULL;
    if (c >= 0xD800 && c < 0xDC00) {
        if (b->end - b->at < 6 || b->at[0] != '\\' || b->at[1] != 'u')
            return NULL;
        b->at += 2;
        if (!read_hex(b, &low) || low < 0xDC00 || low >= 0xE000)
            return NULL;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    return put_utf8(out, c);
}

static char *read_escape(struct builder *b, char *out)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    if (b->at == b->end)
        return NULL;
    char c = *b->at++;
    if (c == 'u')
        return read_code_point(b, out);
    const char *found = memchr(names, c, sizeof names - 1);
    if (!found)
        return NULL;
    *out = means[found - names];
    return out + 1;
}

/* No escape is shorter than what it stands for: the rest of the text is room enough, up to the first quote that may end it. */
static bool read_escaped(struct builder *b, const char *from, struct str *ret)
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
        out = *stop == '\\' ? read_escape(b, out) : NULL;
        if (!out)
            return false;
    }
    *ret = (struct str){ decoded, (size_t)(out - decoded) };
    return b->at++ < b->end;
}

/* At its opening quote. */
static bool read_string(struct builder *b, struct str *ret)
{
    const char *from = ++b->at;
    b->at = json_plain_end(from, b->end);
    if (b->at < b->end && *b->at == '\\')
        return read_escaped(b, from, ret);
    *ret = (struct str){ from, (size_t)(b->at - from) };
    return b->at < b->end && *b->at++ == '"';
}

static json_t *build_string(struct builder *b)
{
    struct str s;
    return read_string(b, &s) ? json_stringn_nocheck(s.p, s.n) : NULL;
}

/* ---- numbers and words ---- */

static bool skip_digits(struct builder *b)
{
    const char *from = b->at;
    while (b->at < b->end && is_digit(*b->at))
        b->at++;
    return b->at > from;
}

/* Behind the whole part: 0 nothing more, 1 a fraction or an exponent, -1 a broken one. */
static int skip_fraction(struct builder *b)
{
    bool fraction = b->at < b->end && *b->at == '.';
    if (fraction && (b->at++, !skip_digits(b)))
        return -1;
    bool exponent = b->at < b->end && (*b->at == 'e' || *b->at == 'E');
    if (!exponent)
        return fraction;
    b->at++;
    if (b->at < b->end && (*b->at == '+' || *b->at == '-'))
        b->at++;
    return skip_digits(b) ? 1 : -1;
}

static json_t *integer_of(struct str s)
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

static json_t *real_of(struct str s)
{
    char text[NUMBER_MAX + 1];
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    double d = strtod(text, NULL);
    return isinf(d) ? NULL : json_real(d);
}

static json_t *build_number(struct builder *b)
{
    const char *from = b->at;
    b->at += *from == '-';
    const char *whole = b->at;
    if (!skip_digits(b) || (*whole == '0' && b->at - whole > 1))
        return NULL;
    int more = skip_fraction(b);
    struct str s = { from, (size_t)(b->at - from) };
    if (more < 0 || s.n > NUMBER_MAX)
        return NULL;
    return more ? real_of(s) : integer_of(s);
}

static json_t *build_word(struct builder *b, struct str word, json_t *means)
{
    if (b->end - b->at < (ptrdiff_t)word.n || memcmp(b->at, word.p, word.n) != 0)
        return NULL;
    b->at += word.n;
    return means;
}

/* ---- objects and arrays ---- */

static bool add_member(struct builder *b, json_t *object) // NOLINT(misc-no-recursion)
{
    struct str key;
    if (peek(b) != '"' || !read_string(b, &key) || memchr(key.p, '\0', key.n) || !skip(b, ':'))
        return false;
    json_t *value = build_value(b);
    size_t before = json_object_size(object);
    if (!value)
        return false;
#if JANSSON_VERSION_HEX >= 0x020E00
    int failed = json_object_setn_new_nocheck(object, key.p, key.n, value);
#else
    struct str copy;
    int failed = !arena_str(b->a, key, &copy) || json_object_set_new_nocheck(object, copy.p, value);
#endif
    return !failed && json_object_size(object) > before; /* else the key was there already */
}

static bool add_element(struct builder *b, json_t *array) // NOLINT(misc-no-recursion)
{
    json_t *value = build_value(b);
    return value && json_array_append_new(array, value) == 0;
}

static bool fill(struct builder *b, json_t *into, char close, // NOLINT(misc-no-recursion)
                 bool (*add)(struct builder *b, json_t *into))
{
    b->at++;
    if (!into || b->depth-- == 0)
        return false;
    bool more = peek(b) != close;
    while (more) {
        if (!add(b, into))
            return false;
        more = skip(b, ',');
    }
    b->depth++;
    return skip(b, close);
}

/* At its bracket. */
static json_t *build_many(struct builder *b, json_t *into, char close, // NOLINT(misc-no-recursion)
                          bool (*add)(struct builder *b, json_t *into))
{
    if (fill(b, into, close, add))
        return into;
    json_decref(into);
    return NULL;
}

/* As deep as depth_max allows. */
static json_t *build_value(struct builder *b) // NOLINT(misc-no-recursion)
{
    char c = peek(b);
    switch (c) {
    case '"': return build_string(b);
    case '{': return build_many(b, json_object(), '}', add_member);
    case '[': return build_many(b, json_array(), ']', add_element);
    case 't': return build_word(b, S("true"), json_true());
    case 'f': return build_word(b, S("false"), json_false());
    case 'n': return build_word(b, S("null"), json_null());
    default: return c == '-' || is_digit(c) ? build_number(b) : NULL;
    }
}

json_t *json_build(struct str text, int depth_max, struct arena *a)
{
    struct builder b = { .at = text.p, .end = text.p + text.n, .depth = depth_max, .a = a };
    json_t *root = build_value(&b);
    if (root && peek(&b) == '\0' && b.at == b.end)
        return root;
    json_decref(root);
    return NULL;
}
