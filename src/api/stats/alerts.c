/* GET /v1/alerts: the alerts as they stand (core/stats/alerts.h), computed from the figures of past minutes. */
#include "core/stats/alerts.h"

#include "api/server/internal.h"
#include "api/server/query.h"

static void alerts_write_runbook(struct jw *w, const char *name)
{
    char link[96] = "docs/RUNBOOK.md#";
    size_t n = strlen(link);
    for (; *name && n + 1 < sizeof link; name++)
        link[n++] = ascii_lower(*name);
    link[n] = '\0';
    jw_kv_cstr(w, "runbook", link);
}

static void alerts_write(struct jw *w, const struct alert *a)
{
    jw_object(w);
    jw_kv_cstr(w, "name", a->name);
    jw_kv_cstr(w, "state", alert_state_names[a->state]);
    jw_kv_cstr(w, "severity", alert_severity_names[a->severity]);
    jw_kv_cstr(w, "summary", a->summary);
    jw_key(w, "value");
    jw_f64(w, a->value);
    if (a->has_threshold) {
        jw_key(w, "threshold");
        jw_f64(w, a->threshold);
        jw_kv_cstr(w, "unit", a->unit);
    }
    jw_kv_i64(w, "for_seconds", a->for_ms / 1000);
    if (a->since_ms)
        jw_kv_time(w, "since", a->since_ms);
    alerts_write_runbook(w, a->name);
    jw_object_end(w);
}

/* The figures, or none while the store is away: then the facts tell of that. */
static enum err alerts_read(struct request *q, struct reader *r, struct stats_history *ret, bool *ret_lost,
                            struct error *e)
{
    int64_t end_ms = (q->now_ms - ALERTS_WRITTEN_MS) / STATS_MINUTE_MS * STATS_MINUTE_MS;
    enum err rc = reader_stats_history(r, STATS_ALL, end_ms, ALERTS_HISTORY_MINUTES, &q->arena, ret, e);
    *ret_lost = rc == ERR_UNAVAILABLE;
    if (!*ret_lost)
        return rc;
    stats_history_init(ret, end_ms - (int64_t)ALERTS_HISTORY_MINUTES * STATS_MINUTE_MS, ALERTS_HISTORY_MINUTES);
    stats_history_close(ret);
    return ERR_OK;
}

enum handled alerts_list(struct request *q, struct reader *r)
{
    const struct api_setup *setup = &q->server->setup;
    struct error e = { 0 };
    struct alert_facts facts = { .nodes = 1 };
    struct alert alerts[ALERTS_MAX];
    cleanup_with(stats_history_release) struct stats_history h = { 0 };
    bool is_lost;
    if (!request_require_default_tenant(q))
        return HANDLED_DONE;
    if (query_read(q->query, NULL, 0, NULL, &q->arena, &e) || alerts_read(q, r, &h, &is_lost, &e))
        return request_fail(q, &e);
    if (setup->alert_facts)
        facts = setup->alert_facts(setup->context);
    if (is_lost && !facts.store_lost_since_ms)
        facts.store_lost_since_ms = q->now_ms;
    size_t n = alerts_judge(&h, &facts, alerts);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_time(&w, "at", h.from_ms + (int64_t)h.n * STATS_MINUTE_MS);
    jw_key(&w, "alerts");
    jw_array(&w);
    for (size_t i = 0; i < n; i++)
        alerts_write(&w, &alerts[i]);
    jw_array_end(&w);
    jw_object_end(&w);
    return HANDLED_DONE;
}
