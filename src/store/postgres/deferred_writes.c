/* Changes that operations note and the transaction writes once, at its end: counts, tasks that became final, claims
 * that tasks have left or that were handed off.
 *
 * Rows of claims are written last, because other transactions wait for them: updaters on several nodes settle tasks of
 * the same claim, and its row stays locked until the commit. All of them are locked in one statement, in the order of
 * their ids, so that transactions cannot deadlock. */
#include <stdlib.h>

#include "store/postgres/internal.h"

enum { NOTE_MAX = 256 /* tasks in one row of `ended` */ };

/* The rows are in the order of the key, because two processes may share a shard. */
static const struct pg_statement add_counts = {
    "add_counts",
    "INSERT INTO counts (tenant_id, state, shard, n) SELECT tenant, state, $1, n FROM unnest($2, $3, $4) "
    "AS x(tenant, state, n) ON CONFLICT (tenant_id, state, shard) DO UPDATE SET n = counts.n + excluded.n",
};
static const struct pg_statement add_ended = {
    "add_ended",
    "INSERT INTO ended (completed_ms, tasks) SELECT at, array_agg(id) FROM unnest($1, $2) WITH ORDINALITY "
    "AS x(at, id, place) GROUP BY at, (place - 1) / $3",
};
/* Two statements, because one would check `held` as it was before another transaction's change. */
static const struct pg_statement change_claims = {
    "change_claims",
    "WITH mine AS (SELECT id FROM claims WHERE id = ANY ($1) ORDER BY id FOR UPDATE) UPDATE claims SET held = held - x.n, "
    "hold = CASE WHEN hold = 0 AND x.handed > 0 THEN 1 ELSE hold END, "
    "epoch = CASE WHEN hold = 0 AND x.handed > 0 THEN x.epoch ELSE claims.epoch END "
    "FROM mine JOIN unnest($1, $2, $3, $4) AS x(id, n, handed, epoch) USING (id) WHERE claims.id = mine.id",
};
static const struct pg_statement read_changed = {
    "changed",
    "SELECT x.place, tenant_id, kind, parent_id, run_id, lane, queue, attempts, fence, trace, last_error "
    "FROM unnest($1) WITH ORDINALITY AS x(task, place) JOIN tasks AS t ON t.id = x.task",
};
enum { C_PLACE, C_TENANT, C_KIND, C_PARENT, C_RUN, C_LANE, C_QUEUE, C_ATTEMPTS, C_FENCE, C_TRACE, C_LAST_ERROR };
static const struct pg_statement delete_claims = { "delete_claims",
                                                   "DELETE FROM claims WHERE id = ANY ($1) AND held <= 0" };

void pg_tally_move(struct store_postgres *s, int32_t tenant, bool deleted, enum task_state from, enum task_state to)
{
    tally_move(&s->of_op, tenant, deleted, from, to);
}

void pg_tally_new(struct store_postgres *s, int32_t tenant, bool deleted, enum task_state state, int64_t n)
{
    if (!deleted)
        tally_add(&s->of_op, tenant, state, n);
}

void pg_note_ended(struct store_postgres *s, struct uuid id, enum task_state state, int64_t completed_ms)
{
    struct pg_ended *n = &s->ended;
    if (!task_is_final(state) || state == TASK_FAILED || completed_ms <= 0)
        return;
    if (n->n == n->cap) {
        n->cap = n->cap * 2 + NOTE_MAX;
        n->v = xrealloc(n->v, n->cap * sizeof *n->v);
    }
    n->v[n->n++] = (struct pg_ended_task){ completed_ms, id };
}

void pg_note_due(struct store_postgres *s, int64_t due_ms)
{
    s->notice.due_ms = s->notice.due ? min_of(s->notice.due_ms, due_ms) : due_ms;
    s->notice.due = true;
}

static int pg_tally_by_tenant(const void *a, const void *b)
{
    int32_t x = ((const struct tally *)a)->tenant, y = ((const struct tally *)b)->tenant;
    return (x > y) - (x < y);
}

/* The three array parameters of add_counts. */
enum pg_tally_column { OF_TENANT, OF_STATE, OF_COUNT };

static void pg_tally_add_column(struct pg_params *p, const struct tallies *t, enum pg_tally_column which)
{
    static const enum pg_type types[] = { PG_I32, PG_I16, PG_I64 };
    pg_array(p, types[which]);
    for (size_t i = 0; i < t->n; i++)
        for (int state = 0; state <= TASK_EXPIRED; state++)
            if (t->v[i].n[state])
                pg_element_i64(p, which == OF_TENANT ? t->v[i].tenant : which == OF_STATE ? state : t->v[i].n[state]);
    pg_array_end(p);
}

enum err pg_send_tallies(struct store_postgres *s, struct error *e)
{
    struct tallies *t = &s->of_transaction;
    struct pg_params *p = &s->params;
    bool any = false;
    for (size_t i = 0; i < t->n && !any; i++)
        for (int state = 0; state <= TASK_EXPIRED; state++)
            any = any || t->v[i].n[state];
    if (!any)
        return ERR_OK;
    qsort(t->v, t->n, sizeof *t->v, pg_tally_by_tenant);
    pg_params_reset(p);
    pg_add_i32(p, s->shard);
    pg_tally_add_column(p, t, OF_TENANT);
    pg_tally_add_column(p, t, OF_STATE);
    pg_tally_add_column(p, t, OF_COUNT);
    return pg_queue(&s->conn, &add_counts, p, e);
}

enum err pg_send_ended(struct store_postgres *s, struct error *e)
{
    struct pg_ended *all = &s->ended;
    struct pg_params *p = &s->params;
    size_t n = all->kept;
    all->n = all->kept = 0;
    if (n == 0)
        return ERR_OK;
    pg_params_reset(p);
    pg_add_members(p, all->v, n, completed_ms);
    pg_add_members(p, all->v, n, id);
    pg_add_i64(p, NOTE_MAX);
    return pg_queue(&s->conn, &add_ended, p, e);
}

/* ---- changes that are told ---- */

static enum err pg_read_change(struct store_postgres *s, const struct pg_result *r, int row, struct task_change *c,
                               struct error *e)
{
    struct change_list *l = s->base.changes;
    const struct lane_row *lane;
    if (pg_lanes_at(&s->conn, &s->lanes, pg_i64(r, row, C_LANE), &lane, e))
        return e->code;
    c->task.tenant = (int32_t)pg_i64(r, row, C_TENANT);
    c->task.kind = (enum task_kind)pg_i64(r, row, C_KIND);
    c->task.parent = pg_uuid(r, row, C_PARENT);
    c->task.run = pg_uuid(r, row, C_RUN);
    c->task.queue = change_text(l, pg_is_null(r, row, C_QUEUE) ? lane->lane.queue : pg_text(r, row, C_QUEUE));
    c->task.attempts = (int)pg_i64(r, row, C_ATTEMPTS);
    c->task.fence = pg_i64(r, row, C_FENCE);
    c->task.trace = change_text(l, pg_text(r, row, C_TRACE));
    c->task.last_error = change_has_reason(c) ? change_text(l, pg_text(r, row, C_LAST_ERROR)) : (struct str){ 0 };
    return ERR_OK;
}

enum err pg_read_changes(struct store_postgres *s, struct error *e)
{
    struct change_list *l = s->base.changes;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (!l || l->n == 0)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_array(&s->params, PG_UUID);
    for (size_t i = 0; i < l->n; i++)
        pg_element_uuid(&s->params, l->v[i].task.id);
    pg_array_end(&s->params);
    if (pg_run(&s->conn, &read_changed, &s->params, &r, e))
        return e->code;
    for (int i = 0; i < r.rows; i++)
        if (pg_read_change(s, &r, i, &l->v[pg_i64(&r, i, C_PLACE) - 1], e))
            return e->code;
    return ERR_OK;
}

static void pg_note_claim(struct store_postgres *s, struct pg_claim_note note)
{
    struct pg_claim_notes *c = &s->claims;
    if (c->n == c->cap) {
        c->cap = c->cap * 2 + NOTE_MAX;
        c->v = xrealloc(c->v, c->cap * sizeof *c->v);
    }
    c->v[c->n++] = note;
}

void pg_note_left(struct store_postgres *s, struct uuid claim)
{
    pg_note_claim(s, (struct pg_claim_note){ .id = claim, .left = 1 });
}

void pg_note_handed(struct store_postgres *s, struct uuid claim, uint64_t epoch)
{
    pg_note_claim(s, (struct pg_claim_note){ .id = claim, .handed = 1, .epoch = (int64_t)epoch });
}

static int pg_claim_note_by_id(const void *a, const void *b)
{
    return uuid_cmp(((const struct pg_claim_note *)a)->id, ((const struct pg_claim_note *)b)->id);
}

/* Merges the notes so that each claim occurs once. Returns how many there are. */
static size_t pg_claim_notes_merge(struct pg_claim_note *v, size_t n)
{
    size_t kept = 0;
    qsort(v, n, sizeof *v, pg_claim_note_by_id);
    for (size_t i = 0; i < n; i++) {
        if (kept && uuid_eq(v[kept - 1].id, v[i].id)) {
            v[kept - 1].epoch = v[kept - 1].handed ? v[kept - 1].epoch : v[i].epoch;
            v[kept - 1].left += v[i].left;
            v[kept - 1].handed += v[i].handed;
        } else {
            v[kept++] = v[i];
        }
    }
    return kept;
}

enum err pg_send_claims(struct store_postgres *s, struct error *e)
{
    struct pg_claim_notes *c = &s->claims;
    struct pg_params *p = &s->params;
    size_t n = c->kept;
    c->n = c->kept = 0;
    if (n == 0)
        return ERR_OK;
    n = pg_claim_notes_merge(c->v, n);
    pg_params_reset(p);
    pg_add_members(p, c->v, n, id);
    pg_add_members(p, c->v, n, left);
    pg_add_members(p, c->v, n, handed);
    pg_add_members(p, c->v, n, epoch);
    if (pg_queue(&s->conn, &change_claims, p, e))
        return e->code;
    pg_params_reset(p);
    pg_add_members(p, c->v, n, id);
    return pg_queue(&s->conn, &delete_claims, p, e);
}
