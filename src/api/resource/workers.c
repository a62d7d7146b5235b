/* The workers of a fleet, as they last reported themselves. */
#include "api/server/internal.h"
#include "api/server/query.h"
#include "base/json/json.h"

enum { PAGE = 200, SILENT_SHOWN_MS = 3600000 };

static const char *workers_state_of(const struct worker_row *row, int64_t now_ms)
{
    if (row->left_ms)
        return "left";
    return now_ms - row->seen_ms > WORKER_SILENT_MS ? "silent" : "alive";
}

static void workers_write(struct jw *w, const struct worker_row *row, int64_t now_ms)
{
    jw_object(w);
    jw_kv_uuid(w, "id", row->id);
    jw_kv_str(w, "name", row->name);
    jw_kv_str(w, "version", row->version);
    jw_kv_cstr(w, "state", workers_state_of(row, now_ms));
    jw_kv_i64(w, "slots", row->slots);
    jw_kv_i64(w, "running", row->running);
    jw_kv_time(w, "joined_at", row->joined_ms);
    jw_kv_time(w, "seen_at", row->seen_ms);
    if (row->left_ms)
        jw_kv_time(w, "left_at", row->left_ms);
    jw_key(w, "about");
    jw_raw(w, row->doc.n ? row->doc : S("{}"));
    jw_object_end(w);
}

struct workers_query {
    int64_t limit;
    struct str cursor;
    struct uuid before; /* the cursor's */
    int all;            /* 1: no, 2: yes */
};

static bool workers_is_shown(const struct workers_query *p, const struct worker_row *row, int64_t now_ms)
{
    return p->all == 2 || (!row->left_ms && now_ms - row->seen_ms <= SILENT_SHOWN_MS);
}

/* Writes a page. Workers that are gone are skipped, so a page may take several reads. Afterwards `before` of *p is
 * the start of the next page; nil at the end. */
static enum err workers_write_list(struct request *q, struct reader *r, struct workers_query *p, struct jw *w,
                                   struct error *e)
{
    struct worker_rows rows;
    do {
        rows = (struct worker_rows){ 0 };
        if (reader_workers(r, p->before, PAGE, &q->arena, &rows, e))
            return e->code;
        for (size_t i = 0; i < rows.n; i++) {
            if (workers_is_shown(p, &rows.v[i], q->now_ms)) {
                if (p->limit == 0)
                    return ERR_OK;
                workers_write(w, &rows.v[i], q->now_ms);
                p->limit--;
            }
            p->before = rows.v[i].id;
        }
    } while (rows.n == PAGE);
    p->before = (struct uuid){ 0 };
    return ERR_OK;
}

enum handled workers_list(struct request *q, struct reader *r)
{
    static const char *const yes_no[] = { "false", "true", NULL };
    static const struct query_field fields[] = {
        { .name = "limit", .kind = QUERY_I64, .min = 1, .max = LIST_MAX },
        { .name = "cursor",
          .kind = QUERY_TEXT,
          .offset = offsetof(struct workers_query, cursor),
          .max = SEAL_TEXT_MAX },
        { .name = "all", .kind = QUERY_CHOICE, .offset = offsetof(struct workers_query, all), .names = yes_no },
    };
    struct workers_query p = { .limit = LIST_DEFAULT };
    struct error e = { 0 };
    if (!request_require_default_tenant(q))
        return HANDLED_DONE;
    if (query_read(q->query, fields, array_count(fields), &p, &q->arena, &e) ||
        seal_open_id(q, p.cursor, &p.before, &e))
        return request_fail(q, &e);
    int64_t limit = p.limit;
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "workers");
    jw_array(&w);
    if (workers_write_list(q, r, &p, &w, &e))
        return request_fail(q, &e);
    jw_array_end(&w);
    pagination_write(
        q, &w, &(struct pagination){ .more = !uuid_is_nil(p.before), .next = p.before, .limit = limit, .total = -1 });
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* The smallest id above this one: lists go downwards from there. Nil, which means all, if there is none. */
static struct uuid workers_id_above(struct uuid id)
{
    for (size_t i = sizeof id.b; i > 0 && ++id.b[i - 1] == 0; i--)
        ;
    return id;
}

enum handled workers_get(struct request *q, struct reader *r)
{
    struct worker_rows rows = { 0 };
    struct error e = { 0 };
    if (!request_require_default_tenant(q))
        return HANDLED_DONE;
    if (query_read(q->query, NULL, 0, NULL, &q->arena, &e) ||
        reader_workers(r, workers_id_above(q->id), 1, &q->arena, &rows, &e))
        return request_fail(q, &e);
    if (rows.n == 0 || !uuid_eq(rows.v[0].id, q->id))
        return request_refuse(q, PROBLEM_NOT_FOUND, "there is no such worker, or it left long ago");
    struct jw w = respond_json(&q->response, 200);
    workers_write(&w, &rows.v[0], q->now_ms);
    return HANDLED_DONE;
}
