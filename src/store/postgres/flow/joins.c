/* The primitives for dependencies (struct joins_ops), while other nodes change the same tasks.
 *
 * No statement here waits for a row that another transaction has locked. A child is locked before its join is read, and
 * its edges and its join change only under that lock. A child that is locked elsewhere is left out: its parent is
 * recorded in table `arrivals`, and OP_ARRIVE tries again after the commit. The parents of a new child are locked, so
 * that none becomes final meanwhile: either its settle sees the new edge, or the new child sees a final parent. */
#include <stdlib.h>

#include "store/postgres/internal.h"
#include "store/postgres/reader/reader.h"

enum { PARENT_TRIES = 200 }; /* of 5 ms */

#define JOIN_TASK                                                                                                      \
    "t.id, t.tenant_id, t.kind, t.state, t.deleted, t.links, t.due_ms, t.scheduled_ms, t.awaited_ms, t.late_by, "      \
    "t.lane, t.completed_ms"
enum { JOIN_TASK_COLUMNS = 12 };

static const struct pg_statement lock_parents = {
    "join_parents",
    "SELECT " JOIN_TASK " FROM tasks AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED",
};
static const struct pg_statement count_parents = { "join_parents_count",
                                                   "SELECT count(*) FROM tasks WHERE id = ANY ($1)" };
static const struct pg_statement pause_a_moment = { "join_pause", "SELECT pg_sleep(0.005)" };
static const struct pg_statement mark_parents = { "join_mark",
                                                  "UPDATE tasks SET links = links | 2 WHERE id = ANY ($1)" };
static const struct pg_statement lock_children = {
    "join_lock_children",
    "SELECT t.id FROM tasks AS t WHERE t.id IN (SELECT child_id FROM edges WHERE parent_id = ANY ($1) AND state = 0 "
    "ORDER BY parent_id, child_id LIMIT $2) FOR NO KEY UPDATE SKIP LOCKED",
};
static const struct pg_statement read_children = {
    "join_children",
    "SELECT " JOIN_TASK
    ", e.parent_id, e.type, j.kind, j.expected, j.arrived, j.met, j.broken, j.max_broken FROM edges AS e "
    "JOIN tasks AS t ON t.id = e.child_id JOIN joins AS j ON j.child_id = e.child_id "
    "WHERE e.parent_id = ANY ($1) AND e.state = 0 AND e.child_id = ANY ($3) ORDER BY e.parent_id, e.child_id LIMIT $2",
};
static const struct pg_statement count_open = {
    "join_count_open",
    "SELECT count(*) FROM (SELECT FROM edges WHERE parent_id = ANY ($1) AND state = 0 LIMIT $2 + 1) AS x",
};
static const struct pg_statement put_edge = {
    "edge_put",
    "INSERT INTO edges (tenant_id, parent_id, child_id, type, state) VALUES ($1, $2, $3, $4, $5) "
    "ON CONFLICT (parent_id, child_id) DO NOTHING",
};
static const struct pg_statement arrive_edges = {
    "edges_arrive",
    "UPDATE edges SET state = v.state FROM unnest($1, $2, $3) AS v(parent, child, state) "
    "WHERE parent_id = v.parent AND child_id = v.child",
};
static const struct pg_statement remove_edge = {
    "edge_remove", "DELETE FROM edges WHERE parent_id = $1 AND child_id = $2 RETURNING state"
};
static const struct pg_statement open_parents = {
    "edge_open_parents", "SELECT parent_id FROM edges WHERE child_id = $1 AND state = 0 LIMIT $2"
};
static const struct pg_statement get_join = {
    "join_get", "SELECT kind, expected, arrived, met, broken, max_broken FROM joins WHERE child_id = $1"
};
static const struct pg_statement put_join = {
    "join_put",
    "INSERT INTO joins (tenant_id, child_id, kind, expected, arrived, met, broken, max_broken) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (child_id) DO UPDATE SET kind = $3, expected = $4, "
    "arrived = $5, met = $6, broken = $7, max_broken = $8",
};
static const struct pg_statement count_arrivals = {
    "join_count",
    "UPDATE joins SET arrived = v.arrived, met = v.met, broken = v.broken "
    "FROM unnest($1, $2, $3, $4) AS v(child, arrived, met, broken) WHERE child_id = v.child",
};
static const struct pg_statement put_children = {
    "join_children_put",
    "UPDATE tasks SET state = v.state, links = v.links, due_ms = v.due_ms, scheduled_ms = v.scheduled_ms, "
    "awaited_ms = v.awaited_ms, late_by = v.late_by, updated_ms = v.updated_ms, completed_ms = v.completed_ms, "
    "last_error = coalesce(v.last_error, tasks.last_error) FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) "
    "AS v(task, state, links, due_ms, scheduled_ms, awaited_ms, late_by, updated_ms, completed_ms, last_error) "
    "WHERE id = v.task",
};
static const struct pg_statement leave_arrivals = {
    "arrivals_leave",
    "INSERT INTO arrivals (parent_id, outcome, created_ms) SELECT x.parent, x.outcome, $1 "
    "FROM unnest($2, $3) AS x(parent, outcome) WHERE EXISTS (SELECT FROM edges WHERE parent_id = x.parent "
    "AND state = 0) ORDER BY x.parent ON CONFLICT (parent_id) DO NOTHING",
};
static const struct pg_statement take_arrivals = {
    "arrivals_take",
    "DELETE FROM arrivals WHERE number = ANY (ARRAY(SELECT number FROM arrivals ORDER BY number LIMIT $1 "
    "FOR UPDATE SKIP LOCKED)) RETURNING parent_id, outcome",
};
static const struct pg_statement any_arrivals = { "arrivals_exist", "SELECT EXISTS (SELECT FROM arrivals)" };
static const struct pg_statement arrival_of = { "arrivals_of", "SELECT FROM arrivals WHERE parent_id = $1" };
static const struct pg_statement arrival_of_run = {
    "arrivals_of_run",
    "SELECT FROM arrivals AS a JOIN tasks AS t ON t.id = a.parent_id WHERE t.run_id = $1 LIMIT 1",
};
static const struct pg_statement delete_joins = { "joins_delete", "DELETE FROM joins WHERE child_id = ANY ($1)" };
static const struct pg_statement delete_edges = { "edges_delete", "DELETE FROM edges WHERE child_id = ANY ($1)" };

static struct store_postgres *pg_of_joins(struct joins *j)
{
    return container_of(j, struct store_postgres, joins);
}

static void pg_join_read_task(const struct pg_result *r, int row, struct join_task *ret)
{
    *ret = (struct join_task){
        .found = true,
        .lane = pg_i64(r, row, 10),
        .task = { .id = pg_uuid(r, row, 0),
                  .tenant = (int32_t)pg_i64(r, row, 1),
                  .kind = (enum task_kind)pg_i64(r, row, 2),
                  .state = (enum task_state)pg_i64(r, row, 3),
                  .deleted = pg_bool(r, row, 4),
                  .links = (int)pg_i64(r, row, 5),
                  .due_ms = pg_i64(r, row, 6),
                  .scheduled_ms = pg_i64(r, row, 7),
                  .awaited_ms = pg_i64(r, row, 8),
                  .late_by = (enum late_cause)pg_i64(r, row, 9),
                  .completed_ms = pg_i64(r, row, 11) },
    };
}

static void pg_join_read_row(const struct pg_result *r, int row, int first, struct join_row *ret)
{
    *ret = (struct join_row){
        .join = (enum dag_join)pg_i64(r, row, first),
        .expected = (uint32_t)pg_i64(r, row, first + 1),
        .counts = { .arrived = (uint32_t)pg_i64(r, row, first + 2),
                    .met = (uint32_t)pg_i64(r, row, first + 3),
                    .broken = (uint32_t)pg_i64(r, row, first + 4) },
        .max_broken = pg_i64(r, row, first + 5),
    };
}

/* ---- parents ---- */

/* The rows are sorted by id. */
static void pg_join_spread_parents(const struct pg_result *r, const struct uuid *ids, size_t n, struct join_task *ret)
{
    for (size_t i = 0; i < n; i++) {
        ret[i] = (struct join_task){ 0 };
        for (int low = 0, high = r->rows; low < high;) {
            int middle = low + (high - low) / 2, order = uuid_cmp(pg_uuid(r, middle, 0), ids[i]);
            if (order == 0) {
                pg_join_read_task(r, middle, &ret[i]);
                break;
            }
            *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
        }
    }
}

static enum err pg_join_lock_parents(struct store_postgres *s, const struct uuid *ids, size_t n, struct pg_result *ret,
                                     bool *ret_all, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result count = { 0 };
    pg_params_reset(&s->params);
    pg_add_ids(&s->params, ids, n);
    if (pg_send(&s->conn, &lock_parents, &s->params, e) || pg_send(&s->conn, &count_parents, &s->params, e) ||
        pg_get(&s->conn, ret, e) || pg_get(&s->conn, &count, e))
        return e->code;
    *ret_all = ret->rows >= pg_i64(&count, 0, 0);
    return ERR_OK;
}

static enum err pg_join_parents(struct joins *base, const struct uuid *ids, size_t n, struct join_task *ret,
                                struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    for (int tries = 0; tries < PARENT_TRIES; tries++) {
        cleanup_with(pg_result_release) struct pg_result r = { 0 };
        bool all = false;
        if (n == 0)
            return ERR_OK;
        if (pg_join_lock_parents(s, ids, n, &r, &all, e))
            return e->code;
        if (all) {
            pg_join_spread_parents(&r, ids, n, ret);
            return ERR_OK;
        }
        if (pg_run(&s->conn, &pause_a_moment, NULL, NULL, e))
            return e->code;
    }
    return error_set(e, ERR_UNAVAILABLE, "the tasks that it depends on are being changed; try again");
}

static enum err pg_join_mark_parents(struct joins *base, const struct uuid *ids, size_t n, struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    pg_params_reset(&s->params);
    pg_add_ids(&s->params, ids, n);
    return pg_queue(&s->conn, &mark_parents, &s->params, e);
}

static void pg_join_add_parents(struct pg_params *p, const struct arrival *v, size_t n)
{
    pg_params_reset(p);
    pg_array(p, PG_UUID);
    for (size_t i = 0; i < n; i++)
        pg_element_uuid(p, v[i].parent);
    pg_array_end(p);
}

/* Three statements: lock, read what was locked, count what is open. The second has a later snapshot than the locks. */
static enum err pg_join_children(struct joins *base, const struct arrival *parents, size_t n, size_t max,
                                 struct open_edges *ret, bool *ret_left, struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    struct pg_params *p = &s->params;
    cleanup_with(pg_result_release) struct pg_result locked = { 0 };
    cleanup_with(pg_result_release) struct pg_result rows = { 0 };
    cleanup_with(pg_result_release) struct pg_result open = { 0 };
    pg_join_add_parents(p, parents, n);
    pg_add_i64(p, (int64_t)max);
    if (pg_run(&s->conn, &lock_children, p, &locked, e))
        return e->code;
    pg_join_add_parents(p, parents, n);
    pg_add_i64(p, (int64_t)max);
    if (pg_send(&s->conn, &count_open, p, e))
        return e->code;
    pg_array(p, PG_UUID);
    for (int i = 0; i < locked.rows; i++)
        pg_element_uuid(p, pg_uuid(&locked, i, 0));
    pg_array_end(p);
    if (pg_send(&s->conn, &read_children, p, e) || pg_get(&s->conn, &open, e) || pg_get(&s->conn, &rows, e))
        return e->code;
    for (int i = 0; i < rows.rows; i++) {
        struct open_edge edge = { .parent = pg_uuid(&rows, i, JOIN_TASK_COLUMNS),
                                  .type = (enum dag_type)pg_i64(&rows, i, JOIN_TASK_COLUMNS + 1) };
        pg_join_read_task(&rows, i, &edge.child);
        pg_join_read_row(&rows, i, JOIN_TASK_COLUMNS + 2, &edge.join);
        open_edges_add(ret, &edge);
    }
    *ret_left = pg_i64(&open, 0, 0) > rows.rows;
    return ERR_OK;
}

/* ---- edges ---- */

static enum err pg_edge_put(struct joins *base, const struct task *child, const struct dependency *d,
                            enum edge_state state, bool *ret_new, struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_i32(&s->params, child->tenant);
    pg_add_uuid(&s->params, d->parent);
    pg_add_uuid(&s->params, child->id);
    pg_add_i32(&s->params, (int32_t)d->type);
    pg_add_i32(&s->params, (int32_t)state);
    if (!ret_new)
        return pg_queue(&s->conn, &put_edge, &s->params, e);
    if (pg_run(&s->conn, &put_edge, &s->params, &r, e))
        return e->code;
    *ret_new = r.affected > 0;
    return ERR_OK;
}

static void pg_edge_add_id(struct pg_params *p, const struct edge_id *id)
{
    pg_params_reset(p);
    pg_add_uuid(p, id->parent);
    pg_add_uuid(p, id->child);
}

static enum err pg_edge_remove(struct joins *base, const struct edge_id *id, enum edge_state *ret, bool *ret_found,
                               struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_edge_add_id(&s->params, id);
    if (pg_run(&s->conn, &remove_edge, &s->params, &r, e))
        return e->code;
    *ret_found = r.rows > 0;
    if (*ret_found)
        *ret = (enum edge_state)pg_i64(&r, 0, 0);
    return ERR_OK;
}

static enum err pg_open_parents(struct joins *base, const struct uuid *child, size_t max, struct uuid *ret,
                                size_t *ret_n, struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, *child);
    pg_add_i64(&s->params, (int64_t)max);
    if (pg_run(&s->conn, &open_parents, &s->params, &r, e))
        return e->code;
    *ret_n = (size_t)r.rows;
    for (int i = 0; i < r.rows; i++)
        ret[i] = pg_uuid(&r, i, 0);
    return ERR_OK;
}

/* ---- joins and children ---- */

static enum err pg_join_get(struct joins *base, const struct uuid *child, struct join_row *ret, bool *ret_found,
                            struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, *child);
    if (pg_run(&s->conn, &get_join, &s->params, &r, e))
        return e->code;
    *ret_found = r.rows > 0;
    if (*ret_found)
        pg_join_read_row(&r, 0, 0, ret);
    return ERR_OK;
}

static enum err pg_join_put(struct joins *base, const struct task *child, const struct join_row *row, struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    pg_add_i32(p, child->tenant);
    pg_add_uuid(p, child->id);
    pg_add_i32(p, (int32_t)row->join);
    pg_add_i32(p, (int32_t)row->expected);
    pg_add_i32(p, (int32_t)row->counts.arrived);
    pg_add_i32(p, (int32_t)row->counts.met);
    pg_add_i32(p, (int32_t)row->counts.broken);
    pg_add_i32(p, (int32_t)row->max_broken);
    return pg_queue(&s->conn, &put_join, p, e);
}

/* Adds an array with one element for each of v: pg_element_x(p, expression in x). */
#define pg_join_column(p, type, rows, n, element)                                                                      \
    do {                                                                                                               \
        pg_array((p), (type));                                                                                         \
        for (size_t i = 0; i < (n); i++) {                                                                             \
            const __typeof__((rows)[0]) *x = &(rows)[i];                                                               \
            element;                                                                                                   \
        }                                                                                                              \
        pg_array_end(p);                                                                                               \
    } while (0)

static enum err pg_join_put_edges(struct store_postgres *s, const struct join_arrival *v, size_t n, struct error *e)
{
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    pg_join_column(p, PG_UUID, v, n, pg_element_uuid(p, x->id.parent));
    pg_join_column(p, PG_UUID, v, n, pg_element_uuid(p, x->id.child));
    pg_join_column(p, PG_I32, v, n, pg_element_i64(p, x->state));
    return pg_queue(&s->conn, &arrive_edges, p, e);
}

static enum err pg_join_put_counts(struct store_postgres *s, const struct join_counts *v, size_t n, struct error *e)
{
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    pg_join_column(p, PG_UUID, v, n, pg_element_uuid(p, x->child));
    pg_join_column(p, PG_I32, v, n, pg_element_i64(p, x->counts.arrived));
    pg_join_column(p, PG_I32, v, n, pg_element_i64(p, x->counts.met));
    pg_join_column(p, PG_I32, v, n, pg_element_i64(p, x->counts.broken));
    return pg_queue(&s->conn, &count_arrivals, p, e);
}

static enum err pg_join_put_children(struct store_postgres *s, const struct join_change *v, size_t n, struct error *e)
{
    struct pg_params *p = &s->params;
    if (n == 0)
        return ERR_OK;
    pg_params_reset(p);
    pg_join_column(p, PG_UUID, v, n, pg_element_uuid(p, x->next.task.id));
    pg_join_column(p, PG_I32, v, n, pg_element_i64(p, x->next.task.state));
    pg_join_column(p, PG_I32, v, n, pg_element_i64(p, x->next.task.links));
    pg_join_column(p, PG_I64, v, n, pg_element_i64(p, x->next.task.due_ms));
    pg_join_column(p, PG_I64, v, n, pg_element_i64(p, x->next.task.scheduled_ms));
    pg_join_column(p, PG_I64, v, n, pg_element_i64(p, x->next.task.awaited_ms));
    pg_join_column(p, PG_I32, v, n, pg_element_i64(p, x->next.task.late_by));
    pg_join_column(p, PG_I64, v, n, pg_element_i64(p, x->next.task.updated_ms));
    pg_join_column(p, PG_I64, v, n, pg_element_i64(p, x->next.task.completed_ms));
    pg_join_column(p, PG_TEXT, v, n, pg_element_text_or_null(p, x->next.task.last_error));
    return pg_queue(&s->conn, &put_children, p, e);
}

static enum err pg_join_note_child(struct store_postgres *s, const struct join_change *x, uint64_t *unblocked,
                                   struct error *e)
{
    const struct task *t = &x->next.task;
    const struct lane_row *lane;
    if (pg_lanes_at(&s->conn, &s->lanes, x->next.lane, &lane, e))
        return e->code;
    pg_tally_move(s, t->tenant, t->deleted, x->was, t->state);
    pg_note_ended(s, t->id, t->state, t->completed_ms);
    if (t->state != TASK_SCHEDULED)
        return ERR_OK;
    pg_note_due(s, t->due_ms);
    *unblocked |= lane_bit(lane->lane);
    return ERR_OK;
}

static enum err pg_join_wave_put(struct joins *base, const struct join_wave *w, uint64_t *ret_unblocked,
                                 struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    *ret_unblocked = 0;
    for (size_t i = 0; i < w->child_count; i++)
        if (pg_join_note_child(s, &w->children[i], ret_unblocked, e))
            return e->code;
    return pg_join_put_edges(s, w->edges, w->edge_count, e) || pg_join_put_counts(s, w->joins, w->join_count, e) ||
                   pg_join_put_children(s, w->children, w->child_count, e)
               ? e->code
               : ERR_OK;
}

/* ---- arrivals that are left ---- */

static enum err pg_join_leave(struct joins *base, const struct arrival *v, size_t n, int64_t now_ms, struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    pg_add_i64(p, now_ms);
    pg_array(p, PG_UUID);
    for (size_t i = 0; i < n; i++)
        pg_element_uuid(p, v[i].parent);
    pg_array_end(p);
    pg_array(p, PG_I32);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(p, v[i].outcome);
    pg_array_end(p);
    return pg_queue(&s->conn, &leave_arrivals, p, e);
}

static enum err pg_join_take_left(struct joins *base, size_t max, struct arrival *ret, size_t *ret_n, struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_i64(&s->params, (int64_t)max);
    if (pg_run(&s->conn, &take_arrivals, &s->params, &r, e))
        return e->code;
    *ret_n = (size_t)r.rows;
    for (int i = 0; i < r.rows; i++)
        ret[i] = (struct arrival){ pg_uuid(&r, i, 0), (enum flow_outcome)pg_i64(&r, i, 1) };
    return ERR_OK;
}

static enum err pg_join_has_left(struct joins *base, bool *ret, struct error *e)
{
    struct store_postgres *s = pg_of_joins(base);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_run(&s->conn, &any_arrivals, NULL, &r, e))
        return e->code;
    *ret = pg_bool(&r, 0, 0);
    return ERR_OK;
}

static enum err pg_join_find_left(struct store_postgres *s, const struct pg_statement *of, const struct uuid *id,
                                  bool *ret, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, *id);
    if (pg_run(&s->conn, of, &s->params, &r, e))
        return e->code;
    *ret = r.rows > 0;
    return ERR_OK;
}

static enum err pg_join_is_left(struct joins *base, const struct uuid *parent, bool *ret, struct error *e)
{
    return pg_join_find_left(pg_of_joins(base), &arrival_of, parent, ret, e);
}

static enum err pg_join_run_is_left(struct joins *base, const struct uuid *run, bool *ret, struct error *e)
{
    return pg_join_find_left(pg_of_joins(base), &arrival_of_run, run, ret, e);
}

static enum err pg_join_lock_tenant(struct joins *base, int32_t tenant, struct error *e)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%d", (int)tenant);
    return pg_lock(pg_of_joins(base), PG_LOCK_DEPENDENCIES, &(struct str){ text, (size_t)n }, 1, e);
}

/* ---- operations ---- */

enum err pg_joins_purge(struct store_postgres *s, const struct uuid *children, size_t n, struct error *e)
{
    if (n == 0)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_ids(&s->params, children, n);
    return pg_queue(&s->conn, &delete_joins, &s->params, e) || pg_queue(&s->conn, &delete_edges, &s->params, e)
               ? e->code
               : ERR_OK;
}

enum err postgres_arrive(struct store_postgres *s, struct op *base)
{
    return joins_arrive(&s->joins, (struct op_arrive *)base, &base->error);
}

void pg_joins_init(struct store_postgres *s)
{
    static const struct joins_ops ops = { .parents = pg_join_parents,
                                          .mark_parents = pg_join_mark_parents,
                                          .children = pg_join_children,
                                          .edge_put = pg_edge_put,
                                          .edge_remove = pg_edge_remove,
                                          .open_parents = pg_open_parents,
                                          .join_get = pg_join_get,
                                          .join_put = pg_join_put,
                                          .wave_put = pg_join_wave_put,
                                          .leave = pg_join_leave,
                                          .take_left = pg_join_take_left,
                                          .has_left = pg_join_has_left,
                                          .is_left = pg_join_is_left,
                                          .run_is_left = pg_join_run_is_left,
                                          .lock_tenant = pg_join_lock_tenant };
    s->joins.ops = &ops;
    s->joins.store = &s->base;
}

/* ---- reading ---- */

static const struct pg_statement read_join = {
    "read_join",
    "SELECT kind, expected, arrived, met, broken, max_broken FROM joins WHERE child_id = $1 AND tenant_id = $2"
};
#define LINKED                                                                                                         \
    "e.type, e.state, t.state, t.due_ms, t.started_ms, t.name FROM edges AS e LEFT JOIN tasks AS t ON NOT t.deleted AND t.id = "
static const struct pg_statement read_linked_parents = {
    "read_linked_parents",
    "SELECT e.parent_id, " LINKED
    "e.parent_id WHERE e.child_id = $1 AND e.tenant_id = $2 ORDER BY e.parent_id LIMIT $3",
};
static const struct pg_statement read_linked_children = {
    "read_linked_children",
    "SELECT e.child_id, " LINKED "e.child_id WHERE e.parent_id = $1 AND e.tenant_id = $2 ORDER BY e.child_id LIMIT $3",
};

static enum err reader_postgres_linked(struct pg_reader *r, const struct pg_statement *which, int32_t tenant,
                                       struct uuid task, struct arena *a, struct linked_task **ret, size_t *ret_n,
                                       struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    struct pg_params *p = pg_reader_params(r);
    pg_add_uuid(p, task);
    pg_add_i32(p, tenant);
    pg_add_i64(p, LIST_MAX + 1);
    if (pg_reader_run(r, false, which, &got, e))
        return e->code;
    struct linked_task *v = arena_array(a, struct linked_task, (size_t)got.rows + 1);
    for (int i = 0; v && i < got.rows; i++) {
        v[i] = (struct linked_task){ .id = pg_uuid(&got, i, 0),
                                     .type = (enum dag_type)pg_i64(&got, i, 1),
                                     .edge = (enum edge_state)pg_i64(&got, i, 2),
                                     .exists = !pg_is_null(&got, i, 3),
                                     .state = (enum task_state)pg_i64(&got, i, 3),
                                     .due_ms = pg_i64(&got, i, 4),
                                     .started_ms = pg_i64(&got, i, 5) };
        if (!arena_str(a, pg_text(&got, i, 6), &v[i].name))
            v = NULL;
    }
    if (!v)
        return reader_no_room(e);
    *ret = v;
    *ret_n = (size_t)got.rows;
    return ERR_OK;
}

enum err reader_postgres_links(struct reader *base, int32_t tenant, struct uuid task, struct arena *a,
                               struct task_links *ret, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    struct task_links l = { 0 };
    struct join_row row = { 0 };
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    pg_add_uuid(p, task);
    pg_add_i32(p, tenant);
    if (pg_reader_run(r, false, &read_join, &got, e))
        return e->code;
    l.has_join = got.rows > 0;
    if (l.has_join)
        pg_join_read_row(&got, 0, 0, &row);
    l.join = row.join;
    l.expected = row.expected;
    l.counts = row.counts;
    if (reader_postgres_linked(r, &read_linked_parents, tenant, task, a, &l.parents, &l.parent_count, e) ||
        reader_postgres_linked(r, &read_linked_children, tenant, task, a, &l.children, &l.child_count, e))
        return e->code;
    l.more_children = l.child_count > LIST_MAX;
    l.child_count = min_of(l.child_count, (size_t)LIST_MAX);
    *ret = l;
    return ERR_OK;
}
