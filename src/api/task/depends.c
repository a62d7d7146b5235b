/* `depends_on` and `join` of a body: which tasks a task waits for. */
#include <stdio.h>

#include "api/task/body.h"

enum { FIELD_TEXT = 48 };

struct depends_entry {
    struct str task;
    int type; /* enum dag_type */
};

static enum err task_read_depends_entry(json_t *v, const char *field, struct depends_entry *ret, struct arena *a,
                                        struct error *e)
{
    static const struct json_field fields[] = {
        { .name = "task", .kind = JSON_KIND_STR, .offset = offsetof(struct depends_entry, task), .max = UUID_TEXT },
        { .name = "type",
          .kind = JSON_KIND_ENUM,
          .offset = offsetof(struct depends_entry, type),
          .names = dag_type_names },
    };
    if (json_is_string(v)) {
        ret->task = (struct str){ json_string_value(v), json_string_length(v) };
        return ERR_OK;
    }
    if (!json_is_object(v))
        return error_field(e, field, "must be the id of a task, or {\"task\": id, \"type\": …}");
    if (json_read(v, fields, array_count(fields), ret, a, e))
        return error_in(e, field);
    return ERR_OK;
}

static enum err task_check_depends_entry(const struct depends_entry *x, const char *field, struct dependency *ret,
                                         size_t i, struct error *e)
{
    struct dependency *d = &ret[i];
    d->type = (enum dag_type)x->type;
    if (x->task.n != UUID_TEXT || !uuid_parse(x->task, &d->parent))
        return error_field(e, field, "must be the id of a task");
    for (size_t k = 0; k < i; k++)
        if (uuid_eq(ret[k].parent, d->parent))
            return error_field(e, field, "names the same task as depends_on[%zu]; name each task once", k);
    return ERR_OK;
}

enum err task_read_depends(json_t *v, int join, struct arena *a, struct depends_on *ret, struct error *e)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v))
        return error_field(e, "depends_on", "must be an array of task ids");
    if (n > DEPENDENCIES_MAX)
        return error_field(e, "depends_on", "must have at most %d entries, not %zu", DEPENDENCIES_MAX, n);
    struct dependency *d = arena_array(a, struct dependency, n + 1);
    if (!d)
        return error_no_room(e);
    for (size_t i = 0; i < n; i++) {
        char field[FIELD_TEXT];
        struct depends_entry x = { .type = DAG_MUST_SUCCEED };
        snprintf(field, sizeof field, "depends_on[%zu]", i);
        if (task_read_depends_entry(json_array_get(v, i), field, &x, a, e) ||
            task_check_depends_entry(&x, field, d, i, e))
            return e->code;
    }
    *ret = (struct depends_on){ .join = (enum dag_join)join, .v = d, .n = n };
    return ERR_OK;
}

enum err task_set_depends(const struct task_body *b, const struct task *current, const struct task *t,
                          const struct task_context *c, struct arena *a, struct error *e)
{
    const char *field = b->has.depends_on ? "depends_on" : "join";
    if (!b->has.depends_on && !b->has.join)
        return ERR_OK;
    if (current)
        return error_field(e, field, "cannot be changed here; use POST /v1/tasks/{id}/dependencies");
    if (!b->has.depends_on)
        return error_field(e, "join", "is only for tasks with depends_on");
    if (!c->ret_depends)
        return error_field(e, "depends_on", "is not possible here; create the task alone, with POST /v1/tasks");
    if (t->dedupe_key.n)
        return error_field(e, "depends_on", "cannot be given together with dedupe_key; give one of the two");
    return task_read_depends(b->depends_on, b->join, a, c->ret_depends, e);
}
