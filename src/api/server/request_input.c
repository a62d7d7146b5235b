#include "api/server/request_input.h"

#include "api/server/query.h"

enum err request_read_object(struct request *q, struct json_doc *ret, struct error *e)
{
    enum err rc = json_parse(q->body.n ? buf_str(&q->body) : S("{}"), ret, e);
    if (rc == ERR_OK && !json_is_object(ret->root)) {
        json_doc_release(ret);
        return error_set(e, ERR_INVALID, "the body must be a JSON object");
    }
    return rc;
}

enum err request_check_no_body(struct request *q, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct {
        bool none;
    } nothing;
    if (request_read_object(q, &doc, e))
        return e->code;
    return json_read(doc.root, NULL, 0, &nothing, &q->arena, e);
}

bool request_check_no_query(struct request *q)
{
    struct error e = { 0 };
    if (query_read(q->query, NULL, 0, NULL, &q->arena, &e) == ERR_OK)
        return true;
    request_fail(q, &e);
    return false;
}
