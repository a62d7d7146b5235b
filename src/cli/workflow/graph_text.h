#pragma once
/* cli/workflow/graph_text.h - the graph of a workflow as text for a terminal, as DOT (Graphviz) or as Mermaid.
 *
 * On a terminal a small graph is drawn as boxes, layer by layer from top to bottom. A graph that is too wide, or whose
 * lines would be hard to follow, is an indented tree: a step stands below the parent that is closest to it, and "↳ also after …"
 * names its other parents. */
#include "base/arena.h"
#include "base/buf.h"
#include "core/flow/dag.h"

struct graph_edge {
    uint32_t parent;
    enum dag_type type;
};

struct graph_step {
    struct str name;
    struct str note;   /* "map", "await approved", "ANY"; may be empty */
    struct str status; /* of the step in a run; empty: it is a definition */
    struct graph_edge *in;
    uint32_t n;     /* of in */
    uint32_t layer; /* filled by workflow_graph_layer */
};

struct graph {
    struct graph_step *v;
    uint32_t n;
    uint32_t layers;
};

enum { GRAPH_MEMORY_MAX = 256 << 20 };

/* The graph of a definition. Everything lives in the arena, or is borrowed from the definition. */
enum err workflow_graph_of(const struct dag *d, struct arena *a, struct graph *ret, struct error *e) must_use;

/* Computes the layers. Steps that depend on each other in a circle, which no definition has, are ERR_INVALID. */
enum err workflow_graph_layer(struct graph *g, struct arena *a, struct error *e) must_use;

/* width: columns of the terminal; colours: by status. */
enum err workflow_graph_text(const struct graph *g, size_t width, bool colours, struct arena *a, struct buf *out,
                             struct error *e) must_use;
void workflow_graph_dot(const struct graph *g, struct buf *out);
void workflow_graph_mermaid(const struct graph *g, struct buf *out);

/* How a status is shown: its colour on a terminal ("\033[32m"), a character ("✓"), and a colour for drawings ("#2e7d32"). */
struct status_look {
    const char *status, *colour, *sign, *fill;
};
const struct status_look *workflow_status_look(struct str status); /* never NULL */
