/* The table `lanes`, of which every process holds a copy in memory. */
#include <stdlib.h>

#include "store/postgres/internal.h"

static const struct pg_statement all_lanes = { "lanes_all", "SELECT lane, pool, " PG_LANE_COLUMNS " FROM lanes" };
static const struct pg_statement insert_lanes = {
    "lanes_insert",
    "INSERT INTO lanes (pool, " PG_LANE_COLUMNS ") SELECT * FROM unnest($*) "
    "ON CONFLICT DO NOTHING RETURNING lane, pool, " PG_LANE_COLUMNS,
};
enum { LANE_NUMBER, LANE_POOL, LANE_COLUMNS };

struct lane pg_read_lane(const struct pg_result *r, int row, int first)
{
    return (struct lane){ .tenant = (int32_t)pg_i64(r, row, first),
                          .queue = pg_text(r, row, first + 1),
                          .priority = (int)pg_i64(r, row, first + 2),
                          .requires = pg_text(r, row, first + 3),
                          .cpu_milli = pg_i64(r, row, first + 4),
                          .memory_mb = pg_i64(r, row, first + 5),
                          .host = pg_text(r, row, first + 6) };
}

static enum err pg_lanes_add(struct pg_conn *c, struct store_lanes *l, const struct pg_result *r, struct error *e)
{
    for (int i = 0; i < r->rows; i++) {
        struct lane lane = pg_read_lane(r, i, LANE_COLUMNS);
        if (!lane_fits(&lane))
            return pg_corrupt(c, "table 'lanes' has a row that Belfry did not write", e);
        store_lanes_add(l, pg_i64(r, i, LANE_NUMBER), lane, (int)pg_i64(r, i, LANE_POOL));
    }
    return ERR_OK;
}

/* Loads all lanes: a lane with a lower number than a known one may have been committed later. */
enum err pg_lanes_load(struct pg_conn *c, struct store_lanes *l, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    return pg_run(c, &all_lanes, NULL, &r, e) ? e->code : pg_lanes_add(c, l, &r, e);
}

enum err pg_lanes_at(struct pg_conn *c, struct store_lanes *l, int64_t number, const struct lane_row **ret,
                     struct error *e)
{
    *ret = store_lanes_at(l, number);
    if (!*ret && pg_lanes_load(c, l, e))
        return e->code;
    *ret = store_lanes_at(l, number);
    return *ret ? ERR_OK : pg_corrupt(c, "a task's lane is not in table 'lanes'", e);
}

/* ---- finding lanes, and making those that are missing ---- */

static int pg_lane_by_key(const void *a, const void *b)
{
    const struct pg_lane_want *x = *(struct pg_lane_want *const *)a, *y = *(struct pg_lane_want *const *)b;
    const int64_t numbers[][2] = { { x->lane.tenant, y->lane.tenant },
                                   { x->lane.priority, y->lane.priority },
                                   { x->lane.cpu_milli, y->lane.cpu_milli },
                                   { x->lane.memory_mb, y->lane.memory_mb },
                                   { x->pool, y->pool } };
    for (size_t i = 0; i < array_count(numbers); i++)
        if (numbers[i][0] != numbers[i][1])
            return numbers[i][0] < numbers[i][1] ? -1 : 1;
    int order = str_cmp(x->lane.queue, y->lane.queue);
    order = order ? order : str_cmp(x->lane.requires, y->lane.requires);
    return order ? order : str_cmp(x->lane.host, y->lane.host);
}

/* Sets the numbers of known lanes. Those of the others, each once and in order, go to `missing`. */
static size_t pg_lanes_look_up(const struct store_lanes *l, struct pg_lane_want *v, size_t n,
                               struct pg_lane_want **missing)
{
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < n; i++) {
        const struct lane_row *row = store_lanes_find(l, v[i].lane, v[i].pool);
        v[i].number = row ? row->number : 0;
        if (!row)
            missing[count++] = &v[i];
    }
    if (count)
        qsort(missing, count, sizeof(struct pg_lane_want *), pg_lane_by_key);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || pg_lane_by_key(&missing[kept - 1], &missing[i]))
            missing[kept++] = missing[i];
    return kept;
}

static void pg_lane_add_value(struct pg_params *p, int column, const struct pg_lane_want *v)
{
    switch (column) {
    case 0: pg_element_i64(p, v->pool); break;
    case 1: pg_element_i64(p, v->lane.tenant); break;
    case 2: pg_element_text(p, v->lane.queue); break;
    case 3: pg_element_i64(p, v->lane.priority); break;
    case 4: pg_element_text(p, v->lane.requires); break;
    case 5: pg_element_i64(p, v->lane.cpu_milli); break;
    case 6: pg_element_i64(p, v->lane.memory_mb); break;
    case 7: pg_element_text(p, v->lane.host); break;
    default: abort();
    }
}

static enum err pg_lanes_insert(struct pg_conn *c, struct store_lanes *l, struct pg_lane_want *const *v, size_t n,
                                bool *ret_made, struct error *e)
{
    static const enum pg_type types[] = { PG_I32, PG_I32, PG_TEXT, PG_I32, PG_TEXT, PG_I64, PG_I64, PG_TEXT };
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    cleanup_with(pg_params_release) struct pg_params p; /* the caller may be using its own */
    pg_params_init(&p);
    for (int column = 0; column < (int)array_count(types); column++) {
        pg_array(&p, types[column]);
        for (size_t i = 0; i < n; i++)
            pg_lane_add_value(&p, column, v[i]);
        pg_array_end(&p);
    }
    if (pg_run(c, &insert_lanes, &p, &r, e))
        return e->code;
    *ret_made = r.rows > 0;
    if ((size_t)r.rows < n) /* another process has inserted some */
        return pg_lanes_load(c, l, e);
    return pg_lanes_add(c, l, &r, e);
}

enum err pg_lanes_find(struct pg_conn *c, struct store_lanes *l, struct pg_lane_want *v, size_t n, bool *ret_made,
                       struct error *e)
{
    struct pg_lane_want **missing = xcalloc(n + 1, sizeof(struct pg_lane_want *));
    size_t count = pg_lanes_look_up(l, v, n, missing);
    enum err rc = ERR_OK;
    *ret_made = false;
    if (count) {
        rc = pg_lanes_insert(c, l, missing, count, ret_made, e);
        if (!rc && pg_lanes_look_up(l, v, n, missing))
            rc = pg_corrupt(c, "a lane exists and cannot be read", e);
    }
    free(missing);
    return rc;
}

enum err pg_lane_numbers(struct store_postgres *s, struct pg_lane_want *v, size_t n, struct error *e)
{
    bool has_made;
    if (pg_lanes_find(&s->conn, &s->lanes, v, n, &has_made, e))
        return e->code;
    if (has_made)
        s->made_lanes = s->notice.lanes = true;
    return ERR_OK;
}
