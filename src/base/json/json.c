/* Valid JSON is built into values by json_build.h. If that fails, jansson parses the text again and reports what is
 * wrong and at which byte, but not in which field. json_walk scans the tokens up to that byte to find the field's path.
 * json_walk also runs over text that is not JSON, so it makes no assumption about its validity. */
#include "base/json/json.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/json/json_build.h"
#include "base/json/json_bytes.h"

struct json_level {
    bool is_object;
    bool has_key;
    struct str key; /* of the current member, as written, without quotes */
    size_t index;   /* of the current array element */
};

struct json_walk {
    struct str text;
    size_t at; /* after the last token */
    int depth; /* levels[depth] is the current level; levels[0] is the top level */
    struct json_level levels[JSON_ANSWER_DEPTH_MAX + 2]; /* one more than allowed, to detect excess depth */
};

/* Index after the closing quote of the string that opens at `at`, or the text's end. */
static size_t json_string_end(struct str text, size_t at)
{
    const char *end = text.p + text.n;
    for (const char *p = text.p + at + 1; (p = json_plain_end(p, end)) < end; p++) {
        if (*p == '"')
            return (size_t)(p - text.p) + 1;
        if (*p == '\\' && ++p == end)
            break;
    }
    return text.n;
}

static void json_walk_open(struct json_walk *w, bool is_object)
{
    assert(w->depth <= JSON_ANSWER_DEPTH_MAX);
    w->levels[++w->depth] = (struct json_level){ .is_object = is_object };
}

static void json_walk_string(struct json_walk *w, size_t from)
{
    struct json_level *here = &w->levels[w->depth];
    w->at = json_string_end(w->text, from);
    if (here->is_object && !here->has_key && w->at - from >= 2) {
        here->key = str_sub(w->text, from + 1, w->at - 1);
        here->has_key = true;
    }
}

/* Moves past the next token and returns its first character, or '\0' at the end. Numbers and literals count as one
 * token per character. */
static char json_walk_next(struct json_walk *w)
{
    while (w->at < w->text.n && json_is_space(w->text.p[w->at]))
        w->at++;
    if (w->at == w->text.n)
        return '\0';
    size_t from = w->at++;
    struct json_level *here = &w->levels[w->depth];
    char c = w->text.p[from];
    switch (c) {
    case '{':
    case '[': json_walk_open(w, c == '{'); break;
    case '}':
    case ']': w->depth -= w->depth > 0; break;
    case '"': json_walk_string(w, from); break;
    case ',':
        here->has_key = false;
        here->index++;
        break;
    default: break;
    }
    return c;
}

/* Checked before jansson recurses. Counts brackets outside of strings. */
static bool json_is_deeper_than(int max, struct str text)
{
    int depth = 0;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == '"')
            i = json_string_end(text, i) - 1;
        else if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth -= depth > 0;
        if (depth > max)
            return true;
    }
    return false;
}

/* Start of the token that contains or ends at byte `to`. */
static size_t json_token_start(struct str text, size_t to)
{
    struct json_walk w = { .text = text };
    size_t start = 0;
    while (w.at < to) {
        start = w.at;
        if (!json_walk_next(&w))
            break;
    }
    return start;
}

/* Writes the path of the value at byte `to`. */
static void json_path_at(struct str text, size_t to, struct buf *out)
{
    struct json_walk w = { .text = text };
    while (w.at < to && json_walk_next(&w))
        continue;
    for (int d = 1; d <= w.depth; d++) {
        const struct json_level *l = &w.levels[d];
        if (!l->is_object)
            buf_printf(out, "[%zu]", l->index);
        else if (l->has_key)
            buf_printf(out, "%s" STR_FMT, out->n ? "." : "", STR_ARG(str_utf8_cut(l->key, sizeof(struct error))));
    }
}

/* Line and column of a byte, both from 1; columns count characters. */
struct json_position {
    size_t line, column;
};

static struct json_position json_position_of(struct str text, size_t at)
{
    struct json_position p = { 1, 1 };
    for (size_t i = 0; i < at; i++) {
        if (text.p[i] == '\n')
            p = (struct json_position){ p.line + 1, 1 };
        else if ((text.p[i] & 0xC0) != 0x80)
            p.column++;
    }
    return p;
}

static enum err json_refuse_text(struct str text, const json_error_t *j, struct error *e)
{
    if (json_error_code(j) == json_error_out_of_memory)
        return error_set(e, ERR_LIMIT, "does not fit in the memory allowed");
    bool twice = json_error_code(j) == json_error_duplicate_key;
    size_t to = min_of((size_t)max_of(j->position, 0), text.n);
    struct json_position p = json_position_of(text, to ? to - 1 : 0);
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, 4096);
    json_path_at(text, twice ? to : json_token_start(text, to), &path);
    if (twice)
        return error_field(e, buf_cstr(&path), "is given twice (line %zu, column %zu)", p.line, p.column);
    if (json_error_code(j) == json_error_numeric_overflow)
        return error_field(e, buf_cstr(&path), "has a number that is too large (line %zu, column %zu)", p.line,
                           p.column);
    return error_field(e, buf_cstr(&path), "is not valid JSON: %s (line %zu, column %zu)", j->text, p.line, p.column);
}

/* Skips eight bytes at a time while all of them are ASCII and none is NUL, which is true of most bodies. */
static size_t json_skip_ascii(struct str text, size_t at)
{
    const uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;
    for (uint64_t word; text.n - at >= sizeof word; at += sizeof word) {
        memcpy(&word, text.p + at, sizeof word);
        if ((word | (word - ones)) & high)
            break;
    }
    return at;
}

/* Refuses invalid UTF-8 and NUL bytes, of which jansson ignores some. */
static enum err json_check_bytes(struct str text, struct error *e)
{
    size_t at = json_skip_ascii(text, 0);
    while (at < text.n && text.p[at] != '\0') {
        size_t len = (unsigned char)text.p[at] < 0x80 ? 1 : str_utf8_at(text, at);
        if (len == 0)
            break;
        at = json_skip_ascii(text, at + len);
    }
    if (at == text.n)
        return ERR_OK;
    struct json_position p = json_position_of(text, at);
    const char *what = text.p[at] == '\0' ? "holds a NUL byte" : "is not UTF-8";
    return error_field(e, "", "%s (line %zu, column %zu)", what, p.line, p.column);
}

static bool json_is_blank(struct str text)
{
    struct json_walk w = { .text = text };
    return json_walk_next(&w) == '\0';
}

/* ---- memory ----
 *
 * jansson allocates each value separately: a body of ten fields takes about forty allocations. While a document is
 * parsed, jansson's allocations come from the document's arena and are freed with it, without reference counting. At
 * all other times jansson uses malloc and free. */

enum { MEMORY_MIN = 1 << 20, MEMORY_PER_BYTE = 128 };

static _Thread_local struct arena *json_parse_arena; /* NULL: use malloc */

static void *json_on_malloc(size_t n)
{
    return json_parse_arena ? arena_alloc(json_parse_arena, n) : xmalloc(n);
}

static void json_on_free(void *p)
{
    if (!json_parse_arena)
        free(p);
}

__attribute__((constructor)) static void json_use_arena(void)
{
    json_set_alloc_funcs(json_on_malloc, json_on_free);
}

/* Called if json_build failed: jansson's parser says why. If jansson accepts the text, its result counts. */
static enum err json_parse_with_jansson(struct json_doc *d, int depth_max, struct error *e)
{
    if (json_is_blank(d->text))
        return error_field(e, "", "is empty, but must be JSON");
    if (json_is_deeper_than(depth_max, d->text))
        return error_field(e, "", "is nested more than %d levels deep", depth_max);
    json_error_t j;
    arena_reset(&d->memory);
    json_parse_arena = &d->memory;
    d->root = json_loadb(d->text.p, d->text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &j);
    json_parse_arena = NULL;
    return d->root ? ERR_OK : json_refuse_text(d->text, &j, e);
}

static enum err json_parse_depth(struct str text, int depth_max, struct json_doc *ret, struct error *e)
{
    if (text.n > JSON_TEXT_MAX)
        return error_set(e, ERR_LIMIT, "is longer than %d bytes", JSON_TEXT_MAX);
    if (json_check_bytes(text, e))
        return ERR_INVALID;
    struct json_doc doc = { .text = text };
    arena_init(&doc.memory, MEMORY_MIN + text.n * MEMORY_PER_BYTE);
    json_parse_arena = &doc.memory;
    doc.root = json_build(text, depth_max, &doc.memory);
    json_parse_arena = NULL;
    enum err rc = doc.root ? ERR_OK : json_parse_with_jansson(&doc, depth_max, e);
    if (rc)
        arena_release(&doc.memory);
    else
        *ret = doc;
    return rc;
}

enum err json_parse(struct str text, struct json_doc *ret, struct error *e)
{
    return json_parse_depth(text, JSON_DEPTH_MAX, ret, e);
}

enum err json_parse_answer(struct str text, struct json_doc *ret, struct error *e)
{
    return json_parse_depth(text, JSON_ANSWER_DEPTH_MAX, ret, e);
}

void json_doc_release(struct json_doc *d)
{
    arena_release(&d->memory);
    *d = (struct json_doc){ 0 };
}

/* True if a key as written (without its quotes) is `name` after unescaping. */
static bool json_key_is(struct str written, struct str name)
{
    if (str_find(written, '\\', 0) == written.n)
        return str_eq(written, name);
    json_t *key = json_loadb(written.p - 1, written.n + 2, JSON_DECODE_ANY, NULL);
    bool same = key && str_eq((struct str){ json_string_value(key), json_string_length(key) }, name);
    json_decref(key);
    return same;
}

struct str json_member_text(const struct json_doc *d, const char *name)
{
    struct json_cursor c = { .text = d->text };
    struct str key, value;
    while (json_is_object(d->root) && json_next(&c, &key, &value))
        if (json_key_is(key, str_from(name)))
            return value;
    return (struct str){ NULL, 0 };
}

static size_t json_skip_space(struct str text, size_t at)
{
    while (at < text.n && json_is_space(text.p[at]))
        at++;
    return at;
}

/* Index after the value that begins at `at`. The text must be valid JSON. */
static size_t json_value_end(struct str text, size_t at)
{
    int depth = 0;
    for (; at < text.n; at++) {
        char c = text.p[at];
        if (c == '"')
            at = json_string_end(text, at) - 1;
        else if (c == '{' || c == '[')
            depth++;
        else if (depth == 0 && (c == ',' || c == '}' || c == ']' || json_is_space(c)))
            return at;
        else if (c == '}' || c == ']')
            depth--;
        if (depth == 0 && (c == '"' || c == '}' || c == ']'))
            return at + 1;
    }
    return text.n;
}

/* Index of the first member or element; text.n if there is none. */
static size_t json_cursor_enter(struct json_cursor *c)
{
    size_t at = json_skip_space(c->text, 0);
    char opening = at < c->text.n ? c->text.p[at] : '\0';
    c->is_object = opening == '{';
    return c->is_object || opening == '[' ? json_skip_space(c->text, at + 1) : c->text.n;
}

bool json_next(struct json_cursor *c, struct str *ret_name, struct str *ret_value)
{
    struct str text = c->text, name = { 0 };
    size_t at = c->at ? c->at : json_cursor_enter(c);
    c->at = at;
    if (at >= text.n || text.p[at] == '}' || text.p[at] == ']')
        return false;
    if (c->is_object) {
        size_t end = json_string_end(text, at);
        name = str_sub(text, at + 1, end - 1);
        at = json_skip_space(text, json_skip_space(text, end) + 1); /* after the colon */
    }
    size_t end = json_value_end(text, at);
    if (ret_name)
        *ret_name = name;
    *ret_value = str_sub(text, at, end);
    at = json_skip_space(text, end);
    c->at = at < text.n && text.p[at] == ',' ? json_skip_space(text, at + 1) : at;
    return true;
}

size_t json_parts(struct str text, struct json_part *ret, size_t max)
{
    assert(ret || max == 0);
    struct json_cursor c = { .text = text };
    size_t n = 0;
    while (n < max && json_next(&c, &ret[n].key, &ret[n].text))
        n++;
    return n;
}

bool json_part_is(const struct json_part *p, const char *name)
{
    return json_key_is(p->key, str_from(name));
}
