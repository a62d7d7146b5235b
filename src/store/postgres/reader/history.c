/* What ran, over all tasks. */
#include "store/postgres/reader/reader.h"

/* Rows are found by slices of time, whose blocks a BRIN index knows. A slice with more than HISTORY_ROWS rows is made
 * shorter first, so that no read visits many more than it needs. */
enum { HISTORY_ROWS = 20000, HISTORY_SHORTEST_US = 1000, HISTORY_FIRST_US = 10000000 };

struct history_slice {
    int64_t from_us, to_us, width_us;
    int64_t skip; /* rows that ended in the last microsecond of the slice and were on the page before */
    int64_t visited;
};

/* The session walks indexes by id and allows no bitmaps; BRIN has nothing else. A pooler's sessions stay as they
 * are. */
static enum err pg_history_allow_bitmaps(struct pg_reader *r, bool may_lag, struct str on, struct error *e)
{
    static const struct pg_statement allow = { "allow_bitmaps", "SELECT set_config('enable_bitmapscan', $1, false)" };
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    if (!r->current.conn.prepare)
        return ERR_OK;
    pg_add_text(pg_reader_params(r), on);
    return pg_reader_run(r, may_lag, &allow, &got, e);
}

/* An attempt has begun before it ends: later partitions need not be read. */
#define HISTORY_SLICE_ROWS "FROM executions WHERE completed_us >= $1 AND completed_us < $2 AND id < $3 "

static void pg_history_add_slice(struct pg_reader *r, const struct history_slice *s)
{
    pg_add_i64(pg_reader_params(r), s->from_us);
    pg_add_i64(&r->params, s->to_us);
    pg_add_uuid(&r->params, uuid_floor(s->to_us / 1000 + 1));
}

static enum err pg_history_count(struct pg_reader *r, bool may_lag, const struct history_slice *s, int64_t *ret,
                                 struct error *e)
{
    static const struct pg_statement count = { "count_history",
                                               "SELECT count(*) FROM (SELECT 1 " HISTORY_SLICE_ROWS "LIMIT $4) AS x" };
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_history_add_slice(r, s);
    pg_add_i64(&r->params, HISTORY_ROWS + 1);
    if (pg_reader_run(r, may_lag, &count, &got, e))
        return e->code;
    *ret = pg_i64(&got, 0, 0);
    return ERR_OK;
}

/* Chooses the beginning of the slice that ends at to_us. */
static enum err pg_history_choose(struct pg_reader *r, const struct history_filter *f, struct history_slice *s,
                                  struct error *e)
{
    for (int64_t rows = 0;;) {
        s->from_us = max_of(f->from_us, s->to_us - s->width_us);
        if (pg_history_count(r, f->may_lag, s, &rows, e))
            return e->code;
        bool too_many = rows > HISTORY_ROWS && s->width_us > HISTORY_SHORTEST_US;
        if (too_many) {
            s->width_us /= 4;
            continue;
        }
        s->visited += rows;
        if (rows < HISTORY_ROWS / 8 && s->width_us < INT64_MAX / 8)
            s->width_us *= 4;
        return ERR_OK;
    }
}

static enum err pg_history_read_row(struct pg_reader *r, const struct pg_result *got, int i, struct arena *a,
                                    struct history_row *ret, struct error *e)
{
    int after = 1 + table_executions.count;
    *ret = (struct history_row){ 0 };
    if (!arena_str(a, pg_text(got, i, after), &ret->name) || !arena_str(a, pg_text(got, i, after + 1), &ret->queue))
        return reader_no_room(e);
    return pg_row_read(r->last_conn, &r->lanes, got, i, 1, &table_executions, a, &ret->execution, e);
}

/* Adds the rows of the slice that match to the page. *ret_over: there are more than the page takes. */
static enum err pg_history_read_slice(struct pg_reader *r, const struct history_filter *f,
                                      const struct history_slice *s, struct arena *a, struct history_page *page,
                                      bool *ret_over, struct error *e)
{
    static const struct pg_statement rows = {
        "read_history",
        "SELECT 0" EXECUTION_COLUMNS(
            SQL_NAME) ", task_name, task_queue FROM (SELECT x.*, t.name AS task_name, "
                      "coalesce(t.queue, l.queue) AS task_queue FROM (SELECT * " HISTORY_SLICE_ROWS
                      "AND tenant_id = $4 AND ($5 = 0 OR ($5 >> status) & 1 = 1) "
                      "AND ($6 = '' OR worker = $6) AND ($10 = '' OR error = $10)) AS x LEFT JOIN tasks AS t "
                      "ON t.id = coalesce(x.occurrence_id, x.task_id) "
                      "LEFT JOIN lanes AS l ON l.lane = t.lane) AS x "
                      "WHERE ($7 = '' OR task_queue = $7) "
                      "ORDER BY completed_us DESC, id DESC OFFSET $8 LIMIT $9"
    };
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    size_t room = f->limit - page->n;
    pg_history_add_slice(r, s);
    pg_add_i32(&r->params, f->tenant);
    pg_add_i32(&r->params, (int32_t)f->statuses);
    pg_add_text(&r->params, f->worker);
    pg_add_text(&r->params, f->queue);
    pg_add_i64(&r->params, s->skip);
    pg_add_i64(&r->params, (int64_t)room + 1);
    pg_add_text(&r->params, f->error);
    if (pg_reader_run(r, f->may_lag, &rows, &got, e))
        return e->code;
    *ret_over = (size_t)got.rows > room;
    for (int i = 0; i < got.rows && (size_t)i < room; i++)
        if (pg_history_read_row(r, &got, i, a, &page->v[page->n++], e))
            return e->code;
    return ERR_OK;
}

/* The place behind the last row of a full page. */
static struct uuid pg_history_place(const struct history_page *page, const struct history_slice *s)
{
    int64_t us = page->v[page->n - 1].execution.completed_us, same = 0;
    while ((size_t)same < page->n && page->v[page->n - 1 - (size_t)same].execution.completed_us == us)
        same++;
    return reader_place(us + 1, same + (us + 1 == s->to_us ? s->skip : 0));
}

static enum err pg_history_read(struct pg_reader *r, const struct history_filter *f, struct arena *a,
                                struct history_page *page, struct error *e)
{
    struct history_slice s = { .to_us = f->to_us, .width_us = HISTORY_FIRST_US };
    if (!uuid_is_nil(f->before))
        reader_place_read(f->before, &s.to_us, &s.skip);
    while (s.to_us > f->from_us && s.visited < LIST_VISIT_MAX) {
        bool over = false;
        if (pg_history_choose(r, f, &s, e) || pg_history_read_slice(r, f, &s, a, page, &over, e))
            return e->code;
        if (over) {
            page->more = true;
            page->next_before = pg_history_place(page, &s);
            return ERR_OK;
        }
        s.to_us = s.from_us;
        s.skip = 0;
    }
    page->more = s.to_us > f->from_us;
    page->next_before = reader_place(s.to_us, 0);
    return ERR_OK;
}

enum err reader_postgres_history(struct reader *base, const struct history_filter *f, struct arena *a,
                                 struct history_page *ret, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    struct history_page page = { .v = arena_array(a, struct history_row, f->limit) };
    struct error ignored;
    e = pg_reader_error(base, e);
    if (!page.v)
        return reader_no_room(e);
    if (pg_history_allow_bitmaps(r, f->may_lag, S("on"), e))
        return e->code;
    bool may_match = text_is_clean(f->worker) && text_is_clean(f->queue) && text_is_clean(f->error);
    enum err rc = may_match ? pg_history_read(r, f, a, &page, e) : ERR_OK;
    (void)pg_history_allow_bitmaps(r, f->may_lag, S("off"), &ignored);
    if (!rc)
        *ret = page;
    return rc;
}
