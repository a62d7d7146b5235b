#include "cli/workflow/lint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "cli/workflow/place.h"
#include "workflow/definition.h"

enum { LOOKS_MAX = 200, FIELD_TEXT = 96, NAME_TEXT = 64, NOTES_MAX = 64 * 1024 };

struct lint {
    struct buf *text;
    struct lint_errors *errors;
    struct buf mended; /* paths that were changed, each between two line ends */
    bool lost_edges;   /* a dependency was replaced: a step may no longer wait for what it refers to */
    unsigned added;    /* names that were made up */
};

/* ---- paths ---- */

/* The index of the step in "steps[3].name"; -1: it is elsewhere. */
static long lint_step_of(const char *field)
{
    static const char start[] = "steps[";
    return strncmp(field, start, strlen(start)) == 0 ? strtol(field + strlen(start), NULL, 10) : -1;
}

/* "target_config.url" of "steps[3].target_config.url"; "" if it is the step itself. */
static const char *lint_below_step(const char *field)
{
    const char *dot = strchr(field, ']');
    return dot && dot[1] == '.' ? dot + 2 : "";
}

static bool lint_is_depends(const char *field)
{
    return strncmp(lint_below_step(field), "depends_on[", strlen("depends_on[")) == 0;
}

static void lint_step_path(long step, const char *member, char out[FIELD_TEXT])
{
    snprintf(out, FIELD_TEXT, "steps[%ld]%s%s", step, member[0] ? "." : "", member);
}

static struct workflow_place lint_find(const struct lint *l, const char *path)
{
    return workflow_place_find(buf_str(l->text), str_from(path));
}

/* ---- changing the text: lines stay ---- */

static void lint_blank(struct lint *l, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (l->text->p[i] != '\n')
            l->text->p[i] = ' ';
}

/* The next byte that is no blank, from `at` on in this direction. */
static size_t lint_skip(const struct lint *l, size_t at, int direction)
{
    while (at > 0 && at < l->text->n && strchr(" \t\r\n", l->text->p[at]))
        at = direction > 0 ? at + 1 : at - 1;
    return at;
}

/* Replaces `bytes` bytes. False: there is no room. */
static bool lint_splice(struct lint *l, size_t at, size_t bytes, struct str by)
{
    struct buf changed;
    struct str text = buf_str(l->text);
    buf_init(&changed, l->text->max);
    buf_add(&changed, str_sub(text, 0, at));
    buf_add(&changed, by);
    buf_add(&changed, str_sub(text, at + bytes, text.n));
    buf_release(l->text);
    *l->text = changed;
    return !l->text->full;
}

/* Takes a member out of its object, with a comma. */
static bool lint_drop(struct lint *l, const struct workflow_place *p)
{
    size_t key = p->at - 1, end = (size_t)(p->value.p - l->text->p) + p->value.n;
    size_t after = lint_skip(l, end, 1), before = lint_skip(l, key - 1, -1);
    lint_blank(l, key, end);
    if (after < l->text->n && l->text->p[after] == ',')
        l->text->p[after] = ' ';
    else if (l->text->p[before] == ',')
        l->text->p[before] = ' ';
    return true;
}

static bool lint_drop_path(struct lint *l, const char *path)
{
    struct workflow_place p = lint_find(l, path);
    return p.is_whole && p.is_member && lint_drop(l, &p);
}

/* Adds a member at the beginning of a step. */
static bool lint_add_member(struct lint *l, long step, const char *member, const char *value)
{
    char path[FIELD_TEXT], text[FIELD_TEXT + NAME_TEXT];
    lint_step_path(step, "", path);
    struct workflow_place p = lint_find(l, path);
    if (!p.is_whole || p.value.p[0] != '{')
        return false;
    size_t at = (size_t)(p.value.p - l->text->p) + 1;
    bool is_empty = l->text->p[lint_skip(l, at, 1)] == '}';
    snprintf(text, sizeof text, "\"%s\":\"%s\"%s", member, value, is_empty ? "" : ",");
    return lint_splice(l, at, 0, str_from(text));
}

static void lint_make_name(struct lint *l, char out[NAME_TEXT])
{
    snprintf(out, NAME_TEXT, "lint.%u.made.this.name", l->added++);
}

/* Adds a step at the end, so that no path changes. */
static bool lint_add_step(struct lint *l, char ret_name[NAME_TEXT])
{
    char text[2 * NAME_TEXT];
    struct workflow_place p = lint_find(l, "steps");
    if (!p.is_whole || p.value.p[0] != '[')
        return false;
    lint_make_name(l, ret_name);
    snprintf(text, sizeof text, ",{\"name\":\"%s\",\"target_type\":\"NOOP\"}", ret_name);
    return lint_splice(l, (size_t)(p.value.p - l->text->p) + p.value.n - 1, 0, str_from(text));
}

static bool lint_set_text(struct lint *l, const char *path, const char *value)
{
    char text[NAME_TEXT + 2];
    struct workflow_place p = lint_find(l, path);
    if (!p.is_whole)
        return false;
    size_t at = (size_t)(p.value.p - l->text->p), lines = 0;
    for (size_t i = 0; i < p.value.n; i++)
        lines += p.value.p[i] == '\n';
    snprintf(text, sizeof text, "\"%s\"", value);
    if (!lint_splice(l, at, p.value.n, str_from(text)))
        return false;
    for (; lines; lines--)
        if (!lint_splice(l, at + strlen(text), 0, S("\n")))
            return false;
    return true;
}

/* ---- mending ---- */

/* The text between quotes that begins at `mark`. */
static struct str lint_quoted(const char *text, const char *mark)
{
    const char *from = strstr(text, mark), *to = from ? strchr(from + strlen(mark), '\'') : NULL;
    return to ? (struct str){ from + strlen(mark), (size_t)(to - from) - strlen(mark) } : S("");
}

/* "priority" for a field that is unknown: the key is changed, unless the object has one of that name. */
static bool lint_rename_key(struct lint *l, const struct workflow_place *p, const struct error *e)
{
    char sibling[FIELD_TEXT + NAME_TEXT];
    struct str meant = lint_quoted(e->text, "did you mean '");
    const char *dot = strrchr(e->field, '.');
    int above = dot ? (int)(dot - e->field) + 1 : 0;
    if (strncmp(e->text, "is unknown", strlen("is unknown")) != 0 || !meant.n || meant.n >= NAME_TEXT)
        return false;
    snprintf(sibling, sizeof sibling, "%.*s" STR_FMT, above, e->field, STR_ARG(meant));
    size_t key = str_find(str_sub(buf_str(l->text), p->at, l->text->n), '"', 0);
    return !lint_find(l, sibling).is_whole && lint_splice(l, p->at, key, meant);
}

/* Writes the name that an error proposes in place of the wrong one: "no step is named 'x'; did you mean 'y'?". */
static bool lint_accept(struct lint *l, const struct workflow_place *p, const struct error *e)
{
    struct str wrong = lint_quoted(e->text, "'"), meant = lint_quoted(e->text, "did you mean '");
    if (!meant.n || !wrong.n || p->value.p[0] != '"')
        return false;
    for (size_t i = 1; i + wrong.n < p->value.n; i++)
        if (str_starts(str_sub(p->value, i, p->value.n), wrong))
            return lint_splice(l, (size_t)(p->value.p - l->text->p) + i, wrong.n, meant);
    return false;
}

/* Leaves a step nothing but its place in the graph. */
static bool lint_reduce_step(struct lint *l, long step)
{
    static const char *const kept[] = { "name", "depends_on", "join" };
    char path[FIELD_TEXT], member[FIELD_TEXT];
    lint_step_path(step, "", path);
    for (bool again = true; again;) {
        struct workflow_place p = lint_find(l, path);
        struct json_cursor c = { .text = p.value };
        struct str name, value;
        again = false;
        while (!again && p.is_whole && json_next(&c, &name, &value)) {
            bool keep = false;
            for (size_t i = 0; i < array_count(kept); i++)
                keep |= str_eq(name, str_from(kept[i]));
            snprintf(member, sizeof member, "steps[%ld]." STR_FMT, step, STR_ARG(str_utf8_cut(name, NAME_TEXT)));
            again = !keep && lint_drop_path(l, member);
        }
    }
    return lint_add_member(l, step, "target_type", "NOOP");
}

/* Something is missing at the path, or the value around it is wrong as a whole. */
static bool lint_mend_missing(struct lint *l, const struct workflow_place *around, const struct error *e)
{
    long step = lint_step_of(e->field);
    const char *member = lint_below_step(e->field);
    char name[NAME_TEXT], path[FIELD_TEXT];
    if (step < 0)
        return false;
    if (strcmp(member, "name") == 0) {
        lint_make_name(l, name);
        return lint_add_member(l, step, "name", name);
    }
    if (strchr(member, '.') && around->is_member)
        return lint_drop(l, around);
    lint_step_path(step, "target_type", path);
    return lint_find(l, path).is_whole ? lint_reduce_step(l, step) : lint_add_member(l, step, "target_type", "NOOP");
}

static bool lint_mend_element(struct lint *l, const struct workflow_place *p, const struct error *e)
{
    char name[NAME_TEXT], path[FIELD_TEXT];
    const char *bracket = strrchr(e->field, '[');
    if (lint_accept(l, p, e))
        return true;
    if (lint_is_depends(e->field)) {
        l->lost_edges = true;
        return lint_add_step(l, name) && lint_set_text(l, e->field, name);
    }
    snprintf(path, sizeof path, "%.*s", bracket ? (int)(bracket - e->field) : 0, e->field);
    return lint_step_of(path) >= 0 && lint_drop_path(l, path);
}

static bool lint_mend(struct lint *l, const struct error *e)
{
    struct workflow_place p = lint_find(l, e->field);
    char name[NAME_TEXT];
    if (!e->field[0])
        return false;
    if (!p.is_whole)
        return lint_mend_missing(l, &p, e);
    if (!p.is_member)
        return lint_mend_element(l, &p, e);
    if (lint_rename_key(l, &p, e) || lint_accept(l, &p, e))
        return true;
    if (strcmp(lint_below_step(e->field), "name") == 0) {
        lint_make_name(l, name);
        return lint_set_text(l, e->field, name);
    }
    l->lost_edges |= strncmp(lint_below_step(e->field), "depends_on", strlen("depends_on")) == 0;
    return strcmp(e->field, "steps") != 0 && lint_drop(l, &p);
}

/* ---- errors ---- */

/* Whether a path is this one, or leads into its value. */
static bool lint_is_below(struct str path, struct str above)
{
    return above.n && str_starts(path, above) && (path.n == above.n || strchr(".[", path.p[above.n]));
}

/* Whether the error may be there only because an earlier one was mended. */
static bool lint_follows(const struct lint *l, const struct error *e)
{
    char step[FIELD_TEXT + 2];
    struct str rest = buf_str(&l->mended), line;
    bool is_whole = lint_find(l, e->field).is_whole, same_step = false, is_around = false;
    snprintf(step, sizeof step, "steps[%ld].", lint_step_of(e->field));
    while (str_cut(&rest, '\n', &line)) {
        same_step |= str_starts(line, str_from(step));
        is_around |= lint_is_below(line, str_from(e->field));
    }
    return is_around || (same_step && (!is_whole || strstr(e->text, "has a meaning only"))) ||
           (l->lost_edges && strstr(e->text, "does not wait for"));
}

static void lint_note(struct lint *l, size_t line, const struct error *e)
{
    struct lint_errors *x = l->errors;
    if (x->n < LINT_ERRORS_MAX)
        x->v[x->n++] = (struct lint_error){ .line = line, .e = *e };
    else
        x->has_more = true;
}

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

/* Reads the text. True: it has an error, with the line. */
static bool lint_read(struct lint *l, struct dag **ret, size_t *ret_line, bool *ret_is_json, struct error *e)
{
    static const struct task_context no_server;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, l->text->max);
    *ret_is_json = !json_parse(buf_str(l->text), &doc, e);
    if (!*ret_is_json) {
        *ret_line = lint_take_line(e);
        return true;
    }
    workflow_text_compact(buf_str(l->text), &text);
    if (!definition_read(buf_str(&text), &no_server, ret, e))
        return false;
    struct workflow_place p = lint_find(l, e->field);
    *ret_line = workflow_place_line(buf_str(l->text), &p);
    return true;
}

static int lint_compare(const void *a, const void *b)
{
    const struct lint_error *x = a, *y = b;
    int by_path = strcmp(x->e.field, y->e.field);
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line) : by_path;
}

void workflow_lint(struct buf *text, struct dag **ret, struct lint_errors *ret_errors)
{
    struct lint l = { .text = text, .errors = ret_errors };
    struct error before = { 0 };
    bool mended = true;
    int same = 0; /* how often the error came again */
    buf_init(&l.mended, NOTES_MAX);
    *ret_errors = (struct lint_errors){ 0 };
    for (int i = 0; mended; i++) {
        struct error e = { 0 };
        size_t line = 0;
        bool is_json;
        dag_freep(ret);
        *ret = NULL;
        if (!lint_read(&l, ret, &line, &is_json, &e))
            break;
        same = strcmp(e.field, before.field) == 0 && strcmp(e.text, before.text) == 0 ? same + 1 : 0;
        if (is_json ? !lint_follows(&l, &e) : !ret_errors->n)
            lint_note(&l, line, &e);
        mended = is_json && i < LOOKS_MAX && !ret_errors->has_more && same < 2 &&
                 (same ? lint_reduce_step(&l, lint_step_of(e.field)) : lint_mend(&l, &e));
        ret_errors->has_more |= !mended && lint_step_of(e.field) >= 0;
        buf_printf(&l.mended, "\n%s\n", e.field);
        before = e;
    }
    if (ret_errors->n)
        dag_freep(ret);
    if (ret_errors->n)
        *ret = NULL;
    qsort(ret_errors->v, ret_errors->n, sizeof ret_errors->v[0], lint_compare);
    buf_release(&l.mended);
}
