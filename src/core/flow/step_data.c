#include "core/flow/step_data.h"

#include <assert.h>

#include "core/flow/condition.h"
#include "core/flow/template.h"

enum { CONDITION_BYTES_MAX = 1 << 20, NO_TEMPLATE = -1 };

/* The members of target_config that may have references. */
static const struct {
    const char *name;
    enum template_kind kind;
} config_templates[] = {
    { "url", TEMPLATE_URL },
    { "body", TEMPLATE_VALUE },
    { "input", TEMPLATE_VALUE },
};

static int step_template_kind(const char *name)
{
    for (size_t i = 0; i < array_count(config_templates); i++)
        if (strcmp(config_templates[i].name, name) == 0)
            return (int)config_templates[i].kind;
    return NO_TEMPLATE;
}

/* ---- checking ---- */

static enum err step_check_headers(json_t *headers, const struct reference_visitor *v, struct error *e)
{
    const char *name;
    json_t *value;
    json_object_foreach (headers, name, value)
        if (template_check(value, TEMPLATE_TEXT, v, e))
            return error_in(e, name);
    return ERR_OK;
}

static enum err step_check_config(json_t *config, const struct reference_visitor *v, struct error *e)
{
    const char *name;
    json_t *value;
    json_object_foreach (config, name, value) {
        int kind = step_template_kind(name);
        enum err rc = ERR_OK;
        if (strcmp(name, "headers") == 0)
            rc = step_check_headers(value, v, e);
        else if (kind != NO_TEMPLATE)
            rc = template_check(value, (enum template_kind)kind, v, e);
        if (rc)
            return error_in(e, name);
    }
    return ERR_OK;
}

enum err step_target_check(json_t *fields, const struct reference_visitor *v, struct error *e)
{
    struct error own; /* so that e may be NULL */
    e = e ? e : &own;
    json_t *config = json_object_get(fields, "target_config"), *payload = json_object_get(fields, "payload");
    if (config && step_check_config(config, v, e))
        return error_in(e, "target_config");
    if (payload && template_check(payload, TEMPLATE_VALUE, v, e))
        return error_in(e, "payload");
    return ERR_OK;
}

/* ---- reading ---- */

enum err step_data_read(const struct dag_step *s, struct step_data *ret, struct error *e)
{
    return json_parse(s->text, &ret->doc, e);
}

void step_data_release(struct step_data *s)
{
    json_doc_release(&s->doc);
}

enum err step_data_when(const struct step_data *s, const struct reference_data *d, bool *ret, struct error *e)
{
    json_t *when = json_object_get(s->doc.root, "when");
    struct error own; /* so that e may be NULL */
    e = e ? e : &own;
    if (!when || json_is_null(when)) {
        *ret = true;
        return ERR_OK;
    }
    cleanup_with(arena_release) struct arena a;
    const struct condition *c;
    arena_init(&a, CONDITION_BYTES_MAX);
    if (condition_read(when, &a, &c, e) || condition_holds(c, d, ret, e))
        return error_in(e, "when");
    return ERR_OK;
}

/* ---- resolving ---- */

/* Writes one value with its references resolved, as text into the arena. */
struct step_writer {
    const struct reference_data *d;
    struct arena *a;
    struct error *e;
    struct buf out;
    struct jw w;
};

static void step_writer_init(struct step_writer *s, const struct reference_data *d, struct arena *a, struct error *e)
{
    *s = (struct step_writer){ .d = d, .a = a, .e = e };
    buf_init(&s->out, STEP_RESOLVED_MAX);
    jw_init(&s->w, &s->out);
}

static void step_writer_release(struct step_writer *s)
{
    buf_release(&s->out);
}

static enum err step_writer_end(struct step_writer *s, struct str *ret)
{
    if (s->out.full)
        return error_set(s->e, ERR_LIMIT, "is longer than %d bytes with its data", STEP_RESOLVED_MAX);
    return arena_str(s->a, buf_str(&s->out), ret) ? ERR_OK : error_no_room(s->e);
}

static enum err step_resolve(json_t *v, const struct reference_data *d, struct arena *a, struct str *ret,
                             struct error *e)
{
    cleanup_with(step_writer_release) struct step_writer s;
    step_writer_init(&s, d, a, e);
    enum err rc = template_resolve(&s.w, v, TEMPLATE_VALUE, d, e);
    return rc ? rc : step_writer_end(&s, ret);
}

static enum err step_write_headers(struct step_writer *s, json_t *headers)
{
    const char *name;
    json_t *v;
    jw_object(&s->w);
    json_object_foreach (headers, name, v) {
        jw_key(&s->w, name);
        if (template_resolve(&s->w, v, TEMPLATE_TEXT, s->d, s->e))
            return error_in(s->e, name);
    }
    jw_object_end(&s->w);
    return ERR_OK;
}

static enum err step_write_member(struct step_writer *s, const char *name, json_t *v)
{
    int kind = step_template_kind(name);
    if (strcmp(name, "headers") == 0 && json_is_object(v))
        return step_write_headers(s, v);
    if (kind != NO_TEMPLATE)
        return template_resolve(&s->w, v, (enum template_kind)kind, s->d, s->e);
    if (!jw_json(&s->w, v, JSON_DEPTH_MAX))
        return error_set(s->e, ERR_LIMIT, "is nested more than %d levels deep", JSON_DEPTH_MAX);
    return ERR_OK;
}

static enum err step_resolve_config(json_t *config, const struct reference_data *d, struct arena *a, struct str *ret,
                                    struct error *e)
{
    const char *name;
    json_t *v;
    cleanup_with(step_writer_release) struct step_writer s;
    step_writer_init(&s, d, a, e);
    jw_object(&s.w);
    json_object_foreach (config, name, v) {
        jw_key(&s.w, name);
        if (step_write_member(&s, name, v))
            return error_in(e, name);
    }
    jw_object_end(&s.w);
    return step_writer_end(&s, ret);
}

enum err step_data_target(const struct step_data *s, enum step_part part, const struct reference_data *d,
                          struct arena *a, struct step_target *ret, struct error *e)
{
    struct error own; /* so that e may be NULL */
    e = e ? e : &own;
    json_t *fields = part == STEP_ITSELF ? s->doc.root : json_object_get(s->doc.root, "compensate");
    json_t *config = json_object_get(fields, "target_config"), *payload = json_object_get(fields, "payload");
    struct step_target t = { 0 };
    if (json_is_object(config) && step_resolve_config(config, d, a, &t.config, e))
        return error_in(e, part == STEP_ITSELF ? "target_config" : "compensate.target_config");
    if (payload && !json_is_null(payload) && step_resolve(payload, d, a, &t.payload, e))
        return error_in(e, part == STEP_ITSELF ? "payload" : "compensate.payload");
    *ret = t;
    return ERR_OK;
}

enum err step_data_items(const struct step_data *s, const struct reference_data *d, struct arena *a, struct str *ret,
                         size_t *ret_count, struct error *e)
{
    struct error own; /* so that e may be NULL */
    struct str text;
    cleanup_with(json_doc_release) struct json_doc items = { 0 };
    e = e ? e : &own;
    if (step_resolve(json_object_get(json_object_get(s->doc.root, "map"), "over"), d, a, &text, e))
        return error_in(e, "map.over");
    if (json_parse(text, &items, e))
        return error_in(e, "map.over");
    if (!json_is_array(items.root))
        return error_field(e, "map.over", "must be an array");
    if (json_array_size(items.root) > DAG_ITEMS_MAX)
        return error_field(e, "map.over", "has %zu items; a map has at most %d", json_array_size(items.root),
                           DAG_ITEMS_MAX);
    *ret = text;
    *ret_count = json_array_size(items.root);
    return ERR_OK;
}

struct str step_data_on_timeout(const struct step_data *s, struct arena *a)
{
    json_t *v = json_object_get(json_object_get(s->doc.root, "await"), "on_timeout");
    cleanup_with(buf_release) struct buf out;
    struct jw w;
    struct str ret = { 0 };
    buf_init(&out, DAG_TEXT_MAX);
    jw_init(&w, &out);
    bool ok = v && jw_json(&w, v, JSON_DEPTH_MAX) && !out.full && arena_str(a, buf_str(&out), &ret);
    return ok ? ret : (struct str){ 0 };
}

enum err dag_result(const struct dag *d, const struct reference_data *data, struct arena *a, struct str *ret,
                    struct error *e)
{
    struct error own; /* so that e may be NULL */
    e = e ? e : &own;
    if (d->result.n == 0) {
        *ret = S("null");
        return ERR_OK;
    }
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(d->result, &doc, e) || step_resolve(doc.root, data, a, ret, e))
        return error_in(e, "result");
    return ERR_OK;
}
