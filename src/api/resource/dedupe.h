#pragma once
/* api/resource/dedupe.h - what becomes of new tasks that name a dedupe_key (R1.11).
 *
 * A key belongs to the task that was made with it, until the window of that task is over. Who comes second gets that task
 * (RETURN), or moves it to the new time (RESCHEDULE); where it has fired already there is nothing to move, and the new task
 * takes the key over. Only creates that name a key come here: all others read nothing. */
#include "api/server/request.h"

/* One body of a create, and what became of it. */
struct creation {
    const struct task *asked;  /* what it asks for; NULL: it was refused */
    const struct error *error; /* why */
    const struct task *task;   /* what is made, or was found, as it will be */
    bool found;                /* by its key */
};

/* Goes on with the creations when their keys are known, and ends in an answer: `answer` writes it, from what was decided; it may
 * be asked again when things have changed meanwhile. On an API thread, or with r NULL on the HTTP thread. */
enum handled dedupe_create(struct request *q, struct reader *r, struct creation *v, size_t n,
                           void (*answer)(struct request *q, const struct creation *v, size_t n));
