#include "api/task/pause_body.h"

#include "base/date.h"

enum { PAUSE_MAX_DAYS = 3650 };

#define ROW(text, kind_, member, seen, ...)                                                                            \
    {                                                                                                                  \
        .name = (text), .kind = JSON_KIND_##kind_, .offset = offsetof(struct pause_body, member),                      \
        .seen_offset = offsetof(struct pause_body, has.seen), .nullable = true, __VA_ARGS__                            \
    }
static const struct json_field pause_body_fields[] = {
    ROW("reason", STR, reason, reason, .max = PAUSE_REASON_MAX, .characters = true),
    ROW("until", TIME, until_ms, until, .max = 0),
    ROW("for", DURATION, for_ms, for_, .min = 1000, .max = PAUSE_MAX_DAYS * DAY_MS),
};

enum err pause_body_read(const struct json_doc *doc, int64_t now_ms, struct arena *a, struct pause_body *ret,
                         struct error *e)
{
    struct pause_body b = { 0 };
    if (json_read(doc->root, pause_body_fields, array_count(pause_body_fields), &b, a, e))
        return e->code;
    if (str_has_control(b.reason))
        return error_field(e, "reason", "must not hold control characters");
    if (b.until_ms && b.for_ms)
        return error_field(e, "for", "cannot be given together with until; give one of the two");
    if (b.until_ms && b.until_ms <= now_ms)
        return error_field(e, "until", "is in the past");
    *ret = b;
    return ERR_OK;
}

bool pause_body_is_empty(const struct pause_body *b)
{
    return !b->has.reason && !b->has.until && !b->has.for_;
}

void pause_body_apply(const struct pause_body *b, int64_t now_ms, struct pause *p)
{
    if (b->has.reason)
        p->reason = b->reason;
    if (b->has.until || b->has.for_)
        p->until_ms = b->for_ms ? now_ms + b->for_ms : b->until_ms;
}
