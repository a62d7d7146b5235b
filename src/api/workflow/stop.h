#pragma once
/* api/workflow/stop.h - cancels, pauses or resumes an open run with its steps. */
#include "api/server/request.h"
#include "api/task/pause_body.h"
#include "core/task/action.h"

/* The run is the task in the path, and its row was read. pause: of ACTION_PAUSE; else empty. A pool thread. */
enum handled workflows_stop(struct request *q, struct reader *r, enum action action, bool compensate,
                            const struct pause_body *pause);
