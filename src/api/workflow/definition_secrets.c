#include "api/workflow/definition_secrets.h"

#include <stdio.h>

#include "api/task/secret_headers.h"
#include "base/json/json.h"
#include "core/flow/dag.h"

enum { FIELD_TEXT = 192 };

#define HIDDEN "\"***\""

/* A secret header of a step, or of its compensation. All texts are as written. */
struct definition_secret {
    size_t index;
    struct str step; /* its name */
    bool compensates;
    struct str fields, config; /* of the step or compensation; its target_config */
    struct str header, value;
};

struct definition_walk {
    struct definition_secret at;
    bool (*visit)(void *context, const struct definition_secret *s); /* false: enough */
    void *context;
};

static bool definition_key_is(struct str key, const char *name)
{
    return json_part_is(&(struct json_part){ .key = key }, name);
}

static struct str definition_member(struct str object, const char *wanted)
{
    struct json_cursor c = { .text = object };
    struct str name, value;
    while (object.n && object.p[0] == '{' && json_next(&c, &name, &value))
        if (definition_key_is(name, wanted))
            return value;
    return S("");
}

/* ---- walking through a definition, in the order of its text ---- */

static bool definition_walk_config(struct definition_walk *w)
{
    struct json_cursor c = { .text = definition_member(w->at.config, "headers") };
    while (c.text.n && c.text.p[0] == '{' && json_next(&c, &w->at.header, &w->at.value))
        if (header_is_secret(w->at.header) && !w->visit(w->context, &w->at))
            return false;
    return true;
}

/* fields: of a step, or of its compensation, which has none itself. */
static bool definition_walk_fields(struct definition_walk *w, struct str fields, bool compensates)
{
    struct json_cursor c = { .text = fields };
    struct str name, value;
    while (fields.n && fields.p[0] == '{' && json_next(&c, &name, &value)) {
        w->at.fields = fields;
        w->at.compensates = compensates;
        w->at.config = value;
        if (definition_key_is(name, "target_config") && !definition_walk_config(w))
            return false;
        if (!compensates && definition_key_is(name, "compensate") && !definition_walk_fields(w, value, true))
            return false;
    }
    return true;
}

static void definition_walk(struct definition_walk *w, struct str text)
{
    struct json_cursor c = { .text = definition_member(text, "steps") };
    struct str step;
    for (w->at.index = 0; c.text.n && c.text.p[0] == '[' && json_next(&c, NULL, &step); w->at.index++) {
        w->at.step = definition_member(step, "name");
        if (!definition_walk_fields(w, step, false))
            return;
    }
}

/* ---- replacing values ---- */

struct definition_rewrite {
    struct str text, latest;
    size_t done; /* how many bytes of `text` are in `out` */
    struct buf out;
    struct error *e;
};

static void definition_replace(struct definition_rewrite *x, struct str old, struct str new)
{
    size_t at = (size_t)(old.p - x->text.p);
    buf_add(&x->out, str_sub(x->text, x->done, at));
    buf_add(&x->out, new);
    x->done = at + old.n;
}

static bool definition_on_shown(void *context, const struct definition_secret *s)
{
    definition_replace(context, s->value, S(HIDDEN));
    return true;
}

void definition_secrets_hide(struct jw *w, struct str text)
{
    struct definition_rewrite x = { .text = text };
    struct definition_walk walk = { .visit = definition_on_shown, .context = &x };
    buf_init(&x.out, 2 * DAG_TEXT_MAX);
    definition_walk(&walk, text);
    buf_add(&x.out, str_sub(text, x.done, text.n));
    jw_raw(w, buf_str(&x.out));
    buf_release(&x.out);
}

/* ---- keeping ---- */

struct definition_search {
    const struct definition_secret *wanted;
    struct str found;  /* its value; empty: none */
    bool is_elsewhere; /* it has one, for another host or broker */
};

/* An address that is made of references is the same only if its text is. */
static bool definition_same_target(const struct definition_secret *a, const struct definition_secret *b)
{
    struct str was = definition_member(a->config, "url"), is = definition_member(b->config, "url");
    bool plain = was.n && was.p[0] == '"' && is.n && is.p[0] == '"';
    struct task t = { .target = TARGET_HTTP, .target_config = a->config };
    return str_eq(definition_member(a->fields, "target_type"), definition_member(b->fields, "target_type")) &&
           str_eq(definition_member(a->config, "broker"), definition_member(b->config, "broker")) &&
           (str_eq(was, is) || (plain && secret_headers_same_host(&t, TARGET_HTTP, b->config)));
}

static bool definition_on_latest(void *context, const struct definition_secret *s)
{
    struct definition_search *x = context;
    const struct definition_secret *wanted = x->wanted;
    if (!str_eq(s->step, wanted->step) || s->compensates != wanted->compensates ||
        !str_eq_nocase(s->header, wanted->header))
        return true;
    x->is_elsewhere = !definition_same_target(s, wanted);
    if (!x->is_elsewhere)
        x->found = s->value;
    return false;
}

static enum err definition_refuse_hidden(const struct definition_secret *s, bool is_elsewhere, struct error *e)
{
    char field[FIELD_TEXT];
    snprintf(field, sizeof field, "steps[%zu].%starget_config.headers." STR_FMT, s->index,
             s->compensates ? "compensate." : "", STR_ARG(str_utf8_cut(s->header, FIELD_TEXT / 2)));
    if (is_elsewhere)
        return error_field(e, field, "must be given again, because the host or broker is another one");
    return error_field(
        e, field,
        "is ***, which stands for a value that is not shown, but the latest version has no such header in a "
        "step of this name; give the value");
}

static bool definition_on_given(void *context, const struct definition_secret *s)
{
    struct definition_rewrite *x = context;
    struct definition_search search = { .wanted = s };
    struct definition_walk walk = { .visit = definition_on_latest, .context = &search };
    if (!str_eq(s->value, S(HIDDEN)))
        return true;
    definition_walk(&walk, x->latest);
    if (!search.found.n)
        return definition_refuse_hidden(s, search.is_elsewhere, x->e) == ERR_OK;
    definition_replace(x, s->value, search.found);
    return true;
}

enum err definition_secrets_keep(struct str text, struct str latest, struct arena *a, struct str *ret, struct error *e)
{
    struct error why = { 0 };
    struct definition_rewrite x = { .text = text, .latest = latest, .e = &why };
    struct definition_walk walk = { .visit = definition_on_given, .context = &x };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    *ret = text;
    if (!str_contains_nocase(text, S(HIDDEN)) || json_parse(text, &doc, NULL)) /* the reader says what is wrong */
        return ERR_OK;
    buf_init(&x.out, 2 * DAG_TEXT_MAX);
    definition_walk(&walk, text);
    buf_add(&x.out, str_sub(text, x.done, text.n));
    bool fits = !x.out.full && arena_str(a, buf_str(&x.out), ret);
    buf_release(&x.out);
    if (why.code)
        return error_field(e, why.field, "%s", why.text);
    return fits ? ERR_OK : error_no_room(e);
}
