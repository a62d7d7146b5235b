/* The certificate of the API while the server runs. The loop looks at the files every few seconds, and at once after
 * SIGHUP. Once a day the context is made anew also if the files are the same: it has the keys of session tickets, and
 * an old key would open recorded sessions. */
#include <stdio.h>

#include "base/log.h"
#include "base/rfc3339.h"
#include "http/listen.h"
#include "server/server_internal.h"

enum {
    WATCH_MS = 5000,
    EXPIRES_SOON_MS = 14 * DAY_MS,
};

static bool server_is_plaintext(const struct server *a)
{
    const char *const addresses[] = { a->setup.listen, a->setup.listen ? a->setup.admin_listen : NULL };
    bool is_reachable = false;
    for (size_t i = 0; i < array_count(addresses); i++)
        is_reachable = is_reachable || (addresses[i] && !listen_is_loopback(addresses[i]));
    return is_reachable && !a->tls.tls;
}

/* ---- loading ---- */

static void server_tls_warn_expiry(struct server *a, int64_t now_ms)
{
    struct tls_view v = tls_view(a->tls.tls);
    char when[RFC3339_TEXT + 1];
    if (v.expires_ms - now_ms > EXPIRES_SOON_MS || now_ms - a->tls.warned_ms < DAY_MS)
        return;
    a->tls.warned_ms = now_ms;
    rfc3339_format(v.expires_ms, when);
    log_warn("tls_certificate_expires", kv_cstr("at", when), kv_i64("days", (v.expires_ms - now_ms) / DAY_MS),
             kv_cstr("remedy", "replace the files of api.tls.cert and api.tls.key; they are read again by themselves"));
}

static void server_tls_load(struct server *a, int64_t now_ms)
{
    struct error e = { 0 };
    enum err rc = tls_load(a->tls.tls, now_ms, &e);
    if (rc)
        error_in(&e, "api.tls");
    pthread_mutex_lock(&a->tls.lock);
    a->tls.failures += rc != ERR_OK;
    a->tls.failure = e;
    pthread_mutex_unlock(&a->tls.lock);
    if (rc) {
        log_error("tls_reload_failed", kv_cstr("setting", e.field), kv_err(&e),
                  kv_cstr("remedy", "the old certificate stays in use; mend the files"));
        return;
    }
    char when[RFC3339_TEXT + 1];
    rfc3339_format(tls_view(a->tls.tls).expires_ms, when);
    log_info("tls_loaded", kv_cstr("expires_at", when));
    a->tls.warned_ms = 0;
}

static void server_tls_on_timer(uv_timer_t *timer)
{
    struct server *a = timer->data;
    int64_t now_ms = clock_wall_ms(a->setup.clock);
    assert_owned(&a->loop_thread);
    if (tls_files_have_changed(a->tls.tls) || now_ms - a->tls.tried_ms >= DAY_MS) {
        a->tls.tried_ms = now_ms;
        server_tls_load(a, now_ms);
    }
    server_tls_warn_expiry(a, now_ms);
}

static void server_tls_on_hangup(uv_signal_t *handle, int number)
{
    struct server *a = handle->data;
    (void)number;
    server_tls_load(a, clock_wall_ms(a->setup.clock));
}

/* ---- start and stop ---- */

static void server_find_unverified(struct server *a)
{
    const struct server_setup *setup = &a->setup;
    unverified_links_add_store(&a->unverified, "store", setup->store_url);
    unverified_links_add_store(&a->unverified, "store.read", setup->store_read_url);
    unverified_links_add_store(&a->unverified, "store.listen", setup->store_listen_url);
    unverified_links_add_fleet(&a->unverified, setup->fleet);
    unverified_links_add_brokers(&a->unverified, setup->brokers);
    unverified_links_warn(&a->unverified);
}

enum err server_open_tls(struct server *a, struct error *e)
{
    const struct tls_settings *s = a->setup.tls;
    pthread_mutex_init(&a->tls.lock, NULL);
    a->tls.is_open = true;
    a->tls.tried_ms = clock_wall_ms(a->setup.clock);
    if (a->setup.listen && s && s->files.cert && tls_new(&s->files, a->tls.tried_ms, &a->tls.tls, e))
        return error_in(e, "api.tls");
    server_find_unverified(a);
    if (server_is_plaintext(a))
        log_warn("api_is_plaintext", kv_cstr("listen", a->setup.listen),
                 kv_cstr("remedy", "set api.tls.cert and api.tls.key, unless a proxy in front speaks TLS"));
    if (a->tls.tls)
        server_tls_warn_expiry(a, a->tls.tried_ms);
    return ERR_OK;
}

/* A tenant may be made later, so this is no error. */
void server_warn_identities(const struct server *a)
{
    const struct tls_settings *s = a->setup.tls;
    struct tenant_rules tenant;
    for (size_t i = 0; s && i < s->identity_count; i++)
        if (!catalog_cache_tenant_named(a->catalog, s->identities[i].tenant, NULL, &tenant))
            log_warn("tls_identity_without_tenant", kv_str("identity", s->identities[i].name),
                     kv_str("tenant", s->identities[i].tenant),
                     kv_cstr("remedy", "create the tenant, or correct api.tls.identities: until then it is refused"));
}

void server_warn_secrets(const struct server *a)
{
    if (!a->secrets.n)
        log_warn("secrets_not_encrypted",
                 kv_cstr("remedy",
                         "make a key file with 'belfry secrets init', copy it to all nodes and workers, and set "
                         "secrets.key_file: until then secret headers are stored as they are"));
}

/* Without TLS there is nothing to load, and SIGHUP ends the process as usual. */
void server_start_tls_watch(struct server *a)
{
    uv_loop_t *loop = loop_uv(a->loop);
    if (!a->tls.tls)
        return;
    uv_timer_init(loop, &a->tls.timer);
    uv_signal_init(loop, &a->tls.hangup);
    a->tls.timer.data = a->tls.hangup.data = a;
    uv_timer_start(&a->tls.timer, server_tls_on_timer, WATCH_MS, WATCH_MS);
    uv_signal_start(&a->tls.hangup, server_tls_on_hangup, SIGHUP);
}

void server_stop_tls_watch(struct server *a)
{
    if (!a->tls.tls)
        return;
    uv_close((uv_handle_t *)&a->tls.timer, NULL);
    uv_close((uv_handle_t *)&a->tls.hangup, NULL);
}

void server_close_tls(struct server *a)
{
    if (!a->tls.is_open)
        return;
    tls_free(take(a->tls.tls));
    pthread_mutex_destroy(&a->tls.lock);
    a->tls.is_open = false;
}

/* ---- status and metrics ---- */

void server_write_tls_status(struct server *a, struct jw *w)
{
    struct tls_view v = a->tls.tls ? tls_view(a->tls.tls) : (struct tls_view){ 0 };
    pthread_mutex_lock(&a->tls.lock);
    struct error failure = a->tls.failure;
    pthread_mutex_unlock(&a->tls.lock);
    char why[sizeof failure.field + sizeof failure.text];
    snprintf(why, sizeof why, "%s %s", failure.field, failure.text);
    jw_key(w, "tls");
    jw_object(w);
    jw_kv_bool(w, "enabled", a->tls.tls != NULL);
    jw_kv_bool(w, "plaintext", server_is_plaintext(a));
    jw_key(w, "unverified_links");
    unverified_links_write(&a->unverified, w);
    if (a->tls.tls) {
        jw_kv_time(w, "certificate_expires_at", v.expires_ms);
        jw_kv_time(w, "loaded_at", v.loaded_ms);
        jw_kv_cstr(w, "reload_error", failure.code ? why : NULL);
    }
    jw_object_end(w);
}

void server_write_tls_metrics(struct server *a, struct buf *out)
{
    buf_printf(
        out,
        "# HELP belfry_api_plaintext 1 if the API speaks plain HTTP on an address that other machines can reach\n"
        "# TYPE belfry_api_plaintext gauge\nbelfry_api_plaintext %d\n",
        server_is_plaintext(a));
    buf_printf(
        out,
        "# HELP belfry_secrets_plaintext 1 if secret headers are stored as they are, because there is no key file\n"
        "# TYPE belfry_secrets_plaintext gauge\nbelfry_secrets_plaintext %d\n",
        a->secrets.n == 0);
    unverified_links_print_metrics(&a->unverified, out);
    if (!a->tls.tls)
        return;
    pthread_mutex_lock(&a->tls.lock);
    int64_t failures = a->tls.failures;
    pthread_mutex_unlock(&a->tls.lock);
    int64_t left_s = (tls_view(a->tls.tls).expires_ms - clock_wall_ms(a->setup.clock)) / 1000;
    buf_printf(out,
               "# HELP belfry_tls_certificate_expires_seconds Time until the certificate of the API expires\n"
               "# TYPE belfry_tls_certificate_expires_seconds gauge\nbelfry_tls_certificate_expires_seconds %lld\n"
               "# HELP belfry_tls_reload_failures_total Times that a changed certificate could not be used\n"
               "# TYPE belfry_tls_reload_failures_total counter\nbelfry_tls_reload_failures_total %lld\n",
               (long long)left_s, (long long)failures);
}
