/* The answer is written before the commit, because the idempotency record holds it. So it names the next version of the
 * entry in advance; the operation succeeds only if that version comes true. The writer calls `done` in the order of the
 * commits, so the catalog cache never goes back to an older version. */
#include "api/catalog/catalog_update.h"

#include "api/catalog/catalog_barrier.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "base/json/json.h"
#include "base/log.h"

enum { TRIES_MAX = 8 };

static route_handler catalog_update_attempt;

enum err catalog_update_not_found(const struct catalog_update *c, struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, "there is no such %s", c->what);
}

enum err catalog_update_set_doc(struct request *q, struct catalog_update *c, struct error *e)
{
    if (c->doc->full)
        return error_set(e, ERR_LIMIT, "the %s is larger than the store accepts", c->what);
    return arena_str(&q->arena, buf_str(c->doc), &c->v[0].entry.doc) ? ERR_OK : error_no_room(e);
}

/* ---- after the commit ---- */

/* Only v[0] is in the catalog cache: nobody looks up the second entry. */
static void catalog_update_apply_to_cache(struct request *q, struct catalog_update *c)
{
    const struct api_setup *setup = &q->server->setup;
    struct error e = { 0 };
    if (c->v[0].remove)
        catalog_cache_remove(setup->catalog, c->tenant, c->kind, c->name);
    else if (catalog_cache_keep(setup->catalog, take(c->item), &e))
        log_error("catalog_cache_failed", kv_str("name", c->name), kv_err(&e));
    if (setup->catalog_changed)
        setup->catalog_changed(setup->context);
}

static void catalog_update_on_applied(struct request *q)
{
    if (!q->catalog_update->then || q->catalog_update->then(q) == HANDLED_DONE)
        request_answer(q);
}

/* True: the request is answered. False: it starts again. */
static bool catalog_update_resolve_conflict(struct request *q)
{
    if (q->head.if_match.n) {
        request_refuse(q, PROBLEM_PRECONDITION,
                       "it was changed since you read it; read it again and send its new ETag");
        return true;
    }
    if (++q->catalog_update->tries >= TRIES_MAX) {
        request_refuse(q, PROBLEM_CONFLICT, "other requests changed it first, several times; try again");
        return true;
    }
    request_later(q, catalog_update_attempt);
    return false;
}

static void catalog_update_on_written(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct catalog_update *c = q->catalog_update;
    if (op->rc) {
        catalog_cache_item_free(take(c->item));
        if (op->rc == ERR_UNAVAILABLE) /* it may have been committed nevertheless */
            uncertain_writes_add(&q->server->uncertain_writes, c->tenant, c->kind, c->name);
    }
    if (request_replayed(q, op))
        return;
    bool lost = op->rc == ERR_CONFLICT || op->rc == ERR_NOT_FOUND; /* another change came first */
    if (lost && strcmp(op->error.field, "calendar") != 0) {
        if (!catalog_update_resolve_conflict(q))
            return;
    } else if (op->rc) {
        request_fail(q, &op->error);
    } else {
        catalog_update_apply_to_cache(q, c);
        catalog_barrier_wait(q, catalog_update_on_applied);
        return;
    }
    request_answer(q);
}

/* ---- one attempt ---- */

static enum err catalog_update_read_current(struct request *q, struct reader *r, struct catalog_update *c,
                                            struct error *e)
{
    enum err rc = reader_catalog_get(r, c->tenant, c->kind, c->name, &q->arena, &c->current, e);
    c->exists = rc == ERR_OK;
    if (!c->exists)
        c->current = (struct catalog_entry){ .created_ms = q->now_ms };
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static void catalog_update_prepare(struct request *q, struct catalog_update *c)
{
    c->n = 1;
    c->v[0] = (struct catalog_change){
        .entry = { .tenant = c->tenant,
                   .kind = c->kind,
                   .name = c->name,
                   .version = c->current.version + 1,
                   .created_ms = c->current.created_ms,
                   .updated_ms = q->now_ms },
        .version = c->current.version,
    };
}

/* For the audit row: an entry whose name is an id has another name in its document. It is the name before the change,
 * if the entry exists. */
static void catalog_update_set_object_name(struct request *q, const struct catalog_update *c)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct error ignored;
    bool is_named_by_id = c->kind == CATALOG_NOTIFICATION || c->kind == CATALOG_SIGNING_KEY;
    struct str name;
    if (is_named_by_id && json_parse(c->exists ? c->current.doc : c->v[0].entry.doc, &doc, &ignored) == ERR_OK &&
        arena_str(&q->arena, json_text_at(doc.root, "name"), &name))
        q->object_name = name;
}

static enum handled catalog_update_submit(struct request *q, struct catalog_update *c)
{
    const struct idempotency *record = request_record(q);
    if (c->stored_answer.n)
        q->record.answer = c->stored_answer;
    catalog_update_set_object_name(q, c);
    q->write.catalog = (struct op_catalog){
        .op = { .kind = OP_CATALOG }, .v = c->v, .n = c->n, .now_ms = q->now_ms, .idempotency = record
    };
    return request_submit(q, catalog_update_on_written);
}

/* What comes after a change of a calendar is done also if the calendar is the same. */
static bool catalog_update_is_same(const struct catalog_update *c)
{
    return c->exists && c->n == 1 && !c->then && !c->v[0].remove && str_eq(c->v[0].entry.doc, c->current.doc);
}

/* Nothing changes: the answer is made again, with the version that the entry has. */
static enum handled catalog_update_answer_same(struct request *q, struct reader *r, struct catalog_update *c)
{
    struct error e = { 0 };
    c->v[0].entry.version = c->current.version;
    c->v[0].entry.updated_ms = c->current.updated_ms;
    buf_reset(c->doc);
    return c->make(q, r, c, &e) ? request_fail(q, &e) : request_store_record(q);
}

static enum handled catalog_update_attempt(struct request *q, struct reader *r)
{
    struct catalog_update *c = q->catalog_update;
    struct error e = { 0 };
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (catalog_update_read_current(q, r, c, &e))
        return request_fail(q, &e);
    bool matches = c->exists ? if_match_allows(q->head.if_match, c->current.version) : q->head.if_match.n == 0;
    cleanup_with(buf_release) struct buf doc;
    buf_init(&doc, CATALOG_DOC_MAX);
    c->doc = &doc;
    catalog_update_prepare(q, c);
    if (c->make(q, r, c, &e))
        return request_fail(q, &e);
    if (!matches) /* only now: if the entry does not exist, `make` answers 404 */
        return request_refuse(q, PROBLEM_PRECONDITION,
                              "it was changed since you read it; read it again and send its new ETag");
    if (catalog_update_is_same(c))
        return catalog_update_answer_same(q, r, c);
    if (!c->v[0].remove && catalog_cache_read(&c->v[0].entry, &c->item, &e))
        return request_fail(q, &e); /* no node could use such an entry */
    return catalog_update_submit(q, c);
}

enum handled catalog_update_begin(struct request *q, struct reader *r, struct catalog_update c)
{
    q->catalog_update = arena_new(&q->arena, struct catalog_update);
    *q->catalog_update = c;
    return catalog_update_attempt(q, r);
}
