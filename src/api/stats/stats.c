/* GET /v1/stats: figures of past minutes (port/store/stats.h), added up by steps. A key of `default` may ask for
 * another tenant, or for all together; every other key sees its own tenant. */
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request.h"
#include "base/duration.h"
#include "base/tenant_metrics.h"

enum {
    POINTS_MAX = 1000,
    WRITTEN_MS = 5000, /* so long after a minute its rows are there */
};

struct stats_query {
    int64_t from_ms, to_ms;
    struct str step, tenant;
};

static int64_t stats_minute_of(int64_t ms)
{
    return ms / STATS_MINUTE_MS * STATS_MINUTE_MS;
}

/* ---- the question ---- */

static enum err stats_read_tenant(struct request *q, struct str name, int32_t *ret, struct error *e)
{
    const struct catalog_cache *catalog = q->server->setup.catalog;
    struct tenant_rules tenant;
    bool may_see_all = q->who.tenant == TENANT_DEFAULT, found = true;
    if (!name.n)
        *ret = q->who.tenant;
    else if (may_see_all && str_eq(name, S("*")))
        *ret = STATS_ALL;
    else if (may_see_all && str_eq(name, S(TENANT_METRICS_OTHER)))
        *ret = STATS_OTHER;
    else if ((found = catalog && catalog_cache_tenant_named(catalog, name, &q->arena, &tenant) &&
                      (may_see_all || tenant.number == q->who.tenant)))
        *ret = tenant.number;
    return found ? ERR_OK : error_set(e, ERR_NOT_FOUND, "the tenant does not exist, or this key may not see it");
}

/* The smallest usual step with which the range has few enough points, or as many days as that takes. */
static int64_t stats_default_step(int64_t range_ms)
{
    static const int64_t minutes[] = { 1, 5, 15, 60, 360 };
    for (size_t i = 0; i < array_count(minutes); i++)
        if (range_ms <= minutes[i] * STATS_MINUTE_MS * POINTS_MAX)
            return minutes[i] * STATS_MINUTE_MS;
    return (range_ms / ((int64_t)DAY_MS * POINTS_MAX) + 1) * DAY_MS;
}

static enum err stats_read_step(struct str text, struct stats_filter *f, struct error *e)
{
    f->step_ms = stats_default_step(f->to_ms - f->from_ms);
    if (text.n && duration_parse(text, &f->step_ms, e))
        return error_in(e, "step");
    if (f->step_ms < STATS_MINUTE_MS || f->step_ms % STATS_MINUTE_MS)
        return error_field(e, "step", "must be a whole number of minutes, for example 5m");
    if (stats_points_max(f) > POINTS_MAX)
        return error_field(e, "step", "gives %zu points, and at most %d are returned; use a longer step",
                           stats_points_max(f), POINTS_MAX);
    return ERR_OK;
}

static enum err stats_read_filter(struct request *q, struct stats_filter *ret, struct error *e)
{
    static const struct query_field fields[] = {
        { .name = "from", .kind = QUERY_TIME, .offset = offsetof(struct stats_query, from_ms), .also = "since" },
        { .name = "to", .kind = QUERY_TIME, .offset = offsetof(struct stats_query, to_ms), .also = "until" },
        { .name = "step", .kind = QUERY_TEXT, .offset = offsetof(struct stats_query, step), .also = "every" },
        { .name = "tenant", .kind = QUERY_TEXT, .offset = offsetof(struct stats_query, tenant), .max = ROUTE_NAME_MAX },
    };
    struct stats_query p = { .from_ms = INT64_MIN, .to_ms = INT64_MIN };
    if (query_read(q->query, fields, array_count(fields), &p, &q->arena, e))
        return e->code;
    struct stats_filter f = { .to_ms = stats_minute_of(q->now_ms - WRITTEN_MS) };
    if (p.to_ms != INT64_MIN)
        f.to_ms = stats_minute_of(p.to_ms + STATS_MINUTE_MS - 1);
    f.from_ms = p.from_ms != INT64_MIN ? stats_minute_of(p.from_ms) : f.to_ms - STATS_HOUR_MS;
    if (query_check_range(f.from_ms, f.from_ms < 0 ? f.from_ms : f.to_ms, e))
        return e->code;
    if (stats_read_step(p.step, &f, e) || stats_read_tenant(q, p.tenant, &f.tenant, e))
        return e->code;
    *ret = f;
    return ERR_OK;
}

/* ---- the answer ---- */

static void stats_write_histogram(struct jw *w, const char *name, const struct stats *s, enum stats_id first)
{
    static const struct {
        const char *name;
        double quantile;
    } quantiles[] = { { "p50", 0.5 }, { "p95", 0.95 }, { "p99", 0.99 } };
    jw_key(w, name);
    jw_object(w);
    jw_kv_i64(w, "count", stats_observed(s, first));
    jw_key(w, "sum");
    jw_f64(w, (double)s->v[first + STATS_BUCKETS_COUNT] / 1e6);
    for (size_t i = 0; i < array_count(quantiles); i++) {
        jw_key(w, quantiles[i].name);
        jw_f64(w, stats_quantile(s, first, quantiles[i].quantile));
    }
    jw_object_end(w);
}

static void stats_write_point(struct jw *w, int64_t at_ms, const struct stats *s, bool of_all)
{
    static const struct {
        const char *name;
        enum stats_id figure;
        bool only_of_all;
    } rows[] = {
        { "created", STAT_CREATED, false },     { "executed", STAT_EXECUTED, false },
        { "completed", STAT_COMPLETED, false }, { "failed", STAT_FAILED, false },
        { "retried", STAT_RETRIED, false },     { "lost", STAT_LOST, false },
        { "skipped", STAT_SKIPPED, false },     { "expired", STAT_EXPIRED, false },
        { "backlog", STAT_BACKLOG, false },     { "claimed", STAT_CLAIMED, true },
        { "requests", STAT_REQUESTS, true },    { "request_errors", STAT_REQUEST_ERRORS, true },
    };
    jw_object(w);
    jw_kv_time(w, "at", at_ms);
    for (size_t i = 0; i < array_count(rows); i++)
        if (of_all || !rows[i].only_of_all)
            jw_kv_i64(w, rows[i].name, s->v[rows[i].figure]);
    if (of_all)
        jw_kv_seconds(w, "oldest_wait_seconds", s->v[STAT_OLDEST_WAIT_MS]);
    stats_write_histogram(w, "delay_seconds", s, STAT_DELAY_0);
    stats_write_histogram(w, "run_seconds", s, STAT_RUN_0);
    jw_object_end(w);
}

static void stats_write_tenant(struct request *q, struct jw *w, int32_t number)
{
    const struct catalog_cache *catalog = q->server->setup.catalog;
    struct tenant_rules tenant;
    if (number == STATS_ALL || number == STATS_OTHER)
        jw_kv_cstr(w, "tenant", number == STATS_ALL ? "*" : TENANT_METRICS_OTHER);
    else if (catalog && catalog_cache_tenant(catalog, number, &q->arena, &tenant))
        jw_kv_str(w, "tenant", tenant.name);
}

enum handled stats_list(struct request *q, struct reader *r)
{
    static const struct stats none = { 0 };
    struct stats_filter f;
    struct stats_points found = { 0 };
    struct error e = { 0 };
    if (stats_read_filter(q, &f, &e) || reader_stats(r, &f, &q->arena, &found, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    stats_write_tenant(q, &w, f.tenant);
    jw_kv_time(&w, "from", f.from_ms);
    jw_kv_time(&w, "to", f.to_ms);
    jw_kv_i64(&w, "step_seconds", f.step_ms / 1000);
    jw_key(&w, "points");
    jw_array(&w);
    for (size_t i = 0, next = 0; i < stats_points_max(&f); i++) {
        int64_t at_ms = f.from_ms + (int64_t)i * f.step_ms;
        bool is_there = next < found.n && found.v[next].at_ms == at_ms;
        stats_write_point(&w, at_ms, is_there ? &found.v[next].stats : &none, f.tenant == STATS_ALL);
        next += is_there;
    }
    jw_array_end(&w);
    jw_object_end(&w);
    return HANDLED_DONE;
}
