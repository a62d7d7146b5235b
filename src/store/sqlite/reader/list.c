/* Pages of tasks and of executions.
 *
 * A list walks one index downwards by id and checks every row against the filter. It walks in slices and gives up its
 * snapshot between them, so that the write-ahead log can be restarted however long a search takes. After LIST_VISIT_MAX
 * rows the page ends, even if few rows matched, with `more` and the position to continue from. So no page is slow,
 * whatever the filter. */
#include "store/sqlite/reader/reader.h"

enum { SLICE = 4000 };

/* ---- walking down an index ---- */

struct index_walk {
    struct reader_sqlite *r;
    sqlite3_stmt *st; /* ?1 is bound */
    int32_t tenant;
    int id_column;
    struct uuid before; /* the id of the last visited row */
    int64_t visited;
    /* Checks the current row of st; sets *stop to end the walk at it. */
    enum err (*visit)(struct index_walk *w, bool *stop, struct error *e);
    void *context;
    struct arena *arena;
};

static const struct uuid highest = { { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                       255 } };

static enum err reader_sqlite_walk_slice(struct index_walk *w, int *ret_rows, bool *stop, struct error *e)
{
    sqlite3_bind_blob(w->st, 2, w->before.b, sizeof w->before.b, SQLITE_TRANSIENT);
    sqlite3_bind_int(w->st, 3, SLICE);
    sqlite3_bind_int(w->st, 4, w->tenant);
    int rows = 0;
    enum err rc = ERR_OK;
    while (!rc && !*stop) {
        bool row;
        rc = conn_step(&w->r->conn, w->st, &row, e);
        if (rc || !row)
            break;
        rows++;
        rc = w->visit(w, stop, e);
        if (!*stop)
            w->before = row_uuid(w->st, w->id_column);
    }
    sqlite3_reset(w->st);
    *ret_rows = rows;
    return rc;
}

/* Walks until a visit says stop, no row is left, or LIST_VISIT_MAX rows were visited (*ret_cut). */
static enum err reader_sqlite_walk_down(struct index_walk *w, bool *ret_cut, struct error *e)
{
    bool stop = false;
    int rows = SLICE;
    w->before = uuid_is_nil(w->before) ? highest : w->before;
    while (!stop && rows == SLICE && w->visited < LIST_VISIT_MAX) {
        if (reader_sqlite_walk_slice(w, &rows, &stop, e))
            return e->code;
        w->visited += rows;
    }
    *ret_cut = !stop && rows == SLICE;
    return ERR_OK;
}

/* ---- tasks ---- */

static bool reader_sqlite_name_matches(struct str wanted, struct str name)
{
    return name_is_prefix(wanted) ? str_starts(name, str_sub(wanted, 0, wanted.n - 1)) : str_eq(name, wanted);
}

static bool reader_sqlite_kind_matches(const struct task_filter *f, sqlite3_stmt *st)
{
    int kind = sqlite3_column_int(st, AT_kind);
    if (uuid_is_nil(f->parent) ? kind == TASK_OCCURRENCE && !f->occurrences
                               : kind != TASK_OCCURRENCE || !uuid_eq(row_uuid(st, AT_parent_id), f->parent))
        return false;
    return !f->by_kind || kind == (f->recurring ? TASK_RECURRING : TASK_ONE_TIME);
}

/* Steps are listed with their runs only. */
static bool reader_sqlite_run_matches(const struct task_filter *f, sqlite3_stmt *st)
{
    return sqlite3_column_type(st, AT_run_id) == SQLITE_NULL &&
           (!f->runs || (sqlite3_column_int(st, AT_target) == TARGET_WORKFLOW &&
                         sqlite3_column_int(st, AT_kind) != TASK_RECURRING));
}

static bool reader_sqlite_times_match(const struct task_filter *f, sqlite3_stmt *st)
{
    int64_t due_ms = sqlite3_column_int64(st, AT_due_ms), created_ms = sqlite3_column_int64(st, AT_created_ms);
    return (!f->due_before_ms || due_ms < f->due_before_ms) && (!f->due_after_ms || due_ms >= f->due_after_ms) &&
           (!f->created_before_ms || created_ms < f->created_before_ms) &&
           (!f->created_after_ms || created_ms >= f->created_after_ms);
}

static enum err reader_sqlite_queue_matches(struct reader_sqlite *r, const struct task_filter *f, sqlite3_stmt *st,
                                            bool *ret, struct error *e)
{
    const struct lane_row *lane;
    if (lanes_at(&r->conn, sqlite3_column_int64(st, AT_lane), &lane, e))
        return e->code;
    *ret = str_eq(lane->lane.queue, f->queue) || str_eq(row_text(st, AT_queue), f->queue);
    return ERR_OK;
}

static bool reader_sqlite_conflict_matches(const struct task_filter *f, sqlite3_stmt *st)
{
    bool failed = sqlite3_column_int(st, AT_state) == TASK_FAILED;
    return (!f->cause.n || (failed && str_eq(f->cause, row_text(st, AT_cause)))) &&
           (!f->by_resolved || (failed && (sqlite3_column_int64(st, AT_resolved_ms) != 0) == f->resolved)) &&
           (!f->waits_for.n || str_eq(f->waits_for, row_text(st, AT_waits_for)));
}

static bool reader_sqlite_state_matches(const struct task_filter *f, sqlite3_stmt *st)
{
    struct task t = { .state = (enum task_state)sqlite3_column_int(st, AT_state) };
    if (f->states && f->shown_at_ms) {
        t.links = sqlite3_column_int(st, AT_links);
        t.due_ms = sqlite3_column_int64(st, AT_due_ms);
        t.run = row_uuid(st, AT_run_id);
        t.state = task_shown_state(&t, f->shown_at_ms);
    }
    return !f->states || f->states >> t.state & 1;
}

/* Checks single columns, so that rows which do not match are not read as a whole. */
static enum err reader_sqlite_matches(struct reader_sqlite *r, const struct task_filter *f, sqlite3_stmt *st, bool *ret,
                                      struct error *e)
{
    *ret = sqlite3_column_int(st, AT_tenant_id) == f->tenant && !sqlite3_column_int(st, AT_deleted) &&
           reader_sqlite_state_matches(f, st) && reader_sqlite_kind_matches(f, st) &&
           reader_sqlite_run_matches(f, st) && reader_sqlite_times_match(f, st) &&
           (!f->name.n || reader_sqlite_name_matches(f->name, row_text(st, AT_name))) &&
           (!f->task_type.n || str_eq(f->task_type, row_text(st, AT_task_type))) &&
           reader_sqlite_conflict_matches(f, st) && (!f->calendar.n || str_eq(f->calendar, row_text(st, AT_calendar)));
    return *ret && f->queue.n ? reader_sqlite_queue_matches(r, f, st, ret, e) : ERR_OK;
}

static sqlite3_stmt *reader_sqlite_bind_text(struct reader_sqlite *r, enum reader_statement which, struct str text)
{
    (void)bind_str(conn_stmt(&r->conn, which), 1, text);
    return conn_stmt(&r->conn, which);
}

static sqlite3_stmt *reader_sqlite_list_statement(struct reader_sqlite *r, const struct task_filter *f)
{
    switch (list_walk_of(f)) {
    case WALK_PARENT:
        (void)bind_uuid(conn_stmt(&r->conn, RD_LIST_PARENT), 1, &f->parent);
        return conn_stmt(&r->conn, RD_LIST_PARENT);
    case WALK_CALENDAR: return reader_sqlite_bind_text(r, RD_LIST_CALENDAR, f->calendar);
    case WALK_NAME: return reader_sqlite_bind_text(r, RD_LIST_NAME, f->name);
    case WALK_WAITING: return reader_sqlite_bind_text(r, RD_LIST_WAITING, f->waits_for);
    case WALK_CAUSE: return reader_sqlite_bind_text(r, RD_LIST_CAUSE, f->cause);
    case WALK_FAILED: return conn_stmt(&r->conn, RD_LIST_FAILED);
    case WALK_TYPE: return reader_sqlite_bind_text(r, RD_LIST_TYPE, f->task_type);
    default: return conn_stmt(&r->conn, f->runs ? RD_LIST_RUNS : RD_LIST);
    }
}

struct task_listing {
    const struct task_filter *filter;
    size_t skipped, n, max;
    bool counting;
    bool more;
};

static enum err reader_sqlite_visit_task(struct index_walk *w, bool *stop, struct error *e)
{
    struct task_listing *l = w->context;
    bool wanted;
    if (uuid_cmp(row_uuid(w->st, AT_id), l->filter->from) < 0) {
        *stop = true; /* all further ids are lower */
        return ERR_OK;
    }
    if (reader_sqlite_matches(w->r, l->filter, w->st, &wanted, e))
        return e->code;
    if (!wanted)
        return ERR_OK;
    if (l->counting) {
        *stop = ++l->n == l->max;
        return ERR_OK;
    }
    if (l->skipped < l->filter->offset) {
        l->skipped++;
        return ERR_OK;
    }
    if (l->n == l->max) {
        l->more = *stop = true;
        return ERR_OK;
    }
    struct task *t = &w->r->tasks[l->n++];
    *t = (struct task){ 0 };
    return row_read_without(&w->r->conn, w->st, 1, &table_tasks, l->filter->brief ? AT_payload : -1, w->arena, t, e);
}

static struct index_walk reader_sqlite_walk_over_tasks(struct reader_sqlite *r, const struct task_filter *f,
                                                       struct task_listing *l, struct arena *a)
{
    return (struct index_walk){ .r = r,
                                .st = reader_sqlite_list_statement(r, f),
                                .tenant = f->tenant,
                                .id_column = AT_id,
                                .before = f->before,
                                .visit = reader_sqlite_visit_task,
                                .context = l,
                                .arena = a };
}

enum err reader_sqlite_list(struct reader *base, const struct task_filter *f, struct arena *a, struct task_page *ret,
                            struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    struct task_listing l = { .filter = f, .max = f->limit };
    struct index_walk w = reader_sqlite_walk_over_tasks(r, f, &l, a);
    bool cut;
    reader_sqlite_make_room(r, f->limit);
    if (reader_sqlite_walk_down(&w, &cut, e))
        return e->code;
    struct task_page page = { .tasks = { arena_alloc(a, l.n * sizeof(struct task)), l.n }, .more = l.more || cut };
    if (!page.tasks.v)
        return reader_no_room(e);
    memcpy(page.tasks.v, r->tasks, l.n * sizeof(struct task));
    if (page.more)
        page.next_before = l.more ? page.tasks.v[l.n - 1].id : w.before;
    *ret = page;
    return ERR_OK;
}

enum err reader_sqlite_count(struct reader *base, const struct task_filter *f, size_t max, struct task_count *ret,
                             struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    struct task_listing l = { .filter = f, .max = max, .counting = true };
    struct index_walk w = reader_sqlite_walk_over_tasks(r, f, &l, NULL);
    bool cut = false;
    if (max && reader_sqlite_walk_down(&w, &cut, e))
        return e->code;
    *ret = (struct task_count){ .n = l.n, .is_cut = cut };
    return ERR_OK;
}

/* ---- executions ---- */

enum { EXECUTION_ID = 1, EXECUTION_TENANT = 2, EXECUTION_STATUS = 5 }; /* column numbers in RD_EXECUTIONS */

struct execution_listing {
    const struct execution_filter *filter;
    size_t n;
    bool more;
};

static enum err reader_sqlite_visit_execution(struct index_walk *w, bool *stop, struct error *e)
{
    struct execution_listing *h = w->context;
    const struct execution_filter *f = h->filter;
    if (sqlite3_column_int(w->st, EXECUTION_TENANT) != f->tenant ||
        (f->statuses && !(f->statuses >> sqlite3_column_int(w->st, EXECUTION_STATUS) & 1)))
        return ERR_OK;
    if (h->n == f->limit) {
        h->more = *stop = true;
        return ERR_OK;
    }
    struct execution *x = &w->r->executions[h->n++];
    *x = (struct execution){ 0 };
    return row_read(&w->r->conn, w->st, 1, &table_executions, w->arena, x, e);
}

enum err reader_sqlite_executions(struct reader *base, const struct execution_filter *f, struct arena *a,
                                  struct execution_page *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    struct execution_listing h = { .filter = f };
    struct index_walk w = { .r = r,
                            .st = conn_stmt(&r->conn, RD_EXECUTIONS),
                            .tenant = f->tenant,
                            .id_column = EXECUTION_ID,
                            .before = f->before,
                            .visit = reader_sqlite_visit_execution,
                            .context = &h,
                            .arena = a };
    bool cut;
    sqlite3_bind_blob(w.st, 1, f->task.b, sizeof f->task.b, SQLITE_STATIC);
    r->executions = xrealloc(r->executions, f->limit * sizeof *r->executions);
    if (reader_sqlite_walk_down(&w, &cut, e))
        return e->code;
    struct execution_page page = { .executions = { arena_alloc(a, h.n * sizeof(struct execution)), h.n },
                                   .more = h.more || cut };
    if (!page.executions.v)
        return reader_no_room(e);
    memcpy(page.executions.v, r->executions, h.n * sizeof(struct execution));
    if (page.more)
        page.next_before = h.more ? page.executions.v[h.n - 1].id : w.before;
    *ret = page;
    return ERR_OK;
}
