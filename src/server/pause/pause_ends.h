#pragma once
/* server/pause/pause_ends.h - resumes tasks and runs whose pause has come to its end (core/task/pause.h).
 *
 * The record of a pause is due at its end (port/store/incidents.h), and any node may do the work, as with other
 * records. So the notifier does it in its turns: it has a thread, a reader and a writer. */
#include "port/store.h"

struct pause_turn {
    struct reader *reader;
    struct arena *arena;
    int64_t now_ms;
    /* Applies an operation and waits for it. */
    enum err (*apply)(void *context, struct op *op, struct error *e);
    /* Writes the change of a record. ERR_CONFLICT: another node was first. */
    enum err (*write)(void *context, const struct record_change *c, struct error *e);
    void (*resumed)(void *context, const struct task *t); /* a task was resumed */
    void (*changed)(void *context, const struct task *t); /* a task or a run: readers of live events are told */
    void *context;
};

/* Ends the pauses that are due. *ret_more: there may be more. The notifier's thread. */
enum err pause_ends_step(const struct pause_turn *t, bool *ret_more, struct error *e) must_use;
