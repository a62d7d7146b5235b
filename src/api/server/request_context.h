#pragma once
/* api/server/request_context.h - what tasks in the body and in the answer of a request are read and shown with: its
 * tenant, its time, and the settings of the server. The thread that owns the request. */
#include "api/server/request.h"
#include "api/task/json.h"

struct task_context request_context(const struct request *q);
