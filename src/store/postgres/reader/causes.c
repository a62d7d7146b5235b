/* Dead letters, grouped by their cause. */
#include <assert.h>

#include "store/postgres/reader/reader.h"

#define DEAD "failed_ms IS NOT NULL AND resolved_ms = 0 AND NOT deleted AND tenant_id = $1"
#define COUNTED(cause_is)                                                                                              \
    "(SELECT count(*) AS n, min(failed_ms) AS first, max(failed_ms) AS last, "                                         \
    "(array_agg(id ORDER BY failed_ms DESC, id DESC))[1] AS latest FROM (SELECT id, failed_ms FROM tasks "             \
    "WHERE " DEAD " AND " cause_is " ORDER BY id DESC LIMIT 10000) AS t) AS x"
static_assert(COUNT_SLOW_MAX == 10000, "COUNTED says the same");

/* Steps from cause to cause in the index, beginning with NULL: no cause. After a million dead letters the rest is not
 * counted. */
/* clang-format off */
static const struct pg_statement causes_of = {
    "read_causes",
    "WITH RECURSIVE g AS (SELECT NULL::text COLLATE \"C\" AS cause, x.n, x.first, x.last, x.latest, x.n AS looked FROM "
    COUNTED("cause IS NULL")
    " UNION ALL SELECT c.cause, x.n, x.first, x.last, x.latest, g.looked + x.n FROM g, LATERAL (SELECT cause FROM tasks WHERE "
    DEAD " AND cause > coalesce(g.cause, '') ORDER BY cause LIMIT 1) AS c, LATERAL " COUNTED("cause = c.cause")
    " WHERE g.looked < 1000000) "
    "SELECT top.cause, top.n, top.first, top.last, top.latest, t.last_error "
    "FROM (SELECT * FROM g WHERE n > 0 ORDER BY n DESC, cause NULLS FIRST LIMIT $2) AS top, "
    "LATERAL (SELECT last_error FROM tasks WHERE id = top.latest LIMIT 1) AS t "
    "ORDER BY top.n DESC, top.cause NULLS FIRST"
};
/* clang-format on */

enum err reader_postgres_causes(struct reader *base, int32_t tenant, size_t max, struct arena *a,
                                struct cause_groups *ret, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, tenant);
    pg_add_i64(p, (int64_t)max);
    if (pg_reader_run(r, false, &causes_of, &got, e))
        return e->code;
    struct cause_groups groups = { arena_array(a, struct cause_group, (size_t)got.rows), (size_t)got.rows };
    if (!groups.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++) {
        struct cause_group *g = &groups.v[i];
        *g = (struct cause_group){ .count = pg_i64(&got, i, 1),
                                   .first_failed_ms = pg_i64(&got, i, 2),
                                   .last_failed_ms = pg_i64(&got, i, 3),
                                   .latest = pg_uuid(&got, i, 4) };
        if (!arena_str(a, pg_text(&got, i, 0), &g->cause) || !arena_str(a, pg_text(&got, i, 5), &g->last_error))
            return reader_no_room(e);
    }
    *ret = groups;
    return ERR_OK;
}
