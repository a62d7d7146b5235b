#include "cli/workflow/graph_text.h"

#include "base/json/jsonw.h"
#include "cli/table.h"
#include "cli/workflow/boxes.h"

enum { NOTE_MAX = 200, PREFIX_MAX = 2000, ALSO_MAX = 8 };
#define NO_STEP UINT32_MAX

/* clang-format off */
static const struct status_look looks[] = {
    { "COMPLETED", "\033[32m", "✓", "#c8e6c9" },
    { "FAILED", "\033[31m", "✗", "#ffcdd2" },
    { "EXPIRED", "\033[31m", "✗", "#ffcdd2" },
    { "RUNNING", "\033[33m", "▶", "#fff9c4" },
    { "QUEUED", "\033[33m", "▷", "#fff9c4" },
    { "SCHEDULED", "\033[36m", "▷", "#e1f5fe" },
    { "SKIPPED", "\033[2m", "-", "#eeeeee" },
    { "CANCELLED", "\033[35m", "■", "#e1bee7" },
    { "PAUSED", "\033[35m", "‖", "#e1bee7" },
    { "BLOCKED", "\033[2m", "·", "#ffffff" },
};
/* clang-format on */

const struct status_look *workflow_status_look(struct str status)
{
    for (size_t i = 0; i < array_count(looks); i++)
        if (str_eq(status, str_from(looks[i].status)))
            return &looks[i];
    return &looks[array_count(looks) - 1];
}

/* ---- the graph ---- */

/* "map, ANY", "await approved". */
static void graph_write_note(const struct dag_step *s, struct buf *out)
{
    if (s->map.is_set)
        buf_text(out, "map");
    if (s->await.signal.n) {
        buf_printf(out, "%sawait ", out->n ? ", " : "");
        table_plain_text(s->await.signal, NOTE_MAX / 4, out);
    }
    if (s->is_workflow)
        buf_printf(out, "%sworkflow", out->n ? ", " : "");
    if (s->has_when)
        buf_printf(out, "%swhen", out->n ? ", " : "");
    if (s->join != DAG_ALL)
        buf_printf(out, "%s%s", out->n ? ", " : "", dag_join_names[s->join]);
}

static enum err graph_copy_step(const struct dag_step *from, struct arena *a, struct graph_step *to, struct error *e)
{
    cleanup_with(buf_release) struct buf note;
    buf_init(&note, NOTE_MAX);
    graph_write_note(from, &note);
    *to = (struct graph_step){ .name = from->name, .n = from->in.n, .layer = from->layer };
    to->in = arena_array(a, struct graph_edge, max_of(from->in.n, 1U));
    if (!to->in || !arena_str(a, buf_str(&note), &to->note))
        return error_no_room(e);
    for (uint32_t k = 0; k < from->in.n; k++)
        to->in[k] = (struct graph_edge){ from->in.v[k].step, from->in.v[k].type };
    return ERR_OK;
}

enum err workflow_graph_of(const struct dag *d, struct arena *a, struct graph *ret, struct error *e)
{
    struct graph g = { .v = arena_array(a, struct graph_step, d->n), .n = d->n, .layers = d->layers };
    if (!g.v)
        return error_no_room(e);
    for (uint32_t i = 0; i < d->n; i++)
        if (graph_copy_step(&d->steps[i], a, &g.v[i], e))
            return e->code;
    *ret = g;
    return ERR_OK;
}

enum err workflow_graph_layer(struct graph *g, struct arena *a, struct error *e)
{
    enum { OPEN, ENTERED, DONE };
    uint8_t *state = arena_array(a, uint8_t, g->n + (size_t)1);
    uint32_t *stack = arena_array(a, uint32_t, g->n + (size_t)1);
    g->layers = 0;
    if (!state || !stack)
        return error_no_room(e);
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t depth = 0;
        if (state[i] == OPEN)
            stack[depth++] = i;
        while (depth) {
            struct graph_step *s = &g->v[stack[depth - 1]];
            uint32_t open = NO_STEP;
            s->layer = 0;
            for (uint32_t k = 0; k < s->n && open == NO_STEP; k++) {
                s->layer = max_of(s->layer, g->v[s->in[k].parent].layer + 1);
                open = state[s->in[k].parent] == DONE ? NO_STEP : s->in[k].parent;
            }
            state[stack[depth - 1]] = open == NO_STEP ? DONE : ENTERED;
            if (open != NO_STEP && state[open] == ENTERED)
                return error_set(e, ERR_INVALID, "the steps depend on each other in a circle");
            g->layers = max_of(g->layers, s->layer + 1);
            if (open == NO_STEP)
                depth--;
            else
                stack[depth++] = open;
        }
    }
    return ERR_OK;
}

/* ---- the tree ---- */

struct tree {
    const struct graph *g;
    uint32_t *above;        /* of each step: the parent below which it stands */
    uint32_t *first, *next; /* children that stand below a step */
    struct buf prefix, *out;
    bool colours;
};

static uint32_t tree_closest_parent(const struct graph *g, const struct graph_step *s)
{
    uint32_t found = NO_STEP;
    for (uint32_t k = 0; k < s->n; k++)
        if (found == NO_STEP || g->v[s->in[k].parent].layer > g->v[found].layer)
            found = s->in[k].parent;
    return found;
}

static enum err tree_init(struct tree *t, struct arena *a, struct error *e)
{
    uint32_t n = t->g->n;
    t->above = arena_array(a, uint32_t, n + (size_t)1);
    t->first = arena_array(a, uint32_t, n + (size_t)1);
    t->next = arena_array(a, uint32_t, n + (size_t)1);
    if (!t->above || !t->first || !t->next)
        return error_no_room(e);
    for (uint32_t i = 0; i < n; i++)
        t->first[i] = NO_STEP;
    for (uint32_t i = n; i-- > 0;) {
        t->above[i] = tree_closest_parent(t->g, &t->g->v[i]);
        if (t->above[i] == NO_STEP)
            continue;
        t->next[i] = t->first[t->above[i]];
        t->first[t->above[i]] = i;
    }
    return ERR_OK;
}

static bool tree_is_other_parent(const struct tree *t, uint32_t step, uint32_t k)
{
    const struct graph_step *s = &t->g->v[step];
    return s->in[k].parent != t->above[step] && (k == 0 || s->in[k - 1].parent != s->in[k].parent);
}

static void tree_write_others(struct tree *t, uint32_t step)
{
    const struct graph_step *s = &t->g->v[step];
    uint32_t written = 0, others = 0;
    for (uint32_t k = 0; k < s->n; k++)
        others += tree_is_other_parent(t, step, k);
    for (uint32_t k = 0; k < s->n && written < ALSO_MAX; k++) {
        if (!tree_is_other_parent(t, step, k))
            continue;
        buf_text(t->out, written++ ? ", " : "  ↳ also after ");
        table_plain_text(t->g->v[s->in[k].parent].name, SIZE_MAX, t->out);
    }
    if (others > written)
        buf_printf(t->out, " and %u more", (unsigned)(others - written));
}

static void tree_write_step(struct tree *t, uint32_t step, const char *branch)
{
    const struct graph_step *s = &t->g->v[step];
    const struct status_look *look = workflow_status_look(s->status);
    bool coloured = t->colours && s->status.n;
    buf_add(t->out, buf_str(&t->prefix));
    buf_printf(t->out, "%s%s", branch, coloured ? look->colour : "");
    if (s->status.n)
        buf_printf(t->out, "%s ", look->sign);
    table_plain_text(s->name, SIZE_MAX, t->out);
    if (s->note.n)
        buf_printf(t->out, " (" STR_FMT ")", STR_ARG(s->note));
    buf_text(t->out, coloured ? "\033[0m" : "");
    tree_write_others(t, step);
    buf_char(t->out, '\n');
}

/* A step that is the only one below its parent stands at the parent's depth: a long chain goes straight down. */
static void tree_write_below(struct tree *t, uint32_t step)
{
    uint32_t child = t->first[step];
    for (; child != NO_STEP && t->next[child] == NO_STEP; child = t->first[child])
        tree_write_step(t, child, "↓ ");
    for (; child != NO_STEP && !t->out->full; child = t->next[child]) {
        bool is_last = t->next[child] == NO_STEP;
        size_t length = t->prefix.n;
        tree_write_step(t, child, is_last ? "└─ " : "├─ ");
        buf_text(&t->prefix, is_last ? "   " : "│  ");
        tree_write_below(t, child);
        buf_cut(&t->prefix, length);
    }
}

static enum err tree_write(const struct graph *g, bool colours, struct arena *a, struct buf *out, struct error *e)
{
    struct tree t = { .g = g, .out = out, .colours = colours };
    buf_init(&t.prefix, PREFIX_MAX);
    enum err rc = tree_init(&t, a, e);
    for (uint32_t i = 0; rc == ERR_OK && i < g->n; i++) {
        if (t.above[i] != NO_STEP)
            continue;
        tree_write_step(&t, i, "");
        tree_write_below(&t, i);
    }
    buf_release(&t.prefix);
    return rc;
}

/* ---- the forms ---- */

static bool graph_has_types(const struct graph_step *s)
{
    for (uint32_t k = 0; k < s->n; k++)
        if (s->in[k].type != DAG_MUST_SUCCEED)
            return true;
    return false;
}

/* Lines have no labels: what is not MUST_SUCCEED is said below. */
static void graph_write_types(const struct graph *g, struct buf *out)
{
    bool any = false;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct graph_step *s = &g->v[i];
        if (!graph_has_types(s))
            continue;
        buf_text(out, any ? "" : "\n");
        any = true;
        table_plain_text(s->name, SIZE_MAX, out);
        buf_text(out, " needs ");
        for (uint32_t k = 0; k < s->n && k < ALSO_MAX; k++) {
            buf_text(out, k ? ", " : "");
            table_plain_text(g->v[s->in[k].parent].name, SIZE_MAX, out);
            buf_printf(out, " %s", dag_type_names[s->in[k].type]);
        }
        if (s->n > ALSO_MAX)
            buf_printf(out, " and %u more", (unsigned)(s->n - ALSO_MAX));
        buf_char(out, '\n');
    }
}

enum err workflow_graph_text(const struct graph *g, size_t width, bool colours, struct arena *a, struct buf *out,
                             struct error *e)
{
    if (!workflow_boxes_draw(g, width, colours, a, out) && tree_write(g, colours, a, out, e))
        return e->code;
    graph_write_types(g, out);
    return ERR_OK;
}

void workflow_graph_dot(const struct graph *g, struct buf *out)
{
    static const char *const styles[] = { "", " [style=dashed, label=\"not fail\"]",
                                          " [style=dotted, label=\"finish\"]", " [color=red, label=\"fail\"]" };
    buf_text(out, "digraph workflow {\n  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n");
    for (uint32_t i = 0; i < g->n; i++) {
        const struct graph_step *s = &g->v[i];
        buf_printf(out, "  s%u [label=\"", (unsigned)i);
        json_escape(out, s->name);
        if (s->note.n) {
            buf_text(out, "\\n(");
            json_escape(out, s->note);
            buf_char(out, ')');
        }
        buf_char(out, '"');
        if (s->status.n)
            buf_printf(out, ", fillcolor=\"%s\"", workflow_status_look(s->status)->fill);
        buf_text(out, "];\n");
    }
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->v[i].n; k++)
            buf_printf(out, "  s%u -> s%u%s;\n", (unsigned)g->v[i].in[k].parent, (unsigned)i,
                       styles[g->v[i].in[k].type]);
    buf_text(out, "}\n");
}

/* A name within quotes: Mermaid knows no escapes, but entities. */
static void mermaid_write_text(struct str text, struct buf *out)
{
    cleanup_with(buf_release) struct buf plain;
    buf_init(&plain, 4096);
    table_plain_text(text, SIZE_MAX, &plain);
    for (size_t i = 0; i < plain.n; i++) {
        if (strchr("\"<>&#;", plain.p[i]))
            buf_printf(out, "#%d;", plain.p[i]);
        else
            buf_char(out, plain.p[i]);
    }
}

void workflow_graph_mermaid(const struct graph *g, struct buf *out)
{
    static const char *const arrows[] = { "-->", "-. not fail .->", "-. finish .->", "== fail ==>" };
    buf_text(out, "flowchart TD\n");
    for (uint32_t i = 0; i < g->n; i++) {
        buf_printf(out, "  s%u[\"", (unsigned)i);
        mermaid_write_text(g->v[i].name, out);
        if (g->v[i].note.n) {
            buf_text(out, " (");
            mermaid_write_text(g->v[i].note, out);
            buf_char(out, ')');
        }
        buf_text(out, "\"]\n");
        if (g->v[i].status.n)
            buf_printf(out, "  style s%u fill:%s\n", (unsigned)i, workflow_status_look(g->v[i].status)->fill);
    }
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->v[i].n; k++)
            buf_printf(out, "  s%u %s s%u\n", (unsigned)g->v[i].in[k].parent, arrows[g->v[i].in[k].type], (unsigned)i);
}
