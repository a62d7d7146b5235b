#pragma once
/* cli/workflow/lint.h - finds the errors of a definition, not only the first.
 *
 * definition_read stops at the first error. Here the error is noted and mended in the text, which is read again:
 *  - a misspelled name becomes the one that was meant;
 *  - a wrong field is taken out;
 *  - a wrong dependency becomes one on a step that is added at the end.
 * An error that may follow from an earlier one is mended, too, but not noted. Mending changes no line and no path. */
#include "base/buf.h"
#include "core/flow/dag.h"

enum { LINT_ERRORS_MAX = 50 };

struct lint_error {
    size_t line;
    struct error e;
};

struct lint_errors {
    struct lint_error v[LINT_ERRORS_MAX]; /* by line */
    size_t n;
    bool has_more; /* there may be more: the check has stopped */
};

/* text: JSON, each value on its line of the file. If it has no error, *ret is the definition and ret_errors->n is 0;
 * otherwise the text is changed. */
void workflow_lint(struct buf *text, struct dag **ret, struct lint_errors *ret_errors);
