/* Reads records other than tasks: API keys, dedupe keys, the catalog; and dead letters grouped by cause. */
#include <stdlib.h>

#include "store/sqlite/reader/reader.h"

/* ---- API keys and dedupe keys ---- */

static enum err reader_sqlite_read_keys(struct reader_sqlite *r, sqlite3_stmt *st, struct arena *a,
                                        struct key_list *list, struct error *e)
{
    for (bool row; list->n < LIST_MAX; list->n++) {
        if (conn_step(&r->conn, st, &row, e))
            return e->code;
        if (!row)
            break;
        if (row_read(&r->conn, st, 1, &table_api_keys, a, &list->v[list->n], e))
            return e->code;
    }
    return ERR_OK;
}

enum err reader_sqlite_keys(struct reader *base, int32_t tenant, struct arena *a, struct key_list *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_KEYS);
    struct key_list list = { .v = arena_array(a, struct api_key, LIST_MAX) };
    if (!list.v)
        return reader_no_room(e);
    sqlite3_bind_int(st, 1, tenant);
    sqlite3_bind_int(st, 2, LIST_MAX);
    enum err rc = reader_sqlite_read_keys(r, st, a, &list, e);
    sqlite3_reset(st);
    if (!rc)
        *ret = list;
    return rc;
}

enum err reader_sqlite_dedupe(struct reader *base, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                              struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_DEDUPE);
    bool row;
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_str(st, 2, key);
    sqlite3_bind_int64(st, 3, now_ms);
    if (conn_step(&r->conn, st, &row, e))
        return e->code;
    if (!row)
        return reader_not_found("task", e);
    *ret = row_uuid(st, 0);
    sqlite3_reset(st);
    return ERR_OK;
}

/* ---- names of tasks ---- */

/* Finds the next name behind `after`; *ret_found false: none. */
static enum err reader_sqlite_next_name(struct reader_sqlite *r, int32_t tenant, struct str after, struct arena *a,
                                        struct str *ret, bool *ret_found, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_NEXT_NAME);
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_str(st, 2, after);
    if (conn_step(&r->conn, st, ret_found, e))
        return e->code;
    if (!*ret_found)
        return ERR_OK;
    struct str name = { (const char *)sqlite3_column_text(st, 0), (size_t)sqlite3_column_bytes(st, 0) };
    bool fits = arena_str(a, name, ret);
    sqlite3_reset(st);
    return fits ? ERR_OK : reader_no_room(e);
}

/* Reads the newest task of a name. *ret_found false: all tasks of this name are deleted. */
static enum err reader_sqlite_named(struct reader_sqlite *r, int32_t tenant, struct str name, struct task_name *ret,
                                    bool *ret_found, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_NAMED);
    bool second = false;
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_str(st, 2, name);
    if (conn_step(&r->conn, st, ret_found, e))
        return e->code;
    if (!*ret_found)
        return ERR_OK;
    *ret = (struct task_name){ .name = name, .newest = row_uuid(st, 0) };
    if (conn_step(&r->conn, st, &second, e))
        return e->code;
    ret->is_only = !second;
    sqlite3_reset(st);
    return ERR_OK;
}

enum err reader_sqlite_names(struct reader *base, int32_t tenant, struct str prefix, size_t max, struct arena *a,
                             struct task_names *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    struct task_names names = { .v = arena_array(a, struct task_name, max) };
    struct str name = prefix;
    if (!names.v)
        return reader_no_room(e);
    for (bool more = true; more && str_starts(name, prefix) && names.n < max;) {
        bool found = false;
        if ((name.n && reader_sqlite_named(r, tenant, name, &names.v[names.n], &found, e)) ||
            reader_sqlite_next_name(r, tenant, name, a, &name, &more, e))
            return e->code;
        names.n += found;
    }
    *ret = names;
    return ERR_OK;
}

/* ---- runs that have not started ---- */

enum err reader_sqlite_unstarted(struct reader *base, struct task *v, size_t n, int64_t now_ms, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_UNSTARTED);
    for (size_t i = 0; i < n; i++) {
        bool row;
        if (v[i].kind != TASK_RECURRING)
            continue;
        struct uuid from = unstarted_from(&v[i], now_ms);
        (void)bind_uuid(st, 1, &v[i].id);
        (void)bind_uuid(st, 2, &from);
        sqlite3_bind_int64(st, 3, now_ms);
        if (conn_step(&r->conn, st, &row, e))
            return e->code;
        v[i].unstarted_count = sqlite3_column_int64(st, 0);
        sqlite3_reset(st);
    }
    return ERR_OK;
}

/* ---- dead letters by their cause ---- */

/* Each cause is read by a statement of its own, so that no snapshot is held for long. After CAUSE_TASKS_MAX dead
 * letters the other causes are left out. */
enum { CAUSE_TASKS_MAX = 1000000, CAUSES_MIN = 16 };

struct cause_grouping {
    struct conn *conn;
    int32_t tenant;
    struct cause_group *v; /* their causes are in the arena */
    size_t n, cap;
    int64_t counted;
};

/* Finds the next cause behind `after`; *ret_found false: none. */
static enum err reader_sqlite_next_cause(struct cause_grouping *g, struct str after, struct arena *a, struct str *ret,
                                         bool *ret_found, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(g->conn, RD_NEXT_CAUSE);
    sqlite3_bind_int(st, 1, g->tenant);
    (void)bind_str(st, 2, after);
    if (conn_step(g->conn, st, ret_found, e))
        return e->code;
    if (!*ret_found)
        return ERR_OK;
    struct str cause = { (const char *)sqlite3_column_text(st, 0), (size_t)sqlite3_column_bytes(st, 0) };
    bool fits = arena_str(a, cause, ret);
    sqlite3_reset(st);
    return fits ? ERR_OK : reader_no_room(e);
}

static enum err reader_sqlite_add_cause(struct cause_grouping *g, struct str cause, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(g->conn, RD_CAUSE);
    bool row;
    sqlite3_bind_int(st, 1, g->tenant);
    if (cause.n)
        (void)bind_str(st, 2, cause);
    else
        sqlite3_bind_null(st, 2);
    sqlite3_bind_int(st, 3, COUNT_SLOW_MAX);
    if (conn_step(g->conn, st, &row, e))
        return e->code;
    struct cause_group x = { .cause = cause,
                             .count = sqlite3_column_int64(st, 0),
                             .first_failed_ms = sqlite3_column_int64(st, 1),
                             .last_failed_ms = sqlite3_column_int64(st, 2),
                             .latest = row_uuid(st, 3) };
    sqlite3_reset(st);
    g->counted += x.count;
    if (x.count == 0) /* there is none without a cause, or it was resolved a moment ago */
        return ERR_OK;
    if (g->n == g->cap) {
        g->cap = g->cap * 2 + CAUSES_MIN;
        g->v = xrealloc(g->v, g->cap * sizeof *g->v);
    }
    g->v[g->n++] = x;
    return ERR_OK;
}

static enum err reader_sqlite_add_causes(struct cause_grouping *g, struct arena *a, struct error *e)
{
    struct str cause = S("");
    for (bool found = true; found && g->counted < CAUSE_TASKS_MAX;) {
        if (reader_sqlite_add_cause(g, cause, e) || reader_sqlite_next_cause(g, cause, a, &cause, &found, e))
            return e->code;
    }
    return ERR_OK;
}

static enum err reader_sqlite_last_error(struct cause_grouping *g, struct uuid id, struct arena *a, struct str *ret,
                                         struct error *e)
{
    sqlite3_stmt *st = conn_stmt(g->conn, RD_LAST_ERROR);
    bool row;
    (void)bind_uuid(st, 1, &id);
    if (conn_step(g->conn, st, &row, e))
        return e->code;
    struct str text =
        row ? (struct str){ (const char *)sqlite3_column_text(st, 0), (size_t)sqlite3_column_bytes(st, 0) } : S("");
    bool fits = arena_str(a, text, ret);
    sqlite3_reset(st);
    return fits ? ERR_OK : reader_no_room(e);
}

static int reader_sqlite_compare_causes(const void *a, const void *b)
{
    const struct cause_group *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : str_cmp(x->cause, y->cause);
}

static enum err reader_sqlite_take_largest(struct cause_grouping *g, size_t max, struct arena *a,
                                           struct cause_groups *ret, struct error *e)
{
    if (g->n)
        qsort(g->v, g->n, sizeof *g->v, reader_sqlite_compare_causes);
    struct cause_groups copy = { .n = min_of(g->n, max) };
    copy.v = arena_array(a, struct cause_group, copy.n);
    if (!copy.v)
        return reader_no_room(e);
    for (size_t i = 0; i < copy.n; i++) {
        copy.v[i] = g->v[i];
        if (reader_sqlite_last_error(g, copy.v[i].latest, a, &copy.v[i].last_error, e))
            return e->code;
    }
    *ret = copy;
    return ERR_OK;
}

enum err reader_sqlite_causes(struct reader *base, int32_t tenant, size_t max, struct arena *a,
                              struct cause_groups *ret, struct error *e)
{
    struct cause_grouping g = { .conn = &reader_sqlite_of(base)->conn, .tenant = tenant };
    enum err rc = reader_sqlite_add_causes(&g, a, e);
    if (!rc)
        rc = reader_sqlite_take_largest(&g, max, a, ret, e);
    free(g.v);
    return rc;
}

/* ---- the catalog ---- */

enum err reader_sqlite_catalog_get(struct reader *base, int32_t tenant, enum catalog_kind kind, struct str name,
                                   struct arena *a, struct catalog_entry *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_CATALOG);
    struct catalog_entry x = { 0 };
    bool found;
    sqlite3_bind_int(st, 1, (int)kind);
    sqlite3_bind_int(st, 2, tenant);
    (void)bind_str(st, 3, name);
    if (reader_sqlite_read_one(r, st, &table_catalog, a, &x, &found, e))
        return e->code;
    if (!found)
        return reader_not_found("entry", e);
    *ret = x;
    return ERR_OK;
}

static enum err reader_sqlite_read_catalog_page(struct reader_sqlite *r, sqlite3_stmt *st, size_t limit,
                                                struct arena *a, struct catalog_page *page, struct error *e)
{
    for (bool row;;) {
        if (conn_step(&r->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        if (page->entries.n == limit) {
            page->more = true;
            return ERR_OK;
        }
        if (row_read(&r->conn, st, 1, &table_catalog, a, &page->entries.v[page->entries.n++], e))
            return e->code;
    }
}

enum err reader_sqlite_catalog_list(struct reader *base, const struct catalog_filter *f, struct arena *a,
                                    struct catalog_page *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, f->all_tenants ? RD_CATALOG_LIST_ALL : RD_CATALOG_LIST);
    struct catalog_page page = { .entries.v = arena_array(a, struct catalog_entry, f->limit) };
    if (!page.entries.v)
        return reader_no_room(e);
    sqlite3_bind_int(st, 1, (int)f->kind);
    sqlite3_bind_int(st, 2, !f->all_tenants ? f->tenant : f->after.n ? f->after_tenant : -1);
    (void)bind_str(st, 3, f->after);
    sqlite3_bind_int64(st, 4, (int64_t)f->limit + 1);
    enum err rc = reader_sqlite_read_catalog_page(r, st, f->limit, a, &page, e);
    sqlite3_reset(st);
    if (!rc)
        *ret = page;
    return rc;
}

enum err reader_sqlite_sealed(struct reader *base, struct str key_id, bool *ret, struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    sqlite3_stmt *st = conn_stmt(c, RD_SEALED);
    (void)bind_str(st, 1, key_id);
    enum err rc = conn_step(c, st, ret, e);
    sqlite3_reset(st);
    return rc;
}

static struct task reader_sqlite_sealed_task(sqlite3_stmt *st)
{
    enum { ID, TENANT, KIND, PARENT, STATE, CONFIG };
    return (struct task){
        .id = row_uuid(st, ID),
        .tenant = sqlite3_column_int(st, TENANT),
        .kind = (enum task_kind)sqlite3_column_int(st, KIND),
        .parent = row_uuid(st, PARENT),
        .state = (enum task_state)sqlite3_column_int(st, STATE),
        .target_config = row_text(st, CONFIG),
    };
}

enum err reader_sqlite_sealed_page(struct reader *base, struct str key_id, struct uuid after, size_t max,
                                   struct arena *a, struct sealed_page *ret, struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    sqlite3_stmt *st = conn_stmt(c, RD_SEALED_PAGE);
    struct sealed_page page = { .tasks.v = arena_array(a, struct task, max) };
    if (!page.tasks.v)
        return reader_no_room(e);
    (void)bind_str(st, 1, key_id);
    sqlite3_bind_blob(st, 2, after.b, sizeof after.b, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, (int64_t)max);
    enum err rc = ERR_OK;
    bool row = true;
    for (size_t i = 0; !rc && row && i < max; i++) {
        rc = conn_step(c, st, &row, e);
        if (rc || !row)
            break;
        struct task t = reader_sqlite_sealed_task(st);
        rc = sealed_page_add(&page, &t, i, max, a, &row, e);
    }
    sqlite3_reset(st);
    if (!rc)
        *ret = page;
    return rc;
}

enum err reader_sqlite_key_prints(struct reader *base, struct key_prints *ret, struct error *e)
{
    return sqlite_key_prints(&reader_sqlite_of(base)->conn, ret, e);
}

/* ---- what ran, over all tasks ---- */

enum { HISTORY_SLICE = 4000 };
#define HISTORY_SLACK_US 60000000 /* rows are written nearly in the order of completed_us */

/* The rows that can matter, and where the walk is: rows below `above`. */
struct history_walk {
    int64_t lowest, above;
    int64_t visited;
};

/* The completed_us of the first row at or above rowid; INT64_MAX: there is none. */
static enum err reader_sqlite_history_at(struct conn *c, int64_t rowid, int64_t *ret_us, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(c, RD_HISTORY_AT);
    bool row;
    sqlite3_bind_int64(st, 1, rowid);
    if (conn_step(c, st, &row, e))
        return e->code;
    *ret_us = row ? sqlite3_column_int64(st, 1) : INT64_MAX;
    sqlite3_reset(st);
    return ERR_OK;
}

/* The lowest rowid in low..high whose row, or the next one, ended at or after us; high: none did. */
static enum err reader_sqlite_history_find(struct conn *c, int64_t us, int64_t low, int64_t high, int64_t *ret,
                                           struct error *e)
{
    while (low < high) {
        int64_t middle = low + (high - low) / 2, at_us;
        if (reader_sqlite_history_at(c, middle, &at_us, e))
            return e->code;
        if (at_us < us)
            low = middle + 1;
        else
            high = middle;
    }
    *ret = low;
    return ERR_OK;
}

static enum err reader_sqlite_history_start(struct conn *c, const struct history_filter *f, struct history_walk *w,
                                            struct error *e)
{
    sqlite3_stmt *st = conn_stmt(c, RD_HISTORY_ENDS);
    int64_t skip;
    bool row;
    if (conn_step(c, st, &row, e))
        return e->code;
    int64_t first = sqlite3_column_int64(st, 0), end = sqlite3_column_int64(st, 1) + 1;
    sqlite3_reset(st);
    *w = (struct history_walk){ .lowest = first, .above = end };
    if (f->from_us && reader_sqlite_history_find(c, f->from_us - HISTORY_SLACK_US, first, end, &w->lowest, e))
        return e->code;
    if (!uuid_is_nil(f->before))
        reader_place_read(f->before, &w->above, &skip);
    else if (reader_sqlite_history_find(c, f->to_us + HISTORY_SLACK_US, first, end, &w->above, e))
        return e->code;
    return ERR_OK;
}

/* Reads the current row; *ret_wanted false: its task is in another queue. */
static enum err reader_sqlite_history_row(struct reader_sqlite *r, sqlite3_stmt *st, const struct history_filter *f,
                                          struct arena *a, struct history_row *ret, bool *ret_wanted, struct error *e)
{
    int after = 1 + table_executions.count;
    const struct lane_row *lane;
    struct str queue = row_text(st, after + 2);
    if (!queue.n && sqlite3_column_type(st, after + 1) != SQLITE_NULL) {
        if (lanes_at(&r->conn, sqlite3_column_int64(st, after + 1), &lane, e))
            return e->code;
        queue = lane->lane.queue;
    }
    *ret_wanted = !f->queue.n || str_eq(f->queue, queue);
    if (!*ret_wanted)
        return ERR_OK;
    *ret = (struct history_row){ 0 };
    if (!arena_str(a, row_text(st, after), &ret->name) || !arena_str(a, queue, &ret->queue))
        return reader_no_room(e);
    return row_read(&r->conn, st, 1, &table_executions, a, &ret->execution, e);
}

/* Adds the wanted rows of one slice to the page, until it is full. */
static enum err reader_sqlite_history_slice(struct reader_sqlite *r, const struct history_filter *f,
                                            struct history_walk *w, struct arena *a, struct history_page *page,
                                            struct error *e)
{
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_HISTORY);
    int64_t from = max_of(w->lowest, w->above - HISTORY_SLICE);
    sqlite3_bind_int64(st, 1, w->above);
    sqlite3_bind_int64(st, 2, from);
    sqlite3_bind_int(st, 3, f->tenant);
    sqlite3_bind_int(st, 4, (int)f->statuses);
    (void)bind_str(st, 5, f->worker);
    sqlite3_bind_int64(st, 6, f->from_us);
    sqlite3_bind_int64(st, 7, f->to_us);
    (void)bind_str(st, 8, f->error);
    enum err rc = ERR_OK;
    for (bool row, wanted = false; page->n < f->limit;) {
        rc = conn_step(&r->conn, st, &row, e);
        if (rc || !row)
            break;
        w->above = sqlite3_column_int64(st, 0);
        rc = reader_sqlite_history_row(r, st, f, a, &page->v[page->n], &wanted, e);
        if (rc)
            break;
        page->n += wanted;
    }
    sqlite3_reset(st);
    if (page->n < f->limit)
        w->above = from;
    w->visited += HISTORY_SLICE;
    return rc;
}

enum err reader_sqlite_history(struct reader *base, const struct history_filter *f, struct arena *a,
                               struct history_page *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    struct history_page page = { .v = arena_array(a, struct history_row, f->limit) };
    struct history_walk w;
    if (!page.v)
        return reader_no_room(e);
    if (reader_sqlite_history_start(&r->conn, f, &w, e))
        return e->code;
    while (page.n < f->limit && w.above > w.lowest && w.visited < LIST_VISIT_MAX)
        if (reader_sqlite_history_slice(r, f, &w, a, &page, e))
            return e->code;
    page.more = w.above > w.lowest;
    page.next_before = reader_place(w.above, 1);
    *ret = page;
    return ERR_OK;
}
