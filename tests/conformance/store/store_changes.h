#pragma once
/* tests/conformance/store/store_changes.h - a listener that keeps what it was told (port/store/changes.h). */
#include "store_world.h"

struct told;
struct told_listener {
    struct change_listener base;
    struct told *told;
};

struct told {
    struct told_listener listener;
    struct task_change v[CHANGES_TOLD_MAX];
    size_t n, left_out, calls;
    struct arena arena; /* of texts */
};

static inline struct str told_text(struct told *t, struct str s)
{
    struct str copy;
    assert_true(arena_str(&t->arena, s, &copy));
    return copy;
}

static inline void told_add(const struct change_listener *l, const struct task_change *v, size_t n, size_t left_out)
{
    struct told *t = ((const struct told_listener *)l)->told;
    assert_true(t->n + n <= CHANGES_TOLD_MAX && (n > 0 || left_out > 0));
    for (size_t i = 0; i < n; i++) {
        struct task_change *c = &t->v[t->n++];
        *c = v[i];
        c->task.queue = told_text(t, v[i].task.queue);
        c->task.trace = told_text(t, v[i].task.trace);
        c->task.last_error = told_text(t, v[i].task.last_error);
        c->request = told_text(t, v[i].request);
    }
    t->left_out += left_out;
    t->calls++;
}

static inline void told_listen(struct told *t, struct store *s)
{
    *t = (struct told){ .listener = { { told_add }, t } };
    arena_init(&t->arena, 1 << 24);
    store_tell_changes(s, &t->listener.base);
}

static inline void told_clear(struct told *t)
{
    t->n = t->left_out = t->calls = 0;
    arena_reset(&t->arena);
}
