#include "api/task/pause_body.h"

struct pause_request {
    struct pause_body pause;
};
static const struct json_field pause_body_fields[] = { PAUSE_BODY_ROWS(struct pause_request, pause) };

enum err pause_body_check_end(struct pause_body *b, int64_t now_ms, struct error *e)
{
    if (b->until_ms && b->for_ms)
        return error_field(e, "for", "cannot be given together with until; give one of the two");
    if (b->until_ms && b->until_ms <= now_ms)
        return error_field(e, "until", "is in the past");
    if (b->for_ms)
        b->until_ms = now_ms + b->for_ms;
    return ERR_OK;
}

enum err pause_body_check(struct pause_body *b, int64_t now_ms, struct error *e)
{
    if (str_has_control(b->reason))
        return error_field(e, "reason", "must not hold control characters");
    return pause_body_check_end(b, now_ms, e);
}

enum err pause_body_read(const struct json_doc *doc, int64_t now_ms, struct arena *a, struct pause_body *ret,
                         struct error *e)
{
    struct pause_request q = { 0 };
    if (json_read(doc->root, pause_body_fields, array_count(pause_body_fields), &q, a, e) ||
        pause_body_check(&q.pause, now_ms, e))
        return e->code;
    *ret = q.pause;
    return ERR_OK;
}

bool pause_body_is_empty(const struct pause_body *b)
{
    return !b->has.reason && !b->has.until && !b->has.for_;
}

void pause_body_apply(const struct pause_body *b, struct pause *p)
{
    if (b->has.reason)
        p->reason = b->reason;
    if (b->has.until || b->has.for_)
        p->until_ms = b->until_ms;
}
