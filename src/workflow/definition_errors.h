#pragma once
/* workflow/definition_errors.h - all errors of a definition at once, so that its author corrects them in one go.
 *
 * Any thread: the functions act on their arguments. */
#include "workflow/definition.h"

enum { DEFINITION_ERRORS_MAX = 20 };

struct definition_errors {
    struct error v[DEFINITION_ERRORS_MAX]; /* in the order in which they are found */
    size_t n;
};

/* Reads a definition as definition_read does. If it is refused, *errors has the first error and others that do not
 * follow from it, as far as they can be found in a limited time. */
enum err definition_read_all(struct str text, const struct task_context *c, struct dag **ret,
                             struct definition_errors *errors) must_use;
