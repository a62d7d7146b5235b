/* Reads records other than tasks; and dead letters grouped by cause. */
#include <stdio.h>
#include <stdlib.h>

#include "model/internal.h"

/* ---- API keys ---- */

bool memory_copy_key(struct arena *a, const struct api_key *k, struct api_key *ret)
{
    *ret = *k;
    return arena_str(a, k->id, &ret->id) && arena_str(a, k->name, &ret->name) &&
           arena_str(a, k->scopes, &ret->scopes) && arena_str(a, k->parent, &ret->parent);
}

static int memory_keys_compare(const void *a, const void *b)
{
    return str_cmp((*(const struct api_key *const *)a)->id, (*(const struct api_key *const *)b)->id);
}

enum err memory_keys(struct reader *r, int32_t tenant, struct arena *a, struct key_list *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct api_key **found = xcalloc(s->keys.n + 1, sizeof *found);
    size_t n = 0;
    map_each (&s->keys, slot) {
        const struct api_key *k = slot->value;
        if (k->tenant == tenant && k->expires_ms >= 0 && !k->parent.n)
            found[n++] = k;
    }
    qsort(found, n, sizeof *found, memory_keys_compare);
    struct key_list list = { .n = min_of(n, (size_t)LIST_MAX) };
    list.v = arena_array(a, struct api_key, list.n);
    for (size_t i = 0; list.v && i < list.n; i++)
        if (!memory_copy_key(a, found[i], &list.v[i]))
            list.v = NULL;
    free(found);
    if (!list.v)
        return memory_no_room(e);
    *ret = list;
    return ERR_OK;
}

/* ---- dedupe keys ---- */

enum err memory_dedupe(struct reader *r, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                       struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct dedupe_row *row = dedupe_find(s, tenant, key);
    const struct task *t = row && row->until_ms > now_ms ? table_get(&s->table, row->task) : NULL;
    if (!t || t->deleted)
        return memory_not_found("task", e);
    *ret = t->id;
    return ERR_OK;
}

/* ---- names of tasks ---- */

/* The lowest name above `after`, or at it if `at`, with its newest task. False: none. */
static bool memory_next_name(const struct order *rows, int32_t tenant, struct str after, bool at, struct task_name *ret)
{
    bool found = false;
    for (size_t i = 0; i < order_count(rows); i++) {
        const struct task *t = task_at(rows, i);
        int order = str_cmp(t->name, after);
        if (t->tenant != tenant || t->deleted || t->kind == TASK_OCCURRENCE || !uuid_is_nil(t->run) || !t->name.n ||
            order < !at)
            continue;
        int better = found ? str_cmp(t->name, ret->name) : -1;
        if (better <= 0)
            *ret = (struct task_name){ .name = t->name, .newest = t->id, .is_only = better < 0 };
        found = true;
    }
    return found;
}

enum err memory_names(struct reader *r, int32_t tenant, struct str prefix, size_t max, struct arena *a,
                      struct task_names *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct task_names names = { .v = arena_array(a, struct task_name, max) };
    if (!names.v)
        return memory_no_room(e);
    struct str after = prefix;
    struct task_name next;
    while (names.n < max && memory_next_name(&s->table.by_id, tenant, after, names.n == 0, &next) &&
           str_starts(next.name, prefix)) {
        if (!arena_str(a, next.name, &next.name))
            return memory_no_room(e);
        names.v[names.n++] = next;
        after = next.name;
    }
    *ret = names;
    return ERR_OK;
}

/* ---- dead letters by their cause ---- */

static int memory_causes_compare(const void *a, const void *b)
{
    const struct cause_group *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : str_cmp(x->cause, y->cause);
}

struct groups {
    struct cause_group *v; /* texts are borrowed from the table */
    size_t n;
};

/* Tasks come by id, rising. */
static void memory_causes_add(struct groups *g, const struct task *t)
{
    size_t i = 0;
    while (i < g->n && !str_eq(g->v[i].cause, t->cause))
        i++;
    struct cause_group *x = &g->v[i];
    if (i == g->n)
        g->v[g->n++] = (struct cause_group){ .cause = t->cause, .first_failed_ms = INT64_MAX };
    if (t->completed_ms >= x->last_failed_ms) {
        x->latest = t->id;
        x->last_error = t->last_error;
    }
    x->count++;
    x->first_failed_ms = min_of(x->first_failed_ms, t->completed_ms);
    x->last_failed_ms = max_of(x->last_failed_ms, t->completed_ms);
}

static enum err memory_causes_copy(const struct groups *g, size_t max, struct arena *a, struct cause_groups *ret,
                                   struct error *e)
{
    struct cause_groups copy = { .n = min_of(g->n, max) };
    copy.v = arena_array(a, struct cause_group, copy.n);
    if (!copy.v)
        return memory_no_room(e);
    for (size_t i = 0; i < copy.n; i++) {
        copy.v[i] = g->v[i];
        if (!arena_str(a, g->v[i].cause, &copy.v[i].cause) || !arena_str(a, g->v[i].last_error, &copy.v[i].last_error))
            return memory_no_room(e);
    }
    *ret = copy;
    return ERR_OK;
}

enum err memory_causes(struct reader *r, int32_t tenant, size_t max, struct arena *a, struct cause_groups *ret,
                       struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct order *rows = &s->table.by_id;
    struct groups g = { .v = xcalloc(order_count(rows) + 1, sizeof *g.v) };
    for (size_t i = 0; i < order_count(rows); i++) {
        const struct task *t = task_at(rows, i);
        if (t->tenant == tenant && t->state == TASK_FAILED && t->resolved_ms == 0 && !t->deleted && uuid_is_nil(t->run))
            memory_causes_add(&g, t);
    }
    qsort(g.v, g.n, sizeof *g.v, memory_causes_compare);
    enum err rc = memory_causes_copy(&g, max, a, ret, e);
    free(g.v);
    return rc;
}

enum err memory_sealed(struct reader *r, struct str key_id, bool *ret, struct error *e)
{
    (void)e;
    char wanted[64];
    size_t n = (size_t)snprintf(wanted, sizeof wanted, "\"enc:1:" STR_FMT, STR_ARG(key_id));
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    *ret = false;
    for (size_t i = 0; i < order_count(&s->table.by_id) && !*ret; i++) {
        struct str config = task_at(&s->table.by_id, i)->target_config;
        *ret = config.n && memmem(config.p, config.n, wanted, n);
    }
    for (size_t i = 0; i < s->runs.definition_count && !*ret; i++) {
        struct str text = s->runs.definitions[i].definition.text;
        *ret = text.n && memmem(text.p, text.n, wanted, n);
    }
    map_each (&s->catalog, slot) {
        struct str doc = ((const struct catalog_row *)slot->value)->entry.doc;
        *ret = *ret || (doc.n && memmem(doc.p, doc.n, wanted, n));
    }
    return ERR_OK;
}

/* ---- what ran, over all tasks ---- */

static int memory_compare_ended(const void *a, const void *b)
{
    const struct execution *x = *(const struct execution *const *)a, *y = *(const struct execution *const *)b;
    int order = (x->completed_us < y->completed_us) - (x->completed_us > y->completed_us);
    return order ? order : uuid_cmp(y->id, x->id);
}

static const struct task *memory_task_of(const struct store_memory *s, const struct execution *x)
{
    return table_get(&s->table, uuid_is_nil(x->occurrence) ? x->task : x->occurrence);
}

static bool memory_history_matches(const struct store_memory *s, const struct history_filter *f,
                                   const struct execution *x)
{
    const struct task *t = memory_task_of(s, x);
    return x->tenant == f->tenant && (!f->statuses || f->statuses >> x->status & 1) &&
           (!f->worker.n || str_eq(f->worker, x->worker)) && (!f->queue.n || (t && str_eq(f->queue, t->queue))) &&
           (!f->error.n || str_eq(f->error, x->error)) && x->completed_us >= f->from_us && x->completed_us < f->to_us;
}

static bool memory_history_copy(struct arena *a, const struct execution *x, const struct task *t,
                                struct history_row *ret)
{
    *ret = (struct history_row){ 0 };
    return memory_execution_copy(a, x, &ret->execution) &&
           (!t || (arena_str(a, t->name, &ret->name) && arena_str(a, t->queue, &ret->queue)));
}

/* The place of a page is the number of rows before it. */
enum err memory_history(struct reader *r, const struct history_filter *f, struct arena *a, struct history_page *ret,
                        struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct history_page page = { .v = arena_array(a, struct history_row, f->limit) };
    size_t n = 0, given = 0;
    const struct execution **found = xmalloc((order_count(&s->executions) + 1) * sizeof *found);
    for (size_t i = 0; i < order_count(&s->executions); i++) {
        const struct execution *x = order_at(&s->executions, i)->value;
        if (memory_history_matches(s, f, x))
            found[n++] = x;
    }
    qsort(found, n, sizeof(*found), memory_compare_ended);
    if (!uuid_is_nil(f->before))
        memcpy(&given, f->before.b, sizeof given);
    bool fits = page.v != NULL;
    for (; fits && given < n && page.n < f->limit; given++)
        fits = memory_history_copy(a, found[given], memory_task_of(s, found[given]), &page.v[page.n++]);
    free(found);
    if (!fits)
        return memory_no_room(e);
    page.more = given < n;
    memcpy(page.next_before.b, &given, sizeof given);
    *ret = page;
    return ERR_OK;
}
