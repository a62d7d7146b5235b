/* An error is taken out of the definition, which is read again, until it has none. A value is removed, or replaced by
 * the one that the error proposes. An error that follows from such a change is not listed: its field is the one that
 * was removed, or around it, or it names one beside it, or it misses a step whose name was changed. */
#include "workflow/definition_errors.h"

#include <stdio.h>
#include <stdlib.h>

enum { TEXT_BYTES_MAX = 1 << 20, MENDED_BYTES_MAX = 8 << 20, REMOVED_MAX = DEFINITION_ERRORS_MAX, NAME_TEXT = 32 };

struct mending {
    json_t *root;
    struct definition_errors *errors;
    struct {
        size_t step, at;
    } removed[REMOVED_MAX]; /* elements of depends_on, by the index that they had */
    size_t removed_count;
    bool renamed; /* a step has another name: others may miss it */
};

/* ---- paths ---- */

/* The value that the path leads to, as far as there is one. */
struct mending_place {
    json_t *parent; /* NULL: it is the root */
    const char *name;
    size_t index; /* parent is an array */
    json_t *step; /* the step that it is in; NULL: in none */
    size_t step_index;
    bool whole; /* the path ends here, or goes on with '$' only */
    bool exact; /* it ends here */
};

static const char *mending_find_member(json_t *object, const char *path, const char **ret_rest)
{
    const char *name;
    json_t *v;
    json_object_foreach (object, name, v) {
        size_t n = strlen(name);
        if (strncmp(path, name, n) == 0 && (!path[n] || path[n] == '.' || path[n] == '[')) {
            *ret_rest = path + n + (path[n] == '.');
            return name;
        }
    }
    return NULL;
}

static struct mending_place mending_find(json_t *root, const char *path)
{
    struct mending_place p = { 0 };
    json_t *at = root;
    while (*path && *path != '$') { /* "$ref" and the like belong to the value that they make */
        if (json_is_array(at) && *path == '[') {
            char *end;
            size_t i = strtoul(path + 1, &end, 10);
            if (*end != ']' || i >= json_array_size(at))
                return p;
            bool is_step = p.parent == root && p.name && strcmp(p.name, "steps") == 0;
            p.parent = at;
            p.name = NULL;
            p.index = i;
            at = json_array_get(at, i);
            p.step = is_step ? at : p.step;
            p.step_index = is_step ? i : p.step_index;
            path = end + 1 + (end[1] == '.');
            continue;
        }
        const char *rest, *name = mending_find_member(at, path, &rest);
        if (!name)
            return p;
        p.parent = at;
        p.name = name;
        at = json_object_get(at, name);
        path = rest;
    }
    p.whole = p.parent != NULL;
    p.exact = p.whole && !*path;
    return p;
}

/* ---- changes ---- */

/* A step needs something to do, and `join` something to wait for. */
static void mending_complete_step(json_t *step)
{
    bool calls = json_object_get(step, "target_config") || json_object_get(step, "target_type");
    if (!calls && !json_object_get(step, "await"))
        json_object_set_new(step, "target_type", json_string("NOOP"));
    if (json_array_size(json_object_get(step, "depends_on")) == 0)
        json_object_del(step, "join");
}

/* Only what others see of it is left. */
static void mending_clear_step(json_t *step)
{
    const char *name;
    json_t *v;
    void *next;
    json_object_foreach_safe(step, next, name, v) if (strcmp(name, "name") != 0 && strcmp(name, "depends_on") != 0)
        json_object_del(step, name);
}

static void mending_rename(struct mending *m, const struct mending_place *p)
{
    char name[NAME_TEXT];
    snprintf(name, sizeof name, "_%zu", p->step_index);
    json_object_set_new(p->step, "name", json_string(name));
    m->renamed = true;
}

/* The name that the error proposes: "…; did you mean 'extract'?". Empty: none. */
static struct str mending_proposal(const struct error *e)
{
    static const char mark[] = "did you mean '";
    const char *from = strstr(e->text, mark), *to = from ? strchr(from + sizeof mark - 1, '\'') : NULL;
    if (!to)
        return S("");
    from += sizeof mark - 1;
    return (struct str){ from, (size_t)(to - from) };
}

static bool mending_accept(json_t *list, size_t i, const struct error *e)
{
    struct str proposal = mending_proposal(e);
    if (!proposal.n)
        return false;
    json_t *name = json_stringn(proposal.p, proposal.n), *v = json_array_get(list, i);
    if (json_is_object(v))
        json_object_set_new(v, "step", name);
    else
        json_array_set_new(list, i, name);
    return true;
}

/* Removes a member. One whose name is misspelled gets the right one. */
static void mending_remove_member(const struct mending_place *p, const struct error *e)
{
    char right[NAME_TEXT];
    struct str proposal = p->exact && strstr(e->text, "is unknown") ? mending_proposal(e) : S("");
    snprintf(right, sizeof right, STR_FMT, STR_ARG(proposal));
    if (proposal.n && proposal.n < sizeof right && !json_object_get(p->parent, right))
        json_object_set(p->parent, right, json_object_get(p->parent, p->name));
    json_object_del(p->parent, p->name);
}

/* False: the list of removed elements is full. */
static bool mending_change_depends(struct mending *m, const struct mending_place *p, size_t original,
                                   const struct error *e)
{
    if (mending_accept(p->parent, p->index, e))
        return true;
    if (m->removed_count == REMOVED_MAX)
        return false;
    m->removed[m->removed_count].step = p->step_index;
    m->removed[m->removed_count++].at = original;
    return json_array_remove(p->parent, p->index) == 0;
}

static bool mending_is_depends(const struct mending_place *p)
{
    return p->step && !p->name && p->parent == json_object_get(p->step, "depends_on");
}

/* False: nothing can be changed. */
static bool mending_change(struct mending *m, const struct mending_place *p, size_t original, const struct error *e)
{
    if (!p->parent)
        return false;
    if (p->step && p->parent == p->step && strcmp(p->name, "name") == 0)
        mending_rename(m, p);
    else if (p->step && !p->name && json_array_get(p->parent, p->index) == p->step)
        mending_clear_step(p->step);
    else if (mending_is_depends(p))
        return mending_change_depends(m, p, original, e);
    else if (p->name)
        mending_remove_member(p, e);
    else
        json_array_set_new(p->parent, p->index, json_null());
    if (p->step)
        mending_complete_step(p->step);
    return p->step || p->name;
}

/* ---- the list ---- */

/* The index that an element of depends_on had before others were removed. */
static size_t mending_original(const struct mending *m, const struct mending_place *p)
{
    size_t at = p->index;
    for (bool again = true; again;) {
        size_t before = 0;
        for (size_t i = 0; i < m->removed_count; i++)
            before += m->removed[i].step == p->step_index && m->removed[i].at <= at;
        again = at != p->index + before;
        at = p->index + before;
    }
    return at;
}

/* Whether an error is about a field beside another one, and names that: "has no effect without timeout". */
static bool mending_names_neighbour(const struct error *e, const struct error *other)
{
    const char *own = strrchr(e->field, '.'), *its = strrchr(other->field, '.');
    return own && its && own - e->field == its - other->field &&
           strncmp(e->field, other->field, (size_t)(own - e->field)) == 0 && strstr(e->text, its + 1);
}

static bool mending_follows(const struct mending *m, const struct error *e)
{
    for (size_t i = 0; i < m->errors->n; i++)
        if (str_starts(str_from(m->errors->v[i].field), str_from(e->field)) ||
            mending_names_neighbour(e, &m->errors->v[i]))
            return true;
    return m->renamed && strstr(e->text, "no step is named");
}

/* Lists an error and takes it out. False: it is the last that can be found. */
static bool mending_take(struct mending *m, const struct error *e)
{
    struct error own = *e;
    struct mending_place p = mending_find(m->root, e->field);
    size_t original = mending_is_depends(&p) ? mending_original(m, &p) : 0;
    if (mending_is_depends(&p) && original != p.index && p.whole)
        snprintf(own.field, sizeof own.field, "steps[%zu].depends_on[%zu]", p.step_index, original);
    if (!mending_follows(m, &own))
        m->errors->v[m->errors->n++] = own;
    bool is_cut = strlen(e->field) + 1 == sizeof e->field; /* the path does not lead anywhere */
    return !is_cut && m->errors->n < DEFINITION_ERRORS_MAX && mending_change(m, &p, original, e);
}

static void mending_release(json_t **root)
{
    json_decref(*root);
}

static void mending_find_all(struct str text, const struct task_context *c, const struct error *first,
                             struct definition_errors *errors)
{
    cleanup_with(mending_release) json_t *root =
        text.n > TEXT_BYTES_MAX ? NULL : json_loadb(text.p, text.n, JSON_ALLOW_NUL, NULL);
    struct mending m = { .root = root, .errors = errors };
    struct error e = *first;
    if (!root) { /* or it is no object at all */
        errors->v[errors->n++] = e;
        return;
    }
    size_t reads = 2 * DEFINITION_ERRORS_MAX;
    for (size_t done = 0; mending_take(&m, &e) && e.code == ERR_INVALID && reads > 0; reads--) {
        cleanup_with(dag_freep) struct dag *d = NULL;
        char *mended = json_dumps(m.root, JSON_COMPACT);
        done += mended ? strlen(mended) : MENDED_BYTES_MAX;
        bool is_last = done > MENDED_BYTES_MAX || !definition_read(str_from(mended), c, &d, &e);
        free(mended);
        if (is_last)
            return;
    }
}

enum err definition_read_all(struct str text, const struct task_context *c, struct dag **ret,
                             struct definition_errors *errors)
{
    struct error e = { 0 };
    errors->n = 0;
    enum err rc = definition_read(text, c, ret, &e);
    if (rc == ERR_INVALID)
        mending_find_all(text, c, &e, errors);
    else if (rc)
        errors->v[errors->n++] = e;
    return rc;
}
