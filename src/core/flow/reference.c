#include "core/flow/reference.h"

#include "base/sentence.h"

static const struct {
    const char *name;
    enum reference_root root;
    bool is_scalar; /* nothing can stand behind it */
} roots[] = {
    { "input", REFERENCE_INPUT, false },   { "item", REFERENCE_ITEM, false }, { "index", REFERENCE_INDEX, true },
    { "output", REFERENCE_OUTPUT, false }, { "run", REFERENCE_RUN, false },
}, parts[] = {
    { "output", REFERENCE_STEP_OUTPUT, false },
    { "status", REFERENCE_STEP_STATUS, true },
    { "error", REFERENCE_STEP_ERROR, true },
};

/* The members of /run, as the data of a run has them (src/workflow/run_view.c). */
static const struct {
    const char *name;
    bool is_scalar;
} run_members[] = {
    { "id", true },        { "name", true },       { "workflow", true },      { "version", true },
    { "attempt", true },   { "created_at", true }, { "scheduled_for", true }, { "opened_at", true },
    { "failures", false },
};

enum err step_name_check(struct str name, struct error *e)
{
    char shown[STR_CHAR_TEXT];
    if (name.n == 0 || name.n > STEP_NAME_MAX)
        return error_set(e, ERR_INVALID, "must be between 1 and %d bytes long, not %zu", STEP_NAME_MAX, name.n);
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool inner = i > 0 && (c == '-' || c == '.');
        if (!is_alpha(c) && !is_digit(c) && c != '_' && !inner)
            return error_set(e, ERR_INVALID,
                             "must not hold %s at position %zu; use letters, digits, '_', and behind them '-' and '.'",
                             str_show_char(c, shown), i + 1);
    }
    return ERR_OK;
}

/* Splits off the first token as it is written. Names of roots and steps need no escapes. */
static struct str reference_cut(struct str *rest)
{
    if (rest->n == 0)
        return (struct str){ 0 };
    size_t end = str_find(*rest, '/', 1);
    struct str token = str_sub(*rest, 1, end);
    *rest = str_sub(*rest, end, rest->n);
    return token;
}

static enum err reference_refuse_root(struct str name, struct error *e)
{
    char quoted[QUOTE_TEXT];
    struct suggest s;
    suggest_init(&s, name);
    suggest_offer(&s, S("steps"));
    for (size_t i = 0; i < array_count(roots); i++)
        suggest_offer(&s, str_from(roots[i].name));
    quote_text(name, quoted);
    if (s.closest.p)
        return error_set(e, ERR_INVALID, "has no root %s; did you mean '/" STR_FMT "'?", quoted, STR_ARG(s.closest));
    return error_set(e, ERR_INVALID,
                     "has no root %s; it must be /input, /steps/NAME/output, /steps/NAME/status, /steps/NAME/error, "
                     "/item, /index, /output or /run",
                     quoted);
}

static enum err reference_read_step(struct reference *r, struct error *e)
{
    char quoted[QUOTE_TEXT];
    r->step = reference_cut(&r->rest);
    if (r->step.n == 0)
        return error_set(e, ERR_INVALID, "must name a step: /steps/NAME/output");
    struct str part = reference_cut(&r->rest);
    quote_text(part, quoted);
    for (size_t i = 0; i < array_count(parts); i++) {
        if (!str_eq(part, str_from(parts[i].name)))
            continue;
        if (parts[i].is_scalar && r->rest.n)
            return error_set(e, ERR_INVALID, "goes on behind '%s', which is a text", parts[i].name);
        r->root = parts[i].root;
        return ERR_OK;
    }
    if (part.n == 0)
        return error_set(e, ERR_INVALID, "must go on with output, status or error: /steps/" STR_FMT "/output",
                         STR_ARG(str_utf8_cut(r->step, STEP_NAME_MAX)));
    return error_set(e, ERR_INVALID, "must name output, status or error of a step, not %s", quoted);
}

static enum err reference_check_run(struct str rest, struct error *e)
{
    char quoted[QUOTE_TEXT];
    struct suggest s;
    struct str name = reference_cut(&rest);
    suggest_init(&s, name);
    for (size_t i = 0; i < array_count(run_members); i++) {
        suggest_offer(&s, str_from(run_members[i].name));
        if (!str_eq(name, str_from(run_members[i].name)))
            continue;
        if (run_members[i].is_scalar && rest.n)
            return error_set(e, ERR_INVALID, "goes on behind '/run/%s', which is no object", run_members[i].name);
        return ERR_OK;
    }
    quote_text(name, quoted);
    if (s.closest.p)
        return error_set(e, ERR_INVALID, "names %s, which /run does not have; did you mean '/run/" STR_FMT "'?", quoted,
                         STR_ARG(s.closest));
    return error_set(e, ERR_INVALID,
                     "names %s, which /run does not have; it has id, name, workflow, version, attempt, created_at, "
                     "scheduled_for, opened_at and failures",
                     quoted);
}

enum err reference_read(struct str text, struct reference *ret, struct error *e)
{
    if (pointer_check(text, e))
        return ERR_INVALID;
    struct reference r = { .text = text, .rest = text };
    struct str first = reference_cut(&r.rest);
    if (str_eq(first, S("steps"))) {
        if (reference_read_step(&r, e))
            return ERR_INVALID;
        *ret = r;
        return ERR_OK;
    }
    for (size_t i = 0; i < array_count(roots); i++) {
        if (!str_eq(first, str_from(roots[i].name)))
            continue;
        if (roots[i].is_scalar && r.rest.n)
            return error_set(e, ERR_INVALID, "goes on behind '/index', which is a number");
        r.root = roots[i].root;
        if (r.root == REFERENCE_RUN && r.rest.n && reference_check_run(r.rest, e))
            return ERR_INVALID;
        *ret = r;
        return ERR_OK;
    }
    return reference_refuse_root(first, e);
}

enum err reference_value(const struct reference_data *d, const struct reference *r, json_t **ret, struct error *e)
{
    json_t *root = NULL;
    enum err rc = d->find(d->ctx, r, &root, e);
    if (rc == ERR_OK)
        *ret = pointer_get(r->rest, root);
    return rc;
}
