/* Finding tasks by the beginning of a name, and by a dedupe key. */
#include <assert.h>

#include "store/postgres/reader/reader.h"

#define NAMED "tenant_id = $1 AND kind <> 2"
static_assert(TASK_OCCURRENCE == 2, "statements name it by number");

/* Jumps from name to name in the index, so that tasks of the same name cost nothing. */
static const struct pg_statement names_of = {
    "read_names",
    "WITH RECURSIVE n AS ((SELECT name FROM tasks WHERE " NAMED " AND name >= $2 ORDER BY name LIMIT 1) UNION ALL "
    "SELECT next.name FROM n, LATERAL (SELECT name FROM tasks WHERE " NAMED " AND name > n.name ORDER BY name LIMIT 1) "
    "AS next WHERE starts_with(n.name, $2)) SELECT n.name, ids[1], ids[2] IS NULL FROM n, LATERAL (SELECT ARRAY(SELECT "
    "id FROM tasks WHERE " NAMED " AND name = n.name AND NOT deleted ORDER BY id DESC LIMIT 2) AS ids) AS t "
    "WHERE starts_with(n.name, $2) AND n.name <> '' AND ids[1] IS NOT NULL LIMIT $3"
};

enum err reader_postgres_names(struct reader *base, int32_t tenant, struct str prefix, size_t max, struct arena *a,
                               struct task_names *ret, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, tenant);
    pg_add_text(p, prefix);
    pg_add_i64(p, (int64_t)max);
    if (text_is_clean(prefix) && pg_reader_run(r, true, &names_of, &got, e))
        return e->code;
    struct task_names names = { arena_array(a, struct task_name, (size_t)got.rows), (size_t)got.rows };
    if (!names.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++) {
        names.v[i] = (struct task_name){ .newest = pg_uuid(&got, i, 1), .is_only = pg_bool(&got, i, 2) };
        if (!arena_str(a, pg_text(&got, i, 0), &names.v[i].name))
            return reader_no_room(e);
    }
    *ret = names;
    return ERR_OK;
}

/* ---- dedupe keys ---- */

enum err reader_postgres_dedupe(struct reader *base, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                                struct error *e)
{
    static const struct pg_statement holder = { "read_dedupe",
                                                "SELECT d.task_id FROM dedupe AS d JOIN tasks AS t ON t.id = d.task_id "
                                                "WHERE d.tenant_id = $1 AND d.key = $2 AND d.until_ms > $3 "
                                                "AND NOT t.deleted" };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, tenant);
    pg_add_text(p, key);
    pg_add_i64(p, now_ms);
    if (text_is_clean(key) && pg_reader_run(r, false, &holder, &got, e))
        return e->code;
    if (got.rows == 0)
        return reader_not_found("task", e);
    *ret = pg_uuid(&got, 0, 0);
    return ERR_OK;
}
