#pragma once
/* core/flow/reference.h - references of a workflow's definition into the data of its run.
 *
 *   /input/…              the input of the run
 *   /steps/NAME/output/…  the output of a step; of a step with `map`, the array of its items' outputs
 *   /steps/NAME/status    "COMPLETED", "SKIPPED" …
 *   /steps/NAME/error     the last error of a step; no value if it has none
 *   /item/…, /index       of a step with `map`: its item and the item's index from 0
 *   /output/…             within `compensate`: the output of the step or item that is compensated
 *   /run/…                the run itself, with `failures`
 *
 * The rest behind these is a JSON pointer. */
#include "core/flow/pointer.h"

enum reference_root {
    REFERENCE_INPUT,
    REFERENCE_STEP_OUTPUT,
    REFERENCE_STEP_STATUS,
    REFERENCE_STEP_ERROR,
    REFERENCE_ITEM,
    REFERENCE_INDEX,
    REFERENCE_OUTPUT,
    REFERENCE_RUN,
};

/* All texts are borrowed from the definition. */
struct reference {
    enum reference_root root;
    struct str text; /* the whole reference */
    struct str step; /* REFERENCE_STEP_*: the name of the step */
    struct str rest; /* the pointer within the root's value */
};

enum err reference_read(struct str text, struct reference *ret, struct error *e) must_use;

/* The names of steps: letters, digits, '_', '-' and '.', not beginning with '-' or '.'. So a name needs no escape in a
 * reference, in an address or on a command line. */
enum { STEP_NAME_MAX = 64 };
enum err step_name_check(struct str name, struct error *e) must_use;

/* The data of a run, for one step. `find` gives the value of the reference's root, without `rest`: *ret is borrowed
 * until the data is released, or NULL if there is no such value, as of the output of a step that was skipped. An error
 * means that there is a value that cannot be used: too large, cut, not JSON. */
struct reference_data {
    void *ctx;
    enum err (*find)(void *ctx, const struct reference *r, json_t **ret, struct error *e);
};

/* *ret: the value that the reference names; NULL if there is none. */
enum err reference_value(const struct reference_data *d, const struct reference *r, json_t **ret,
                         struct error *e) must_use;

/* Visits references. An error ends the visit. */
struct reference_visitor {
    void *ctx;
    enum err (*visit)(void *ctx, const struct reference *r, struct error *e);
};
