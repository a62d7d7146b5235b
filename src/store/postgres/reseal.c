/* OP_RESEAL, and the search for the tasks that need it. Rows that another transaction has locked are left out, so that
 * nothing waits for them and no order of locks matters. */
#include "port/secrets.h"
#include "store/common/reading.h"
#include "store/common/sql_states.h"
#include "store/postgres/reader.h"

static const struct pg_statement reseal = {
    "reseal",
    "WITH x AS MATERIALIZED (SELECT t.id, x.becomes FROM unnest($*) AS x (id, was, becomes) JOIN tasks AS t ON "
    "t.id = x.id WHERE t.target_config = x.was AND t.state <> " SQL_RUNNING " FOR UPDATE OF t SKIP LOCKED) "
    "UPDATE tasks SET target_config = x.becomes FROM x WHERE tasks.id = x.id",
};

enum err postgres_reseal(struct store_postgres *s, struct op *base)
{
    struct op_reseal *op = (struct op_reseal *)base;
    struct pg_params *p = &s->params;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(p);
    pg_array(p, PG_UUID);
    for (size_t i = 0; i < op->n; i++)
        pg_element_uuid(p, op->v[i].id);
    pg_array_end(p);
    pg_array(p, PG_TEXT);
    for (size_t i = 0; i < op->n; i++)
        pg_element_text(p, op->v[i].was);
    pg_array_end(p);
    pg_array(p, PG_TEXT);
    for (size_t i = 0; i < op->n; i++)
        pg_element_text(p, op->v[i].becomes);
    pg_array_end(p);
    enum err rc = pg_run(&s->conn, &reseal, p, &r, &base->error);
    op->ret_changed = rc ? 0 : (size_t)r.affected;
    return rc;
}

static struct task reader_postgres_sealed_task(const struct pg_result *r, int row)
{
    enum { ID, TENANT, KIND, PARENT, STATE, CONFIG };
    return (struct task){
        .id = pg_uuid(r, row, ID),
        .tenant = (int32_t)pg_i64(r, row, TENANT),
        .kind = (enum task_kind)pg_i64(r, row, KIND),
        .parent = pg_uuid(r, row, PARENT),
        .state = (enum task_state)pg_i64(r, row, STATE),
        .target_config = pg_text(r, row, CONFIG),
    };
}

enum err reader_postgres_sealed_page(struct reader *base, struct str key_id, struct uuid after, size_t max,
                                     struct arena *a, struct sealed_page *ret, struct error *e)
{
    static const struct pg_statement next = {
        "read_sealed_page",
        "SELECT id, tenant_id, kind, parent_id, state, CASE WHEN strpos(replace(target_config, '\"enc:1:' || $1 || "
        "':', ''), '\"enc:1:') > 0 THEN target_config END FROM tasks WHERE id > coalesce($2, uuid '00000000-0000-0000-0000-000000000000') ORDER BY id LIMIT $3"
    };
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    struct sealed_page page = { .tasks.v = arena_array(a, struct task, max) };
    e = pg_reader_error(base, e);
    if (!page.tasks.v)
        return reader_no_room(e);
    pg_add_text(pg_reader_params(r), key_id);
    pg_add_uuid(&r->params, after);
    pg_add_i64(&r->params, (int64_t)max);
    enum err rc = pg_reader_run(r, false, &next, &got, e);
    bool has_room = true;
    for (int i = 0; !rc && has_room && i < got.rows; i++) {
        struct task t = reader_postgres_sealed_task(&got, i);
        rc = sealed_page_add(&page, &t, (size_t)i, max, a, &has_room, e);
    }
    if (!rc)
        *ret = page;
    return rc;
}

enum err reader_postgres_key_prints(struct reader *base, struct key_prints *ret, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    e = pg_reader_error(base, e);
    (void)pg_reader_params(r);
    return pg_reader_run(r, false, &pg_cluster_keys, &got, e) ? e->code : pg_cluster_key_prints(&got, ret, e);
}
