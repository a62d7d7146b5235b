/* The primitives for dependencies (struct joins_ops). One transaction writes at a time, so no row is locked, and every
 * arrival is applied directly. */
#include "store/sqlite/reader/reader.h"

static struct store_sqlite *sqlite_of_joins(struct joins *j)
{
    return container_of(j, struct store_sqlite, joins);
}

enum { JOIN_TASK_COLUMNS = 13 };

static void sqlite_join_read_task(sqlite3_stmt *st, struct join_task *ret)
{
    *ret = (struct join_task){
        .found = true,
        .rid = sqlite3_column_int64(st, 0),
        .lane = sqlite3_column_int64(st, 11),
        .task = { .id = row_uuid(st, 1),
                  .tenant = sqlite3_column_int(st, 2),
                  .kind = (enum task_kind)sqlite3_column_int(st, 3),
                  .state = (enum task_state)sqlite3_column_int(st, 4),
                  .deleted = sqlite3_column_int(st, 5) != 0,
                  .links = sqlite3_column_int(st, 6),
                  .due_ms = sqlite3_column_int64(st, 7),
                  .scheduled_ms = sqlite3_column_int64(st, 8),
                  .awaited_ms = sqlite3_column_int64(st, 9),
                  .late_by = (enum late_cause)sqlite3_column_int(st, 10),
                  .completed_ms = sqlite3_column_int64(st, 12) },
    };
}

static void sqlite_join_read_row(sqlite3_stmt *st, int first, struct join_row *ret)
{
    *ret = (struct join_row){
        .join = (enum dag_join)sqlite3_column_int(st, first),
        .expected = (uint32_t)sqlite3_column_int64(st, first + 1),
        .counts = { .arrived = (uint32_t)sqlite3_column_int64(st, first + 2),
                    .met = (uint32_t)sqlite3_column_int64(st, first + 3),
                    .broken = (uint32_t)sqlite3_column_int64(st, first + 4) },
        .max_broken = sqlite3_column_int64(st, first + 5),
    };
}

/* ---- parents ---- */

static enum err sqlite_join_parents(struct joins *base, const struct uuid *ids, size_t n, struct join_task *ret,
                                    struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_JOIN_TASK);
    for (size_t i = 0; i < n; i++) {
        bool row;
        (void)bind_uuid(st, 1, &ids[i]);
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        ret[i] = (struct join_task){ 0 };
        if (!row)
            continue;
        sqlite_join_read_task(st, &ret[i]);
        sqlite3_reset(st);
    }
    return ERR_OK;
}

static enum err sqlite_join_mark_parents(struct joins *base, const struct uuid *ids, size_t n, struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_JOIN_MARK);
    for (size_t i = 0; i < n; i++) {
        (void)bind_uuid(st, 1, &ids[i]);
        if (conn_run(&s->conn, st, e))
            return e->code;
    }
    return ERR_OK;
}

/* One edge more than may be applied is read, to know whether there is one. */
static enum err sqlite_join_children_of(struct store_sqlite *s, const struct uuid *parent, size_t max,
                                        struct open_edges *ret, bool *ret_left, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_JOIN_CHILDREN);
    (void)bind_uuid(st, 1, parent);
    sqlite3_bind_int64(st, 2, (int64_t)(max - ret->n) + 1);
    for (bool row;;) {
        struct open_edge edge = { .parent = *parent };
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        if (ret->n == max) {
            *ret_left = true;
            sqlite3_reset(st);
            return ERR_OK;
        }
        sqlite_join_read_task(st, &edge.child);
        edge.type = (enum dag_type)sqlite3_column_int(st, JOIN_TASK_COLUMNS);
        sqlite_join_read_row(st, JOIN_TASK_COLUMNS + 1, &edge.join);
        open_edges_add(ret, &edge);
    }
}

static enum err sqlite_join_children(struct joins *base, const struct arrival *parents, size_t n, size_t max,
                                     struct open_edges *ret, bool *ret_left, struct error *e)
{
    *ret_left = false;
    for (size_t i = 0; i < n; i++)
        if (sqlite_join_children_of(sqlite_of_joins(base), &parents[i].parent, max, ret, ret_left, e))
            return e->code;
    return ERR_OK;
}

/* ---- edges ---- */

static enum err sqlite_edge_put(struct joins *base, const struct task *child, const struct dependency *d,
                                enum edge_state state, bool *ret_new, struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_EDGE_PUT);
    sqlite3_bind_int(st, 1, child->tenant);
    (void)bind_uuid(st, 2, &d->parent);
    (void)bind_uuid(st, 3, &child->id);
    sqlite3_bind_int(st, 4, (int)d->type);
    sqlite3_bind_int(st, 5, (int)state);
    if (conn_run(&s->conn, st, e))
        return e->code;
    if (ret_new)
        *ret_new = sqlite3_changes(s->conn.db) > 0;
    return ERR_OK;
}

static enum err sqlite_edge_arrive(struct store_sqlite *s, const struct join_arrival *a, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_EDGE_ARRIVE);
    (void)bind_uuid(st, 1, &a->id.parent);
    (void)bind_uuid(st, 2, &a->id.child);
    sqlite3_bind_int(st, 3, (int)a->state);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_edge_remove(struct joins *base, const struct edge_id *id, enum edge_state *ret, bool *ret_found,
                                   struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_EDGE_REMOVE);
    (void)bind_uuid(st, 1, &id->parent);
    (void)bind_uuid(st, 2, &id->child);
    if (conn_step(&s->conn, st, ret_found, e) || !*ret_found)
        return s->conn.failed;
    *ret = (enum edge_state)sqlite3_column_int(st, 0);
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_open_parents(struct joins *base, const struct uuid *child, size_t max, struct uuid *ret,
                                    size_t *ret_n, struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_OPEN_PARENTS);
    (void)bind_uuid(st, 1, child);
    sqlite3_bind_int64(st, 2, (int64_t)max);
    for (*ret_n = 0;; ++*ret_n) {
        bool row;
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        ret[*ret_n] = row_uuid(st, 0);
    }
}

static enum err sqlite_end_get(struct joins *base, const struct edge_id *id, struct end_edge *ret, struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_END);
    bool row;
    (void)bind_uuid(st, 1, &id->parent);
    (void)bind_uuid(st, 2, &id->child);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    *ret = (struct end_edge){ 0 };
    if (row)
        *ret = (struct end_edge){ .counts = true, .state = (enum edge_state)sqlite3_column_int(st, 0) };
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_end_put(struct joins *base, const struct edge_id *id, int32_t tenant, enum dag_type type,
                               enum edge_state state, struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_END_PUT);
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_uuid(st, 2, &id->parent);
    (void)bind_uuid(st, 3, &id->child);
    sqlite3_bind_int(st, 4, (int)type);
    sqlite3_bind_int(st, 5, (int)state);
    return conn_run(&s->conn, st, e);
}

/* ---- joins and children ---- */

static enum err sqlite_join_get(struct joins *base, const struct uuid *child, struct join_row *ret, bool *ret_found,
                                struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_JOIN_GET);
    (void)bind_uuid(st, 1, child);
    if (conn_step(&s->conn, st, ret_found, e) || !*ret_found)
        return s->conn.failed;
    sqlite_join_read_row(st, 0, ret);
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_join_put(struct joins *base, const struct task *child, const struct join_row *row,
                                struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_JOIN_PUT);
    sqlite3_bind_int(st, 1, child->tenant);
    (void)bind_uuid(st, 2, &child->id);
    sqlite3_bind_int(st, 3, (int)row->join);
    sqlite3_bind_int64(st, 4, row->expected);
    sqlite3_bind_int64(st, 5, row->counts.arrived);
    sqlite3_bind_int64(st, 6, row->counts.met);
    sqlite3_bind_int64(st, 7, row->counts.broken);
    sqlite3_bind_int64(st, 8, row->max_broken);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_join_count(struct store_sqlite *s, const struct join_counts *c, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_JOIN_COUNT);
    (void)bind_uuid(st, 1, &c->child);
    sqlite3_bind_int64(st, 2, c->counts.arrived);
    sqlite3_bind_int64(st, 3, c->counts.met);
    sqlite3_bind_int64(st, 4, c->counts.broken);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_join_child_put(struct store_sqlite *s, const struct join_change *x, uint64_t *unblocked,
                                      struct error *e)
{
    const struct join_task *c = &x->next;
    const struct task *t = &c->task;
    const struct lane_row *lane;
    sqlite3_stmt *st = writer_stmt(s, ST_JOIN_CHILD_PUT);
    sqlite3_bind_int64(st, 1, c->rid);
    sqlite3_bind_int(st, 2, (int)t->state);
    sqlite3_bind_int(st, 3, t->links);
    sqlite3_bind_int64(st, 4, t->due_ms);
    sqlite3_bind_int64(st, 5, t->scheduled_ms);
    sqlite3_bind_int64(st, 6, t->awaited_ms);
    sqlite3_bind_int(st, 7, (int)t->late_by);
    sqlite3_bind_int64(st, 8, t->updated_ms);
    sqlite3_bind_int64(st, 9, t->completed_ms);
    if (t->last_error.n)
        (void)bind_str(st, 10, t->last_error);
    else
        sqlite3_bind_null(st, 10);
    if (conn_run(&s->conn, st, e) || lanes_at(&s->conn, c->lane, &lane, e))
        return e->code;
    tally_move(&s->of_op, t->tenant, t->deleted, x->was, t->state);
    sqlite_ended_note(s, c->rid, t->state, t->completed_ms);
    *unblocked |= t->state == TASK_SCHEDULED ? lane_bit(lane->lane) : 0;
    return ERR_OK;
}

static enum err sqlite_join_wave_put(struct joins *base, const struct join_wave *w, uint64_t *ret_unblocked,
                                     struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    *ret_unblocked = 0;
    for (size_t i = 0; i < w->edge_count; i++)
        if (sqlite_edge_arrive(s, &w->edges[i], e))
            return e->code;
    for (size_t i = 0; i < w->join_count; i++)
        if (sqlite_join_count(s, &w->joins[i], e))
            return e->code;
    for (size_t i = 0; i < w->child_count; i++)
        if (sqlite_join_child_put(s, &w->children[i], ret_unblocked, e))
            return e->code;
    return ERR_OK;
}

/* ---- arrivals that are left ---- */

static enum err sqlite_join_leave(struct joins *base, const struct arrival *v, size_t n, int64_t now_ms,
                                  struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_ARRIVAL_LEAVE);
    for (size_t i = 0; i < n; i++) {
        (void)bind_uuid(st, 1, &v[i].parent);
        sqlite3_bind_int(st, 2, (int)v[i].outcome);
        sqlite3_bind_int64(st, 3, now_ms);
        if (conn_run(&s->conn, st, e))
            return e->code;
    }
    return ERR_OK;
}

static enum err sqlite_join_take_left(struct joins *base, size_t max, struct arrival *ret, size_t *ret_n,
                                      struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_ARRIVALS);
    sqlite3_bind_int64(st, 1, (int64_t)max);
    scratch_grow(s, max);
    *ret_n = 0;
    for (bool row;; ++*ret_n) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            break;
        scratch_grow(s, *ret_n);
        s->rids[*ret_n] = sqlite3_column_int64(st, 0);
        ret[*ret_n] = (struct arrival){ row_uuid(st, 1), (enum flow_outcome)sqlite3_column_int(st, 2) };
    }
    st = writer_stmt(s, ST_ARRIVAL_DELETE);
    for (size_t i = 0; i < *ret_n; i++) {
        sqlite3_bind_int64(st, 1, s->rids[i]);
        if (conn_run(&s->conn, st, e))
            return e->code;
    }
    return ERR_OK;
}

static enum err sqlite_join_has_left(struct joins *base, bool *ret, struct error *e)
{
    struct store_sqlite *s = sqlite_of_joins(base);
    sqlite3_stmt *st = writer_stmt(s, ST_ARRIVALS);
    sqlite3_bind_int64(st, 1, 1);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_join_find_left(struct store_sqlite *s, enum writer_statement of, const struct uuid *id,
                                      bool *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, of);
    (void)bind_uuid(st, 1, id);
    if (conn_step(&s->conn, st, ret, e))
        return e->code;
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_join_is_left(struct joins *base, const struct uuid *parent, bool *ret, struct error *e)
{
    return sqlite_join_find_left(sqlite_of_joins(base), ST_ARRIVAL_OF, parent, ret, e);
}

static enum err sqlite_join_run_is_left(struct joins *base, const struct uuid *run, bool *ret, struct error *e)
{
    return sqlite_join_find_left(sqlite_of_joins(base), ST_ARRIVAL_OF_RUN, run, ret, e);
}

/* ---- operations ---- */

enum err sqlite_joins_purge(struct store_sqlite *s, const struct uuid *task, int links, struct error *e)
{
    static const enum writer_statement all[] = { ST_JOIN_DELETE, ST_EDGES_DELETE };
    for (size_t i = 0; links & (TASK_HAS_PARENTS | TASK_OPENED) && i < array_count(all); i++) {
        sqlite3_stmt *st = writer_stmt(s, all[i]);
        (void)bind_uuid(st, 1, task);
        if (conn_run(&s->conn, st, e))
            return e->code;
    }
    return ERR_OK;
}

enum err sqlite_arrive(struct store_sqlite *s, struct op *base)
{
    return joins_arrive(&s->joins, (struct op_arrive *)base, &base->error);
}

void sqlite_joins_init(struct store_sqlite *s)
{
    static const struct joins_ops ops = { .parents = sqlite_join_parents,
                                          .mark_parents = sqlite_join_mark_parents,
                                          .children = sqlite_join_children,
                                          .edge_put = sqlite_edge_put,
                                          .edge_remove = sqlite_edge_remove,
                                          .open_parents = sqlite_open_parents,
                                          .end_get = sqlite_end_get,
                                          .end_put = sqlite_end_put,
                                          .join_get = sqlite_join_get,
                                          .join_put = sqlite_join_put,
                                          .wave_put = sqlite_join_wave_put,
                                          .leave = sqlite_join_leave,
                                          .take_left = sqlite_join_take_left,
                                          .has_left = sqlite_join_has_left,
                                          .is_left = sqlite_join_is_left,
                                          .run_is_left = sqlite_join_run_is_left };
    s->joins.ops = &ops;
    s->joins.store = &s->base;
}

/* ---- reading ---- */

static enum err reader_sqlite_linked(struct reader_sqlite *r, enum reader_statement which, int32_t tenant,
                                     struct uuid task, struct arena *a, struct linked_task **ret, size_t *ret_n,
                                     struct error *e)
{
    sqlite3_stmt *st = conn_stmt(&r->conn, which);
    struct linked_task *v = arena_array(a, struct linked_task, LIST_MAX + 1);
    size_t n = 0;
    if (!v)
        return reader_no_room(e);
    (void)bind_uuid(st, 1, &task);
    sqlite3_bind_int(st, 2, tenant);
    sqlite3_bind_int64(st, 3, LIST_MAX + 1);
    for (bool row;; n++) {
        if (conn_step(&r->conn, st, &row, e))
            return e->code;
        if (!row)
            break;
        v[n] = (struct linked_task){ .id = row_uuid(st, 0),
                                     .type = (enum dag_type)sqlite3_column_int(st, 1),
                                     .edge = (enum edge_state)sqlite3_column_int(st, 2),
                                     .exists = sqlite3_column_type(st, 3) != SQLITE_NULL,
                                     .state = (enum task_state)sqlite3_column_int(st, 3),
                                     .due_ms = sqlite3_column_int64(st, 4),
                                     .started_ms = sqlite3_column_int64(st, 5) };
        if (!arena_str(a, row_text(st, 6), &v[n].name)) {
            sqlite3_reset(st);
            return reader_no_room(e);
        }
    }
    *ret = v;
    *ret_n = n;
    return ERR_OK;
}

enum err reader_sqlite_links(struct reader *base, int32_t tenant, struct uuid task, struct arena *a,
                             struct task_links *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_JOIN);
    struct task_links l = { 0 };
    struct join_row row = { 0 };
    (void)bind_uuid(st, 1, &task);
    sqlite3_bind_int(st, 2, tenant);
    if (conn_step(&r->conn, st, &l.has_join, e))
        return e->code;
    if (l.has_join) {
        sqlite_join_read_row(st, 0, &row);
        sqlite3_reset(st);
    }
    l.join = row.join;
    l.expected = row.expected;
    l.counts = row.counts;
    if (reader_sqlite_linked(r, RD_PARENTS, tenant, task, a, &l.parents, &l.parent_count, e) ||
        reader_sqlite_linked(r, RD_CHILDREN, tenant, task, a, &l.children, &l.child_count, e))
        return e->code;
    l.more_children = l.child_count > LIST_MAX;
    l.child_count = min_of(l.child_count, (size_t)LIST_MAX);
    *ret = l;
    return ERR_OK;
}
