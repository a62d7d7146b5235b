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

static route_handler change_attempt;

enum err change_not_found(const struct change *c, struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, "there is no such %s", c->what);
}

enum err change_set_doc(struct request *q, struct change *c, struct error *e)
{
    if (c->doc->full)
        return error_set(e, ERR_LIMIT, "the %s is larger than the store accepts", c->what);
    return arena_str(&q->arena, buf_str(c->doc), &c->v[0].entry.doc) ? ERR_OK : error_no_room(e);
}

/* ---- after the commit ---- */

/* Only v[0] is in the catalog cache: nobody looks up the second entry. */
static void change_apply_to_cache(struct request *q, struct change *c)
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

static void change_on_applied(struct request *q)
{
    if (!q->change->then || q->change->then(q) == HANDLED_DONE)
        request_answer(q);
}

/* True: the request is answered. False: it starts again. */
static bool change_resolve_conflict(struct request *q)
{
    if (q->head.if_match.n) {
        request_refuse(q, PROBLEM_PRECONDITION,
                       "it was changed since you read it; read it again and send its new ETag");
        return true;
    }
    if (++q->change->tries >= TRIES_MAX) {
        request_refuse(q, PROBLEM_CONFLICT, "other requests changed it first, several times; try again");
        return true;
    }
    request_later(q, change_attempt);
    return false;
}

static void change_on_written(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct change *c = q->change;
    if (op->rc) {
        catalog_cache_item_free(take(c->item));
        if (op->rc == ERR_UNAVAILABLE) /* it may have been committed nevertheless */
            uncertain_writes_add(&q->server->uncertain_writes, c->tenant, c->kind, c->name);
    }
    if (request_replayed(q, op))
        return;
    bool lost = op->rc == ERR_CONFLICT || op->rc == ERR_NOT_FOUND; /* another change came first */
    if (lost && strcmp(op->error.field, "calendar") != 0) {
        if (!change_resolve_conflict(q))
            return;
    } else if (op->rc) {
        request_fail(q, &op->error);
    } else {
        change_apply_to_cache(q, c);
        catalog_barrier_wait(q, change_on_applied);
        return;
    }
    request_answer(q);
}

/* ---- one attempt ---- */

static enum err change_read_current(struct request *q, struct reader *r, struct change *c, struct error *e)
{
    enum err rc = reader_catalog_get(r, c->tenant, c->kind, c->name, &q->arena, &c->current, e);
    c->exists = rc == ERR_OK;
    if (!c->exists)
        c->current = (struct catalog_entry){ .created_ms = q->now_ms };
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static void change_prepare(struct request *q, struct change *c)
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
static void change_set_object_name(struct request *q, const struct change *c)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct error ignored;
    bool is_named_by_id = c->kind == CATALOG_NOTIFICATION || c->kind == CATALOG_SIGNING_KEY;
    struct str name;
    if (is_named_by_id && json_parse(c->exists ? c->current.doc : c->v[0].entry.doc, &doc, &ignored) == ERR_OK &&
        arena_str(&q->arena, json_text_at(doc.root, "name"), &name))
        q->object_name = name;
}

static enum handled change_submit(struct request *q, struct change *c)
{
    const struct idempotency *record = request_record(q);
    if (c->stored_answer.n)
        q->record.answer = c->stored_answer;
    change_set_object_name(q, c);
    q->write.catalog = (struct op_catalog){
        .op = { .kind = OP_CATALOG }, .v = c->v, .n = c->n, .now_ms = q->now_ms, .idempotency = record
    };
    return request_submit(q, change_on_written);
}

/* What comes after a change of a calendar is done also if the calendar is the same. */
static bool change_is_same(const struct change *c)
{
    return c->exists && c->n == 1 && !c->then && !c->v[0].remove && str_eq(c->v[0].entry.doc, c->current.doc);
}

/* Nothing changes: the answer is made again, with the version that the entry has. */
static enum handled change_answer_same(struct request *q, struct reader *r, struct change *c)
{
    struct error e = { 0 };
    c->v[0].entry.version = c->current.version;
    c->v[0].entry.updated_ms = c->current.updated_ms;
    buf_reset(c->doc);
    return c->make(q, r, c, &e) ? request_fail(q, &e) : request_store_record(q);
}

static enum handled change_attempt(struct request *q, struct reader *r)
{
    struct change *c = q->change;
    struct error e = { 0 };
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (change_read_current(q, r, c, &e))
        return request_fail(q, &e);
    bool matches = c->exists ? if_match_allows(q->head.if_match, c->current.version) : q->head.if_match.n == 0;
    cleanup_with(buf_release) struct buf doc;
    buf_init(&doc, CATALOG_DOC_MAX);
    c->doc = &doc;
    change_prepare(q, c);
    if (c->make(q, r, c, &e))
        return request_fail(q, &e);
    if (!matches) /* only now: if the entry does not exist, `make` answers 404 */
        return request_refuse(q, PROBLEM_PRECONDITION,
                              "it was changed since you read it; read it again and send its new ETag");
    if (change_is_same(c))
        return change_answer_same(q, r, c);
    if (!c->v[0].remove && catalog_cache_read(&c->v[0].entry, &c->item, &e))
        return request_fail(q, &e); /* no node could use such an entry */
    return change_submit(q, c);
}

enum handled change_begin(struct request *q, struct reader *r, struct change c)
{
    q->change = arena_new(&q->arena, struct change);
    *q->change = c;
    return change_attempt(q, r);
}

/* ---- shared by the resources ---- */

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

enum err catalog_read_all(struct request *q, struct reader *r, enum catalog_kind kind, int32_t tenant,
                          struct catalog_entries *ret, struct error *e)
{
    struct catalog_filter f = { .kind = kind, .tenant = tenant, .limit = CATALOG_LIST_MAX };
    struct catalog_entries all = { 0 };
    for (bool more = true; more;) {
        struct catalog_page page = { 0 };
        if (reader_catalog_list(r, &f, &q->arena, &page, e))
            return e->code;
        struct catalog_entry *v = arena_array(&q->arena, struct catalog_entry, all.n + page.entries.n + 1);
        if (!v)
            return error_set(e, ERR_LIMIT, "the answer would be too large");
        if (all.n)
            memcpy(v, all.v, all.n * sizeof *v);
        if (page.entries.n)
            memcpy(v + all.n, page.entries.v, page.entries.n * sizeof *v);
        all = (struct catalog_entries){ v, all.n + page.entries.n };
        more = page.more && all.n;
        if (more)
            f.after = v[all.n - 1].name;
    }
    *ret = all;
    return ERR_OK;
}

struct str catalog_id_name(struct request *q, struct uuid id)
{
    char *text = arena_array(&q->arena, char, UUID_TEXT + 1);
    if (!text)
        return (struct str){ 0 };
    uuid_format(id, text);
    return (struct str){ text, UUID_TEXT };
}

bool name_page_read(struct request *q, struct name_page *ret)
{
    static const struct query_field fields[] = {
        { "limit", QUERY_I64, offsetof(struct name_page, limit), 1, LIST_MAX, NULL },
        { "cursor", QUERY_TEXT, offsetof(struct name_page, cursor), 0, SEAL_TEXT_MAX, NULL },
    };
    struct error e = { 0 };
    *ret = (struct name_page){ .limit = LIST_DEFAULT };
    if (query_read(q->query, fields, array_count(fields), ret, &q->arena, &e) == ERR_OK &&
        seal_open_name(q, ret->cursor, &ret->after, &e) == ERR_OK)
        return true;
    request_fail(q, &e);
    return false;
}

enum handled catalog_list_answer(struct request *q, struct reader *r, enum catalog_kind kind, const char *member,
                                 catalog_write_fn write)
{
    struct name_page page;
    return name_page_read(q, &page) ? catalog_page_answer(q, r, &page, kind, member, write) : HANDLED_DONE;
}

/* What a page has so far. */
struct catalog_shown {
    size_t n, seen;
    struct str last; /* the name of the last entry that was looked at */
    bool more;
};

/* Writes entries until the page is full. An entry that `write` leaves out adds nothing to the body. */
static enum err catalog_page_write(struct request *q, struct jw *w, const struct catalog_page *found, size_t limit,
                                   catalog_write_fn write, struct catalog_shown *shown, struct error *e)
{
    size_t i = 0;
    for (; i < found->entries.n && shown->n < limit; i++) {
        size_t before = q->response.body.n;
        if (write(q, w, &found->entries.v[i], e))
            return e->code;
        shown->n += q->response.body.n > before;
        shown->last = found->entries.v[i].name;
    }
    shown->seen += i;
    shown->more = i < found->entries.n || (found->more && found->entries.n);
    return ERR_OK;
}

enum handled catalog_page_answer(struct request *q, struct reader *r, const struct name_page *page,
                                 enum catalog_kind kind, const char *member, catalog_write_fn write)
{
    struct error e = { 0 };
    struct catalog_shown shown = { .last = page->after, .more = true };
    struct catalog_filter f = { .kind = kind, .tenant = q->who.tenant, .limit = (size_t)page->limit };
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, member);
    jw_array(&w);
    while (shown.more && shown.n < f.limit && shown.seen < CATALOG_LIST_MAX) {
        struct catalog_page found = { 0 };
        f.after = shown.last;
        if (reader_catalog_list(r, &f, &q->arena, &found, &e) ||
            catalog_page_write(q, &w, &found, f.limit, write, &shown, &e))
            return request_fail(q, &e);
    }
    jw_array_end(&w);
    pagination_write(
        q, &w, &(struct pagination){ .limit = page->limit, .total = -1, .more = shown.more, .next_name = shown.last });
    jw_object_end(&w);
    return HANDLED_DONE;
}

enum handled catalog_get_answer(struct request *q, struct reader *r, enum catalog_kind kind, struct str name,
                                const char *what, catalog_write_fn write)
{
    struct error e = { 0 };
    struct catalog_entry entry;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    enum err rc = reader_catalog_get(r, q->who.tenant, kind, name, &q->arena, &entry, &e);
    if (rc == ERR_NOT_FOUND)
        error_set(&e, rc, "there is no such %s", what);
    if (rc)
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    if (write(q, &w, &entry, &e))
        return request_fail(q, &e);
    respond_etag(&q->response, entry.version);
    return HANDLED_DONE;
}

void catalog_entry_members(struct jw *w, const struct catalog_entry *entry)
{
    jw_kv_i64(w, "version", entry->version);
    jw_kv_time(w, "created_at", entry->created_ms);
    jw_kv_time(w, "updated_at", entry->updated_ms);
}

/* ---- who changes ---- */

enum err change_sender(struct request *q, struct reader *r, struct str sender, struct str *ret_name,
                       struct str *ret_key, struct error *e)
{
    struct api_key key;
    enum err rc = reader_key(r, sender, &q->arena, &key, e);
    bool is_key = rc == ERR_OK && key.tenant == q->who.tenant;
    *ret_name = is_key && key.name.n ? key.name : sender;
    *ret_key = is_key ? key.id : (struct str){ NULL, 0 };
    return rc == ERR_NOT_FOUND ? ERR_OK : rc; /* it was revoked a moment ago */
}

enum err change_sender_name(struct request *q, struct reader *r, struct str sender, struct str *ret, struct error *e)
{
    struct str key;
    return change_sender(q, r, sender, ret, &key, e);
}

enum err change_key_name(struct request *q, struct reader *r, struct str *ret, struct error *e)
{
    return change_sender_name(q, r, str_from(q->who.key_id), ret, e);
}
