/* The needs of a task: the labels that a worker must have (stored sorted, without duplicates), CPU and memory. */
#include <math.h>
#include <stdlib.h>

#include "api/task/body.h"
#include "base/buf.h"

enum { LABELS_TEXT = 2048 };

static int task_needs_compare_labels(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static enum err task_needs_join_labels(const struct json_array *all, struct arena *a, struct str *ret, struct error *e)
{
    struct str *v = all->v;
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, LABELS_TEXT);
    if (all->n)
        qsort(v, all->n, sizeof *v, task_needs_compare_labels);
    for (size_t i = 0; i < all->n; i++) {
        if (!str_is_plain(v[i], "._:/=-"))
            return error_field(e, "requires",
                               "has '" STR_FMT "', but a label may have only letters, digits and . _ : / = -",
                               STR_ARG(str_utf8_cut(v[i], 40)));
        if (i && str_eq(v[i], v[i - 1]))
            continue;
        if (text.n)
            buf_char(&text, ',');
        buf_add(&text, v[i]);
    }
    return arena_str(a, buf_str(&text), ret) ? ERR_OK : error_no_room(e);
}

enum err task_set_needs(const struct task_body *b, struct arena *a, struct task *t, struct error *e)
{
    t->requires = b->required;
    if (b->has.requires && task_needs_join_labels(&b->requires, a, &t->requires, e))
        return e->code;
    t->cpu_milli = (int64_t)llround(b->resources.cpu * 1000);
    t->memory_mb = b->resources.memory_mb;
    return ERR_OK;
}
