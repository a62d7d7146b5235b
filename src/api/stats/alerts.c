/* GET /v1/alerts: the alerts as they stand (core/stats/alert_rules.h), computed from the figures of past minutes. While
 * the store is away, those that this node computed last, but for what it sees itself. */
#include "core/stats/alert_rules.h"

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
    char text[ALERT_TEXT];
    jw_object(w);
    jw_kv_cstr(w, "name", a->name);
    jw_kv_cstr(w, "state", alert_state_names[a->state]);
    jw_kv_cstr(w, "severity", alert_severity_names[a->severity]);
    jw_kv_cstr(w, "summary", a->summary);
    jw_key(w, "value");
    jw_f64(w, a->value);
    alert_value_text(a, text);
    jw_kv_cstr(w, "value_text", text);
    if (a->has_threshold) {
        alert_limit_text(a, text);
        jw_kv_cstr(w, "fires", text);
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

static void alerts_keep(struct api_server *s, const struct alert *v, size_t n, int64_t as_of_ms)
{
    pthread_mutex_lock(&s->lock);
    memcpy(s->kept_alerts.v, v, n * sizeof *v);
    s->kept_alerts.n = n;
    s->kept_alerts.as_of_ms = as_of_ms;
    pthread_mutex_unlock(&s->lock);
}

/* An alert that the facts do not raise is as it was last. Returns when that was. */
static int64_t alerts_take_kept(struct api_server *s, struct alert *v, size_t n)
{
    pthread_mutex_lock(&s->lock);
    const struct kept_alerts *kept = &s->kept_alerts;
    for (size_t i = 0; i < min_of(n, kept->n); i++)
        if (v[i].state == ALERT_INACTIVE && strcmp(v[i].name, kept->v[i].name) == 0)
            v[i] = kept->v[i];
    int64_t as_of_ms = kept->as_of_ms;
    pthread_mutex_unlock(&s->lock);
    return as_of_ms;
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
    int64_t at_ms = h.from_ms + (int64_t)h.n * STATS_MINUTE_MS, as_of_ms = at_ms;
    if (is_lost)
        as_of_ms = alerts_take_kept(q->server, alerts, n);
    else
        alerts_keep(q->server, alerts, n, at_ms);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_time(&w, "at", at_ms);
    jw_kv_time_or_null(&w, "as_of", as_of_ms);
    jw_key(&w, "alerts");
    jw_array(&w);
    for (size_t i = 0; i < n; i++)
        alerts_write(&w, &alerts[i]);
    jw_array_end(&w);
    jw_object_end(&w);
    return HANDLED_DONE;
}
