/* What the API tells of this node: its status, its metrics and whether it is ready. Any thread. */
#include "server/notify/notifier.h"
#include "server/server_internal.h"

enum { TENANT_ARENA = 64 << 10 };

static void server_kv_time_or_null(struct jw *w, const char *name, int64_t ms)
{
    if (ms > 0 && ms < INT64_MAX)
        jw_kv_time(w, name, ms);
    else
        jw_kv_cstr(w, name, NULL);
}

void server_write_status(void *context, struct jw *w)
{
    struct server *a = context;
    struct node_status s = node_view_status(a->view);
    char id[UUID_TEXT + 1];
    uuid_format(s.id, id);
    jw_key(w, "node");
    jw_object(w);
    jw_kv_cstr(w, "id", id);
    jw_kv_cstr(w, "name", a->name);
    jw_kv_bool(w, "recovering", s.recovering);
    jw_kv_bool(w, "draining", s.draining);
    jw_kv_i64(w, "lanes", (int64_t)s.scheduler.lanes);
    jw_kv_i64(w, "armed", (int64_t)s.scheduler.armed);
    jw_kv_i64(w, "queued", (int64_t)s.queued);
    jw_kv_i64(w, "running", (int64_t)s.running);
    jw_kv_i64(w, "slots", (int64_t)a->setup.slots);
    jw_kv_i64(w, "arm_window_ms", s.scheduler.window_ms);
    server_kv_time_or_null(w, "last_claim_at", s.scheduler.last_claim_ms);
    server_kv_time_or_null(w, "next_claim_at", s.scheduler.next_claim_ms);
    server_kv_time_or_null(w, "next_spawn_at", s.scheduler.next_spawn_ms);
    jw_key(w, "breakers");
    node_view_breakers(a->view, w);
    jw_object_end(w);
    server_write_fleet_status(a, clock_wall_ms(a->setup.clock), w);
    server_write_tls_status(a, w);
    server_write_secrets_status(a, w);
    jw_key(w, "nodes");
    node_view_nodes(a->view, clock_wall_ms(a->setup.clock), w);
}

static void server_write_tenant(void *context, int32_t tenant, struct buf *out)
{
    struct server *a = context;
    cleanup_with(arena_release) struct arena arena;
    struct tenant_rules rules;
    arena_init(&arena, TENANT_ARENA);
    if (catalog_cache_tenant(a->catalog, tenant, &arena, &rules))
        metric_print_label(rules.name, out);
    else
        buf_printf(out, "_%d", (int)tenant); /* it was deleted */
}

void server_write_metrics(void *context, struct buf *out)
{
    struct server *a = context;
    struct tenant_names names = { .name = server_write_tenant, .context = a };
    int64_t now_ms = clock_wall_ms(a->setup.clock);
    node_view_metrics(a->view, now_ms, out);
    backlog_print(a->backlog, out);
    notifier_metrics(a->notifier, out);
    node_view_set_running(a->view, metrics_tenants(a->metrics));
    tenant_metrics_print(metrics_tenants(a->metrics), now_ms, &names, out); /* its last metric goes on: */
    buf_printf(out, "belfry_series_folded{kind=\"queue\"} %lld\n", (long long)backlog_folded(a->backlog));
    server_write_tls_metrics(a, out);
    server_write_fleet_metrics(a, out);
}

bool server_is_ready(void *context, struct error *e)
{
    struct server *a = context;
    struct node_status s = node_view_status(a->view);
    if (s.draining)
        error_set(e, ERR_UNAVAILABLE, "the node is shutting down");
    return !s.draining;
}
