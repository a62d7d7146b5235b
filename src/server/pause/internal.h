#pragma once
/* server/pause/internal.h - what the ends of pauses of tasks and of runs share. The notifier's thread. */
#include "server/pause/pause_ends.h"

/* ---- task_pauses.c ---- */

/* Removes the record, or lets it be looked at again at that time. */
enum err pauses_remove(const struct pause_turn *t, const struct record *r, struct error *e) must_use;
enum err pauses_put_off(const struct pause_turn *t, const struct record *r, int64_t next_ms, struct error *e) must_use;

/* ---- run_pauses.c ---- */

/* Looks at the record of the pause of a run that has started, and resumes the run if the pause is over. */
enum err run_pause_end(const struct pause_turn *t, const struct record *r, const struct task *run,
                       struct error *e) must_use;
