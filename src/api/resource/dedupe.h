#pragma once
/* api/resource/dedupe.h - creates tasks that have a dedupe_key.
 *
 * A key belongs to the task that was created with it, until the window of that task ends. If a second create names the
 * key:
 * - RETURN: it gets the first task.
 * - RESCHEDULE: it moves the first task to the new time, but not beyond dedupe_max_wait after the first one's creation.
 *   If the first task has fired already, the new task is created and takes over the key.
 * - REPLACE: the same, and the first task gets the new target, payload and metadata.
 *
 * Creates without a dedupe_key do not come here: they read nothing from the store. */
#include "api/server/request.h"

/* One body of a create, and its result. */
struct creation {
    const struct task *asked;  /* the task that the body asks for; NULL: the body was refused */
    const struct error *error; /* why it was refused */
    const struct task *task;   /* the task that is created, or was found, as it will be stored */
    bool found;                /* an existing task holds the key */
};

/* Creates the tasks and answers. `answer` writes the answer from the decisions; it is called again if something changed
 * meanwhile. A pool thread, or with r NULL the HTTP thread of the request; passes q on. */
enum handled dedupe_create(struct request *q, struct reader *r, struct creation *v, size_t n,
                           void (*answer)(struct request *q, const struct creation *v, size_t n));
