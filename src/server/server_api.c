/* Starts the API. */
#include "server/server_internal.h"

static bool server_workflows_are_known(void *context)
{
    struct server *a = context;
    return node_view_all_run_workflows(a->view);
}

/* What the API asks of the server. */
static void server_set_api_calls(struct server *a, struct api_setup *setup)
{
    bool is_shared = store_is_shared(a->store);
    setup->context = a;
    setup->nudge = server_on_tasks_written;
    setup->recall = server_recall;
    setup->lease = server_lease;
    setup->check_leases = server_check_leases;
    setup->lease_over = server_lease_over;
    setup->explain = server_explain;
    setup->status = server_write_status;
    setup->metrics_more = server_write_metrics;
    setup->ready = server_is_ready;
    setup->catalog_changed = server_on_catalog_changed;
    setup->breaker_closed = server_on_breaker_closed;
    setup->queues = server_describe_queues;
    setup->alert_facts = server_alert_facts;
    setup->node = is_shared ? server_node_id : NULL;
    setup->tenant_load = server_tenant_load;
    setup->queue_timeout_max = a->fleet.enabled ? server_queue_timeout_max : NULL;
    setup->workflows_are_known = is_shared ? server_workflows_are_known : NULL;
    setup->notifications_are_known = is_shared ? server_notifications_are_known : NULL;
    setup->signatures_are_known = is_shared ? server_signatures_are_known : NULL;
    setup->message_made = server_on_message_made;
}

enum err server_start_api(struct server *a, struct error *e)
{
    if (!a->setup.listen)
        return ERR_OK;
    struct api_setup setup = {
        .listen = a->setup.listen,
        .tls = a->tls.tls,
        .identities = { a->setup.tls ? a->setup.tls->identities : NULL,
                        a->setup.tls ? a->setup.tls->identity_count : 0 },
        .admin_listen = a->setup.admin_listen,
        .store = a->store,
        .writer = batcher_writer(a->batchers[OP_VIA_ALL]),
        .clock = a->setup.clock,
        .zones = a->setup.zones,
        .needs = a->needs,
        .definitions = a->definitions,
        .brokers = a->setup.brokers ? &a->setup.brokers->rules : NULL,
        .catalog = a->catalog,
        .loopback_if_alone = a->setup.loopback_if_alone,
        .metrics = a->metrics,
        .transitions = a->transitions,
        .tracer = a->tracer,
        .pepper = { (const char *)a->pepper, sizeof a->pepper },
        .secrets = a->secrets.n ? &a->secrets : NULL,
        .cors_origins = a->setup.cors_origins,
        .public_url = a->setup.public_url,
        .require_idempotency_key = a->setup.require_idempotency_key,
        .limits.http = a->setup.http,
        .sends_mail = a->setup.mail && a->setup.mail->url,
        .mail_domains = a->setup.mail ? a->setup.mail->domains : S(""),
    };
    server_set_api_calls(a, &setup);
    if (api_server_new(&setup, &a->http, e))
        return e->code;
    server_watch_incidents(a, true);
    return ERR_OK;
}
