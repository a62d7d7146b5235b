#pragma once
/* api/task/pause_body.h - the body of a request that pauses a task or a queue: {"reason", "until" or "for"}. */
#include "base/date.h"
#include "base/json/json.h"
#include "core/task/pause.h"

struct pause_body {
    struct str reason;
    int64_t until_ms, for_ms; /* once it was read, until_ms alone says the end */
    struct {                  /* the member is in the body, perhaps as null */
        bool reason, until, for_;
    } has;
};

/* The rows of a struct that has a pause_body as `member`. */
#define PAUSE_BODY_ROW(type, member, text, kind_, field, seen, ...)                                                    \
    {                                                                                                                  \
        .name = (text), .kind = JSON_KIND_##kind_, .offset = offsetof(type, member.field),                             \
        .seen_offset = offsetof(type, member.has.seen), .nullable = true, __VA_ARGS__                                  \
    }
#define PAUSE_BODY_ROWS(type, member)                                                                                  \
    PAUSE_BODY_ROW(type, member, "reason", STR, reason, reason, .max = PAUSE_REASON_MAX, .characters = true),          \
        PAUSE_BODY_ROW(type, member, "until", TIME, until_ms, until, .max = 0),                                        \
        PAUSE_BODY_ROW(type, member, "for", DURATION, for_ms, for_, .min = 1000, .max = PAUSE_MAX_DAYS * DAY_MS)
enum { PAUSE_MAX_DAYS = 3650 };

/* The end alone: checks `until` and `for`, and computes it. */
enum err pause_body_check_end(struct pause_body *b, int64_t now_ms, struct error *e) must_use;
/* Checks what these rows have read, and computes the end. Errors name the member. */
enum err pause_body_check(struct pause_body *b, int64_t now_ms, struct error *e) must_use;
/* Reads and checks a body that has no other members. */
enum err pause_body_read(const struct json_doc *doc, int64_t now_ms, struct arena *a, struct pause_body *ret,
                         struct error *e) must_use;
bool pause_body_is_empty(const struct pause_body *b);
/* Sets the members that were given. */
void pause_body_apply(const struct pause_body *b, struct pause *p);
