/* Notifications: what the store is to leave hits of, and the notifier. */
#include "api/live/live.h"
#include "server/notify/notifier.h"
#include "server/server_internal.h"

static unsigned server_wants_of(const struct hit_wants *w, int32_t tenant)
{
    return catalog_cache_wants(((const struct server_wants *)w)->catalog, tenant);
}

void server_want_hits(struct server *a)
{
    a->wants = (struct server_wants){ { server_wants_of }, a->catalog };
    for (int way = 0; way < OP_ROUTES; way++)
        if (a->ways[way])
            a->ways[way]->wants = &a->wants.base;
}

/* The notifier's thread. */
static bool server_is_well(void *context)
{
    struct server *a = context;
    int64_t failures = metric_count(a->metrics, METRIC_CLAIM_FAILURES), before = a->claim_failures;
    a->claim_failures = failures;
    return failures == before && server_acts_for_all(a);
}

/* The notifier's thread. */
static void server_on_resumed(void *context, const struct task *t)
{
    struct server *a = context;
    transition_log_changed(a->transitions, t, TASK_PAUSED);
    server_on_tasks_written(a, t, 1);
}

enum err server_start_notifier(struct server *a, struct error *e)
{
    const struct mail_settings *mail = a->setup.mail;
    if (a->setup.roles && !(a->setup.roles & NODE_SCHEDULER))
        return ERR_OK;
    struct notifier_setup setup = { .store = a->store,
                                    .writer = batcher_writer(a->batchers[OP_VIA_ALL]),
                                    .clock = a->setup.clock,
                                    .catalog = a->catalog,
                                    .zones = a->setup.zones,
                                    .secrets = a->secrets.n ? &a->secrets : NULL,
                                    .may_fold = store_is_shared(a->store) ? server_notifications_are_known : NULL,
                                    .heartbeat_url = mail ? mail->heartbeat_url : S(""),
                                    .is_well = server_is_well,
                                    .resumed = server_on_resumed,
                                    .context = a,
                                    .site = a->setup.public_url,
                                    .sender = { .guard = server_guard(a), .ca_file = a->setup.ca_file } };
    if (mail && mail->url) {
        setup.sender.smtp_url = mail->url;
        setup.sender.smtp_user = mail->user;
        setup.sender.smtp_password = mail->password;
        setup.sender.smtp_plaintext = mail->is_local;
        setup.mail_from = str_from(mail->from);
    }
    return notifier_new(&setup, &a->notifier, e);
}

static void server_on_incident(void *context, int32_t tenant, const struct incident *i, enum incident_change change)
{
    live_on_incident(api_server_live(((struct server *)context)->http), tenant, i, change);
}

static void server_on_live_task(void *context, const struct task *t)
{
    live_on_written(api_server_live(((struct server *)context)->http), t, 1);
}

void server_watch_incidents(struct server *a, bool on)
{
    static const struct notifier_listener listener = { server_on_incident, server_on_live_task };
    notifier_listen(a->notifier, on && a->http ? &listener : NULL, a);
}

bool server_notifications_are_known(void *context)
{
    return node_view_all_notify(((struct server *)context)->view);
}

bool server_signatures_are_known(void *context)
{
    return node_view_all_sign(((struct server *)context)->view);
}

void server_on_message_made(void *context)
{
    notifier_wake(((struct server *)context)->notifier);
}
