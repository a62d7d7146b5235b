#include "api/resource/lease.h"

#include "api/server/request_input.h"

struct str lease_format_id(const struct request *q, const struct task *t, char out[SEAL_TEXT_MAX + 1])
{
    struct fenced_id lease = { t->id, t->fence };
    return seal_text(q, SEAL_LEASE, (struct str){ (const char *)&lease, sizeof lease }, out);
}

bool lease_parse_id(const struct request *q, struct str text, struct fenced_id *ret)
{
    char plain[SEAL_PLAIN_MAX + 1];
    if (seal_open(q, SEAL_LEASE, text, plain) != sizeof *ret)
        return false;
    memcpy(ret, plain, sizeof *ret);
    return true;
}

int64_t lease_deadline_ms(const struct task *t)
{
    return t->timeout_ms ? uuid_time_ms(t->claim) + t->timeout_ms : INT64_MAX;
}

enum err lease_read_body(struct request *q, const struct json_field *fields, size_t count, void *into, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (request_read_object(q, &doc, e))
        return e->code;
    return json_read(doc.root, fields, count, into, &q->arena, e);
}
