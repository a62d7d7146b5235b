#include "api/catalog/catalog_list.h"

#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_input.h"

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
