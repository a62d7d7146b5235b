/* Text that is JSON is built into values the quick way (json_build.h). Of text that is not, jansson says what is wrong and at which
 * byte; it does not say in which field. A walk over the text's tokens finds that out. The same walk measures the depth before
 * jansson recurses, and finds the text of a member. It trusts nothing: it also runs over text that is no JSON. */
#include "base/json/json.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/json/json_build.h"
#include "base/json/json_bytes.h"

struct level {
    bool is_object;
    bool has_key;
    struct str key; /* of the member we are at, as it was written, without quotes */
    size_t index;   /* of the element we are at */
};

struct walk {
    struct str text;
    size_t at; /* behind the last token */
    int depth; /* levels[depth] is where we are; levels[0] is outside of everything */
    struct level levels[JSON_ANSWER_DEPTH_MAX + 2]; /* one more than may be: too deep shows */
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Index behind the closing quote of the string that opens at `at`, or the text's end. */
static size_t string_end(struct str text, size_t at)
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

static void walk_open(struct walk *w, bool is_object)
{
    assert(w->depth <= JSON_ANSWER_DEPTH_MAX);
    w->levels[++w->depth] = (struct level){ .is_object = is_object };
}

static void walk_string(struct walk *w, size_t from)
{
    struct level *here = &w->levels[w->depth];
    w->at = string_end(w->text, from);
    if (here->is_object && !here->has_key && w->at - from >= 2) {
        here->key = str_sub(w->text, from + 1, w->at - 1);
        here->has_key = true;
    }
}

/* Moves behind the next token (of a number or a literal: its next character); '\0' at the end. */
static char walk_on(struct walk *w)
{
    while (w->at < w->text.n && is_space(w->text.p[w->at]))
        w->at++;
    if (w->at == w->text.n)
        return '\0';
    size_t from = w->at++;
    struct level *here = &w->levels[w->depth];
    char c = w->text.p[from];
    switch (c) {
    case '{':
    case '[': walk_open(w, c == '{'); break;
    case '}':
    case ']': w->depth -= w->depth > 0; break;
    case '"': walk_string(w, from); break;
    case ',':
        here->has_key = false;
        here->index++;
        break;
    default: break;
    }
    return c;
}

/* A body is asked this before jansson recurses into it: brackets outside of strings are all that counts. */
static bool is_deeper_than(int max, struct str text)
{
    int depth = 0;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == '"')
            i = string_end(text, i) - 1;
        else if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth -= depth > 0;
        if (depth > max)
            return true;
    }
    return false;
}

/* Start of the token that ends at or runs over byte `to`. */
static size_t token_start(struct str text, size_t to)
{
    struct walk w = { .text = text };
    size_t start = 0;
    while (w.at < to) {
        start = w.at;
        if (!walk_on(&w))
            break;
    }
    return start;
}

/* The path of where a reader of the first `to` bytes stands. */
static void path_at(struct str text, size_t to, struct buf *out)
{
    struct walk w = { .text = text };
    while (w.at < to && walk_on(&w))
        continue;
    for (int d = 1; d <= w.depth; d++) {
        const struct level *l = &w.levels[d];
        if (!l->is_object)
            buf_printf(out, "[%zu]", l->index);
        else if (l->has_key)
            buf_printf(out, "%s" STR_FMT, out->n ? "." : "", STR_ARG(str_utf8_cut(l->key, sizeof(struct error))));
    }
}

/* Line and column, both from 1, columns in characters, of the byte at `at`. */
struct position {
    size_t line, column;
};

static struct position position_of(struct str text, size_t at)
{
    struct position p = { 1, 1 };
    for (size_t i = 0; i < at; i++) {
        if (text.p[i] == '\n')
            p = (struct position){ p.line + 1, 1 };
        else if ((text.p[i] & 0xC0) != 0x80)
            p.column++;
    }
    return p;
}

static enum err refuse_parse(struct str text, const json_error_t *j, struct error *e)
{
    if (json_error_code(j) == json_error_out_of_memory)
        return error_set(e, ERR_LIMIT, "is too large for the memory there is");
    bool twice = json_error_code(j) == json_error_duplicate_key;
    size_t to = min_of((size_t)max_of(j->position, 0), text.n);
    struct position p = position_of(text, to ? to - 1 : 0);
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, 4096);
    path_at(text, twice ? to : token_start(text, to), &path);
    if (twice)
        return error_field(e, buf_cstr(&path), "is given twice (line %zu, column %zu)", p.line, p.column);
    if (json_error_code(j) == json_error_numeric_overflow)
        return error_field(e, buf_cstr(&path), "has a number too large to hold (line %zu, column %zu)", p.line,
                           p.column);
    return error_field(e, buf_cstr(&path), "is not valid JSON: %s (line %zu, column %zu)", j->text, p.line, p.column);
}

/* Passes over eight bytes at a time while all of them are ASCII and none is NUL: nearly all of any body. */
static size_t plain_bytes(struct str text, size_t at)
{
    const uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;
    for (uint64_t word; text.n - at >= sizeof word; at += sizeof word) {
        memcpy(&word, text.p + at, sizeof word);
        if ((word | (word - ones)) & high)
            break;
    }
    return at;
}

/* Bytes that stand in no JSON text. NUL is among them: jansson passes over some. */
static enum err check_bytes(struct str text, struct error *e)
{
    size_t at = plain_bytes(text, 0);
    while (at < text.n && text.p[at] != '\0') {
        size_t len = (unsigned char)text.p[at] < 0x80 ? 1 : str_utf8_at(text, at);
        if (len == 0)
            break;
        at = plain_bytes(text, at + len);
    }
    if (at == text.n)
        return ERR_OK;
    struct position p = position_of(text, at);
    const char *what = text.p[at] == '\0' ? "holds a NUL byte" : "is not UTF-8";
    return error_field(e, "", "%s (line %zu, column %zu)", what, p.line, p.column);
}

static bool is_blank_text(struct str text)
{
    struct walk w = { .text = text };
    return walk_on(&w) == '\0';
}

/* ---- memory ----
 *
 * A body of ten fields is forty pieces of memory to jansson, each allocated and freed by itself. While we parse, they come from
 * the document's arena, and go with it: nobody counts references to them. At all other times
 * jansson has malloc and free. */

enum { MEMORY_MIN = 1 << 20, MEMORY_PER_BYTE = 128 };

static _Thread_local struct arena *parsing; /* NULL: malloc */

static void *allocate(size_t n)
{
    return parsing ? arena_alloc(parsing, n) : xmalloc(n);
}

static void give_back(void *p)
{
    if (!parsing)
        free(p);
}

__attribute__((constructor)) static void use_our_memory(void)
{
    json_set_alloc_funcs(allocate, give_back);
}

/* What the quick way did not take: why not. Should jansson see nothing wrong with it, it has the word. */
static enum err parse_again(struct json_doc *d, int depth_max, struct error *e)
{
    if (is_blank_text(d->text))
        return error_field(e, "", "is empty, but must be JSON");
    if (is_deeper_than(depth_max, d->text))
        return error_field(e, "", "is nested more than %d levels deep", depth_max);
    json_error_t j;
    arena_reset(&d->memory);
    parsing = &d->memory;
    d->root = json_loadb(d->text.p, d->text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &j);
    parsing = NULL;
    return d->root ? ERR_OK : refuse_parse(d->text, &j, e);
}

static enum err parse(struct str text, int depth_max, struct json_doc *ret, struct error *e)
{
    if (text.n > JSON_TEXT_MAX)
        return error_set(e, ERR_LIMIT, "is longer than %d bytes", JSON_TEXT_MAX);
    if (check_bytes(text, e))
        return ERR_INVALID;
    struct json_doc doc = { .text = text };
    arena_init(&doc.memory, MEMORY_MIN + text.n * MEMORY_PER_BYTE);
    parsing = &doc.memory;
    doc.root = json_build(text, depth_max, &doc.memory);
    parsing = NULL;
    enum err rc = doc.root ? ERR_OK : parse_again(&doc, depth_max, e);
    if (rc)
        arena_release(&doc.memory);
    else
        *ret = doc;
    return rc;
}

enum err json_parse(struct str text, struct json_doc *ret, struct error *e)
{
    return parse(text, JSON_DEPTH_MAX, ret, e);
}

enum err json_parse_answer(struct str text, struct json_doc *ret, struct error *e)
{
    return parse(text, JSON_ANSWER_DEPTH_MAX, ret, e);
}

void json_doc_release(struct json_doc *d)
{
    arena_release(&d->memory);
    *d = (struct json_doc){ 0 };
}

/* Whether a key as written (without its quotes) means name. */
static bool key_is(struct str written, struct str name)
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
        if (key_is(key, str_from(name)))
            return value;
    return (struct str){ NULL, 0 };
}

static size_t skip_space(struct str text, size_t at)
{
    while (at < text.n && is_space(text.p[at]))
        at++;
    return at;
}

/* Index behind the value that begins at `at`, in text that is known to be JSON. */
static size_t value_end(struct str text, size_t at)
{
    int depth = 0;
    for (; at < text.n; at++) {
        char c = text.p[at];
        if (c == '"')
            at = string_end(text, at) - 1;
        else if (c == '{' || c == '[')
            depth++;
        else if (depth == 0 && (c == ',' || c == '}' || c == ']' || is_space(c)))
            return at;
        else if (c == '}' || c == ']')
            depth--;
        if (depth == 0 && (c == '"' || c == '}' || c == ']'))
            return at + 1;
    }
    return text.n;
}

/* Where the first member or element begins; text.n when there is none to come. */
static size_t enter(struct json_cursor *c)
{
    size_t at = skip_space(c->text, 0);
    char opening = at < c->text.n ? c->text.p[at] : '\0';
    c->is_object = opening == '{';
    return c->is_object || opening == '[' ? skip_space(c->text, at + 1) : c->text.n;
}

bool json_next(struct json_cursor *c, struct str *ret_name, struct str *ret_value)
{
    struct str text = c->text, name = { 0 };
    size_t at = c->at ? c->at : enter(c);
    c->at = at;
    if (at >= text.n || text.p[at] == '}' || text.p[at] == ']')
        return false;
    if (c->is_object) {
        size_t end = string_end(text, at);
        name = str_sub(text, at + 1, end - 1);
        at = skip_space(text, skip_space(text, end) + 1); /* behind the colon */
    }
    size_t end = value_end(text, at);
    if (ret_name)
        *ret_name = name;
    *ret_value = str_sub(text, at, end);
    at = skip_space(text, end);
    c->at = at < text.n && text.p[at] == ',' ? skip_space(text, at + 1) : at;
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
    return key_is(p->key, str_from(name));
}
