#include "store/common/reading.h"

bool name_is_prefix(struct str name)
{
    return name.n && name.p[name.n - 1] == '*';
}

enum list_walk list_walk_of(const struct task_filter *f)
{
    if (!uuid_is_nil(f->parent))
        return WALK_PARENT;
    if (f->calendar.n && f->states && f->states < 1u << TASK_RUNNING)
        return WALK_CALENDAR;
    if (f->name.n && !name_is_prefix(f->name) && !f->occurrences)
        return WALK_NAME;
    if (f->waits_for.n)
        return WALK_WAITING;
    if (f->cause.n && f->by_resolved && !f->resolved)
        return WALK_CAUSE;
    if (f->states == 1u << TASK_FAILED || f->cause.n || f->by_resolved)
        return WALK_FAILED;
    if (f->task_type.n)
        return WALK_TYPE;
    return f->by_kind && f->recurring ? WALK_RECURRING : WALK_ALL;
}

enum err reader_not_found(const char *what, struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, "there is no such %s", what);
}

enum err reader_no_room(struct error *e)
{
    return error_set(e, ERR_LIMIT, "the answer is larger than the memory set aside for it");
}

enum err reader_copy_tasks(const struct task *v, size_t n, struct arena *a, struct tasks *ret, struct error *e)
{
    struct task *copy = arena_alloc(a, n * sizeof *copy);
    if (!copy)
        return reader_no_room(e);
    if (n)
        memcpy(copy, v, n * sizeof *copy);
    *ret = (struct tasks){ copy, n };
    return ERR_OK;
}

struct uuid reader_place(int64_t at, int64_t skip)
{
    struct uuid u;
    memcpy(u.b, &at, sizeof at);
    memcpy(u.b + sizeof at, &skip, sizeof skip);
    return u;
}

void reader_place_read(struct uuid place, int64_t *ret_at, int64_t *ret_skip)
{
    memcpy(ret_at, place.b, sizeof *ret_at);
    memcpy(ret_skip, place.b + sizeof *ret_at, sizeof *ret_skip);
}

enum err definition_page_add(struct definition_page *page, const struct definition *d, size_t max, struct arena *a,
                             bool *ret_has_room, struct error *e)
{
    struct definition copy = *d;
    *ret_has_room = arena_str(a, d->text, &copy.text);
    if (!*ret_has_room && page->n == 0)
        return reader_no_room(e);
    if (*ret_has_room) {
        page->next_after = copy;
        page->v[page->n++] = copy;
    }
    page->more = !*ret_has_room || page->n == max;
    return ERR_OK;
}

enum err sealed_page_add(struct sealed_page *page, const struct task *t, size_t i, size_t max, struct arena *a,
                         bool *ret_has_room, struct error *e)
{
    struct task copy = *t;
    *ret_has_room = !t->target_config.n || arena_str(a, t->target_config, &copy.target_config);
    if (!*ret_has_room && i == 0)
        return reader_no_room(e);
    page->more = !*ret_has_room || i + 1 == max;
    if (!*ret_has_room)
        return ERR_OK;
    page->next_after = t->id;
    if (t->target_config.n)
        page->tasks.v[page->tasks.n++] = copy;
    return ERR_OK;
}
