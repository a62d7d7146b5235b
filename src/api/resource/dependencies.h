#pragma once
/* api/resource/dependencies.h - creates tasks that depend on others. */
#include "api/server/request.h"

/* Creates q->tasks[0], which waits for q->depends. `answer` writes the answer. A pool thread; passes q on. */
enum handled dependencies_create(struct request *q, struct reader *r,
                                 void (*answer)(struct request *q, const struct task *t), void (*done)(struct op *op));
