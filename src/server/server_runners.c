/* Opens the runners: which addresses tasks may call, and which keys sign their calls. */
#include "base/log.h"
#include "server/server_internal.h"

static bool server_loopback_holds(void *context)
{
    return server_has_one_tenant(context);
}

static struct str server_tenant_name(void *context, int32_t number, struct arena *arena)
{
    const struct server *a = context;
    struct tenant_rules rules;
    return catalog_cache_tenant(a->catalog, number, arena, &rules) ? rules.name : S("");
}

struct guard_setup server_guard(struct server *a)
{
    struct guard_setup guard = a->setup.guard;
    if (a->setup.loopback_if_alone) {
        guard.allow_loopback = true;
        guard.loopback_holds = server_loopback_holds;
        guard.context = a;
    }
    return guard;
}

static enum err server_signing_key(void *context, const struct task *t, struct arena *arena, struct signing_key *ret,
                                   struct error *e)
{
    char host[TARGET_HOST_MAX];
    if (!catalog_cache_has_signing_keys(context))
        return ERR_NOT_FOUND;
    return catalog_cache_signing_key(context, t->tenant, signing_host(t, host), arena, ret, e);
}

void server_note_loopback(struct server *a)
{
    if (!a->setup.loopback_if_alone || a->loopback_ended || server_has_one_tenant(a))
        return;
    a->loopback_ended = true;
    log_warn("loopback_refused", kv_cstr("why", "'default' is no longer the only tenant"),
             kv_cstr("remedy", "list the addresses that tasks may call in http.allow, or set http.allow_loopback"));
}

enum err server_open_runners(struct server *a, struct error *e)
{
    a->loopback_ended = !server_has_one_tenant(a);
    struct runners_setup setup = { .loop = loop_uv(a->loop),
                                   .clock = a->setup.clock,
                                   .slots = a->setup.slots,
                                   .tenant_connections = a->setup.tenant_connections,
                                   .guard = server_guard(a),
                                   .ca_file = a->setup.ca_file,
                                   .brokers = a->setup.brokers,
                                   .secrets = a->secrets.n ? &a->secrets : NULL,
                                   .sends_tracestate = a->setup.trace.sends_state };
    setup.tenant_name = server_tenant_name;
    setup.context = a;
    setup.signing = (struct signing_source){ server_signing_key, a->catalog };
    return runners_open(&setup, &a->runners, e);
}
