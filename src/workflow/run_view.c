/* A run as a plan sees it: its row, its definition, its tasks, and the values that references name. Each is read once
 * for a plan. */
#include <assert.h>
#include <stdlib.h>

#include "core/task/trace.h"
#include "workflow/internal.h"

enum {
    MAP_OUTPUT_MAX = 16 << 20, /* of a map's output that is put together for one plan */
    OUTPUTS_PAGE = 1000,
};

/* A value that a reference named, so that it is read and parsed once for each plan. */
struct run_doc {
    struct run_doc *next;
    enum reference_root root;
    uint32_t step;
    bool exists;
    struct json_doc doc;
};

/* ---- the run ---- */

static enum err view_load_dag(struct run_view *v, const uint8_t hash[DEFINITION_HASH], struct error *e)
{
    if (definition_cache_get(v->c->definitions, v->c->reader, v->task.tenant, hash, &v->definition, e))
        return e->code == ERR_NOT_FOUND ? error_set(e, ERR_INVALID, "its definition is not stored any more") : e->code;
    v->dag = v->definition->dag;
    return ERR_OK;
}

enum err run_view_read(struct run_view *v, const struct planner_context *c, int32_t tenant, struct uuid run,
                       struct arena *a, struct error *e)
{
    *v = (struct run_view){ .c = c, .a = a, .task = { .id = run, .tenant = tenant } };
    enum err rc = reader_run(c->reader, tenant, run, a, &v->row, e);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    v->has_row = !rc;
    return v->has_row ? view_load_dag(v, v->row.hash, e) : ERR_OK;
}

/* The run that a sub-run is a step of. */
static enum err view_read_outer(struct run_view *v, struct error *e)
{
    if (uuid_is_nil(v->task.run))
        return ERR_OK;
    v->outer = arena_new(v->a, struct run_view);
    if (!v->outer)
        return error_no_room(e);
    return run_view_read(v->outer, v->c, v->task.tenant, v->task.run, v->a, e);
}

enum err run_view_set_task(struct run_view *v, const struct task *t, struct error *e)
{
    v->task = *t;
    v->has_task = true;
    return view_read_outer(v, e);
}

enum err run_view_task(struct run_view *v, struct error *e)
{
    if (v->has_task)
        return ERR_OK;
    if (reader_get(v->c->reader, v->task.tenant, v->task.id, v->a, &v->task, e))
        return e->code;
    v->has_task = true;
    return view_read_outer(v, e);
}

void run_view_release(struct run_view *v)
{
    for (struct run_doc *d = v->docs, *next; d; d = next) {
        next = d->next;
        json_doc_release(&d->doc);
        free(d);
    }
    if (v->has_config)
        json_doc_release(&v->config);
    definition_release(v->definition);
    if (v->outer)
        run_view_release(v->outer);
}

struct run_facts run_view_facts(const struct run_view *v)
{
    return (struct run_facts){ .id = v->task.id,
                               .tenant = v->task.tenant,
                               .queue = v->task.queue,
                               .priority = v->task.priority,
                               .trace = trace_for_steps(&v->task),
                               .secrets = v->c->secrets };
}

/* ---- its config ---- */

enum err run_view_config(struct run_view *v, struct error *e)
{
    if (v->has_config)
        return ERR_OK;
    if (run_view_task(v, e))
        return e->code;
    struct str text = v->task.target_config.n ? v->task.target_config : S("{}");
    if (v->outer) {
        struct run_data data = { v->outer, &v->task };
        struct reference_data references = run_data_references(&data);
        struct step_data step;
        struct step_target target;
        if (step_data_read(&v->outer->dag->steps[place_step(v->task.place)], &step, e))
            return e->code;
        enum err rc = step_data_target(&step, STEP_ITSELF, &references, v->a, &target, e);
        step_data_release(&step);
        if (rc)
            return rc;
        text = target.config;
    }
    if (json_parse(text, &v->config, e))
        return e->code;
    v->has_config = true;
    return ERR_OK;
}

static bool view_hash(struct str hex, uint8_t ret[DEFINITION_HASH])
{
    static const char digits[] = "0123456789abcdef";
    if (hex.n != 2 * (size_t)DEFINITION_HASH)
        return false;
    for (size_t i = 0; i < hex.n; i++) {
        const char *at = strchr(digits, hex.p[i]);
        if (!hex.p[i] || !at)
            return false;
        ret[i / 2] = (uint8_t)(ret[i / 2] << 4 | (uint8_t)(at - digits));
    }
    return true;
}

static enum err view_pin_named(struct run_view *v, struct str name, struct error *e)
{
    struct workflow_row w;
    int64_t version = json_i64_at(v->config.root, "version", 0);
    enum err rc = reader_workflow(v->c->reader, v->task.tenant, name, version, v->a, &w, e);
    if (rc == ERR_NOT_FOUND && version)
        return error_field(e, "workflow", "version %lld of '" STR_FMT "' does not exist", (long long)version,
                           STR_ARG(name));
    if (rc == ERR_NOT_FOUND)
        return error_field(e, "workflow", "no definition is named '" STR_FMT "'", STR_ARG(name));
    if (rc)
        return rc;
    memcpy(v->row.hash, w.hash, sizeof v->row.hash);
    v->row.workflow = w.name;
    v->row.version = w.version;
    return ERR_OK;
}

enum err run_view_pin(struct run_view *v, struct error *e)
{
    assert(!v->has_row);
    if (run_view_config(v, e))
        return e->code;
    struct str name = json_text_at(v->config.root, "workflow"), hex = json_text_at(v->config.root, "definition");
    v->row = (struct run_row){ .run = v->task.id, .tenant = v->task.tenant, .root = v->task.id };
    if (v->outer) {
        v->row.root = v->outer->row.root;
        v->row.depth = v->outer->row.depth + 1;
    }
    if (v->row.depth >= RUN_DEPTH_MAX)
        return error_field(e, "workflow", "is nested more than %d levels deep", RUN_DEPTH_MAX);
    if (hex.p && !view_hash(hex, v->row.hash))
        return error_field(e, "definition", "is no hash of a definition");
    if (hex.p) { /* it was bound to a version when it was created */
        v->row.version = json_i64_at(v->config.root, "version", 0);
        if (!arena_str(v->a, name.p ? name : S(""), &v->row.workflow))
            return error_no_room(e);
    } else if (view_pin_named(v, name, e)) {
        return e->code;
    }
    return view_load_dag(v, v->row.hash, e);
}

/* ---- its tasks ---- */

static enum err view_add_tasks(struct run_view *v, struct tasks *all, size_t *cap, const struct tasks *page,
                               struct error *e)
{
    if (all->n + page->n > *cap) {
        size_t more = max_of(*cap * 2, all->n + page->n);
        struct task *grown = arena_array(v->a, struct task, more);
        if (!grown)
            return error_no_room(e);
        if (all->n)
            memcpy(grown, all->v, all->n * sizeof *grown);
        all->v = grown;
        *cap = more;
    }
    memcpy(all->v + all->n, page->v, page->n * sizeof *all->v);
    all->n += page->n;
    return ERR_OK;
}

/* The tasks of one step, or of all. */
static enum err view_read_tasks(struct run_view *v, bool by_step, uint32_t step, struct tasks *ret, struct error *e)
{
    struct step_filter f = {
        .tenant = v->task.tenant, .run = v->task.id, .by_step = by_step, .step = step, .limit = STEPS_READ_MAX
    };
    size_t cap = 0;
    *ret = (struct tasks){ 0 };
    for (struct tasks page;;) {
        if (reader_steps(v->c->reader, &f, v->a, &page, e))
            return e->code;
        if (page.n && view_add_tasks(v, ret, &cap, &page, e))
            return e->code;
        if (page.n < f.limit)
            return ERR_OK;
        f.has_after = true;
        f.after = page.v[page.n - 1].place;
    }
}

enum err run_view_tasks(struct run_view *v, struct tasks *ret, struct error *e)
{
    return view_read_tasks(v, false, 0, ret, e);
}

enum err run_view_tasks_of(struct run_view *v, uint32_t step, struct tasks *ret, struct error *e)
{
    return view_read_tasks(v, true, step, ret, e);
}

static void progress_add(struct run_progress *g, const struct task *t)
{
    bool is_final = task_is_final(t->state);
    if (place_kind(t->place) == PLACE_KIND_DEADLINE) {
        g->has_timer = !is_final && t->state != TASK_RUNNING; /* one that was claimed finds out that the run is over */
        return;
    }
    if (place_kind(t->place) == PLACE_KIND_UNDO)
        g->has_undo = true;
    else if (place_item(t->place) < 0) {
        g->steps[place_step(t->place)] = t;
        g->outcomes[place_step(t->place)] = dependency_outcome(t->state, t->links);
        g->missing--;
    }
    if (is_final)
        return;
    g->open[g->open_count++] = t->id;
    g->open_steps += place_kind(t->place) == PLACE_KIND_STEP;
    bool planned = t->state != TASK_PAUSED && stop_finds_planned(t->links, t->place);
    g->waiting += t->state != TASK_RUNNING && !planned;
}

enum err run_progress_read(struct run_view *v, struct run_progress *ret, struct error *e)
{
    *ret = (struct run_progress){ .missing = v->dag->n };
    if (run_view_tasks(v, &ret->tasks, e))
        return e->code;
    ret->outcomes = arena_array(v->a, enum flow_outcome, v->dag->n);
    ret->steps = arena_array(v->a, const struct task *, v->dag->n);
    ret->open = arena_array(v->a, struct uuid, ret->tasks.n + 1);
    if (!ret->outcomes || !ret->steps || !ret->open)
        return error_no_room(e);
    for (size_t i = 0; i < ret->tasks.n; i++)
        progress_add(ret, &ret->tasks.v[i]);
    return ERR_OK;
}

/* ---- data ---- */

static struct run_doc *data_add(struct run_view *v, enum reference_root root, uint32_t step)
{
    struct run_doc *d = xnew(*d);
    *d = (struct run_doc){ .next = v->docs, .root = root, .step = step };
    v->docs = d;
    return d;
}

static struct run_doc *data_known(const struct run_view *v, enum reference_root root, uint32_t step)
{
    for (struct run_doc *d = v->docs; d; d = d->next)
        if (d->root == root && d->step == step)
            return d;
    return NULL;
}

static enum err data_parse(struct run_doc *d, struct str text, struct error *e)
{
    d->exists = true;
    return json_parse(text, &d->doc, e);
}

static enum err data_output_unfit(struct str step, const char *why, struct error *e)
{
    return error_set(e, ERR_INVALID, "the output of step '" STR_FMT "' %s", STR_ARG(step), why);
}

/* A worker sends one byte more than it keeps if there was more. */
static bool data_is_whole(const struct run_view *v, const struct run_output *o)
{
    bool by_worker = !definition_is_control(&v->dag->steps[place_step(o->place)]) || place_item(o->place) >= 0;
    return o->whole && (!by_worker || o->text.n <= STEP_OUTPUT_MAX);
}

static enum err data_output_by_hand(struct run_view *v, int64_t place, struct run_doc *d, struct error *e)
{
    struct task t;
    enum err rc = reader_get(v->c->reader, v->task.tenant, place_id(v->task.id, place), v->a, &t, e);
    if (rc)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    struct str output = output_by_hand(&t);
    return output.n ? data_parse(d, output, e) : ERR_OK;
}

static enum err data_output(struct run_view *v, const struct reference *r, int64_t place, struct run_doc *d,
                            struct error *e)
{
    struct run_outputs outs;
    if (reader_outputs(v->c->reader, v->task.id, place, place, 1, v->a, &outs, e))
        return e->code;
    if (outs.n == 0)
        return data_output_by_hand(v, place, d, e);
    if (!data_is_whole(v, &outs.v[0]))
        return data_output_unfit(r->step, "is too large to be used", e);
    struct error why;
    if (outs.v[0].text.n && data_parse(d, outs.v[0].text, &why))
        return data_output_unfit(r->step, "is no JSON", e);
    return ERR_OK;
}

/* The rows of a map: the step, then its items. */
struct map_rows {
    struct tasks all;
    size_t items;
};

/* An item without an output in the store: null, unless a user has completed it with one. */
static void data_write_other_item(const struct map_rows *m, size_t item, struct buf *out)
{
    const struct task *t = item + 1 < m->all.n ? &m->all.v[item + 1] : NULL;
    struct str output = t && place_item(t->place) == (int64_t)item ? output_by_hand(t) : S("");
    buf_text(out, item ? "," : "");
    buf_add(out, output.n ? output : S("null"));
}

/* Writes the outputs of a map's items in their order; null for those that have none. */
static enum err data_write_items(struct run_view *v, uint32_t step, struct str name, const struct map_rows *m,
                                 struct buf *out, struct error *e)
{
    int64_t from = place_of_item(step, 0), to = place_of_item(step, DAG_ITEMS_MAX);
    size_t at = 0;
    buf_text(out, "[");
    for (struct run_outputs page = { .n = OUTPUTS_PAGE }; page.n == OUTPUTS_PAGE;) {
        if (reader_outputs(v->c->reader, v->task.id, from, to, OUTPUTS_PAGE, v->a, &page, e))
            return e->code;
        for (size_t i = 0; i < page.n; i++, at++) {
            for (; (int64_t)at < place_item(page.v[i].place); at++)
                data_write_other_item(m, at, out);
            if (!data_is_whole(v, &page.v[i]))
                return data_output_unfit(name, "has an item that is too large to be used", e);
            buf_text(out, at ? "," : "");
            buf_add(out, page.v[i].text.n ? page.v[i].text : S("null"));
        }
        from = page.n ? page.v[page.n - 1].place + 1 : from;
    }
    for (; at < m->items; at++)
        data_write_other_item(m, at, out);
    buf_text(out, "]");
    return out->full ? data_output_unfit(name, "is too large to be used", e) : ERR_OK;
}

static enum err data_map_output(struct run_view *v, const struct reference *r, uint32_t step, struct run_doc *d,
                                struct error *e)
{
    struct map_rows m = { 0 };
    struct error why;
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, MAP_OUTPUT_MAX);
    if (view_read_tasks(v, true, step, &m.all, e))
        return e->code;
    for (size_t i = 0; i < m.all.n; i++)
        if (place_kind(m.all.v[i].place) == PLACE_KIND_STEP)
            m.items = max_of(m.items, (size_t)(place_item(m.all.v[i].place) + 1));
    bool exists = m.all.n > 0 && m.all.v[0].state == TASK_COMPLETED;
    if (!exists && m.items == 0)
        return ERR_OK;
    if (exists && m.all.v[0].links & TASK_BY_HAND && data_output(v, r, place_of_step(step), d, e))
        return e->code;
    if (d->exists) /* a user has completed the whole step */
        return ERR_OK;
    if (data_write_items(v, step, r->step, &m, &out, e))
        return e->code;
    struct str text;
    if (!arena_str(v->a, buf_str(&out), &text))
        return error_no_room(e);
    return data_parse(d, text, &why) ? data_output_unfit(r->step, "has an item that is no JSON", e) : ERR_OK;
}

static enum err data_quoted(struct run_view *v, struct run_doc *d, struct str text, struct error *e)
{
    cleanup_with(buf_release) struct buf out;
    struct jw w;
    struct str kept;
    buf_init(&out, JSON_TEXT_MAX);
    jw_init(&w, &out);
    jw_str(&w, text);
    if (!arena_str(v->a, buf_str(&out), &kept))
        return error_no_room(e);
    return data_parse(d, kept, e);
}

/* The status or the error of a step. */
static enum err data_of_row(struct run_view *v, const struct reference *r, uint32_t step, struct run_doc *d,
                            struct error *e)
{
    struct task t;
    enum err rc = reader_get(v->c->reader, v->task.tenant, place_id(v->task.id, place_of_step(step)), v->a, &t, e);
    if (rc)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    if (r->root == REFERENCE_STEP_STATUS)
        return data_quoted(v, d, str_from(task_state_name(t.state)), e);
    return t.last_error.n ? data_quoted(v, d, t.last_error, e) : ERR_OK;
}

static enum err data_of_step(struct run_view *v, const struct reference *r, uint32_t step, struct run_doc *d,
                             struct error *e)
{
    if (r->root != REFERENCE_STEP_OUTPUT)
        return data_of_row(v, r, step, d, e);
    if (v->dag->steps[step].map.is_set)
        return data_map_output(v, r, step, d, e);
    return data_output(v, r, place_of_step(step), d, e);
}

static void data_write_failures(struct run_view *v, const struct tasks *rows, struct jw *w)
{
    jw_key(w, "failures");
    jw_array(w);
    for (size_t i = 0; i < rows->n; i++) {
        const struct task *t = &rows->v[i];
        if ((t->state != TASK_FAILED && t->state != TASK_EXPIRED) || place_kind(t->place) != PLACE_KIND_STEP)
            continue;
        jw_object(w);
        jw_kv_str(w, "step", v->dag->steps[place_step(t->place)].name);
        if (place_item(t->place) >= 0)
            jw_kv_i64(w, "item", place_item(t->place));
        jw_kv_cstr(w, "status", task_state_name(t->state));
        jw_kv_str_or_null(w, "error", t->last_error);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static enum err data_of_run(struct run_view *v, struct run_doc *d, struct error *e)
{
    struct tasks rows;
    struct jw w;
    struct str text;
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, MAP_OUTPUT_MAX);
    if (run_view_task(v, e) || run_view_tasks(v, &rows, e))
        return e->code;
    jw_init(&w, &out);
    jw_object(&w);
    jw_kv_uuid(&w, "id", v->task.id);
    jw_kv_str_or_null(&w, "name", v->task.name);
    jw_kv_str_or_null(&w, "workflow", v->row.workflow);
    jw_kv_i64_or_null(&w, "version", v->row.version);
    jw_kv_i64(&w, "attempt", v->task.attempts + 1);
    jw_kv_time(&w, "created_at", v->task.created_ms);
    jw_kv_time(&w, "scheduled_for", v->task.scheduled_ms);
    jw_kv_time(&w, "opened_at", v->row.opened_ms);
    data_write_failures(v, &rows, &w);
    jw_object_end(&w);
    if (out.full || !arena_str(v->a, buf_str(&out), &text))
        return error_no_room(e);
    return data_parse(d, text, e);
}

static enum err data_load(struct run_data *data, const struct reference *r, uint32_t step, struct run_doc *d,
                          struct error *e)
{
    struct run_view *v = data->v;
    const struct task *t = data->task;
    switch (r->root) {
    case REFERENCE_STEP_OUTPUT:
    case REFERENCE_STEP_STATUS:
    case REFERENCE_STEP_ERROR: return data_of_step(v, r, step, d, e);
    case REFERENCE_ITEM: return t && t->payload.n ? data_parse(d, t->payload, e) : ERR_OK;
    case REFERENCE_INDEX: {
        char text[24];
        struct str kept;
        int n = snprintf(text, sizeof text, "%lld", (long long)place_item(t->place));
        return arena_str(v->a, (struct str){ text, (size_t)n }, &kept) ? data_parse(d, kept, e) : error_no_room(e);
    }
    case REFERENCE_OUTPUT:
        return data_output(v, &(struct reference){ .step = v->dag->steps[place_step(t->place)].name },
                           place_of_item(place_step(t->place), place_item(t->place)), d, e);
    case REFERENCE_RUN: return data_of_run(v, d, e);
    case REFERENCE_INPUT: break;
    }
    return ERR_OK;
}

static enum err data_find(void *ctx, const struct reference *r, json_t **ret, struct error *e)
{
    struct run_data *data = ctx;
    struct run_view *v = data->v;
    uint32_t step = 0;
    if (r->root == REFERENCE_INPUT) {
        if (run_view_config(v, e))
            return e->code;
        *ret = json_object_get(v->config.root, "input");
        return ERR_OK;
    }
    if (r->step.n && dag_find_or_explain(v->dag, r->step, &step, e))
        return e->code;
    struct run_doc *d = data_known(v, r->root, step);
    if (!d) {
        d = data_add(v, r->root, step);
        if (data_load(data, r, step, d, e))
            return e->code;
    }
    *ret = d->exists ? d->doc.root : NULL;
    return ERR_OK;
}

struct reference_data run_data_references(struct run_data *d)
{
    return (struct reference_data){ .ctx = d, .find = data_find };
}
