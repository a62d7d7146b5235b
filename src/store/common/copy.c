/* The steps of a copy: compare existing rows, mark the target, copy, read back, compare, unmark. If a step fails, the
 * mark stays: a server that runs half of an installation would be worse than one that does not start. */
#include "store/common/copy.h"

#include <stddef.h>
#include <stdlib.h>

#include "store/common/claim_hold.h"
#include "store/common/copy_internal.h"

/* ---- tables that are copied ---- */

#define CLAIM_COLUMNS(X)                                                                                               \
    X(id, COL_UUID, id, 0) X(node, COL_UUID, node, 0) X(hold, COL_INT, hold, CLAIM_LEASED) X(epoch, COL_I64, epoch, 0)
#define DEDUPE_COLUMNS(X)                                                                                              \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(key, COL_TEXT, key, 0) X(task_id, COL_UUID, task, 0) X(until_ms, COL_I64, until_ms, 0)
#define SLOT_COLUMNS(X) X(tenant_id, COL_INT, tenant, INT32_MAX) X(key, COL_TEXT, key, 0) X(task_id, COL_UUID, task, 0)

#define EDGE_COLUMNS(X)                                                                                                \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(parent_id, COL_UUID, parent, 0)                                                                                  \
    X(child_id, COL_UUID, child, 0)                                                                                    \
    X(type, COL_INT, type, DAG_MUST_FAIL) X(state, COL_INT, state, EDGE_UNMET) X(old, COL_BOOL, old, 0)
#define JOIN_COLUMNS(X)                                                                                                \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(child_id, COL_UUID, child, 0)                                                                                    \
    X(kind, COL_INT, kind, DAG_SOME)                                                                                   \
    X(expected, COL_I64, expected, 0)                                                                                  \
    X(arrived, COL_I64, arrived, 0)                                                                                    \
    X(met, COL_I64, met, 0)                                                                                            \
    X(broken, COL_I64, broken, 0) X(generation, COL_I64, generation, 0) X(max_broken, COL_I64, max_broken, 0)
#define ARRIVAL_COLUMNS(X)                                                                                             \
    X(parent_id, COL_UUID, parent, 0) X(outcome, COL_INT, outcome, FLOW_BROKEN) X(created_ms, COL_I64, created_ms, 0)
#define DEFINITION_COLUMNS(X)                                                                                          \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(hash, COL_BYTES32, hash, 0) X(text, COL_TEXT, text, 0) X(put_ms, COL_I64, put_ms, 0)
#define COPIED_WORKFLOW_COLUMNS(X)                                                                                     \
    X(tenant_id, COL_INT, row.tenant, INT32_MAX)                                                                       \
    X(name, COL_TEXT, row.name, 0)                                                                                     \
    X(version, COL_I64, row.version, 0)                                                                                \
    X(hash, COL_BYTES32, row.hash, 0)                                                                                  \
    X(created_ms, COL_I64, row.created_ms, 0) X(removed, COL_BOOL, removed, 0)
#define OUTPUT_COLUMNS(X)                                                                                              \
    X(run_id, COL_UUID, run, 0)                                                                                        \
    X(place, COL_I64, output.place, 0) X(whole, COL_BOOL, output.whole, 0) X(text, COL_TEXT, output.text, 0)

#define ROW(column, kind, member, max) { #column, kind, offsetof(ROW_TYPE, member), max },
#define ROW_TYPE                       struct copied_claim
static const struct column claim_columns[] = { CLAIM_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct copied_dedupe
static const struct column dedupe_columns[] = { DEDUPE_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct copied_slot
static const struct column slot_columns[] = { SLOT_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct copied_edge
static const struct column edge_columns[] = { EDGE_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct copied_join
static const struct column join_columns[] = { JOIN_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct copied_arrival
static const struct column arrival_columns[] = { ARRIVAL_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct copied_definition
static const struct column definition_columns[] = { DEFINITION_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct copied_workflow
static const struct column workflow_columns[] = { COPIED_WORKFLOW_COLUMNS(ROW) };
#undef ROW_TYPE
#define ROW_TYPE struct copied_output
static const struct column output_columns[] = { OUTPUT_COLUMNS(ROW) };

static const struct table table_claims = { "claim", claim_columns, array_count(claim_columns) };
static const struct table table_dedupe = { "dedupe key", dedupe_columns, array_count(dedupe_columns) };
static const struct table table_edges = { "edge", edge_columns, array_count(edge_columns) };
static const struct table table_joins = { "join", join_columns, array_count(join_columns) };
static const struct table table_arrivals = { "arrival", arrival_columns, array_count(arrival_columns) };
static const struct table table_definitions = { "definition", definition_columns, array_count(definition_columns) };
static const struct table table_named = { "workflow", workflow_columns, array_count(workflow_columns) };
static const struct table table_outputs = { "output", output_columns, array_count(output_columns) };
static const struct table table_slots = { "slot", slot_columns, array_count(slot_columns) };

/* Claims come before their tasks. Keys are indexes into the column lists of columns.h, and of this file. */
const struct copy_kind copy_kinds[] = {
    [COPY_claims] = { "claims", &table_claims, sizeof(struct copied_claim), { 0 }, 1 },
    [COPY_tasks] = { "tasks", &table_tasks, sizeof(struct task), { AT_id - 1 }, 1 },
    [COPY_executions] = { "executions", &table_executions, sizeof(struct execution), { 2, 0 }, 2 },
    [COPY_idempotency] = { "idempotency", &table_idempotency, sizeof(struct idempotency), { 1, 0 }, 2 },
    [COPY_api_keys] = { "api_keys", &table_api_keys, sizeof(struct api_key), { 0 }, 1 },
    [COPY_catalog] = { "catalog", &table_catalog, sizeof(struct catalog_entry), { 1, 0, 2 }, 3 },
    [COPY_dedupe] = { "dedupe", &table_dedupe, sizeof(struct copied_dedupe), { 0, 1 }, 2 },
    [COPY_slots] = { "slots", &table_slots, sizeof(struct copied_slot), { 1, 2 }, 2 },
    [COPY_edges] = { "edges", &table_edges, sizeof(struct copied_edge), { 1, 2 }, 2 },
    [COPY_joins] = { "joins", &table_joins, sizeof(struct copied_join), { 1 }, 1 },
    [COPY_arrivals] = { "arrivals", &table_arrivals, sizeof(struct copied_arrival), { 0 }, 1 },
    [COPY_runs] = { "runs", &table_runs, sizeof(struct run_row), { 0 }, 1 },
    [COPY_definitions] = { "definitions", &table_definitions, sizeof(struct copied_definition), { 0, 1 }, 2 },
    [COPY_workflows] = { "workflows", &table_named, sizeof(struct copied_workflow), { 0, 1, 2 }, 3 },
    [COPY_outputs] = { "outputs", &table_outputs, sizeof(struct copied_output), { 0, 1 }, 2 },
    [COPY_signals] = { "signals", &table_signals, sizeof(struct signal_row), { 0, 1, 2 }, 3 },
    [COPY_audit] = { "audit", &table_audit, sizeof(struct audit), { 0 }, 1 },
    [COPY_stats] = { "stats", &table_stats, sizeof(struct stats_row), { 2, 0, 3, 1 }, 4 },
    [COPY_hits] = { "hits", &table_hits, sizeof(struct hit), { 0 }, 1 },
    [COPY_incident_records] = { "incident_records", &table_records, sizeof(struct record), { 0 }, 1 },
    [COPY_task_leases] = { "task_leases", &table_task_leases, sizeof(struct task_lease), { 1 }, 1 },
};

/* ---- checksums ---- */

static void copy_add_bytes(struct buf *b, const void *bytes, size_t n)
{
    buf_add(b, (struct str){ bytes, n });
}

static void copy_add_column(struct buf *b, const struct column *c, const void *row, struct buf *json)
{
    const void *member = (const char *)row + c->offset;
    int64_t number = 0;
    switch (c->kind) {
    case COL_UUID: copy_add_bytes(b, member, sizeof(struct uuid)); return;
    case COL_BYTES32: copy_add_bytes(b, member, 32); return;
    case COL_INT:
    case COL_BOOL:
    case COL_I64:
    case COL_DEAD_I64:
    case COL_FAILED:
        buf_char(b, (char)column_number(c, row, &number));
        copy_add_bytes(b, &number, sizeof number);
        return;
    default:
        text_add_clean(b, column_text(c, row, json)); /* in the form in which it is read back */
        buf_char(b, '\0');
    }
}

enum { JSON_MAX = 1 << 20 };

static struct copy_sum copy_sum_of(const struct copy_kind *k, const void *row, struct buf *scratch)
{
    static const struct hash_key keys[] = { { 1, 2 }, { 3, 4 } };
    cleanup_with(buf_release) struct buf json;
    buf_init(&json, JSON_MAX);
    buf_reset(scratch);
    for (int i = 0; i < k->table->count; i++)
        copy_add_column(scratch, &k->table->columns[i], row, &json);
    return (struct copy_sum){ 1, { hash_bytes(keys[0], buf_str(scratch)), hash_bytes(keys[1], buf_str(scratch)) } };
}

static void copy_sum_add(struct copy_sum *s, struct copy_sum of)
{
    s->rows += of.rows;
    s->v[0] += of.v[0];
    s->v[1] += of.v[1];
}

static bool copy_sum_eq(struct copy_sum a, struct copy_sum b)
{
    return a.rows == b.rows && a.v[0] == b.v[0] && a.v[1] == b.v[1];
}

/* ---- state of a copy ---- */

enum { BATCH_ROWS = 500, BATCH_BYTES = 8 << 20, ARENA_MAX = 256 << 20, TELL_EVERY = 5000 };

struct copying {
    const struct copy_request *request;
    struct copy_source *source;
    struct copy_target *target;
    struct arena arena;
    struct buf scratch;
    union copy_row rows[BATCH_ROWS];
    struct copy_sum sums[COPY_TABLES];
    int64_t added[COPY_TABLES];
    struct key_prints keys;
    bool has_secrets;
};

static void copy_report(struct copying *c, enum copy_step step, enum copy_table t, int64_t done, int64_t total)
{
    const struct copy_progress *p = c->request->progress;
    if (p)
        p->tell(p->context, step, copy_kinds[t].name, done, total);
}

/* ---- comparing existing rows ---- */

static enum err copy_conflict(const struct copy_kind *k, struct error *e)
{
    return error_set(e, ERR_CONFLICT,
                     "the database has rows in table '%s' that the source does not have: copy needs an empty database, "
                     "or one that an earlier copy of the same source has partly filled",
                     k->name);
}

static enum err copy_compare_row(struct copying *c, enum copy_table t, struct error *e)
{
    const struct copy_kind *k = &copy_kinds[t];
    bool found;
    c->rows[1] = (union copy_row){ 0 };
    if (copy_source_find(c->source, t, &c->rows[0], &c->arena, &c->rows[1], &found, e))
        return e->code;
    bool same =
        found && copy_sum_eq(copy_sum_of(k, &c->rows[0], &c->scratch), copy_sum_of(k, &c->rows[1], &c->scratch));
    return same ? ERR_OK : copy_conflict(k, e);
}

/* Checks that every row of the target is also in the source. */
static enum err copy_compare_table(struct copying *c, enum copy_table t, struct error *e)
{
    int64_t total, done = 0;
    if (copy_target_count(c->target, t, &total, e))
        return e->code;
    if (total == 0)
        return ERR_OK;
    if (copy_target_begin(c->target, t, e))
        return e->code;
    for (bool found;; done++) {
        if (done % TELL_EVERY == 0)
            copy_report(c, COPY_LOOKING, t, done, total);
        arena_reset(&c->arena);
        c->rows[0] = (union copy_row){ 0 };
        if (copy_target_next(c->target, &c->arena, &c->rows[0], &found, e) || (found && copy_compare_row(c, t, e)))
            return e->code;
        if (!found)
            return ERR_OK;
    }
}

/* ---- copying rows ---- */

/* Reads the next batch of the source; *ret_n is 0 at the end. */
static enum err copy_read_batch(struct copying *c, enum copy_table t, size_t *ret_n, struct error *e)
{
    size_t n = 0;
    bool found = true;
    arena_reset(&c->arena);
    while (n < BATCH_ROWS && c->arena.total < BATCH_BYTES) {
        c->rows[n] = (union copy_row){ 0 };
        if (copy_source_next(c->source, &c->arena, &c->rows[n], &found, e))
            return e->code;
        if (!found)
            break;
        copy_sum_add(&c->sums[t], copy_sum_of(&copy_kinds[t], &c->rows[n], &c->scratch));
        n++;
    }
    *ret_n = n;
    return ERR_OK;
}

static enum err copy_one_table(struct copying *c, enum copy_table t, struct error *e)
{
    const void *rows[BATCH_ROWS];
    int64_t total, done = 0;
    for (size_t i = 0; i < BATCH_ROWS; i++)
        rows[i] = &c->rows[i];
    if (copy_source_count(c->source, t, &total, e) || copy_source_begin(c->source, t, e))
        return e->code;
    for (size_t n = 1; n; done += (int64_t)n) {
        int64_t added = 0;
        if (copy_read_batch(c, t, &n, e) || (n && copy_target_put(c->target, t, rows, n, &added, e)))
            return e->code;
        c->added[t] += added;
        if (total)
            copy_report(c, COPY_COPYING, t, done + (int64_t)n, total);
    }
    return ERR_OK;
}

/* ---- verifying ---- */

static enum err copy_verify_table(struct copying *c, enum copy_table t, struct error *e)
{
    const struct copy_kind *k = &copy_kinds[t];
    struct copy_sum sum = { 0 };
    if (copy_target_begin(c->target, t, e))
        return e->code;
    for (bool found = true; found;) {
        arena_reset(&c->arena);
        c->rows[0] = (union copy_row){ 0 };
        if (copy_target_next(c->target, &c->arena, &c->rows[0], &found, e))
            return e->code;
        if (found)
            copy_sum_add(&sum, copy_sum_of(k, &c->rows[0], &c->scratch));
        if (sum.rows % TELL_EVERY == 0)
            copy_report(c, COPY_VERIFYING, t, sum.rows, c->sums[t].rows);
    }
    if (copy_sum_eq(sum, c->sums[t]))
        return ERR_OK;
    return error_set(
        e, ERR_CORRUPT,
        "table '%s' differs from the source after the copy (%lld rows read back, %lld copied): make sure that no other "
        "program writes to the database, empty it and copy again",
        k->name, (long long)sum.rows, (long long)c->sums[t].rows);
}

/* ---- a whole copy ---- */

static enum err copy_each_table(struct copying *c, enum err (*fn)(struct copying *, enum copy_table, struct error *),
                                struct error *e)
{
    for (int t = 0; t < COPY_TABLES; t++)
        if (fn(c, (enum copy_table)t, e))
            return e->code;
    return ERR_OK;
}

static enum err copy_mark_target(struct copying *c, struct error *e)
{
    uint8_t pepper[PEPPER_SIZE];
    bool found;
    if (copy_source_pepper(c->source, pepper, &found, e))
        return e->code;
    enum err rc = copy_target_mark(c->target, found ? pepper : NULL, e);
    explicit_bzero(pepper, sizeof pepper);
    return rc;
}

static enum err copy_keys(struct copying *c, struct error *e)
{
    return copy_source_keys(c->source, &c->keys, &c->has_secrets, e) ? e->code
                                                                     : copy_target_keys(c->target, &c->keys, e);
}

static enum err copy_run(struct copying *c, struct error *e)
{
    const struct copy_request *r = c->request;
    if (copy_source_open(r->directory, clock_wall_ms(r->clock), &c->source, e) ||
        copy_target_open(r->url, r->clock, &c->target, e))
        return e->code;
    if (copy_target_is_idle(c->target, e) || copy_each_table(c, copy_compare_table, e) || copy_mark_target(c, e) ||
        copy_keys(c, e) || copy_each_table(c, copy_one_table, e) || copy_each_table(c, copy_verify_table, e) ||
        copy_target_is_idle(c->target, e))
        return e->code;
    return copy_target_done(c->target, e);
}

enum err store_copy(const struct copy_request *r, struct copied ret[COPY_TABLES], struct error *e)
{
    struct copying *c = xnew(*c);
    c->request = r;
    arena_init(&c->arena, ARENA_MAX);
    buf_init(&c->scratch, ARENA_MAX);
    enum err rc = copy_run(c, e);
    for (int t = 0; rc == ERR_OK && t < COPY_TABLES; t++)
        ret[t] =
            (struct copied){ copy_kinds[t].name, c->sums[t].rows, c->added[t], { c->sums[t].v[0], c->sums[t].v[1] } };
    if (rc == ERR_OK && r->ret_has_secrets)
        *r->ret_has_secrets = c->has_secrets;
    copy_target_free(c->target);
    copy_source_free(c->source);
    buf_release(&c->scratch);
    arena_release(&c->arena);
    free(c);
    return rc;
}
