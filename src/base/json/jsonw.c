/* Depth 0 is the top level: bit 0 of has_member is set once the one top-level value is written. */
#include "base/json/jsonw.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json/json_bytes.h"
#include "base/rfc3339.h"

static uint64_t jw_bit(const struct jw *w)
{
    return (uint64_t)1 << w->depth;
}

void jw_init(struct jw *w, struct buf *b)
{
    *w = (struct jw){ .b = b };
}

static void jw_comma(struct jw *w)
{
    if (w->has_member & jw_bit(w))
        buf_char(w->b, ',');
    w->has_member |= jw_bit(w);
}

/* Writes the comma before a value if one is needed: none after a key, one between two array elements. */
static void jw_before_value(struct jw *w)
{
    if (w->is_object & jw_bit(w)) {
        assert(w->key_open);
        w->key_open = false;
        return;
    }
    assert(w->depth > 0 || !(w->has_member & 1));
    jw_comma(w);
}

static void jw_enter(struct jw *w, char bracket, bool is_object)
{
    jw_before_value(w);
    assert(w->depth < JW_DEPTH_MAX);
    w->depth++;
    w->has_member &= ~jw_bit(w);
    w->is_object = is_object ? w->is_object | jw_bit(w) : w->is_object & ~jw_bit(w);
    buf_char(w->b, bracket);
}

static void jw_leave(struct jw *w, char bracket, bool is_object)
{
    assert(w->depth > 0 && !w->key_open && !!(w->is_object & jw_bit(w)) == is_object);
    w->depth--;
    buf_char(w->b, bracket);
}

void jw_object(struct jw *w)
{
    jw_enter(w, '{', true);
}

void jw_object_end(struct jw *w)
{
    jw_leave(w, '}', true);
}

void jw_array(struct jw *w)
{
    jw_enter(w, '[', false);
}

void jw_array_end(struct jw *w)
{
    jw_leave(w, ']', false);
}

static void jw_quoted(struct buf *b, struct str v)
{
    buf_char(b, '"');
    json_escape(b, v);
    buf_char(b, '"');
}

void jw_key(struct jw *w, const char *name)
{
    assert((w->is_object & jw_bit(w)) && !w->key_open);
    jw_comma(w);
    jw_quoted(w->b, str_from(name));
    buf_char(w->b, ':');
    w->key_open = true;
}

void jw_str(struct jw *w, struct str v)
{
    jw_before_value(w);
    jw_quoted(w->b, v);
}

void jw_i64(struct jw *w, int64_t v)
{
    jw_before_value(w);
    if (v < 0)
        buf_char(w->b, '-');
    buf_u64(w->b, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void jw_u64(struct jw *w, uint64_t v)
{
    jw_before_value(w);
    buf_u64(w->b, v);
}

void jw_f64(struct jw *w, double v)
{
    if (!isfinite(v)) {
        jw_null(w);
        return;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) { /* 17 digits are always exact */
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    jw_before_value(w);
    buf_text(w->b, text);
}

void jw_bool(struct jw *w, bool v)
{
    jw_before_value(w);
    buf_text(w->b, v ? "true" : "false");
}

void jw_null(struct jw *w)
{
    jw_before_value(w);
    buf_text(w->b, "null");
}

void jw_time(struct jw *w, int64_t ms)
{
    char text[RFC3339_TEXT + 1];
    rfc3339_format(ms, text);
    jw_before_value(w);
    buf_char(w->b, '"');
    buf_add(w->b, (struct str){ text, RFC3339_TEXT });
    buf_char(w->b, '"');
}

void jw_raw(struct jw *w, struct str v)
{
    jw_before_value(w);
    buf_add(w->b, v);
}

void jw_kv_str(struct jw *w, const char *name, struct str v)
{
    jw_key(w, name);
    jw_str(w, v);
}

void jw_kv_cstr(struct jw *w, const char *name, const char *v)
{
    jw_key(w, name);
    if (v)
        jw_str(w, str_from(v));
    else
        jw_null(w);
}

void jw_kv_i64(struct jw *w, const char *name, int64_t v)
{
    jw_key(w, name);
    jw_i64(w, v);
}

void jw_seconds(struct jw *w, int64_t ms)
{
    if (ms % 1000)
        jw_f64(w, (double)ms / 1000);
    else
        jw_i64(w, ms / 1000);
}

void jw_kv_seconds(struct jw *w, const char *name, int64_t ms)
{
    jw_key(w, name);
    jw_seconds(w, ms);
}

void jw_kv_bool(struct jw *w, const char *name, bool v)
{
    jw_key(w, name);
    jw_bool(w, v);
}

void jw_kv_time(struct jw *w, const char *name, int64_t ms)
{
    jw_key(w, name);
    jw_time(w, ms);
}

void jw_kv_i64_or_null(struct jw *w, const char *name, int64_t v)
{
    if (v)
        jw_kv_i64(w, name, v);
    else
        jw_kv_cstr(w, name, NULL);
}

void jw_kv_time_or_null(struct jw *w, const char *name, int64_t ms)
{
    if (ms)
        jw_kv_time(w, name, ms);
    else
        jw_kv_cstr(w, name, NULL);
}

void jw_kv_str_or_null(struct jw *w, const char *name, struct str v)
{
    if (v.n)
        jw_kv_str(w, name, v);
    else
        jw_kv_cstr(w, name, NULL);
}

void jw_kv_uuid(struct jw *w, const char *name, struct uuid id)
{
    char text[UUID_TEXT + 1];
    uuid_format(id, text);
    jw_kv_cstr(w, name, uuid_is_nil(id) ? NULL : text);
}

static void json_escape_char(struct buf *b, unsigned c)
{
    static const char short_forms[] = {
        ['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'
    };
    if (c < array_count(short_forms) && short_forms[c])
        buf_printf(b, "\\%c", short_forms[c]);
    else if (c > 0xFFFF) /* two surrogates of UTF-16 */
        buf_printf(b, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
    else
        buf_printf(b, "\\u%04x", c);
}

/* Returns the index of the first byte at or after i that is not plain ASCII or needs escaping. Most text is plain
 * ASCII. */
static size_t json_ascii_end(struct str v, size_t i)
{
    const uint64_t high = 0x8080808080808080;
    for (uint64_t word; v.n - i >= sizeof word; i += sizeof word) {
        memcpy(&word, v.p + i, sizeof word);
        if ((word & high) || json_word_is_special(word))
            break;
    }
    while (i < v.n && v.p[i] >= ' ' && v.p[i] < 0x7F && v.p[i] != '"' && v.p[i] != '\\')
        i++;
    return i;
}

void json_escape(struct buf *b, struct str v)
{
    enum { REPLACEMENT = 0xFFFD };
    size_t plain = 0; /* start of the plain text not yet written */
    for (size_t i = 0; (i = json_ascii_end(v, i)) < v.n;) {
        size_t len = str_utf8_at(v, i);
        unsigned c = len ? str_code_point(v, i, len) : REPLACEMENT;
        if (len && c != '"' && c != '\\' && !is_hidden_char(c)) {
            i += len;
            continue;
        }
        buf_add(b, str_sub(v, plain, i));
        json_escape_char(b, c);
        i += max_of(len, (size_t)1);
        plain = i;
    }
    if (plain < v.n)
        buf_add(b, str_sub(v, plain, v.n));
}
