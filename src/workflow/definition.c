/* A step's fields are turned into the body of a task, which is read like any other body. The body has all fields of the
 * step that a task has. Values with references are replaced by ones that fit their place: the row of such a step has
 * neither target_config nor payload. */
#include "workflow/definition.h"

#include <assert.h>
#include <stdio.h>

#include "core/flow/template.h"

enum { ROW_BYTES_MAX = 8 << 20, BODY_BYTES_MAX = DAG_TEXT_MAX + 4096, PATH_TEXT = 48, KEY_TEXT = 160 };

/* The body of a task that is made of a step or a compensation. */
struct definition_body {
    struct buf text;
    bool has_templates, has_queue, has_priority, has_target;
    bool any;
};

static void definition_body_release(struct definition_body *b)
{
    buf_release(&b->text);
}

/* ---- references ---- */

/* Whether a JSON text may have a name that begins with '$'. It may be wrong for texts that begin so: resolving these
 * changes nothing. */
static bool definition_has_templates(struct str json)
{
    for (size_t i = str_find(json, '$', 0); i < json.n; i = str_find(json, '$', i + 1))
        if (i && json.p[i - 1] == '"')
            return true;
    for (size_t i = str_find(json, '\\', 0); i < json.n; i = str_find(json, '\\', i + 1))
        if (str_starts(str_sub(json, i, json.n), S("\\u0024")))
            return true;
    return false;
}

static void definition_write_name(struct buf *out, bool *any, struct str name)
{
    buf_printf(out, "%c\"", *any ? ',' : '{');
    buf_add(out, name);
    buf_text(out, "\":");
    *any = true;
}

/* A header whose value is made of references stands as "x". */
static void definition_write_headers(struct buf *out, struct str headers)
{
    struct json_cursor c = { .text = headers };
    struct str name, value;
    bool any = false;
    while (json_next(&c, &name, &value)) {
        definition_write_name(out, &any, name);
        buf_add(out, value.p[0] == '{' ? S("\"x\"") : value);
    }
    buf_text(out, any ? "}" : "{}");
}

static void definition_write_url(struct buf *out, struct str url)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct jw w;
    jw_init(&w, out);
    if (url.p[0] != '{' || json_parse(url, &doc, NULL))
        buf_add(out, url);
    else
        jw_str(&w, template_url_start(doc.root));
}

static void definition_write_config(struct buf *out, struct str config)
{
    struct json_cursor c = { .text = config };
    struct str name, value;
    bool any = false;
    if (config.p[0] != '{') {
        buf_add(out, config);
        return;
    }
    while (json_next(&c, &name, &value)) {
        definition_write_name(out, &any, name);
        if (str_eq(name, S("url")))
            definition_write_url(out, value);
        else if (str_eq(name, S("headers")) && value.p[0] == '{')
            definition_write_headers(out, value);
        else
            buf_add(out, value);
    }
    buf_text(out, any ? "}" : "{}");
}

/* ---- the body of a task ---- */

static void definition_write_field(struct definition_body *b, struct str name, struct str value)
{
    definition_write_name(&b->text, &b->any, name);
    bool is_config = str_eq(name, S("target_config"));
    if (is_config || str_eq(name, S("payload")))
        b->has_templates |= definition_has_templates(value);
    b->has_queue |= str_eq(name, S("queue"));
    b->has_priority |= str_eq(name, S("priority"));
    b->has_target |= is_config || str_eq(name, S("target_type"));
    if (is_config)
        definition_write_config(&b->text, value);
    else
        buf_add(&b->text, value);
}

/* fields: the text of a step, or of its `compensate`. */
static void definition_write_body(struct definition_body *b, struct str fields)
{
    struct json_cursor c = { .text = fields };
    struct str name, value;
    *b = (struct definition_body){ 0 };
    buf_init(&b->text, BODY_BYTES_MAX);
    while (json_next(&c, &name, &value))
        if (dag_is_task_field(name) && !str_eq(value, S("null")))
            definition_write_field(b, name, value);
    buf_text(&b->text, b->any ? "}" : "{}");
}

static struct str definition_compensate(struct str step)
{
    struct json_cursor c = { .text = step };
    struct str name, value;
    while (json_next(&c, &name, &value))
        if (str_eq(name, S("compensate")))
            return value;
    return S("{}");
}

static enum err definition_make(const struct definition_body *b, const struct task_context *c, struct arena *a,
                                struct task *ret, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (b->text.full)
        return error_no_room(e);
    if (json_parse(buf_str(&b->text), &doc, e))
        return e->code;
    return task_from_json(&doc, c, a, ret, e);
}

/* ---- checks ---- */

/* What a step that awaits a signal cannot use: nothing is called. */
static const char *const await_refused[] = { "retry",    "max_retries",     "timeout_ms",
                                             "requires", "resources",       "payload",
                                             "delivery", "concurrency_key", "concurrency_limit" };

/* A run within another takes no key: it could wait for the run that waits for it. */
static const char *const workflow_refused[] = { "concurrency_key", "concurrency_limit" };

static enum err definition_check_refused(struct str step, const char *const *refused, size_t n, const char *why,
                                         struct error *e)
{
    struct json_cursor c = { .text = step };
    struct str name, value;
    while (json_next(&c, &name, &value))
        for (size_t i = 0; i < n; i++)
            if (str_eq(name, str_from(refused[i])))
                return error_field(e, refused[i], "%s", why);
    return ERR_OK;
}

static enum err definition_check_fields(const struct dag_step *s, struct error *e)
{
    if (s->await.signal.n)
        return definition_check_refused(s->text, await_refused, array_count(await_refused),
                                        "has no effect in a step that awaits a signal", e);
    if (s->is_workflow)
        return definition_check_refused(
            s->text, workflow_refused, array_count(workflow_refused),
            "cannot be given to a step that runs a workflow; give the run a key, or use map", e);
    return ERR_OK;
}

static enum err definition_check_compensate(const struct dag_step *s, const struct task_context *c, struct arena *a,
                                            struct error *e)
{
    struct task t;
    cleanup_with(definition_body_release) struct definition_body b;
    definition_write_body(&b, definition_compensate(s->text));
    if (definition_make(&b, c, a, &t, e))
        return e->code;
    if (t.target == TARGET_WORKFLOW)
        return error_field(e, "target_type", "cannot be WORKFLOW in a compensation; call a target");
    return ERR_OK;
}

static enum err definition_check_step(const struct dag_step *s, const struct task_context *c, struct arena *a,
                                      struct error *e)
{
    struct task t;
    struct task_context own = *c;
    cleanup_with(definition_body_release) struct definition_body b;
    definition_write_body(&b, s->text);
    own.secrets = NULL;                     /* the definition is encrypted as a whole */
    own.only_times = s->await.signal.n > 0; /* it calls nothing */
    if (definition_check_fields(s, e))
        return e->code;
    if (definition_make(&b, &own, a, &t, e))
        return e->code;
    own.only_times = c->only_times;
    if (s->has_compensate && definition_check_compensate(s, &own, a, e))
        return error_in(e, "compensate");
    return ERR_OK;
}

static enum err definition_check(const struct dag *d, const struct task_context *c, struct error *e)
{
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, ROW_BYTES_MAX);
    for (uint32_t i = 0; i < d->n; i++) {
        char path[PATH_TEXT];
        snprintf(path, sizeof path, "steps[%u]", i);
        if (definition_check_step(&d->steps[i], c, &a, e))
            return error_in(e, path);
        arena_reset(&a);
    }
    return ERR_OK;
}

/* A row has one edge to another. Edges of one parent are neighbours. */
static enum err definition_check_edges(const struct dag *d, struct error *e)
{
    for (uint32_t i = 0; i < d->n; i++) {
        const struct dag_edges *in = &d->steps[i].in;
        for (uint32_t k = 1; k < in->n; k++) {
            if (in->v[k].step != in->v[k - 1].step)
                continue;
            char path[64];
            snprintf(path, sizeof path, "steps[%u].depends_on[%u]", i, max_of(in->v[k].at, in->v[k - 1].at));
            return error_field(e, path, "names step '" STR_FMT "' once more, with another type; name each step once",
                               STR_ARG(d->steps[in->v[k].step].name));
        }
    }
    return ERR_OK;
}

enum err definition_read(struct str text, const struct task_context *c, struct dag **ret, struct error *e)
{
    struct error own; /* so that e may be NULL */
    cleanup_with(dag_freep) struct dag *d = NULL;
    e = e ? e : &own;
    if (dag_read(text, &d, e) || definition_check_edges(d, e) || definition_check(d, c, e))
        return e->code;
    *ret = take(d);
    return ERR_OK;
}

/* ---- rows ---- */

/* What a row has of its run, and what is not the user's. */
static void definition_finish_row(const struct definition_body *b, const struct run_facts *run, int64_t place,
                                  struct task *t)
{
    t->run = run->id;
    t->links = 0;
    definition_move_task(t, place);
    if (!b->has_queue)
        t->queue = run->queue;
    if (!b->has_priority)
        t->priority = run->priority;
}

static enum err definition_make_row(const struct definition_body *b, const struct run_facts *run, int64_t place,
                                    bool only_times, int64_t now_ms, struct arena *a, struct task *ret, struct error *e)
{
    struct error own = { 0 };
    struct task t;
    struct task_context c = { .tenant = run->tenant,
                              .now_ms = now_ms,
                              .id = place_id(run->id, place),
                              .secrets = run->secrets,
                              .keeps_sealed = true,
                              .only_times = only_times,
                              .trace = run->trace };
    enum err rc = definition_make(b, &c, a, &t, &own);
    if (rc == ERR_OK) {
        definition_finish_row(b, run, place, &t);
        *ret = t;
    } else if (e) {
        *e = own;
    }
    return rc;
}

static void definition_clear_call(struct task *t)
{
    t->target_config = t->payload = (struct str){ NULL, 0 };
}

static void definition_make_control(struct task *t)
{
    t->target = TARGET_WORKFLOW;
    t->timeout_ms = 0;
    t->retry = (struct retry_policy){ .max_attempts = 1, .base_delay_ms = 1000, .max_delay_ms = 1000 };
    t->concurrency_key = (struct str){ NULL, 0 };
    t->concurrency_limit = 0;
    t->requires = (struct str){ NULL, 0 };
    t->cpu_milli = t->memory_mb = 0;
    definition_clear_call(t);
}

/* What the step calls, if it is one task or an item of many. */
static void definition_set_call(const struct dag_step *s, const struct definition_body *b, struct task *t)
{
    if (t->target == TARGET_WORKFLOW) { /* its planner reads the config in the definition */
        t->links |= TASK_KEEPS_OUTPUT;
        definition_clear_call(t);
        return;
    }
    if (s->output_used)
        t->links |= TASK_KEEPS_OUTPUT;
    if (!b->has_templates && !(s->has_when && !s->map.is_set))
        return;
    t->links |= TASK_PLANNED;
    definition_clear_call(t);
}

enum err definition_step_task(const struct dag *d, uint32_t step, const struct run_facts *run, int64_t now_ms,
                              struct arena *a, struct task *ret, struct error *e)
{
    assert(step < d->n);
    const struct dag_step *s = &d->steps[step];
    struct task t;
    cleanup_with(definition_body_release) struct definition_body b;
    definition_write_body(&b, s->text);
    enum err rc = definition_make_row(&b, run, place_of_step(step), s->await.signal.n > 0, now_ms, a, &t, e);
    if (rc)
        return rc;
    t.due_ms = t.scheduled_ms = now_ms + s->delay_ms;
    if (s->map.is_set || s->await.signal.n)
        definition_make_control(&t);
    else
        definition_set_call(s, &b, &t);
    if (s->await.signal.n && s->output_used)
        t.links |= TASK_KEEPS_OUTPUT;
    *ret = t;
    return ERR_OK;
}

/* A key that only the items of this map have. */
static bool definition_set_map_key(const struct dag_step *s, struct uuid run, struct arena *a, struct task *t)
{
    char id[UUID_TEXT + 1], key[KEY_TEXT];
    if (s->map.max_concurrent == 0)
        return true;
    uuid_format(run, id);
    int n = snprintf(key, sizeof key, "map:%s/" STR_FMT, id, STR_ARG(s->name));
    t->concurrency_limit = (int)s->map.max_concurrent;
    return arena_str(a, (struct str){ key, (size_t)n }, &t->concurrency_key);
}

enum err definition_item_task(const struct dag *d, uint32_t step, const struct run_facts *run, int64_t now_ms,
                              struct arena *a, struct task *ret, struct error *e)
{
    assert(step < d->n && d->steps[step].map.is_set);
    const struct dag_step *s = &d->steps[step];
    struct task t;
    cleanup_with(definition_body_release) struct definition_body b;
    definition_write_body(&b, s->text);
    enum err rc = definition_make_row(&b, run, place_of_item(step, 0), false, now_ms, a, &t, e);
    if (rc)
        return rc;
    definition_set_call(s, &b, &t);
    if (run->secrets && str_contains_nocase(t.target_config, S("\"" SECRET_PREFIX))) {
        t.links |= TASK_PLANNED;
        definition_clear_call(&t);
    }
    if (!definition_set_map_key(s, run->id, a, &t))
        return error_no_room(e);
    *ret = t;
    return ERR_OK;
}

enum err definition_undo_task(const struct dag *d, uint32_t step, int64_t item, const struct run_facts *run,
                              int64_t now_ms, struct arena *a, struct task *ret, struct error *e)
{
    assert(step < d->n && d->steps[step].has_compensate);
    cleanup_with(definition_body_release) struct definition_body b;
    definition_write_body(&b, definition_compensate(d->steps[step].text));
    enum err rc = definition_make_row(&b, run, place_of_undo(step, item), false, now_ms, a, ret, e);
    if (rc == ERR_OK && b.has_templates) {
        ret->links |= TASK_PLANNED;
        definition_clear_call(ret);
    }
    return rc;
}

void definition_move_task(struct task *t, int64_t place)
{
    t->place = place;
    t->id = place_id(t->run, place);
}
