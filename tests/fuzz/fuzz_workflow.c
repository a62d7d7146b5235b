/* Definitions of workflows, which users write. An accepted one is a graph: parents come before their children, the
 * edges of both directions are the same, and a run in which every step that starts completes is COMPLETED. All its
 * data is resolved against itself as data. */
#include <stdlib.h>

#include "core/flow/flow.h"
#include "core/flow/step_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_graph(const struct dag *d)
{
    uint32_t in = 0, out = 0;
    uint32_t *place = xcalloc(d->n, sizeof *place);
    for (uint32_t i = 0; i < d->n; i++)
        place[d->order[i]] = i;
    for (uint32_t i = 0; i < d->n; i++) {
        const struct dag_step *s = &d->steps[i];
        in += s->in.n;
        out += s->out.n;
        for (uint32_t k = 0; k < s->in.n; k++) {
            require(place[s->in.v[k].step] < place[i] && d->steps[s->in.v[k].step].layer < s->layer);
            require(k == 0 || s->in.v[k - 1].step < s->in.v[k].step || s->in.v[k - 1].type < s->in.v[k].type);
        }
    }
    require(in == d->edges && out == d->edges);
    free(place);
}

static enum err find_definition(void *ctx, const struct reference *r, json_t **ret, struct error *e)
{
    struct json_doc *doc = ctx;
    (void)e;
    *ret = r->root == REFERENCE_STEP_ERROR ? NULL : doc->root;
    return ERR_OK;
}

static void resolve_step(const struct dag_step *step, const struct reference_data *d)
{
    struct step_data s;
    struct step_target t;
    struct str items;
    struct error e;
    size_t count;
    bool runs;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 16 << 20);
    require(step_data_read(step, &s, &e) == ERR_OK);
    (void)!step_data_when(&s, d, &runs, &e);
    for (int part = STEP_ITSELF; part <= STEP_COMPENSATION; part++) {
        struct json_doc again;
        if (step_data_target(&s, (enum step_part)part, d, &a, &t, &e))
            require(e.text[0]);
        else if (t.payload.n) {
            require(json_parse(t.payload, &again, &e) == ERR_OK);
            json_doc_release(&again);
        }
    }
    if (step->map.is_set && step_data_items(&s, d, &a, &items, &count, &e) == ERR_OK)
        require(count <= DAG_ITEMS_MAX);
    step_data_release(&s);
}

static void run_all(const struct dag *d, struct arena *a)
{
    struct flow_state s;
    struct error e;
    enum flow_outcome *given = arena_array(a, enum flow_outcome, d->n);
    require(given != NULL);
    for (bool more = true; more;) {
        require(flow_state(d, given, a, &s, &e) == ERR_OK);
        more = false;
        for (uint32_t i = 0; i < d->n; i++) {
            bool starts = s.v[i].outcome == FLOW_OPEN && s.v[i].decision == FLOW_START;
            bool skipped = s.v[i].outcome != FLOW_OPEN && given[i] == FLOW_OPEN;
            if (starts || skipped) {
                given[i] = starts ? FLOW_COMPLETED : s.v[i].outcome;
                more = true;
            }
        }
    }
    require(s.open == 0);
    require(flow_result(d, &s, FLOW_NOT_STOPPED, true).state == TASK_COMPLETED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = { (const char *)data, size };
    struct error e = { 0 };
    cleanup_with(dag_freep) struct dag *d = NULL;
    if (dag_read(text, &d, &e)) {
        require(!d && e.text[0]);
        return 0;
    }
    check_graph(d);
    cleanup_with(arena_release) struct arena a;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    arena_init(&a, 64 << 20);
    require(json_parse(text, &doc, &e) == ERR_OK);
    struct reference_data self = { &doc, find_definition };
    struct str result;
    for (uint32_t i = 0; i < d->n; i++)
        resolve_step(&d->steps[i], &self);
    (void)!dag_result(d, &self, &a, &result, &e);
    if (d->n <= 64)
        run_all(d, &a);
    return 0;
}
