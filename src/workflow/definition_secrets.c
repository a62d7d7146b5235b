#include "workflow/definition_secrets.h"

#include <stdio.h>

#include "api/task/secret_headers.h"
#include "base/json/json.h"
#include "port/crypto.h"

enum { FIELD_TEXT = 192, PLACE_TEXT = 32 };

#define HIDDEN "\"***\""
#define SEALED "\"" SECRET_PREFIX

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
    bool by_text; /* visits the texts within values, other than the pointers of references */
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

static bool definition_walk_value(struct definition_walk *w, struct str value)
{
    struct json_cursor c = { .text = value };
    struct str name, part;
    w->at.value = value;
    if (!w->by_text || (value.n && value.p[0] == '"'))
        return w->visit(w->context, &w->at);
    while (value.n && (value.p[0] == '{' || value.p[0] == '[') && json_next(&c, &name, &part))
        if (!definition_key_is(name, "$ref") && !definition_walk_value(w, part))
            return false;
    return true;
}

static bool definition_walk_config(struct definition_walk *w)
{
    struct json_cursor c = { .text = definition_member(w->at.config, "headers") };
    struct str value;
    while (c.text.n && c.text.p[0] == '{' && json_next(&c, &w->at.header, &value))
        if (header_is_secret(w->at.header) && !definition_walk_value(w, value))
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
    bool is_lost;      /* it has one, still encrypted */
};

static void definition_field(const struct definition_secret *s, char out[FIELD_TEXT])
{
    snprintf(out, FIELD_TEXT, "steps[%zu].%starget_config.headers." STR_FMT, s->index,
             s->compensates ? "compensate." : "", STR_ARG(str_utf8_cut(s->header, FIELD_TEXT / 2)));
}

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
    x->is_lost = str_contains_nocase(s->value, S(SEALED));
    if (!x->is_elsewhere && !x->is_lost)
        x->found = s->value;
    return false;
}

static enum err definition_refuse_hidden(const struct definition_secret *s, const struct definition_search *x,
                                         struct error *e)
{
    char field[FIELD_TEXT];
    definition_field(s, field);
    if (x->is_elsewhere)
        return error_field(e, field, "must be given again, because the host or broker is another one");
    if (x->is_lost)
        return error_field(e, field, "must be given again, because its value cannot be decrypted any more");
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
        return definition_refuse_hidden(s, &search, x->e) == ERR_OK;
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

/* ---- what a new version drops ---- */

struct definition_drops {
    struct str text;
    struct definition_dropped *v;
    size_t n, max;
};

/* The fields of the step of that name, or of its compensation; empty: there is none. */
static struct str definition_find_fields(struct str text, const struct definition_secret *s, size_t *ret_index)
{
    struct json_cursor c = { .text = definition_member(text, "steps") };
    struct str step;
    for (*ret_index = 0; c.text.n && c.text.p[0] == '[' && json_next(&c, NULL, &step); ++*ret_index)
        if (str_eq(definition_member(step, "name"), s->step))
            return s->compensates ? definition_member(step, "compensate") : step;
    return S("");
}

static bool definition_has_header(struct str fields, struct str header)
{
    struct json_cursor c = { .text = definition_member(definition_member(fields, "target_config"), "headers") };
    struct str name, value;
    while (c.text.n && c.text.p[0] == '{' && json_next(&c, &name, &value))
        if (str_eq_nocase(name, header))
            return true;
    return false;
}

static bool definition_on_dropped(void *context, const struct definition_secret *s)
{
    struct definition_drops *x = context;
    size_t index;
    struct str fields = definition_find_fields(x->text, s, &index);
    if (fields.n && !definition_has_header(fields, s->header))
        x->v[x->n++] = (struct definition_dropped){ index, s->compensates, s->header };
    return x->n < x->max;
}

size_t definition_secrets_dropped(struct str text, struct str latest, struct definition_dropped *ret, size_t max)
{
    struct definition_drops x = { .text = text, .v = ret, .max = max };
    struct definition_walk walk = { .visit = definition_on_dropped, .context = &x };
    if (max)
        definition_walk(&walk, latest);
    return x.n;
}

/* ---- encrypting ---- */

struct definition_sealing {
    struct definition_rewrite x; /* first: it is the context of a rewrite */
    const struct secrets *secrets;
    struct secret_place at;
    size_t count; /* texts so far */
    struct arena *a;
};

static struct str definition_inner(struct str text)
{
    return str_sub(text, 1, text.n - 1);
}

static bool definition_on_blank(void *context, const struct definition_secret *s)
{
    struct definition_sealing *x = context;
    definition_replace(&x->x, s->value, S(HIDDEN));
    x->count++;
    return true;
}

/* The row that the secrets of a definition are bound to: the hash of its text without them. *ret_count: of its texts
 * that are secrets. */
static struct uuid definition_row(struct str text, size_t *ret_count)
{
    struct definition_sealing x = { .x.text = text };
    struct definition_walk walk = { .by_text = true, .visit = definition_on_blank, .context = &x };
    struct uuid row;
    uint8_t hash[SHA256_SIZE];
    buf_init(&x.x.out, 2 * DEFINITION_STORED_MAX);
    definition_walk(&walk, text);
    buf_add(&x.x.out, str_sub(text, x.x.done, text.n));
    crypto_sha256(buf_str(&x.x.out), hash);
    memcpy(row.b, hash, sizeof row.b);
    *ret_count = x.count;
    buf_release(&x.x.out);
    return row;
}

/* The place of the next text. */
static const struct secret_place *definition_next_place(struct definition_sealing *x, char field[PLACE_TEXT])
{
    int n = snprintf(field, PLACE_TEXT, "definition.%zu", x->count++);
    x->at.field = (struct str){ field, (size_t)n };
    return &x->at;
}

static bool definition_on_plain(void *context, const struct definition_secret *s)
{
    struct definition_sealing *x = context;
    char field[FIELD_TEXT], place[PLACE_TEXT];
    cleanup_with(buf_release) struct buf sealed;
    buf_init(&sealed, DEFINITION_STORED_MAX);
    if (str_starts(s->value, S(SEALED))) {
        definition_field(s, field);
        return error_field(x->x.e, field, "must not begin with " SECRET_PREFIX ", which marks an encrypted value") ==
               ERR_OK;
    }
    const struct secret_place *at = definition_next_place(x, place);
    if (!x->secrets)
        return true;
    secret_seal(x->secrets, at, definition_inner(s->value), &sealed);
    definition_replace(&x->x, definition_inner(s->value), buf_str(&sealed));
    return !sealed.full && !x->x.out.full;
}

/* Walks through all secret texts, and returns the text with what the visits have replaced. */
static enum err definition_rewrite_texts(struct definition_sealing *x,
                                         bool (*visit)(void *context, const struct definition_secret *s),
                                         struct str *ret, struct error *e)
{
    struct error why = { 0 };
    struct definition_walk walk = { .by_text = true, .visit = visit, .context = x };
    x->x.e = &why;
    buf_init(&x->x.out, DEFINITION_STORED_MAX);
    definition_walk(&walk, x->x.text);
    buf_add(&x->x.out, str_sub(x->x.text, x->x.done, x->x.text.n));
    bool fits = !x->x.out.full && (why.code || arena_str(x->a, buf_str(&x->x.out), ret));
    buf_release(&x->x.out);
    if (why.code) {
        *e = why;
        return why.code;
    }
    return fits ? ERR_OK : error_set(e, ERR_LIMIT, "the definition is too large with its secrets encrypted");
}

enum err definition_secrets_seal(const struct secrets *secrets, int32_t tenant, struct str text, struct arena *a,
                                 struct definition *ret, struct error *e)
{
    size_t count;
    struct definition_sealing x = { .x.text = text, .secrets = secrets, .at.tenant = tenant, .a = a };
    x.at.row = definition_row(text, &count);
    *ret = (struct definition){ .tenant = tenant, .text = text };
    if (!count || !secrets)
        crypto_sha256(text, ret->hash);
    else
        secrets_mac(secrets, tenant, S("definition"), text, ret->hash);
    return count ? definition_rewrite_texts(&x, definition_on_plain, &ret->text, e) : ERR_OK;
}

/* ---- decrypting ---- */

static bool definition_on_sealed(void *context, const struct definition_secret *s)
{
    struct definition_sealing *x = context;
    struct error why = { 0 };
    struct str inner = definition_inner(s->value), plain;
    char place[PLACE_TEXT];
    const struct secret_place *at = definition_next_place(x, place);
    if (!secret_is_sealed(inner))
        return true;
    enum err rc = secret_open(x->secrets, at, inner, x->a, &plain, &why);
    if (rc == ERR_NOT_FOUND)
        return error_set(x->x.e, ERR_UNAVAILABLE, "a secret header of a workflow's definition %s", why.text) == ERR_OK;
    if (!rc)
        definition_replace(&x->x, inner, plain);
    return true;
}

enum err definition_secrets_open(const struct secrets *secrets, int32_t tenant, struct str stored, struct arena *a,
                                 struct str *ret, struct error *e)
{
    size_t count;
    struct definition_sealing x = { .x.text = stored, .secrets = secrets, .at.tenant = tenant, .a = a };
    *ret = stored;
    if (!str_contains_nocase(stored, S(SEALED)))
        return ERR_OK;
    x.at.row = definition_row(stored, &count);
    return definition_rewrite_texts(&x, definition_on_sealed, ret, e);
}

/* ---- the keys of a definition ---- */

struct definition_keys {
    struct str wanted;
    bool lacks;
    void (*found)(void *context, struct str key_id);
    void *context;
};

static bool definition_on_key(void *context, const struct definition_secret *s)
{
    struct definition_keys *x = context;
    struct str rest = str_sub(s->value, strlen(SEALED), s->value.n), id = str_sub(rest, 0, str_find(rest, ':', 0));
    bool is_sealed = str_starts(s->value, S(SEALED));
    if (is_sealed)
        x->found(x->context, id);
    x->lacks = x->lacks || !is_sealed || !str_eq(id, x->wanted);
    return true;
}

bool definition_secrets_lack_key(struct str stored, struct str key_id, void (*found)(void *context, struct str key_id),
                                 void *context)
{
    struct definition_keys x = { .wanted = key_id, .found = found, .context = context };
    struct definition_walk walk = { .by_text = true, .visit = definition_on_key, .context = &x };
    definition_walk(&walk, stored);
    return x.lacks;
}
