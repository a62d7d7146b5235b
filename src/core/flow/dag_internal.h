#pragma once
/* core/flow/dag_internal.h - the parts of reading a definition: dag_read.c reads the JSON, dag_graph.c makes the graph
 * of it, dag_references.c checks its references. Nobody else includes this. */
#include "core/flow/dag.h"

struct dag_name {
    struct str name;
    uint32_t step;
};

/* An edge as it was read. */
struct dag_link {
    uint32_t parent;
    uint32_t at;
    enum dag_type type;
    bool named;
};

/* The links of all steps, child by child. */
struct dag_links {
    struct dag_link *v;
    uint32_t n, cap;
    uint32_t *from; /* links of step i: from[i] to from[i + 1] */
};

enum { DAG_PATH_TEXT = 48 };

/* "steps[3]" */
const char *dag_step_path(uint32_t step, char out[DAG_PATH_TEXT]);

static inline bool dag_type_can_break(enum dag_type t)
{
    return t == DAG_MUST_SUCCEED || t == DAG_MUST_NOT_FAIL;
}

/* Whether the child's join cannot be decided before a parent is final; can_break: that parent can break the join. */
static inline bool dag_waits_for(const struct dag_step *child, bool can_break)
{
    if (child->parents == 1 || child->join == DAG_SOME)
        return true;
    return child->join == DAG_ALL && child->breaking == can_break;
}

/* Goes over the parents of a step or over its children: takes the edges to the next one, which are neighbours.
 *   for (uint32_t at = 0; dag_next(&s->in, &at, &parent, &can_break);) … */
bool dag_next(const struct dag_edges *edges, uint32_t *at, uint32_t *ret_step, bool *ret_can_break);

/* Sorts the steps by name. A name that occurs twice is refused. */
enum err dag_index_names(struct dag *d, struct error *e) must_use;

/* Fills in, out, parents, layers, order and ends_run. A cycle is refused. */
enum err dag_link_steps(struct dag *d, const struct dag_links *links, struct error *e) must_use;

/* Checks the references of all steps and of the result; fills output_used and keeps_input. */
enum err dag_check_references(struct dag *d, json_t *root, struct error *e) must_use;
