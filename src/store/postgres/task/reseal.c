/* OP_RESEAL, and the reads of what is encrypted with a key. */
#include "store/postgres/reader/reader.h"

/* Leaves out rows that another transaction has locked: nothing waits for them, and no order of locks matters. */
static const struct pg_statement reseal = {
    "reseal",
    "WITH x AS MATERIALIZED (SELECT t.id, x.becomes FROM unnest($*) AS x (id, was, becomes) JOIN tasks AS t ON "
    "t.id = x.id WHERE t.target_config = x.was AND t.state <> " SQL_RUNNING " FOR UPDATE OF t SKIP LOCKED) "
    "UPDATE tasks SET target_config = x.becomes FROM x WHERE tasks.id = x.id",
};

static const struct pg_statement reseal_definitions = {
    "reseal_definitions",
    "WITH x AS MATERIALIZED (SELECT d.tenant_id, d.hash, x.becomes FROM unnest($*) AS x (tenant_id, hash, was, becomes) "
    "JOIN definitions AS d ON d.tenant_id = x.tenant_id AND d.hash = x.hash WHERE d.text = x.was "
    "FOR UPDATE OF d SKIP LOCKED) "
    "UPDATE definitions AS d SET text = x.becomes FROM x WHERE d.tenant_id = x.tenant_id AND d.hash = x.hash",
};

static enum err pg_reseal_definitions(struct store_postgres *s, struct op_reseal *op, struct error *e)
{
    struct pg_params *p = &s->params;
    const struct resealed_definition *v = op->definitions;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(p);
    pg_array(p, PG_I32);
    for (size_t i = 0; i < op->definition_count; i++)
        pg_element_i64(p, v[i].definition->tenant);
    pg_array_end(p);
    pg_array(p, PG_BYTES);
    for (size_t i = 0; i < op->definition_count; i++)
        pg_element_text(p, (struct str){ (const char *)v[i].definition->hash, DEFINITION_HASH });
    pg_array_end(p);
    pg_array(p, PG_TEXT);
    for (size_t i = 0; i < op->definition_count; i++)
        pg_element_text(p, v[i].definition->text);
    pg_array_end(p);
    pg_array(p, PG_TEXT);
    for (size_t i = 0; i < op->definition_count; i++)
        pg_element_text(p, v[i].becomes);
    pg_array_end(p);
    if (pg_run(&s->conn, &reseal_definitions, p, &r, e))
        return e->code;
    op->ret_changed += (size_t)r.affected;
    return ERR_OK;
}

static enum err pg_reseal_tasks(struct store_postgres *s, struct op_reseal *op, struct error *e)
{
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
    if (pg_run(&s->conn, &reseal, p, &r, e))
        return e->code;
    op->ret_changed += (size_t)r.affected;
    return ERR_OK;
}

enum err postgres_reseal(struct store_postgres *s, struct op *base)
{
    struct op_reseal *op = (struct op_reseal *)base;
    struct error *e = &base->error;
    op->ret_changed = 0;
    if ((op->n && pg_reseal_tasks(s, op, e)) || (op->definition_count && pg_reseal_definitions(s, op, e)))
        return e->code;
    return ERR_OK;
}

/* ---- what a key encrypts ---- */

enum err reader_postgres_sealed(struct reader *base, struct str key_id, bool *ret, struct error *e)
{
    static const struct pg_statement sealed = {
        "read_sealed", "SELECT 1 FROM tasks WHERE strpos(target_config, '\"enc:1:' || $1) > 0 UNION ALL "
                       "SELECT 1 FROM definitions WHERE strpos(text, '\"enc:1:' || $1) > 0 UNION ALL "
                       "SELECT 1 FROM catalog WHERE strpos(doc, '\"enc:1:' || $1) > 0 LIMIT 1"
    };
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    e = pg_reader_error(base, e);
    pg_add_text(pg_reader_params(r), key_id);
    if (pg_reader_run(r, false, &sealed, &got, e))
        return e->code;
    *ret = got.rows > 0;
    return ERR_OK;
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
        "':', ''), '\"enc:1:') > 0 THEN target_config END FROM tasks WHERE id > "
        "coalesce($2, uuid '00000000-0000-0000-0000-000000000000') ORDER BY id LIMIT $3"
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
