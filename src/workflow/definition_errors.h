#pragma once
/* workflow/definition_errors.h - all errors of a definition at once, so that its author corrects them in one go.
 *
 * definition_read stops at the first error. The API answers with all, and `belfry workflow lint` prints them.
 *
 * Any thread: the functions act on their arguments. */
#include "base/buf.h"
#include "workflow/definition.h"

enum { DEFINITION_ERRORS_MAX = 50 };

struct definition_errors {
    struct error v[DEFINITION_ERRORS_MAX]; /* in the order in which they are found */
    size_t lines[DEFINITION_ERRORS_MAX];   /* of the text, from 1 on */
    size_t n;
    bool has_more; /* there may be more: the search has stopped */
};

/* Reads a definition as definition_read does. If it is refused, *errors has the first error and others that do not
 * follow from it, at most 20, as far as they can be found in a limited time. */
enum err definition_read_all(struct str text, const struct task_context *c, struct dag **ret,
                             struct definition_errors *errors) must_use;

/* The errors of a text that definition_read has refused because of *first. The text is JSON and is changed. max: at
 * most DEFINITION_ERRORS_MAX. bytes_max: how much text is searched; a text is searched several times for each error. */
void definition_find_errors(struct buf *text, const struct task_context *c, const struct error *first, size_t max,
                            size_t bytes_max, struct definition_errors *ret);
