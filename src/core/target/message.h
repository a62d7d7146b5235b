#pragma once
/* core/target/message.h - the queue message of a task: versioned JSON (docs/EVENTS.md), the same for every queue
 * adapter.
 *
 * The message holds what a worker needs to run the task and what settling its outcome needs; these members read back
 * unchanged. The rest of a task (schedule, slots, dedupe key, history) stays in the store and reads back as zero. */
#include "core/task/task.h"
#include "core/task/wire.h"

/* Writes one object. The tenant's name is included for filters and for people who look at the queue; the key that signs
 * its call, because workers have no store. */
void message_write_task(struct jw *w, const struct task *t, struct str tenant_name, struct str signing);

/* The task's state reads as RUNNING: every task in a queue is claimed. Texts are copied into the arena. ERR_CORRUPT:
 * not readable; ERR_LIMIT: the arena is full. */
enum err message_read_task(struct arena *a, struct str text, struct task *ret, struct str *ret_tenant_name,
                           struct error *e) must_use;

/* Shared by task messages and event messages. RECURRING tasks are never sent. */
extern const char *const wire_task_kinds[3], *const wire_deliveries[2];
extern const struct wire_field wire_retry[6];
