#pragma once
/* platform/last_fire.h - remembers when this data directory's process last fired a task, across a crash of the process.
 *
 * After a crash, a task that was claimed and is due may have fired, or not: the claim was made seconds ahead. A task
 * that is due later than the last fire cannot have fired. The time is in a file that is mapped into memory, so noting
 * it costs no system call, and the kernel keeps it when the process is killed. It is not flushed to the disk: if the
 * machine itself has restarted since, the time is not known. */
#include <stdbool.h>
#include <stdint.h>

struct last_fire;

/* Reads what the process before has left, then begins anew. *ret_before_ms: wall; INT64_MAX: not known. Never fails: if
 * the file cannot be used, nothing is remembered. */
struct last_fire *last_fire_open(const char *path, int64_t *ret_before_ms);
void last_fire_close(struct last_fire *f); /* NULL is fine */

/* Called before tasks fire. The same thread each time. */
void last_fire_note(struct last_fire *f, int64_t now_ms);
