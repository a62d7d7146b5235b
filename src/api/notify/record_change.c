#include "api/notify/record_change.h"

#include "api/catalog/catalog_list.h"
#include "api/live/live.h"
#include "api/server/internal.h"
#include "api/server/request_input.h"

enum { TRIES_MAX = 8 };

static route_handler record_edit_attempt;

enum err record_get(struct request *q, struct reader *r, enum record_kind kind, struct uuid id, struct record *ret,
                    struct error *e)
{
    struct record_filter f = { .kind = kind, .tenant = q->who.tenant, .id = id, .limit = 1 };
    struct record_page page = { 0 };
    if (reader_records(r, &f, &q->arena, &page, e))
        return e->code;
    if (!page.n)
        return error_set(e, ERR_NOT_FOUND, "there is no such %s",
                         kind == RECORD_INCIDENT ? "incident" : "notification");
    *ret = page.v[0];
    return ERR_OK;
}

enum err setting_names_read(struct request *q, struct reader *r, struct setting_names *ret, struct error *e)
{
    struct catalog_entries all;
    struct setting s;
    *ret = (struct setting_names){ 0 };
    if (catalog_read_all(q, r, CATALOG_NOTIFICATION, q->who.tenant, &all, e))
        return e->code;
    ret->v = arena_array(&q->arena, struct setting_name, all.n + 1);
    if (!ret->v)
        return error_no_room(e);
    for (size_t i = 0; i < all.n; i++)
        if (uuid_parse(all.v[i].name, &ret->v[ret->n].id) && !setting_read(all.v[i].doc, &q->arena, &s, NULL))
            ret->v[ret->n++].name = s.name;
    return ERR_OK;
}

struct str setting_names_get(const struct setting_names *names, struct uuid id)
{
    for (size_t i = 0; i < names->n; i++)
        if (uuid_eq(names->v[i].id, id))
            return names->v[i].name;
    return S("");
}

enum handled records_answer(struct request *q, struct reader *r, const struct record_filter *f, const char *name,
                            record_show *show)
{
    struct record_page page = { 0 };
    struct setting_names names;
    struct error e = { 0 };
    if (reader_records(r, f, &q->arena, &page, &e) || setting_names_read(q, r, &names, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, name);
    jw_array(&w);
    for (size_t i = 0; i < page.n; i++)
        if (show(q, &w, &page.v[i], &names, &e))
            return request_fail(q, &e);
    jw_array_end(&w);
    struct pagination shown = { .more = page.more, .limit = (int64_t)f->limit, .total = -1 };
    if (page.more)
        shown.next = page.v[page.n - 1].id;
    pagination_write(q, &w, &shown);
    jw_object_end(&w);
    return HANDLED_DONE;
}

enum handled record_answer(struct request *q, struct reader *r, enum record_kind kind, record_show *show)
{
    struct error e = { 0 };
    struct record record;
    struct setting_names names;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (record_get(q, r, kind, q->id, &record, &e) || setting_names_read(q, r, &names, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    return show(q, &w, &record, &names, &e) ? request_fail(q, &e) : HANDLED_DONE;
}

static enum err record_set_doc(struct request *q, struct record *r, const struct buf *doc, struct error *e)
{
    return !doc->full && arena_str(&q->arena, buf_str(doc), &r->doc) ? ERR_OK : error_no_room(e);
}

enum err record_set_incident(struct request *q, struct record *r, const struct incident *i, struct error *e)
{
    cleanup_with(buf_release) struct buf doc;
    struct jw w;
    buf_init(&doc, RECORD_DOC_MAX);
    jw_init(&w, &doc);
    incident_write(&w, i);
    return record_set_doc(q, r, &doc, e);
}

enum err record_set_message(struct request *q, struct record *r, const struct notification *m, struct error *e)
{
    cleanup_with(buf_release) struct buf doc;
    struct jw w;
    buf_init(&doc, RECORD_DOC_MAX);
    jw_init(&w, &doc);
    notification_write(&w, m);
    return record_set_doc(q, r, &doc, e);
}

static void record_edit_on_written(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct record_edit *edit = q->context;
    if (request_replayed(q, op))
        return;
    if (op->rc == ERR_CONFLICT && ++edit->tries < TRIES_MAX) {
        request_later(q, record_edit_attempt);
        return;
    }
    if (op->rc)
        request_fail(q, &op->error);
    else if (q->server->setup.message_made)
        q->server->setup.message_made(q->server->setup.context);
    if (!op->rc && edit->kind == RECORD_INCIDENT)
        live_on_incident(q->server->live, q->who.tenant, &edit->incident, edit->what_changes);
    request_answer(q);
}

static enum handled record_edit_attempt(struct request *q, struct reader *r)
{
    struct record_edit *edit = q->context;
    struct error e = { 0 };
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    edit->change = (struct record_change){ 0 };
    if (record_get(q, r, edit->kind, q->id, &edit->change.record, &e))
        return request_fail(q, &e);
    edit->change.version = edit->change.record.version;
    if (edit->make(q, r, &edit->change, &e))
        return request_fail(q, &e);
    q->write.fold =
        (struct op_fold){ .op = { .kind = OP_FOLD }, .v = &edit->change, .n = 1, .idempotency = request_record(q) };
    return request_submit(q, record_edit_on_written);
}

enum handled record_edit_begin(struct request *q, struct reader *r, struct record_edit edit)
{
    struct record_edit *kept = arena_new(&q->arena, struct record_edit);
    *kept = edit;
    q->context = kept;
    return record_edit_attempt(q, r);
}
