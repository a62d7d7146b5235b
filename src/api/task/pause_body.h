#pragma once
/* api/task/pause_body.h - the body of a request that pauses a task: {"reason", "until" or "for"}, as of a queue's. */
#include "base/json/json.h"
#include "core/task/pause.h"

struct pause_body {
    struct str reason;
    int64_t until_ms, for_ms;
    struct { /* the member is in the body, perhaps as null */
        bool reason, until, for_;
    } has;
};

/* Errors name the member. */
enum err pause_body_read(const struct json_doc *doc, int64_t now_ms, struct arena *a, struct pause_body *ret,
                         struct error *e) must_use;
bool pause_body_is_empty(const struct pause_body *b);
/* Sets the members that were given. */
void pause_body_apply(const struct pause_body *b, int64_t now_ms, struct pause *p);
