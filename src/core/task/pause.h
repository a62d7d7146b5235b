#pragma once
/* core/task/pause.h - the pause of a task: who paused it, why, since when, and until when.
 *
 * Pure. It is kept in `resolution` of a PAUSED task, as the JSON object that the API shows. A task that was paused by
 * an older version has none, and neither has a step that is paused with its run. The pause of a run that has started is
 * the doc of its record (port/store/incidents.h). */
#include "base/json/jsonw.h"
#include "core/task/task.h"

enum { PAUSE_REASON_MAX = 500 /* characters */ };

struct pause {
    struct str by, reason; /* empty: not known, none */
    int64_t since_ms;
    int64_t until_ms;  /* 0: until somebody resumes it */
    int64_t ending_ms; /* of a run: since when its steps are being resumed; 0: they are not */
};

/* The JSON object. Reading fails if it is not of a pause; texts live in the arena. */
bool pause_read(struct str doc, struct arena *a, struct pause *ret);
void pause_write(struct jw *w, const struct pause *p);

/* False: the task is not paused, or nothing is known of its pause. Texts live in the arena. */
bool task_pause(const struct task *t, struct arena *a, struct pause *ret);
/* When a pause ends by itself; 0: the task is not paused, or the pause has no end. */
int64_t task_paused_until_ms(const struct task *t);
/* Makes it the pause of a task that is PAUSED. False: the arena is full. */
bool task_set_pause(struct task *t, const struct pause *p, struct arena *a) must_use;
