/* A list that is full, or out of room for texts, leaves something out: telling never fails an operation. */
#include "port/store/changes.h"

#include <stdlib.h>

#include "port/store.h"

enum { CHANGE_TEXTS_MAX = 4 << 20 };

void store_tell_changes(struct store *s, const struct change_listener *l)
{
    if (!s->changes) {
        s->changes = xnew(*s->changes);
        s->changes->v = xcalloc(CHANGES_TOLD_MAX, sizeof *s->changes->v);
        arena_init(&s->changes->texts, CHANGE_TEXTS_MAX);
    }
    s->changes->listener = l;
}

void store_free_changes(struct store *s)
{
    if (!s->changes)
        return;
    arena_release(&s->changes->texts);
    free(s->changes->v);
    free(s->changes);
    s->changes = NULL;
}

void changes_begin(struct store *s)
{
    struct change_list *l = s->changes;
    if (!l)
        return;
    l->n = l->first = l->left_out = l->left_out_before = 0;
    arena_reset(&l->texts);
}

void changes_begin_op(struct store *s, const struct op *op)
{
    struct change_list *l = s->changes;
    if (!l)
        return;
    l->first = l->n;
    l->left_out_before = l->left_out;
    l->request = op->request;
}

void changes_drop_op(struct store *s)
{
    struct change_list *l = s->changes;
    if (!l)
        return;
    l->n = l->first;
    l->left_out = l->left_out_before;
}

void change_add(struct store *s, struct uuid id, int from, enum task_state to)
{
    struct change_list *l = s->changes;
    if (!l || from == (int)to)
        return;
    for (size_t i = l->first; i < l->n; i++)
        if (uuid_eq(l->v[i].task.id, id)) {
            l->v[i].to = to;
            return;
        }
    if (l->n == CHANGES_TOLD_MAX)
        l->left_out++;
    else
        l->v[l->n++] = (struct task_change){ .task = { .id = id }, .from = from, .to = to, .request = l->request };
}

enum task_state change_state(enum task_state state, int links)
{
    bool goes_on = state == TASK_SCHEDULED || state == TASK_RUNNING;
    if (links & TASK_AWAITS && goes_on)
        return TASK_BLOCKED;
    return links & TASK_OPENED && !(links & TASK_AGAIN) && goes_on ? TASK_RUNNING : state;
}

void change_add_links(struct store *s, const struct task *was, const struct task *next)
{
    if (s->changes)
        change_add(s, next->id, (int)change_state(was->state, was->links), change_state(next->state, next->links));
}

void change_add_opened(struct store *s, bool starts, const struct task *next)
{
    change_add(s, next->id, starts ? TASK_SCHEDULED : TASK_RUNNING, change_state(next->state, next->links));
}

void change_add_awaiting(struct store *s, int links, const struct task *next)
{
    change_add(s, next->id, links & TASK_AWAITS ? TASK_BLOCKED : TASK_SCHEDULED,
               change_state(next->state, next->links));
}

struct str change_text(struct change_list *l, struct str text)
{
    struct str copy;
    return arena_str(&l->texts, text, &copy) ? copy : (struct str){ 0 };
}

bool change_has_reason(const struct task_change *c)
{
    return c->to == TASK_CANCELLED || c->to == TASK_SKIPPED;
}

void store_tell(struct store *s)
{
    struct change_list *l = s->changes;
    size_t n = 0;
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i].task.tenant && l->v[i].from != (int)l->v[i].to)
            l->v[n++] = l->v[i];
    if (n || l->left_out)
        l->listener->told(l->listener, l->v, n, l->left_out);
}
