#pragma once
/* core/target/message.h - a task as a queue carries it: versioned JSON (docs/EVENTS.md), the same for every adapter.
 *
 * In it is what a worker needs to run the task, and what settling its outcome takes; what was written reads back the same. The rest of a task
 * (its schedule, slots, dedupe key, what happened to it before) stays with the store, and reads back as nothing. */
#include "core/task/task.h"
#include "core/task/wire.h"

/* One object. The tenant's name is there for filters, and for people who look. */
void message_write_task(struct jw *w, const struct task *t, struct str tenant_name);

/* It is RUNNING: what a queue carries is claimed. Texts are copied into the arena. ERR_CORRUPT: not to be read; ERR_LIMIT: the arena is full. */
enum err message_read_task(struct arena *a, struct str text, struct task *ret, struct str *ret_tenant_name,
                           struct error *e) must_use;

/* What tasks and events have in common. An occurrence's task, RECURRING, is never on its way. */
extern const char *const wire_task_kinds[3], *const wire_deliveries[2];
extern const struct wire_field wire_retry[6];
