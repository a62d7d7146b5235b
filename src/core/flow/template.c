/* A template is a JSON value of the definition. Recursion is limited by JSON_DEPTH_MAX. Paths of errors are put
 * together while the calls return. */
#include "core/flow/template.h"

#include <assert.h>
#include <stdio.h>

#include "base/sentence.h"

enum template_form { FORM_PLAIN, FORM_REF, FORM_JOIN, FORM_LITERAL };

enum { TEXT_BYTES_MAX = 1 << 20, STEP_TEXT = 96 };

static struct str template_string(json_t *v)
{
    return (struct str){ json_string_value(v), json_string_length(v) };
}

static enum template_form template_form_of(json_t *v)
{
    if (json_object_get(v, "$ref"))
        return FORM_REF;
    if (json_object_get(v, "$join"))
        return FORM_JOIN;
    return json_object_get(v, "$literal") ? FORM_LITERAL : FORM_PLAIN;
}

static bool template_is_scalar(json_t *v)
{
    return json_is_string(v) || json_is_number(v) || json_is_boolean(v);
}

/* Adds a step to the path of an error. */
static enum err template_in_member(struct error *e, const char *name)
{
    char at[STEP_TEXT];
    snprintf(at, sizeof at, STR_FMT, STR_ARG(str_utf8_cut(str_from(name), sizeof at - 1)));
    return error_in(e, at);
}

static enum err template_in_element(struct error *e, const char *name, size_t i)
{
    char at[STEP_TEXT];
    snprintf(at, sizeof at, "%s[%zu]", name, i);
    return error_in(e, at);
}

/* ---- checking ---- */

static enum err template_check_ref(json_t *v, const struct reference_visitor *visitor, struct error *e)
{
    struct reference r;
    json_t *text = json_object_get(v, "$ref");
    size_t members = json_object_get(v, "default") ? 2 : 1;
    if (json_object_size(v) != members)
        return error_field(e, "",
                           "must have no member besides \"$ref\" and \"default\"; to send it as it is, quote it "
                           "with {\"$literal\": …}");
    if (!json_is_string(text))
        return error_field(e, "$ref", "must be a text such as \"/input/id\"");
    if (reference_read(template_string(text), &r, e) || visitor->visit(visitor->ctx, &r, e))
        return error_in(e, "$ref");
    return ERR_OK;
}

static enum err template_check_join(json_t *v, const struct reference_visitor *visitor, struct error *e)
{
    json_t *parts = json_object_get(v, "$join");
    if (json_object_size(v) != 1)
        return error_field(e, "", "must have no member besides \"$join\"");
    if (!json_is_array(parts) || json_array_size(parts) == 0)
        return error_field(e, "$join", "must be an array of at least one text or reference");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        json_t *part = json_array_get(parts, i);
        if (template_is_scalar(part))
            continue;
        bool is_reference = template_form_of(part) == FORM_REF;
        if (!is_reference)
            (void)error_field(e, "", "must be a text, a number, a boolean or {\"$ref\": …}");
        if (!is_reference || template_check_ref(part, visitor, e))
            return template_in_element(e, "$join", i);
    }
    return ERR_OK;
}

/* Names that begin with '$' are the definition's own: a misspelled one would be sent as it is. */
static enum err template_refuse_word(const char *name, struct error *e)
{
    static const char *const words[] = { "$ref", "$join", "$literal" };
    static const char quoting[] = "to send it as it is, quote the object with {\"$literal\": …}";
    struct suggest s;
    suggest_init(&s, str_from(name));
    for (size_t i = 0; i < array_count(words); i++)
        suggest_offer(&s, str_from(words[i]));
    if (s.closest.p)
        return error_field(e, "", "is unknown, did you mean '" STR_FMT "'? %s", STR_ARG(s.closest), quoting);
    return error_field(e, "", "is unknown; %s", quoting);
}

static enum err template_check_value(json_t *v, const struct reference_visitor *visitor, // NOLINT(misc-no-recursion)
                                     struct error *e)
{
    const char *name;
    json_t *member;
    size_t i;
    switch (template_form_of(v)) {
    case FORM_REF: return template_check_ref(v, visitor, e);
    case FORM_JOIN: return template_check_join(v, visitor, e);
    case FORM_LITERAL:
        return json_object_size(v) == 1 ? ERR_OK : error_field(e, "", "must have no member besides \"$literal\"");
    case FORM_PLAIN: break;
    }
    json_array_foreach (v, i, member)
        if (template_check_value(member, visitor, e))
            return template_in_element(e, "", i);
    json_object_foreach (v, name, member)
        if (name[0] == '$' ? template_refuse_word(name, e) : template_check_value(member, visitor, e))
            return template_in_member(e, name);
    return ERR_OK;
}

static enum err template_check_text(json_t *v, const struct reference_visitor *visitor, struct error *e)
{
    if (json_is_string(v))
        return ERR_OK;
    switch (template_form_of(v)) {
    case FORM_REF: return template_check_ref(v, visitor, e);
    case FORM_JOIN: return template_check_join(v, visitor, e);
    case FORM_LITERAL:
    case FORM_PLAIN: break;
    }
    return error_field(e, "", "must be a text, {\"$ref\": …} or {\"$join\": […]}");
}

/* "https://host/": data may stand behind it only. */
static bool template_has_host(struct str url)
{
    size_t scheme = str_find(url, ':', 0);
    if (scheme + 3 >= url.n || !str_starts(str_sub(url, scheme, url.n), S("://")))
        return false;
    size_t at = scheme + 3;
    while (at < url.n && url.p[at] != '/' && url.p[at] != '?' && url.p[at] != '#')
        at++;
    return at > scheme + 3 && at < url.n;
}

static enum err template_check_url(json_t *v, const struct reference_visitor *visitor, struct error *e)
{
    if (json_is_string(v))
        return ERR_OK;
    if (template_form_of(v) != FORM_JOIN)
        return error_field(e, "",
                           "must be a text or {\"$join\": [\"https://host/…\", …]}: data cannot choose the host");
    if (template_check_join(v, visitor, e))
        return ERR_INVALID;
    if (!template_has_host(template_url_start(v)))
        return error_field(e, "$join[0]", "must be a text that reaches beyond the host, such as \"https://host/\"");
    return ERR_OK;
}

enum err template_check(json_t *v, enum template_kind kind, const struct reference_visitor *visitor, struct error *e)
{
    struct error own; /* so that e may be NULL */
    e = e ? e : &own;
    switch (kind) {
    case TEMPLATE_TEXT: return template_check_text(v, visitor, e);
    case TEMPLATE_URL: return template_check_url(v, visitor, e);
    case TEMPLATE_VALUE: break;
    }
    return template_check_value(v, visitor, e);
}

struct str template_url_start(json_t *v)
{
    return template_string(json_is_string(v) ? v : json_array_get(json_object_get(v, "$join"), 0));
}

/* ---- resolving ---- */

struct template_writer {
    struct jw *w;
    const struct reference_data *d;
    struct error *e;
};

/* The value or the default. */
static enum err template_find(const struct template_writer *t, json_t *v, json_t **ret)
{
    struct reference r;
    json_t *found = NULL;
    if (reference_read(template_string(json_object_get(v, "$ref")), &r, t->e) ||
        reference_value(t->d, &r, &found, t->e))
        return error_in(t->e, "$ref");
    found = found ? found : json_object_get(v, "default");
    if (!found) {
        char quoted[QUOTE_TEXT];
        quote_text(r.text, quoted);
        return error_field(t->e, "$ref", "there is no value at %s, and no default", quoted);
    }
    *ret = found;
    return ERR_OK;
}

static void template_percent_encode(struct buf *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (is_alpha(c) || is_digit(c) || c == '-' || c == '.' || c == '_' || c == '~')
            buf_char(out, c);
        else
            buf_printf(out, "%%%02X", (unsigned char)c);
    }
}

/* A number as JSON writes it. */
static enum err template_add_scalar(struct buf *out, json_t *v, bool encode, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    struct jw w;
    buf_init(&text, TEXT_BYTES_MAX);
    if (!template_is_scalar(v))
        return error_field(e, "", "yields neither a text nor a number nor a boolean");
    if (json_is_string(v)) {
        buf_add(&text, template_string(v));
    } else {
        jw_init(&w, &text);
        bool written = jw_json(&w, v, JSON_DEPTH_MAX);
        assert(written); /* a scalar has no depth */
    }
    if (encode)
        template_percent_encode(out, buf_str(&text));
    else
        buf_add(out, buf_str(&text));
    return ERR_OK;
}

static enum err template_add_join(const struct template_writer *t, json_t *parts, bool encode, struct buf *out)
{
    size_t i;
    json_t *part;
    json_array_foreach (parts, i, part) {
        bool is_literal = template_is_scalar(part);
        json_t *v = part;
        if (!is_literal && template_find(t, part, &v))
            return template_in_element(t->e, "$join", i);
        if (template_add_scalar(out, v, encode && !is_literal, t->e))
            return template_in_element(t->e, "$join", i);
    }
    return out->full ? error_set(t->e, ERR_LIMIT, "is longer than %d bytes", TEXT_BYTES_MAX) : ERR_OK;
}

static enum err template_write_join(const struct template_writer *t, json_t *v)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    if (template_add_join(t, json_object_get(v, "$join"), false, &text))
        return t->e->code;
    jw_str(t->w, buf_str(&text));
    return ERR_OK;
}

static enum err template_write_json(const struct template_writer *t, json_t *v)
{
    if (jw_json(t->w, v, JSON_DEPTH_MAX))
        return ERR_OK;
    return error_set(t->e, ERR_LIMIT, "is nested more than %d levels deep with its data", JSON_DEPTH_MAX);
}

static enum err template_write_value(const struct template_writer *t, json_t *v);

static enum err template_write_plain(const struct template_writer *t, json_t *v) // NOLINT(misc-no-recursion)
{
    const char *name;
    json_t *member;
    size_t i;
    if (json_is_array(v)) {
        jw_array(t->w);
        json_array_foreach (v, i, member)
            if (template_write_value(t, member))
                return template_in_element(t->e, "", i);
        jw_array_end(t->w);
        return ERR_OK;
    }
    if (!json_is_object(v))
        return template_write_json(t, v);
    jw_object(t->w);
    json_object_foreach (v, name, member) {
        jw_key(t->w, name);
        if (template_write_value(t, member))
            return template_in_member(t->e, name);
    }
    jw_object_end(t->w);
    return ERR_OK;
}

static enum err template_write_value(const struct template_writer *t, json_t *v) // NOLINT(misc-no-recursion)
{
    json_t *found = NULL;
    switch (template_form_of(v)) {
    case FORM_REF: return template_find(t, v, &found) ? t->e->code : template_write_json(t, found);
    case FORM_JOIN: return template_write_join(t, v);
    case FORM_LITERAL: return template_write_json(t, json_object_get(v, "$literal"));
    case FORM_PLAIN: break;
    }
    return template_write_plain(t, v);
}

static enum err template_write_text(const struct template_writer *t, json_t *v)
{
    cleanup_with(buf_release) struct buf text;
    json_t *found = v;
    buf_init(&text, TEXT_BYTES_MAX);
    if (template_form_of(v) == FORM_JOIN) {
        if (template_add_join(t, json_object_get(v, "$join"), false, &text))
            return t->e->code;
    } else if ((!json_is_string(v) && template_find(t, v, &found)) || template_add_scalar(&text, found, false, t->e)) {
        return t->e->code;
    }
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] < ' ' || text.p[i] == 0x7F)
            return error_field(t->e, "", "yields a control character (at position %zu)", i + 1);
    jw_str(t->w, buf_str(&text));
    return ERR_OK;
}

/* A client may resolve "." and ".." in any spelling, and so reach a path that the definition does not name. */
static bool template_is_dot_segment(struct str s)
{
    size_t dots = 0;
    for (size_t i = 0; i < s.n; i++, dots++) {
        bool encoded = s.n - i >= 3 && str_eq_nocase(str_sub(s, i, i + 3), S("%2e"));
        if (!encoded && s.p[i] != '.')
            return false;
        i += encoded ? 2 : 0;
    }
    return dots == 1 || dots == 2;
}

static bool template_has_dot_segment(struct str url)
{
    size_t end = 0;
    while (end < url.n && url.p[end] != '?' && url.p[end] != '#')
        end++;
    struct str rest = str_sub(url, 0, end), segment;
    while (str_cut(&rest, '/', &segment))
        if (template_is_dot_segment(segment))
            return true;
    return false;
}

static enum err template_write_url(const struct template_writer *t, json_t *v)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    if (json_is_string(v))
        return template_write_json(t, v);
    if (template_add_join(t, json_object_get(v, "$join"), true, &text))
        return t->e->code;
    if (template_has_dot_segment(buf_str(&text)))
        return error_field(t->e, "$join", "yields a path with a segment \".\" or \"..\"");
    jw_str(t->w, buf_str(&text));
    return ERR_OK;
}

enum err template_resolve(struct jw *w, json_t *v, enum template_kind kind, const struct reference_data *d,
                          struct error *e)
{
    struct error own; /* so that e may be NULL */
    struct template_writer t = { .w = w, .d = d, .e = e ? e : &own };
    enum err rc = kind == TEMPLATE_URL    ? template_write_url(&t, v)
                  : kind == TEMPLATE_TEXT ? template_write_text(&t, v)
                                          : template_write_value(&t, v);
    if (rc == ERR_OK && w->b->full)
        return error_set(t.e, ERR_LIMIT, "is longer than %zu bytes with its data", w->b->max);
    return rc;
}
