#pragma once
/* core/flow/dag.h - the definition of a workflow: a graph of steps, read from JSON, checked and compiled.
 *
 * A step waits for its parents by edges. The type of an edge says how a final parent counts, and the join of the child
 * says what the counts decide (core/flow/flow.h). "*" stands for every step whose depends_on has no "*".
 *
 * A compiled definition is immutable and owns its memory: any thread may read it, and it may be cached. It keeps the
 * text of each step; who runs a step parses that text for its target, its condition and its references
 * (core/flow/step_data.h). */
#include "core/flow/reference.h"

enum {
    DAG_STEPS_MAX = 10000,
    DAG_EDGES_MAX = 100000,
    DAG_TEXT_MAX = 4 << 20,
    DAG_REFERENCES_MAX = 100, /* of one step, or of the result */
    DAG_ITEMS_MAX = 10000,    /* of one map */
    DAG_APPROVALS_MAX = 1000, /* the signals that one await can have */
};

enum dag_type { DAG_MUST_SUCCEED, DAG_MUST_NOT_FAIL, DAG_MUST_FINISH, DAG_MUST_FAIL };
enum dag_join { DAG_ALL, DAG_ANY, DAG_SOME };

struct dag_edge {
    uint32_t step; /* the other end */
    uint32_t at;   /* its index in depends_on of the child */
    enum dag_type type;
    bool named; /* not by "*" */
};

struct dag_edges {
    const struct dag_edge *v;
    uint32_t n;
};

struct dag_await {
    struct str signal; /* empty: the step awaits none */
    int64_t approvals;
    int64_t timeout_ms;  /* 0: none */
    bool has_on_timeout; /* a timeout completes the step with the value of on_timeout; else it fails the step */
};

struct dag_map {
    bool is_set;
    int64_t max_concurrent; /* 0: no limit */
    int64_t max_failures;
};

struct dag_step {
    struct str name;
    struct str text;      /* the step's JSON object */
    struct dag_edges in;  /* by parent; edges of one parent are neighbours. Its join expects in.n arrivals */
    struct dag_edges out; /* by child, likewise */
    uint32_t parents;     /* distinct ones */
    uint32_t breaking;    /* of these: parents that can break the join */
    uint32_t layer;       /* 0: no parents; else one more than the highest layer of a parent */
    enum dag_join join;
    struct dag_await await;
    struct dag_map map;
    int64_t delay_ms; /* between its release and its due time */
    bool may_fail, has_when, is_workflow;
    bool has_compensate, compensate_if_attempted;
    bool ends_run;    /* it counts for the end of the run: no child of it waits for it in any case */
    bool output_used; /* somebody refers to its output, which therefore is kept */
    bool keeps_input; /* it may start before all that it refers to is final: it keeps what it resolved first */
};

struct dag {
    struct arena memory;
    struct str text; /* the whole definition */
    struct dag_step *steps;
    uint32_t n;
    uint32_t edges;
    uint32_t *order; /* of steps: parents before children; by layer */
    uint32_t layers;
    bool has_compensate;
    struct str result; /* its JSON text; empty: none */
    struct dag_name *names;
};

/* Reads and checks a definition. Errors have the path as field ("steps[3].depends_on[0]"); ERR_LIMIT: it needs more
 * memory than is allowed. The fields that a step has in common with a task are checked by name only: their values are
 * the task's own matter (src/api/task). */
enum err dag_read(struct str text, struct dag **ret, struct error *e) must_use;
void dag_free(struct dag *d); /* NULL is fine */
void dag_freep(struct dag **d);
size_t dag_bytes(const struct dag *d); /* of memory, for a cache */

bool dag_find(const struct dag *d, struct str name, uint32_t *ret_step);
/* "no step is named 'extrct'; did you mean 'extract'?"; ERR_NOT_FOUND */
enum err dag_find_or_explain(const struct dag *d, struct str name, uint32_t *ret_step, struct error *e) must_use;

/* Sets a flag for every step below one whose flag is set in `from`, which may be `below` itself. */
void dag_mark_below(const struct dag *d, const bool *from, bool *below);

/* Whether a field of a step is one of a task: its value is not read here. */
bool dag_is_task_field(struct str name);

/* The table that a definition is read by, so that its description can be compared with it. */
const struct json_field *dag_fields(size_t *ret_count);

extern const char *const dag_type_names[]; /* NULL at the end, like the next */
extern const char *const dag_join_names[];
