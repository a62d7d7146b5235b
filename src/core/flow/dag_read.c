/* Reads the JSON of a definition by tables, then its edges. References are checked last: they may name any step. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sentence.h"
#include "core/flow/condition.h"
#include "core/flow/dag_internal.h"
#include "core/task/task.h"

enum { READ_BYTES_MAX = 64 << 20, KEEP_BYTES_MAX = 64 << 20, DEPENDS_MAX = DAG_STEPS_MAX };

struct await_body {
    struct str signal;
    int64_t approvals, timeout_ms;
    json_t *on_timeout;
};

struct map_body {
    json_t *over;
    int64_t max_concurrent, max_failures;
};

struct compensate_body {
    bool if_attempted, has;
    json_t *task_field;
};

struct step_body {
    struct str name;
    struct json_array depends_on; /* of json_t * */
    int join, target;
    json_t *when, *task_field, *key, *payload, *config;
    struct await_body await;
    struct map_body map;
    struct compensate_body compensate;
    bool may_fail, has_join, has_await, has_map, has_target, has_compensate;
    int64_t delay_ms;
};

struct definition_body {
    struct json_array steps; /* of struct step_body */
    json_t *result;
};

struct depends_body {
    struct str step;
    int type;
};

/* clang-format off */
#define AT(type, member)   .offset = offsetof(struct type, member)
#define SEEN(type, member) .seen_offset = offsetof(struct type, member)

/* The fields that a step and a compensation have in common with a task. Their values are read where tasks are made. */
#define TASK_FIELDS(X) X("task_type") X("queue") X("priority") X("concurrency_limit") X("expires_after_seconds") \
    X("delivery") X("retry") X("max_retries") X("timeout_ms") X("metadata") X("requires") X("resources")

static const struct json_field await_fields[] = {
    { .name = "signal", .kind = JSON_KIND_STR, AT(await_body, signal), .min = 1, .max = STEP_NAME_MAX, .required = true },
    { .name = "approvals", .kind = JSON_KIND_I64, AT(await_body, approvals), .min = 1, .max = DAG_APPROVALS_MAX },
    { .name = "timeout", .kind = JSON_KIND_DURATION, AT(await_body, timeout_ms), .min = 1, .max = INT64_MAX },
    { .name = "on_timeout", .kind = JSON_KIND_RAW, AT(await_body, on_timeout) },
};

static const struct json_field map_fields[] = {
    { .name = "over", .kind = JSON_KIND_RAW, AT(map_body, over), .required = true },
    { .name = "max_concurrent", .kind = JSON_KIND_I64, AT(map_body, max_concurrent), .min = 1, .max = DAG_ITEMS_MAX, .nullable = true },
    { .name = "max_failures", .kind = JSON_KIND_I64, AT(map_body, max_failures), .min = 0, .max = DAG_ITEMS_MAX },
};

static const struct json_field compensate_fields[] = {
    { .name = "if_attempted", .kind = JSON_KIND_BOOL, AT(compensate_body, if_attempted) },
#define X(text) { .name = (text), .kind = JSON_KIND_RAW, AT(compensate_body, task_field) },
    TASK_FIELDS(X) X("concurrency_key") X("target_type") X("target_config") X("payload")
#undef X
};

static const struct json_field depends_element = { .kind = JSON_KIND_RAW };
static const struct json_field depends_fields[] = {
    { .name = "step", .kind = JSON_KIND_STR, AT(depends_body, step), .max = 4 * STEP_NAME_MAX, .required = true },
    { .name = "type", .kind = JSON_KIND_ENUM, AT(depends_body, type), .names = dag_type_names },
};

static const struct json_field step_fields[] = {
    { .name = "name", .kind = JSON_KIND_STR, AT(step_body, name), .min = 1, .max = STEP_NAME_MAX, .required = true },
    { .name = "depends_on", .kind = JSON_KIND_ARRAY, AT(step_body, depends_on), .fields = &depends_element, .count = 1,
      .size = sizeof(json_t *), .max = DEPENDS_MAX, .nullable = true },
    { .name = "join", .kind = JSON_KIND_ENUM, AT(step_body, join), SEEN(step_body, has_join), .names = dag_join_names },
    { .name = "when", .kind = JSON_KIND_RAW, AT(step_body, when), .nullable = true },
    { .name = "await", .kind = JSON_KIND_OBJECT, AT(step_body, await), SEEN(step_body, has_await), .fields = await_fields,
      .count = array_count(await_fields) },
    { .name = "map", .kind = JSON_KIND_OBJECT, AT(step_body, map), SEEN(step_body, has_map), .fields = map_fields,
      .count = array_count(map_fields) },
    { .name = "compensate", .kind = JSON_KIND_OBJECT, AT(step_body, compensate), SEEN(step_body, has_compensate),
      .fields = compensate_fields, .count = array_count(compensate_fields) },
    { .name = "may_fail", .kind = JSON_KIND_BOOL, AT(step_body, may_fail) },
    { .name = "delay", .kind = JSON_KIND_DURATION, AT(step_body, delay_ms) },
    { .name = "target_type", .kind = JSON_KIND_ENUM, AT(step_body, target), SEEN(step_body, has_target), .names = target_kind_choices },
    { .name = "target_config", .kind = JSON_KIND_RAW, AT(step_body, config), .nullable = true },
    { .name = "payload", .kind = JSON_KIND_RAW, AT(step_body, payload), .nullable = true },
    { .name = "concurrency_key", .kind = JSON_KIND_RAW, AT(step_body, key), .nullable = true },
#define X(text) { .name = (text), .kind = JSON_KIND_RAW, AT(step_body, task_field) },
    TASK_FIELDS(X)
#undef X
};

static const struct json_field step_element = { .kind = JSON_KIND_OBJECT, .fields = step_fields, .count = array_count(step_fields) };
static const struct json_field definition_fields[] = {
    { .name = "steps", .kind = JSON_KIND_ARRAY, AT(definition_body, steps), .fields = &step_element, .count = 1,
      .size = sizeof(struct step_body), .min = 1, .max = DAG_STEPS_MAX, .required = true },
    { .name = "result", .kind = JSON_KIND_RAW, AT(definition_body, result) },
};

static const char *const task_field_names[] = {
#define X(text) (text),
    TASK_FIELDS(X) X("concurrency_key") X("target_type") X("target_config") X("payload")
#undef X
};
/* clang-format on */

bool dag_is_task_field(struct str name)
{
    for (size_t i = 0; i < array_count(task_field_names); i++)
        if (str_eq(name, str_from(task_field_names[i])))
            return true;
    return false;
}

const struct json_field *dag_fields(size_t *ret_count)
{
    *ret_count = array_count(definition_fields);
    return definition_fields;
}

struct dag_reader {
    struct dag *d;
    const struct step_body *steps;
    struct arena *a; /* until the definition is read */
    struct dag_links links;
    bool *has_star;  /* by step: depends_on has "*" */
    uint32_t stars;  /* steps with it */
    uint8_t *linked; /* by parent: a bit for each type by which the current step is linked to it */
    struct error *e;
};

/* ---- steps ---- */

__attribute__((format(printf, 4, 5))) static enum err dag_refuse(struct dag_reader *r, uint32_t step, const char *field,
                                                                 const char *fmt, ...)
{
    char path[sizeof r->e->field], text[sizeof r->e->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(path, sizeof path, "steps[%u].%s", step, field);
    return error_field(r->e, path, "%s", text);
}

static enum err dag_check_await(struct dag_reader *r, uint32_t i, const struct step_body *b)
{
    struct error why;
    if (!b->has_await)
        return ERR_OK;
    if (b->has_map)
        return dag_refuse(r, i, "await", "cannot be combined with map; put the await into a step of its own");
    if (b->has_target || b->config || b->payload)
        return dag_refuse(r, i,
                          b->has_target ? "target_type"
                          : b->config   ? "target_config"
                                        : "payload",
                          "has no effect in a step that awaits a signal; call the target in a step behind it");
    if (b->await.on_timeout && b->await.timeout_ms == 0)
        return dag_refuse(r, i, "await.on_timeout", "has no effect without timeout");
    if (step_name_check(b->await.signal, &why))
        return dag_refuse(r, i, "await.signal", "%s", why.text);
    return ERR_OK;
}

static enum err dag_check_step(struct dag_reader *r, uint32_t i, const struct step_body *b)
{
    struct error why;
    if (step_name_check(b->name, &why))
        return dag_refuse(r, i, "name", "%s", why.text);
    if (b->has_join && b->depends_on.n == 0)
        return dag_refuse(r, i, "join", "has no effect without depends_on");
    if (b->has_map && b->map.max_concurrent && b->key)
        return dag_refuse(r, i, "concurrency_key", "cannot be combined with map.max_concurrent: a task has one key");
    return dag_check_await(r, i, b);
}

static bool dag_keep_step(struct dag *d, const struct step_body *b, struct dag_step *s)
{
    if (!arena_str(&d->memory, b->name, &s->name) || !arena_str(&d->memory, b->await.signal, &s->await.signal))
        return false;
    s->join = (enum dag_join)b->join;
    s->await.approvals = b->has_await ? max_of(b->await.approvals, (int64_t)1) : 0;
    s->await.timeout_ms = b->await.timeout_ms;
    s->await.has_on_timeout = b->await.on_timeout != NULL;
    s->map = (struct dag_map){ b->has_map, b->map.max_concurrent, b->map.max_failures };
    s->delay_ms = b->delay_ms;
    s->may_fail = b->may_fail;
    s->has_when = b->when != NULL;
    s->is_workflow = b->has_target && b->target == TARGET_WORKFLOW;
    s->has_compensate = b->has_compensate;
    s->compensate_if_attempted = b->compensate.if_attempted;
    d->has_compensate |= b->has_compensate;
    return true;
}

static enum err dag_read_steps(struct dag_reader *r, const struct json_doc *doc)
{
    struct json_cursor c = { .text = json_member_text(doc, "steps") };
    for (uint32_t i = 0; i < r->d->n; i++) {
        if (dag_check_step(r, i, &r->steps[i]))
            return ERR_INVALID;
        if (!dag_keep_step(r->d, &r->steps[i], &r->d->steps[i]))
            return error_no_room(r->e);
        bool more = json_next(&c, NULL, &r->d->steps[i].text);
        assert(more);
    }
    return dag_index_names(r->d, r->e);
}

/* ---- edges ---- */

static bool dag_is_star(struct str name)
{
    return str_eq(name, S("*"));
}

static enum err dag_read_depends(struct dag_reader *r, uint32_t step, size_t at, struct depends_body *ret)
{
    json_t *v = ((json_t **)r->steps[step].depends_on.v)[at];
    *ret = (struct depends_body){ .type = DAG_MUST_SUCCEED };
    if (json_is_string(v)) {
        ret->step = (struct str){ json_string_value(v), json_string_length(v) };
        return ERR_OK;
    }
    char path[DAG_PATH_TEXT];
    snprintf(path, sizeof path, "steps[%u].depends_on[%zu]", step, at);
    if (!json_is_object(v))
        return error_field(r->e, path, "must be the name of a step or {\"step\", \"type\"}");
    if (json_read(v, depends_fields, array_count(depends_fields), ret, r->a, r->e))
        return error_in(r->e, path);
    return ERR_OK;
}

static enum err dag_find_stars(struct dag_reader *r)
{
    for (uint32_t i = 0; i < r->d->n; i++) {
        for (size_t k = 0; k < r->steps[i].depends_on.n; k++) {
            struct depends_body b;
            if (dag_read_depends(r, i, k, &b))
                return r->e->code;
            r->has_star[i] |= dag_is_star(b.step);
        }
        r->stars += r->has_star[i];
    }
    return ERR_OK;
}

static enum err dag_add_link(struct dag_reader *r, uint32_t child, struct dag_link link)
{
    struct dag_links *all = &r->links;
    char field[DAG_PATH_TEXT];
    if (all->n == DAG_EDGES_MAX) {
        snprintf(field, sizeof field, "depends_on[%u]", link.at);
        return dag_refuse(r, child, field, "is beyond the limit of %d edges of a definition", DAG_EDGES_MAX);
    }
    if (all->n == all->cap) {
        all->cap = all->cap ? 2 * all->cap : 64;
        all->v = xrealloc(all->v, all->cap * sizeof *all->v);
    }
    r->linked[link.parent] |= (uint8_t)(1U << link.type);
    all->v[all->n++] = link;
    return ERR_OK;
}

static enum err dag_link_named(struct dag_reader *r, uint32_t child, uint32_t at, const struct depends_body *b)
{
    struct error why;
    uint32_t parent;
    char field[DAG_PATH_TEXT];
    snprintf(field, sizeof field, "depends_on[%u]", at);
    if (dag_find_or_explain(r->d, b->step, &parent, &why))
        return dag_refuse(r, child, field, "%s", why.text);
    if (r->linked[parent] & 1U << b->type)
        return dag_refuse(r, child, field, "names '" STR_FMT "' twice", STR_ARG(b->step));
    return dag_add_link(r, child, (struct dag_link){ parent, at, (enum dag_type)b->type, true });
}

/* An edge that the step names besides is not doubled. */
static enum err dag_link_star(struct dag_reader *r, uint32_t child, uint32_t at, const struct depends_body *b)
{
    char field[DAG_PATH_TEXT];
    snprintf(field, sizeof field, "depends_on[%u]", at);
    if (r->stars == r->d->n)
        return dag_refuse(r, child, field, "stands for no step: it means every step whose depends_on has no \"*\"");
    for (uint32_t i = 0; i < r->d->n; i++) {
        if (r->has_star[i] || (r->linked[i] & 1U << b->type))
            continue;
        if (dag_add_link(r, child, (struct dag_link){ i, at, (enum dag_type)b->type, false }))
            return ERR_INVALID;
    }
    return ERR_OK;
}

static enum err dag_read_links_of(struct dag_reader *r, uint32_t child, bool stars)
{
    for (uint32_t k = 0; k < r->steps[child].depends_on.n; k++) {
        struct depends_body b;
        if (dag_read_depends(r, child, k, &b))
            return r->e->code;
        if (dag_is_star(b.step) != stars)
            continue;
        enum err rc = stars ? dag_link_star(r, child, k, &b) : dag_link_named(r, child, k, &b);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static enum err dag_read_links(struct dag_reader *r)
{
    if (dag_find_stars(r))
        return r->e->code;
    for (uint32_t i = 0; i < r->d->n; i++) {
        r->links.from[i] = r->links.n;
        if (dag_read_links_of(r, i, false) || dag_read_links_of(r, i, true))
            return r->e->code;
        for (uint32_t k = r->links.from[i]; k < r->links.n; k++)
            r->linked[r->links.v[k].parent] = 0;
    }
    r->links.from[r->d->n] = r->links.n;
    return dag_link_steps(r->d, &r->links, r->e);
}

/* ---- the definition ---- */

static void dag_reader_release(struct dag_reader *r)
{
    free(r->links.v);
}

static enum err dag_read_graph(struct dag *d, const struct definition_body *b, const struct json_doc *doc,
                               struct arena *a, struct error *e)
{
    cleanup_with(dag_reader_release) struct dag_reader r = { .d = d, .steps = b->steps.v, .a = a, .e = e };
    d->n = (uint32_t)b->steps.n;
    d->steps = arena_array(&d->memory, struct dag_step, d->n);
    r.links.from = arena_array(a, uint32_t, d->n + 1);
    r.has_star = arena_array(a, bool, d->n);
    r.linked = arena_array(a, uint8_t, d->n);
    if (!d->steps || !r.links.from || !r.has_star || !r.linked)
        return error_no_room(e);
    d->result = b->result ? json_member_text(doc, "result") : (struct str){ 0 };
    if (dag_read_steps(&r, doc) || dag_read_links(&r))
        return e->code;
    return dag_check_references(d, doc->root, e);
}

/* The name is a part of the request, and definitions of other systems have it in the file. */
static enum err dag_explain_name(struct error *e)
{
    if (strcmp(e->field, "name") == 0)
        return error_field(
            e, "name",
            "is not a part of a definition: it is in the path of PUT, and --name of 'belfry workflow apply'");
    return e->code;
}

enum err dag_read(struct str text, struct dag **ret, struct error *e)
{
    struct error own; /* so that e may be NULL */
    e = e ? e : &own;
    if (text.n > DAG_TEXT_MAX)
        return error_field(e, "", "must be at most %d bytes long, not %zu", DAG_TEXT_MAX, text.n);
    cleanup_with(dag_freep) struct dag *d = xnew(*d);
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    cleanup_with(arena_release) struct arena a;
    struct definition_body body = { 0 };
    arena_init(&d->memory, KEEP_BYTES_MAX);
    arena_init(&a, READ_BYTES_MAX);
    if (!arena_str(&d->memory, text, &d->text))
        return error_no_room(e);
    if (json_parse(d->text, &doc, e))
        return e->code;
    if (json_read(doc.root, definition_fields, array_count(definition_fields), &body, &a, e))
        return dag_explain_name(e);
    if (dag_read_graph(d, &body, &doc, &a, e))
        return e->code;
    *ret = take(d);
    return ERR_OK;
}
