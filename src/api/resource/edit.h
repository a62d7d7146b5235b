#pragma once
/* api/resource/edit.h - changes of the task in the path, for requests that change runs. A pool thread that owns the
 * request. */
#include "api/server/request.h"
#include "api/task/pause_body.h"
#include "core/task/action.h"

/* An action on the task. compensate: with ACTION_CANCEL, of a run. pause: of ACTION_PAUSE; else empty. */
enum handled edit_act(struct request *q, struct reader *r, enum action action, bool compensate,
                      const struct pause_body *pause);
/* The body of a pause, which the audit row notes. */
enum err edit_read_pause(struct request *q, const struct json_doc *doc, struct pause_body *ret,
                         struct error *e) must_use;
