/* libyaml's events become a tree in an arena; the tree is written as JSON. An anchor is known once its node is
 * complete, so no alias can be within its own node, and the tree has no cycle. */
#include "cli/yaml.h"

#ifdef HAVE_YAML

#include <stdlib.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "base/map.h"
#include "base/sentence.h"

enum { YAML_ARENA_MAX = 256 << 20 };

enum yaml_kind { YAML_PLAIN, YAML_QUOTED, YAML_LIST, YAML_MAP };

struct yaml_item {
    struct yaml_node *key; /* of a mapping; otherwise NULL */
    struct yaml_node *value;
    struct yaml_item *next;
};

struct yaml_node {
    enum yaml_kind kind;
    struct str text; /* of a scalar */
    struct yaml_item *first, *last;
    size_t count;
    size_t line;
};

struct yaml_reader {
    yaml_parser_t parser;
    struct arena a;
    struct map anchors; /* name → node */
    size_t line;        /* of the present event; of the error */
    struct error *e;
};

#define YAML_FAIL(r, at_line, ...) ((r)->line = (at_line), error_set((r)->e, ERR_INVALID, __VA_ARGS__))

/* ---- reading ---- */

static enum err yaml_next(struct yaml_reader *r, yaml_event_t *ret)
{
    const yaml_parser_t *p = &r->parser;
    if (yaml_parser_parse(&r->parser, ret)) {
        r->line = ret->start_mark.line + 1;
        return ERR_OK;
    }
    if (p->error == YAML_MEMORY_ERROR)
        return error_no_room(r->e);
    bool is_bytes = p->error == YAML_READER_ERROR;
    return YAML_FAIL(r, is_bytes ? p->mark.line + 1 : p->problem_mark.line + 1, "is not valid YAML: %s%s%s",
                     p->context ? p->context : "", p->context ? ", " : "", p->problem ? p->problem : "unknown error");
}

static enum err yaml_copy(struct yaml_reader *r, const yaml_char_t *text, size_t n, struct str *ret)
{
    return arena_str(&r->a, (struct str){ (const char *)text, n }, ret) ? ERR_OK : error_no_room(r->e);
}

static enum err yaml_find_anchor(struct yaml_reader *r, const yaml_char_t *name, struct yaml_node **ret)
{
    char shown[QUOTE_TEXT];
    struct str anchor = str_from((const char *)name);
    struct yaml_node *found = map_get(&r->anchors, anchor);
    quote_text(anchor, shown);
    if (!found)
        return YAML_FAIL(r, r->line, "no complete value before this line has the anchor %s", shown);
    struct yaml_node *alias = arena_new(&r->a, struct yaml_node);
    if (!alias)
        return error_no_room(r->e);
    *alias = *found; /* which shares the items, but is on a line of its own */
    alias->line = r->line;
    *ret = alias;
    return ERR_OK;
}

static enum err yaml_check_tag(struct yaml_reader *r, const yaml_char_t *tag)
{
    char shown[QUOTE_TEXT];
    if (!tag)
        return ERR_OK;
    quote_text(str_from((const char *)tag), shown);
    return YAML_FAIL(r, r->line, "the tag %s has no meaning here; to make a text of a value, quote it", shown);
}

static int yaml_compare_keys(const void *a, const void *b)
{
    const struct yaml_node *const *x = a, *const *y = b;
    int order = str_cmp((*x)->text, (*y)->text);
    return order ? order : ((*x)->line > (*y)->line) - ((*x)->line < (*y)->line);
}

static enum err yaml_check_keys(struct yaml_reader *r, const struct yaml_node *map)
{
    char shown[QUOTE_TEXT];
    size_t n = 0;
    const struct yaml_node **keys = arena_array(&r->a, const struct yaml_node *, max_of(map->count, (size_t)1));
    if (!keys)
        return error_no_room(r->e);
    for (const struct yaml_item *i = map->first; i; i = i->next)
        keys[n++] = i->key;
    qsort(keys, n, sizeof *keys, yaml_compare_keys);
    for (size_t i = 1; i < n; i++) {
        if (!str_eq(keys[i - 1]->text, keys[i]->text))
            continue;
        quote_text(keys[i]->text, shown);
        return YAML_FAIL(r, keys[i]->line, "the key %s is given twice, in lines %zu and %zu", shown, keys[i - 1]->line,
                         keys[i]->line);
    }
    return ERR_OK;
}

static enum err yaml_check_key(struct yaml_reader *r, const struct yaml_node *key)
{
    if (key->kind != YAML_PLAIN && key->kind != YAML_QUOTED)
        return YAML_FAIL(r, key->line, "a key must be a text");
    if (key->kind == YAML_PLAIN && str_eq(key->text, S("<<")))
        return YAML_FAIL(r, key->line, "merge keys (<<) are no part of YAML 1.2; write the fields out");
    return ERR_OK;
}

static enum err yaml_read_node(struct yaml_reader *r, const yaml_event_t *ev, int depth, struct yaml_node **ret);

/* Reads the next node, or sets *ret to NULL at the end of the list or mapping. */
static enum err yaml_read_next(struct yaml_reader *r, int depth, struct yaml_node **ret)
{
    yaml_event_t ev;
    if (yaml_next(r, &ev))
        return r->e->code;
    *ret = NULL;
    enum err rc = ERR_OK;
    if (ev.type != YAML_SEQUENCE_END_EVENT && ev.type != YAML_MAPPING_END_EVENT)
        rc = yaml_read_node(r, &ev, depth, ret);
    yaml_event_delete(&ev);
    return rc;
}

static enum err yaml_read_items(struct yaml_reader *r, struct yaml_node *n, int depth)
{
    for (;;) {
        struct yaml_node *key = NULL, *value;
        if (yaml_read_next(r, depth, &value))
            return r->e->code;
        if (!value)
            return n->kind == YAML_MAP ? yaml_check_keys(r, n) : ERR_OK;
        if (n->kind == YAML_MAP) {
            key = value;
            if (yaml_check_key(r, key) || yaml_read_next(r, depth, &value))
                return r->e->code;
        }
        struct yaml_item *i = arena_new(&r->a, struct yaml_item);
        if (!i)
            return error_no_room(r->e);
        *i = (struct yaml_item){ key, value, NULL };
        *(n->last ? &n->last->next : &n->first) = i;
        n->last = i;
        n->count++;
    }
}

static enum err yaml_read_scalar(struct yaml_reader *r, const yaml_event_t *ev, struct yaml_node *n)
{
    bool is_plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    n->kind = is_plain ? YAML_PLAIN : YAML_QUOTED;
    return yaml_copy(r, ev->data.scalar.value, ev->data.scalar.length, &n->text);
}

/* The anchor and the tag of a node; both may be NULL. */
static const yaml_char_t *yaml_anchor_of(const yaml_event_t *ev, const yaml_char_t **ret_tag)
{
    switch (ev->type) {
    case YAML_SCALAR_EVENT: *ret_tag = ev->data.scalar.tag; return ev->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT: *ret_tag = ev->data.sequence_start.tag; return ev->data.sequence_start.anchor;
    default: *ret_tag = ev->data.mapping_start.tag; return ev->data.mapping_start.anchor;
    }
}

static enum err yaml_read_node(struct yaml_reader *r, const yaml_event_t *ev, int depth, struct yaml_node **ret)
{
    const yaml_char_t *tag;
    struct str anchor = S("");
    if (ev->type == YAML_ALIAS_EVENT)
        return yaml_find_anchor(r, ev->data.alias.anchor, ret);
    if (depth > JSON_DEPTH_MAX)
        return YAML_FAIL(r, r->line, "is nested more than %d levels deep", JSON_DEPTH_MAX);
    struct yaml_node *n = arena_new(&r->a, struct yaml_node);
    if (!n)
        return error_no_room(r->e);
    const yaml_char_t *name = yaml_anchor_of(ev, &tag);
    n->line = r->line;
    if (yaml_check_tag(r, tag) || (name && yaml_copy(r, name, strlen((const char *)name), &anchor)))
        return r->e->code;
    enum err rc;
    if (ev->type == YAML_SCALAR_EVENT) {
        rc = yaml_read_scalar(r, ev, n);
    } else {
        n->kind = ev->type == YAML_MAPPING_START_EVENT ? YAML_MAP : YAML_LIST;
        rc = yaml_read_items(r, n, depth + 1);
    }
    if (rc == ERR_OK && anchor.n)
        map_put(&r->anchors, anchor, n);
    *ret = n;
    return rc;
}

/* Reads the one document. */
static enum err yaml_read_document(struct yaml_reader *r, struct yaml_node **ret)
{
    *ret = NULL;
    for (bool ends = false; !ends;) {
        yaml_event_t ev;
        enum err rc = ERR_OK;
        if (yaml_next(r, &ev))
            return r->e->code;
        ends = ev.type == YAML_STREAM_END_EVENT;
        if (ev.type == YAML_DOCUMENT_START_EVENT && *ret)
            rc = YAML_FAIL(r, r->line, "a second document begins; the file must have one");
        else if (ev.type != YAML_STREAM_START_EVENT && ev.type != YAML_DOCUMENT_START_EVENT &&
                 ev.type != YAML_DOCUMENT_END_EVENT && !ends)
            rc = yaml_read_node(r, &ev, 1, ret);
        yaml_event_delete(&ev);
        if (rc)
            return rc;
    }
    return *ret ? ERR_OK : YAML_FAIL(r, 0, "is empty");
}

/* ---- scalars ---- */

static bool yaml_is_one_of(struct str text, const char *const *words)
{
    for (; *words; words++)
        if (str_eq(text, str_from(*words)))
            return true;
    return false;
}

static size_t yaml_skip_digits(struct str s, size_t at)
{
    while (at < s.n && is_digit(s.p[at]))
        at++;
    return at;
}

/* A decimal number: [-+]? (\.[0-9]+ | [0-9]+(\.[0-9]*)?) ([eE][-+]?[0-9]+)? in parts. */
struct yaml_number {
    bool is_negative;
    struct str whole, fraction, exponent;
};

static bool yaml_read_number(struct str s, struct yaml_number *ret)
{
    struct yaml_number n = { 0 };
    size_t at = s.n && (s.p[0] == '-' || s.p[0] == '+'), from = at;
    n.is_negative = s.n && s.p[0] == '-';
    at = yaml_skip_digits(s, at);
    n.whole = str_sub(s, from, at);
    if (at < s.n && s.p[at] == '.') {
        from = ++at;
        at = yaml_skip_digits(s, at);
        n.fraction = str_sub(s, from, at);
    }
    if (!n.whole.n && !n.fraction.n)
        return false;
    if (at < s.n && ascii_lower(s.p[at]) == 'e') {
        from = ++at;
        at += at < s.n && (s.p[at] == '-' || s.p[at] == '+');
        size_t digits = at;
        at = yaml_skip_digits(s, at);
        n.exponent = str_sub(s, from, at);
        if (at == digits)
            return false;
    }
    *ret = n;
    return at == s.n;
}

static enum err yaml_write_number(struct yaml_reader *r, const struct yaml_node *n, const struct yaml_number *v,
                                  struct buf *out)
{
    char shown[QUOTE_TEXT];
    quote_text(n->text, shown);
    if (v->whole.n > 1 && v->whole.p[0] == '0')
        return YAML_FAIL(r, n->line, "the number %s begins with 0; quote it if it is a text", shown);
    buf_text(out, v->is_negative ? "-" : "");
    buf_add(out, v->whole.n ? v->whole : S("0"));
    if (v->fraction.n) {
        buf_char(out, '.');
        buf_add(out, v->fraction);
    }
    if (v->exponent.n) {
        buf_char(out, 'e');
        buf_add(out, v->exponent);
    }
    return ERR_OK;
}

/* 0x1F, 0o17. */
static bool yaml_read_base(struct str s, uint64_t *ret)
{
    bool is_hex = str_starts(s, S("0x"));
    unsigned base = is_hex ? 16 : 8;
    uint64_t v = 0;
    if (s.n < 3 || (!is_hex && !str_starts(s, S("0o"))))
        return false;
    for (size_t i = 2; i < s.n; i++) {
        int digit = hex_value(s.p[i]);
        if (digit < 0 || (unsigned)digit >= base || v > ((uint64_t)INT64_MAX - (unsigned)digit) / base)
            return false;
        v = v * base + (unsigned)digit;
    }
    *ret = v;
    return true;
}

static enum err yaml_write_plain(struct yaml_reader *r, const struct yaml_node *n, struct buf *out)
{
    static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
    static const char *const trues[] = { "true", "True", "TRUE", NULL };
    static const char *const falses[] = { "false", "False", "FALSE", NULL };
    static const char *const no_numbers[] = { ".inf",  ".Inf",  ".INF", "+.inf", "+.Inf", "+.INF", "-.inf",
                                              "-.Inf", "-.INF", ".nan", ".NaN",  ".NAN",  NULL };
    struct yaml_number number;
    uint64_t v;
    if (yaml_is_one_of(n->text, no_numbers))
        return YAML_FAIL(r, n->line, STR_FMT " is no number of JSON; quote it if it is a text", STR_ARG(n->text));
    if (yaml_read_number(n->text, &number))
        return yaml_write_number(r, n, &number, out);
    if (yaml_is_one_of(n->text, nulls)) {
        buf_text(out, "null");
    } else if (yaml_is_one_of(n->text, trues)) {
        buf_text(out, "true");
    } else if (yaml_is_one_of(n->text, falses)) {
        buf_text(out, "false");
    } else if (yaml_read_base(n->text, &v)) {
        buf_u64(out, v);
    } else {
        buf_char(out, '"');
        json_escape(out, n->text);
        buf_char(out, '"');
    }
    return ERR_OK;
}

/* ---- writing ---- */

struct yaml_writer {
    struct yaml_reader *r;
    struct buf *out;
    size_t line; /* of the JSON, as it is written */
};

static enum err yaml_write_node(struct yaml_writer *w, const struct yaml_node *n, int depth);

/* What an alias brings was written on an earlier line: it stays on the line of the alias. */
static void yaml_go_to_line(struct yaml_writer *w, size_t line)
{
    for (; w->line < line && !w->out->full; w->line++)
        buf_char(w->out, '\n');
}

static enum err yaml_write_items(struct yaml_writer *w, const struct yaml_node *n, int depth)
{
    bool is_map = n->kind == YAML_MAP;
    if (depth > JSON_DEPTH_MAX)
        return YAML_FAIL(w->r, n->line, "is nested more than %d levels deep", JSON_DEPTH_MAX);
    buf_char(w->out, is_map ? '{' : '[');
    for (const struct yaml_item *i = n->first; i; i = i->next) {
        buf_text(w->out, i == n->first ? "" : ",");
        if (is_map) {
            yaml_go_to_line(w, i->key->line);
            buf_char(w->out, '"');
            json_escape(w->out, i->key->text);
            buf_text(w->out, "\":");
        }
        if (yaml_write_node(w, i->value, depth + 1))
            return w->r->e->code;
    }
    buf_char(w->out, is_map ? '}' : ']');
    return ERR_OK;
}

static enum err yaml_write_node(struct yaml_writer *w, const struct yaml_node *n, int depth)
{
    yaml_go_to_line(w, n->line);
    if (w->out->full) {
        w->r->line = n->line;
        return error_set(w->r->e, ERR_LIMIT, "is larger than %zu bytes, with its aliases expanded", w->out->max);
    }
    switch (n->kind) {
    case YAML_PLAIN: return yaml_write_plain(w->r, n, w->out);
    case YAML_LIST:
    case YAML_MAP: return yaml_write_items(w, n, depth);
    case YAML_QUOTED: break;
    }
    buf_char(w->out, '"');
    json_escape(w->out, n->text);
    buf_char(w->out, '"');
    return ERR_OK;
}

static enum err yaml_convert(struct yaml_reader *r, struct buf *ret)
{
    struct yaml_node *root;
    struct yaml_writer w = { .r = r, .out = ret, .line = 1 };
    if (yaml_read_document(r, &root) || yaml_write_node(&w, root, 1))
        return r->e->code;
    return ret->full ? error_set(r->e, ERR_LIMIT, "is larger than %zu bytes, with its aliases expanded", ret->max)
                     : ERR_OK;
}

enum err yaml_to_json(struct str text, struct buf *ret, size_t *ret_line, struct error *e)
{
    struct yaml_reader r = { .e = e };
    arena_init(&r.a, YAML_ARENA_MAX);
    map_init(&r.anchors, HASH_STABLE);
    enum err rc = ERR_OK;
    if (!yaml_parser_initialize(&r.parser))
        rc = error_no_room(e);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)(text.n ? text.p : ""), text.n);
    rc = rc ? rc : yaml_convert(&r, ret);
    if (rc)
        *ret_line = r.line;
    yaml_parser_delete(&r.parser);
    map_release(&r.anchors);
    arena_release(&r.a);
    return rc;
}

#else

enum err yaml_to_json(struct str text, struct buf *ret, size_t *ret_line, struct error *e)
{
    (void)text;
    (void)ret;
    *ret_line = 0;
    return error_set(e, ERR_INVALID, "is YAML, and this belfry was built without libyaml; write it as JSON");
}

#endif
