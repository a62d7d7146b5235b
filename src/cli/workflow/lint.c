#include "cli/workflow/lint.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "workflow/text_place.h"

/* The line in "… (line 3, column 5)", which the JSON parser has at the end of a sentence; removes it from there. 0: it has
 * none. */
static size_t lint_take_line(struct error *e)
{
    static const char mark[] = " (line ";
    char *at = NULL;
    for (char *next = e->text; (next = strstr(next, mark)); next++)
        at = next;
    if (!at)
        return 0;
    size_t line = (size_t)strtoul(at + strlen(mark), NULL, 10);
    *at = '\0';
    return line;
}

/* False: it is no JSON. */
static bool lint_is_json(const struct buf *text, struct lint_errors *ret)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct error e = { 0 };
    if (!json_parse(buf_str(text), &doc, &e))
        return true;
    ret->v[0].line = lint_take_line(&e);
    ret->v[0].e = e;
    ret->n = 1;
    return false;
}

static int lint_compare(const void *a, const void *b)
{
    const struct lint_error *x = a, *y = b;
    int by_path = strcmp(x->e.field, y->e.field);
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line) : by_path;
}

/* The same, by line. */
static void lint_copy(const struct definition_errors *found, struct lint_errors *ret)
{
    for (size_t i = 0; i < found->n; i++)
        ret->v[i] = (struct lint_error){ .line = found->lines[i], .e = found->v[i] };
    ret->n = found->n;
    ret->has_more = found->has_more;
    qsort(ret->v, ret->n, sizeof ret->v[0], lint_compare);
}

void workflow_lint(struct buf *text, struct dag **ret, struct lint_errors *ret_errors)
{
    static const struct task_context no_server = { .keeps_hidden = true };
    cleanup_with(buf_release) struct buf compact;
    struct error first = { 0 };
    buf_init(&compact, text->max);
    *ret_errors = (struct lint_errors){ 0 };
    *ret = NULL;
    if (!lint_is_json(text, ret_errors))
        return;
    text_compact(buf_str(text), &compact);
    if (!definition_read(buf_str(&compact), &no_server, ret, &first))
        return;
    struct definition_errors *found = xnew(*found);
    definition_find_errors(text, &no_server, &first, LINT_ERRORS_MAX, SIZE_MAX, found);
    lint_copy(found, ret_errors);
    free(found);
}

void workflow_lint_hidden(const struct buf *text, struct lint_errors *ret)
{
    static const struct task_context new_definition;
    cleanup_with(dag_freep) struct dag *d = NULL;
    cleanup_with(buf_release) struct buf copy;
    struct error first = { 0 };
    buf_init(&copy, text->max);
    text_compact(buf_str(text), &copy);
    *ret = (struct lint_errors){ 0 };
    if (!str_contains_nocase(buf_str(text), S("\"***\"")) ||
        !definition_read(buf_str(&copy), &new_definition, &d, &first))
        return;
    struct definition_errors *found = xnew(*found);
    buf_reset(&copy);
    buf_add(&copy, buf_str(text));
    definition_find_errors(&copy, &new_definition, &first, LINT_ERRORS_MAX, SIZE_MAX, found);
    lint_copy(found, ret);
    free(found);
}
