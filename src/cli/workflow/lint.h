#pragma once
/* cli/workflow/lint.h - the errors of a definition in a file, by line (workflow/definition_errors.h). */
#include "base/buf.h"
#include "workflow/definition_errors.h"

enum { LINT_ERRORS_MAX = DEFINITION_ERRORS_MAX };

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

/* The secret headers that are ***, of a text without errors. The server keeps their values if it has any. */
void workflow_lint_hidden(const struct buf *text, struct lint_errors *ret);
