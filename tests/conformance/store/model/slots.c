/* What is true of slots whatever happened: held against all tasks that a reader lists. */
#include <stdio.h>

#include "store_model.h"

#define wrong(...) (snprintf(why, WHY_MAX, __VA_ARGS__), false)

void watch_init(struct watch *w)
{
    *w = (struct watch){ 0 };
    slot_keys_init(&w->keys);
    arena_init(&w->arena, 1 << 24);
}

void watch_release(struct watch *w)
{
    slot_keys_release(&w->keys);
    arena_release(&w->arena);
}

struct entry {
    struct task task;
    struct slot_need needs[SLOTS_MAX];
    size_t n;
};

struct all_tasks {
    struct entry *v;
    size_t n;
    struct arena arena;
};

static const struct entry *find(const struct all_tasks *all, struct uuid id)
{
    for (size_t i = 0; i < all->n; i++)
        if (uuid_eq(all->v[i].task.id, id))
            return &all->v[i];
    return NULL;
}

static int limit_of(const struct entry *x, struct str key)
{
    for (size_t i = 0; i < x->n; i++)
        if (str_eq(x->needs[i].key, key))
            return x->needs[i].limit;
    return 0;
}

static bool holds(const struct slot_holders *h, struct uuid task)
{
    for (size_t i = 0; i < h->n; i++)
        if (uuid_eq(h->v[i].task, task))
            return true;
    return false;
}

static const struct held *held_before(const struct watch *w, struct str key, struct uuid task)
{
    for (size_t i = 0; i < w->n; i++)
        if (str_eq(w->v[i].key, key) && uuid_eq(w->v[i].task, task))
            return &w->v[i];
    return NULL;
}

/* Each holder is there, needs the slot and may have it; the last of those that have come, or gone and come again, found
 * fewer than its limit. */
static bool holders_are_sound(const struct watch *w, const struct all_tasks *all, struct str key,
                              const struct slot_holders *h, char why[WHY_MAX])
{
    size_t limit = 0;
    bool came = false;
    for (size_t i = 0; i < h->n; i++) {
        const struct entry *x = find(all, h->v[i].task);
        if (!x)
            return wrong("a slot of %.100s is held by nobody", key.p);
        enum task_state state = x->task.state;
        if (!limit_of(x, key) || !(slot_outlives(slot_kind_of(key), state) || state == TASK_SCHEDULED))
            return wrong("a task that is %s, of limit %d, holds %.100s", task_state_name(state), limit_of(x, key),
                         key.p);
        if (state != h->v[i].state || x->task.scheduled_ms != h->v[i].scheduled_ms)
            return wrong("a holder of %.100s is told of wrongly", key.p);
        const struct held *before = held_before(w, key, x->task.id);
        if (before && before->fence == x->task.fence && before->version == x->task.version &&
            before->state == state) /* who is settled goes */
            continue;
        came = came || !before;
        limit = max_of(limit, (size_t)limit_of(x, key));
    }
    return !came || h->n <= limit ? true : wrong("%zu hold %.100s at once, the limit is %zu", h->n, key.p, limit);
}

static bool stands_before(const struct task *a, const struct task *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : uuid_cmp(a->id, b->id) < 0;
}

/* What runs holds all it needs; the first of the line does not fit in, and nobody waits for what he has. */
static bool line_is_sound(const struct all_tasks *all, struct str key, const struct slot_holders *h, char why[WHY_MAX])
{
    const struct entry *first = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct entry *x = &all->v[i];
        const struct task *t = &x->task;
        if (t->state == TASK_RUNNING && limit_of(x, key) && !holds(h, t->id))
            return wrong(
                "a task runs without its slot of %.100s links %d kind %d run %d fence %d holders %d deleted %d", key.p,
                t->links, t->kind, !uuid_is_nil(t->run), (int)t->fence, (int)h->n, t->deleted);
        if (!str_eq(t->waits_for, key))
            continue;
        if (t->state != TASK_BLOCKED || !limit_of(x, key) || holds(h, t->id))
            return wrong("a task that is %s waits for %.100s in vain", task_state_name(t->state), key.p);
        if (!first || stands_before(t, &first->task))
            first = x;
    }
    if (first && h->n < (size_t)limit_of(first, key))
        return wrong("%zu hold %.100s, and one waits whose limit is %d", h->n, key.p, limit_of(first, key));
    return true;
}

static void add(struct all_tasks *all, const struct task *t, struct slot_keys *keys)
{
    struct entry *x = &all->v[all->n++];
    x->task = *t;
    x->n = slot_needs(t, x->needs);
    for (size_t i = 0; i < x->n; i++)
        slot_keys_add(keys, x->needs[i].key);
    if (t->waits_for.n)
        slot_keys_add(keys, t->waits_for);
}

/* Steps are in no list. */
static bool add_steps(struct reader *r, struct all_tasks *all, size_t run, size_t max, struct slot_keys *keys)
{
    struct step_filter f = { .tenant = all->v[run].task.tenant, .run = all->v[run].task.id, .limit = STEPS_READ_MAX };
    struct tasks steps;
    if (reader_steps(r, &f, &all->arena, &steps, NULL) || all->n + steps.n > max)
        return false;
    for (size_t i = 0; i < steps.n; i++)
        add(all, &steps.v[i], keys);
    return true;
}

static bool look(struct reader *r, struct all_tasks *all, struct slot_keys *keys)
{
    struct task_page pages[2];
    for (size_t p = 0; p < 2; p++) {
        struct task_filter f = { .tenant = p ? OTHER_TENANT : TENANT, .occurrences = true, .limit = LIST_MAX };
        if (reader_list(r, &f, &all->arena, &pages[p], NULL) || pages[p].more)
            return false;
    }
    size_t max = pages[0].tasks.n + pages[1].tasks.n + STEPS_READ_MAX;
    all->v = arena_alloc(&all->arena, max * sizeof *all->v);
    for (size_t p = 0; p < 2; p++)
        for (size_t i = 0; i < pages[p].tasks.n; i++)
            add(all, &pages[p].tasks.v[i], keys);
    for (size_t i = 0; i < all->n; i++)
        if (all->v[i].task.target == TARGET_WORKFLOW && !add_steps(r, all, i, max, keys))
            return false;
    return true;
}

/* Goes through the keys; what is held now goes to `next`. */
static bool check_keys(const struct watch *w, struct watch *next, struct reader *r, const struct all_tasks *all,
                       char why[WHY_MAX])
{
    size_t at = 0;
    next->v = arena_alloc(&next->arena, all->n * SLOTS_MAX * sizeof *next->v);
    for (struct str key; slot_keys_next(&next->keys, &at, &key);) {
        struct slot_holders h;
        if (reader_slots(r, key, &next->arena, &h, NULL))
            return wrong("slots failed");
        if (!holders_are_sound(w, all, key, &h, why) || !line_is_sound(all, key, &h, why))
            return false;
        for (size_t i = 0; i < h.n; i++, next->n++) {
            const struct task *t = &find(all, h.v[i].task)->task;
            next->v[next->n] =
                (struct held){ .task = t->id, .fence = t->fence, .version = t->version, .state = t->state };
            if (!arena_str(&next->arena, key, &next->v[next->n].key))
                return wrong("too many slots");
        }
    }
    return true;
}

bool slots_are_sound(struct watch *w, struct reader *r, char why[WHY_MAX])
{
    struct all_tasks all = { 0 };
    struct watch next;
    watch_init(&next);
    arena_init(&all.arena, 1 << 24);
    for (size_t i = 0; i < w->n; i++)
        slot_keys_add(&next.keys, w->v[i].key); /* what was held must not be held by nobody now */
    bool sound = look(r, &all, &next.keys) || wrong("a list failed");
    sound = sound && check_keys(w, &next, r, &all, why);
    arena_release(&all.arena);
    watch_release(w);
    *w = next;
    return sound;
}
