#include "cli/workflow/run_steps.h"

#include <stdlib.h>

#include "base/map.h"
#include "cli/filter.h"
#include "cli/pages.h"
#include "cli/table.h"

enum { COUNTS_MAX = 400, EARLIER_SEEN_MAX = 1000 };

bool run_status_is_final(struct str status)
{
    static const char *const final[] = { "COMPLETED", "FAILED", "CANCELLED", "SKIPPED", "EXPIRED" };
    for (size_t i = 0; i < array_count(final); i++)
        if (str_eq(status, str_from(final[i])))
            return true;
    return false;
}

void run_counts_text(const json_t *counts, struct buf *out)
{
    const char *status;
    json_t *count;
    bool any = false;
    json_t *by = json_object_get(counts, "by_status");
    json_object_foreach (by, status, count) {
        if (json_integer_value(count) <= 0)
            continue;
        buf_printf(out, "%s%lld ", any ? ", " : "", (long long)json_integer_value(count));
        table_plain_text(str_from(status), SIZE_MAX, out);
        any = true;
    }
    if (any)
        buf_printf(out, " of %lld", (long long)json_i64_at(counts, "total", 0));
}

/* ---- steps ---- */

struct steps_loader {
    struct run_steps *s;
    bool is_full;
};

static enum dag_type run_edge_type(struct str name)
{
    for (int i = 0; dag_type_names[i]; i++)
        if (str_eq(name, str_from(dag_type_names[i])))
            return (enum dag_type)i;
    return DAG_MUST_SUCCEED;
}

/* Parents are names, or objects with "step" and "type". */
static bool run_step_read_parents(struct arena *a, const json_t *json, struct run_step *step)
{
    const json_t *list = json_at(json, "depends_on"), *item;
    size_t i, n = json_array_size(list);
    step->after = arena_array(a, struct str, max_of(n, (size_t)1));
    step->type = arena_array(a, enum dag_type, max_of(n, (size_t)1));
    if (!step->after || !step->type)
        return false;
    json_array_foreach (list, i, item) {
        struct str name = json_is_string(item) ? (struct str){ json_string_value(item), json_string_length(item) }
                                               : json_text_at(item, "step");
        if (!arena_str(a, name, &step->after[i]))
            return false;
        step->type[i] = json_is_string(item) ? DAG_MUST_SUCCEED : run_edge_type(json_text_at(item, "type"));
    }
    step->after_count = (uint32_t)n;
    return true;
}

static bool run_step_read_hold(struct arena *a, const json_t *json, struct run_step *step)
{
    const json_t *hold = json_at(json, "waits_for");
    return arena_str(a, json_text_at(hold, "gate"), &step->hold.gate) &&
           arena_str(a, json_text_at(hold, "name"), &step->hold.name) &&
           arena_str(a, json_text_at(hold, "run"), &step->hold.run) &&
           arena_str(a, json_text_at(hold, "explanation"), &step->hold.text);
}

/* "load"; of the compensation of an item "mail[17]". */
static bool run_step_read_name(struct arena *a, const json_t *json, struct run_step *step)
{
    cleanup_with(buf_release) struct buf name;
    int64_t item = json_i64_at(json, "item", -1);
    buf_init(&name, COUNTS_MAX);
    buf_add(&name, json_text_at(json, "step"));
    if (item >= 0)
        buf_printf(&name, "[%lld]", (long long)item);
    return arena_str(a, buf_str(&name), &step->name);
}

bool run_step_read(struct arena *a, const json_t *json, struct run_step *step)
{
    char text[COUNTS_MAX + 1];
    cleanup_with(buf_release) struct buf items;
    struct critical_step *t = &step->times;
    buf_init(&items, sizeof text - 1);
    run_counts_text(json_at(json, "items"), &items);
    *step = (struct run_step){ .attempts = json_i64_at(json, "attempts", 0) };
    step->is_undo = str_eq(json_text_at(json, "kind"), S("COMPENSATION"));
    step->is_run = str_eq(json_text_at(json, "target_type"), S("WORKFLOW"));
    step->awaits = str_eq(json_text_at(json, "target_type"), S("AWAIT"));
    step->by_hand = json_is_true(json_at(json, "by_hand"));
    step->settled_by_hand = json_text_at(json, "settled_by").n > 0;
    (void)!json_time_at(json, "released_at", &t->released_ms);
    (void)!json_time_at(json, "started_at", &t->started_ms);
    (void)!json_time_at(json, "completed_at", &t->completed_ms);
    (void)!json_time_at(json, "due_at", &step->due_ms);
    step->leased = str_eq(json_text_at(json, "target_type"), S("WORKER"));
    int64_t waited_ms = json_i64_at(json, "waited_ms", -1);
    t->first_ms = waited_ms >= 0 && t->released_ms ? t->released_ms + waited_ms : t->started_ms;
    t->is_final = run_status_is_final(json_text_at(json, "status"));
    if (str_eq(json_text_at(json, "status"), S("SCHEDULED")))
        t->started_ms = 0; /* of an attempt that is over */
    t->usual_ms = -1;
    return run_step_read_name(a, json, step) && arena_str(a, json_text_at(json, "id"), &step->id) &&
           arena_str(a, json_text_at(json, "status"), &step->status) &&
           arena_str(a, json_text_at(json, "last_error"), &step->error) &&
           arena_str(a, buf_str(&items), &step->items) && run_step_read_hold(a, json, step) &&
           run_step_read_parents(a, json, step);
}

static bool run_on_step(void *context, const json_t *json, struct str text)
{
    struct steps_loader *l = context;
    struct run_steps *s = l->s;
    (void)text;
    if (s->n == s->cap) {
        s->cap = max_of(s->cap * 2, (size_t)64);
        s->v = xrealloc(s->v, s->cap * sizeof *s->v);
    }
    l->is_full = !run_step_read(&s->a, json, &s->v[s->n]);
    s->n += !l->is_full;
    return !l->is_full;
}

/* Of the items, only the time is kept at which the last of them starts or has its next attempt. */
static bool run_is_no_item(void *context, const json_t *json)
{
    struct steps_loader *l = context;
    int64_t due_ms = 0;
    bool is_item = str_eq(json_text_at(json, "kind"), S("ITEM"));
    if (is_item && json_time_at(json, "due_at", &due_ms))
        l->s->items_due_ms = max_of(l->s->items_due_ms, due_ms);
    return !is_item;
}

enum exit_code run_steps_load(struct client *c, const char *id, struct run_steps *ret)
{
    struct run_steps s = { 0 };
    struct steps_loader l = { .s = &s };
    char path[RUN_PATH_BYTES];
    struct error e;
    arena_init(&s.a, RUN_MEMORY_MAX);
    snprintf(path, sizeof path, "/v1/workflows/%s/steps", id);
    struct pages p = { .client = c,
                       .path = path,
                       .member = "steps",
                       .limit = INT64_MAX,
                       .about = id,
                       .wanted = run_is_no_item,
                       .row = run_on_step,
                       .context = &l };
    enum exit_code code = pages_walk(&p);
    if (code == EXIT_DONE && l.is_full) {
        (void)error_no_room(&e);
        code = cli_fail(client_cli(c), client_cli(c)->command->name, &e, EXIT_REFUSED);
    }
    if (code)
        run_steps_release(&s);
    else
        *ret = s;
    return code;
}

void run_steps_release(struct run_steps *s)
{
    arena_release(&s->a);
    free(s->v);
    *s = (struct run_steps){ 0 };
}

/* ---- what a table says of a step ---- */

static void run_duration_text(int64_t ms, bool is_known, char out[TIME_TEXT])
{
    if (is_known)
        time_text_took(ms, out);
    else
        snprintf(out, TIME_TEXT, "-");
}

void run_step_times_text(const struct run_step *s, int64_t now_ms, char waited[TIME_TEXT], char ran[TIME_TEXT])
{
    const struct critical_step *t = &s->times;
    bool started = t->started_ms || t->first_ms;
    run_duration_text(critical_waited_ms(t, now_ms), t->released_ms && (started || !t->is_final), waited);
    run_duration_text(critical_ran_ms(t, now_ms), started && !s->settled_by_hand, ran);
}

/* Of a step that may start: what it still waits for. False: nothing that is known here. */
static bool run_step_start_write(const struct run_step *s, struct str error, int64_t now_ms, struct buf *out)
{
    char when[TIME_TEXT];
    if (s->due_ms) {
        time_text_relative(s->due_ms, now_ms, when);
        if (s->attempts)
            buf_printf(out, "attempt %lld comes %s%s", (long long)s->attempts + 1, when, error.n ? "; " : "");
        else
            buf_printf(out, "starts %s", when);
        table_plain_text(error, SIZE_MAX, out);
        return true;
    }
    if (!s->leased || !str_eq(s->status, S("RUNNING")))
        return false;
    buf_text(out, "a worker has it");
    return true;
}

/* The last error, unless it says what the hold says: "held: the circuit breaker of … is open". */
static struct str run_step_told_error(const struct run_step *s)
{
    bool is_hold = s->hold.text.n && str_starts(s->error, S("held: "));
    return is_hold ? (struct str){ 0 } : s->error;
}

bool run_step_note_write(const struct run_step *s, int64_t now_ms, struct buf *out)
{
    struct str error = run_step_told_error(s);
    bool by_hand = s->by_hand && str_eq(s->status, S("COMPLETED"));
    table_plain_text(s->hold.text, SIZE_MAX, out);
    if (s->hold.text.n && (s->due_ms || error.n || s->items.n))
        buf_text(out, "; ");
    if (run_step_start_write(s, error, now_ms, out))
        return true;
    if (error.n)
        table_plain_text(error, SIZE_MAX, out);
    else if (s->items.n)
        buf_add(out, s->items);
    if (by_hand && !error.n)
        buf_printf(out, "%s%s by hand", s->items.n ? "; " : "", s->settled_by_hand ? "completed" : "started");
    return s->hold.text.n || error.n || s->items.n || by_hand;
}

/* ---- the graph ---- */

/* The place of each step in the graph, by name. */
static void run_steps_index(const struct run_steps *s, struct map *ret, uint32_t *places)
{
    uint32_t at = 0;
    map_init(ret, HASH_STABLE);
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].is_undo)
            continue;
        places[at] = at;
        map_put(ret, s->v[i].name, &places[at]);
        at++;
    }
}

static enum err run_step_link(struct run_steps *s, const struct run_step *step, const struct map *index,
                              struct graph_step *ret, struct critical_step *times, struct error *e)
{
    uint32_t *parents = arena_array(&s->a, uint32_t, max_of(step->after_count, 1U));
    *ret = (struct graph_step){ .name = step->name, .status = step->status };
    ret->in = arena_array(&s->a, struct graph_edge, max_of(step->after_count, 1U));
    if (!parents || !ret->in)
        return error_no_room(e);
    for (uint32_t k = 0; k < step->after_count; k++) {
        const uint32_t *parent = map_get(index, step->after[k]);
        if (!parent)
            continue;
        parents[ret->n] = *parent;
        ret->in[ret->n++] = (struct graph_edge){ *parent, step->type[k] };
    }
    *times = step->times;
    times->parents = parents;
    times->parent_count = ret->n;
    return ERR_OK;
}

enum err run_steps_graph(struct run_steps *s, struct graph *ret, struct critical_step **ret_times, struct error *e)
{
    struct graph g = { .v = arena_array(&s->a, struct graph_step, s->n + 1) };
    struct critical_step *times = arena_array(&s->a, struct critical_step, s->n + 1);
    uint32_t *places = arena_array(&s->a, uint32_t, s->n + 1);
    cleanup_with(map_release) struct map index = { 0 };
    if (!g.v || !times || !places)
        return error_no_room(e);
    run_steps_index(s, &index, places);
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].is_undo)
            continue;
        if (run_step_link(s, &s->v[i], &index, &g.v[g.n], &times[g.n], e))
            return e->code;
        g.n++;
    }
    if (workflow_graph_layer(&g, &s->a, e))
        return e->code;
    *ret = g;
    *ret_times = times;
    return ERR_OK;
}

void run_parents_write(const struct graph *g, const struct graph_step *step, struct buf *out)
{
    enum { NAMES_SHOWN_MAX = 5 };
    size_t n = 0;
    for (uint32_t i = 0; i < step->n; i++) {
        const struct graph_step *parent = &g->v[step->in[i].parent];
        if (run_status_is_final(parent->status))
            continue;
        if (n++ >= NAMES_SHOWN_MAX)
            continue;
        buf_text(out, n == 1 ? "waits for " : ", ");
        table_plain_text(parent->name, SIZE_MAX, out);
    }
    if (n > NAMES_SHOWN_MAX)
        buf_printf(out, " and %zu more", n - NAMES_SHOWN_MAX);
}

/* ---- earlier runs ---- */

struct earlier_runs {
    const json_t *run;
    char ids[CRITICAL_RUNS_MAX][UUID_TEXT + 1];
    size_t n;
};

/* Whether it is another run of the same definition: of the same name, whatever its version, or with the same content.
 * */
static bool run_on_earlier(void *context, const json_t *json, struct str text)
{
    struct earlier_runs *x = context;
    (void)text;
    struct str id = json_text_at(json, "id"), name = json_text_at(x->run, "workflow");
    const char *by = name.n ? "workflow" : "definition_hash";
    struct str mine = json_text_at(x->run, by);
    if (id.n == UUID_TEXT && mine.n && str_eq(json_text_at(json, by), mine) && !str_eq(id, json_text_at(x->run, "id")))
        snprintf(x->ids[x->n++], sizeof x->ids[0], STR_FMT, STR_ARG(id));
    return x->n < CRITICAL_RUNS_MAX;
}

/* workflow: only runs of this name; empty: those of all. */
static enum exit_code run_find_earlier(struct client *c, struct str workflow, struct earlier_runs *x)
{
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, RUN_PATH_BYTES);
    buf_text(&path, "/v1/workflows");
    query_add(&path, "status", S("COMPLETED"));
    if (workflow.n)
        query_add(&path, "workflow", workflow);
    struct pages p = { .client = c,
                       .path = buf_cstr(&path),
                       .member = "workflows",
                       .limit = EARLIER_SEEN_MAX,
                       .quiet = true,
                       .row = run_on_earlier,
                       .context = x };
    return pages_walk(&p);
}

/* The durations of one step in earlier runs. */
struct usual_times {
    int64_t v[CRITICAL_RUNS_MAX];
    size_t n;
};

static void run_note_usual(const struct run_steps *earlier, const struct map *index, struct usual_times *usual)
{
    for (size_t i = 0; i < earlier->n; i++) {
        const struct critical_step *t = &earlier->v[i].times;
        const uint32_t *at = map_get(index, earlier->v[i].name);
        bool took = t->completed_ms && (t->released_ms || t->started_ms);
        if (!at || earlier->v[i].is_undo || !took || usual[*at].n == CRITICAL_RUNS_MAX)
            continue;
        int64_t from_ms = t->released_ms ? t->released_ms : t->started_ms;
        usual[*at].v[usual[*at].n++] = max_of(t->completed_ms - from_ms, 0);
    }
}

void run_steps_learn(struct client *c, const json_t *run, struct run_steps *s, size_t *ret_runs)
{
    struct earlier_runs x = { .run = run };
    struct usual_times *usual = arena_array(&s->a, struct usual_times, s->n + 1);
    uint32_t *places = arena_array(&s->a, uint32_t, s->n + 1);
    cleanup_with(map_release) struct map index = { 0 };
    *ret_runs = 0;
    if (!usual || !places || run_find_earlier(c, json_text_at(run, "workflow"), &x))
        return;
    run_steps_index(s, &index, places);
    for (size_t i = 0; i < x.n; i++) {
        struct run_steps earlier;
        if (run_steps_load(c, x.ids[i], &earlier))
            return;
        run_note_usual(&earlier, &index, usual);
        run_steps_release(&earlier);
        ++*ret_runs;
    }
    for (size_t i = 0, at = 0; i < s->n; i++) {
        if (s->v[i].is_undo)
            continue;
        if (usual[at].n)
            s->v[i].times.usual_ms = critical_median(usual[at].v, usual[at].n);
        at++;
    }
}
