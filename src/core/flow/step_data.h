#pragma once
/* core/flow/step_data.h - the data of a step: its condition, its items, its target, with references resolved.
 *
 * References may stand in target_config.url, .headers, .body and .input, in payload and in map.over; of a compensation
 * likewise. Everything else is taken as it is. Resolving may take some milliseconds: call it off the loop. */
#include "base/json/jsonw.h"
#include "core/flow/dag.h"

enum { STEP_RESOLVED_MAX = 1 << 20 }; /* bytes of a resolved config, payload, list of items or result */

struct step_data {
    struct json_doc doc; /* the text is the definition's */
};

enum step_part { STEP_ITSELF, STEP_COMPENSATION };

enum err step_data_read(const struct dag_step *s, struct step_data *ret, struct error *e) must_use;
void step_data_release(struct step_data *s);

/* Whether the step's condition holds; a step without one always runs. */
enum err step_data_when(const struct step_data *s, const struct reference_data *d, bool *ret, struct error *e) must_use;

/* What the step is to be called with, as JSON texts in the arena. A field that the step does not have is empty. The
 * error's field is the path within the step ("target_config.body.id"). */
struct step_target {
    struct str config, payload;
};
enum err step_data_target(const struct step_data *s, enum step_part part, const struct reference_data *d,
                          struct arena *a, struct step_target *ret, struct error *e) must_use;

/* The items of a step with `map`: a JSON array of at most DAG_ITEMS_MAX, as text in the arena. */
enum err step_data_items(const struct step_data *s, const struct reference_data *d, struct arena *a, struct str *ret,
                         size_t *ret_count, struct error *e) must_use;

/* The output of an await whose time is over; empty: the step fails. */
struct str step_data_on_timeout(const struct step_data *s, struct arena *a);

/* The result of a run; without one in the definition, null. */
enum err dag_result(const struct dag *d, const struct reference_data *data, struct arena *a, struct str *ret,
                    struct error *e) must_use;

/* Checks the templates of a step's target or a compensation's (a JSON object with target_config and payload) and
 * visits their references. */
enum err step_target_check(json_t *fields, const struct reference_visitor *v, struct error *e) must_use;
