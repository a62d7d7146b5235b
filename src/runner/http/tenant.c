/* Each tenant has its own libcurl multi handle, with its own cache of connections and names. TLS sessions are cached in
 * the easy handles, which also belong to one tenant. */
#include <assert.h>
#include <stdlib.h>

#include "runner/http/internal.h"

enum { SPARE_MAX = 512 };

/* ---- calls ---- */

struct http_call *http_tenant_take_call(struct http_tenant *tenant)
{
    tenant->open++;
    struct list *l = list_pop(&tenant->spare);
    if (!l)
        return http_call_new(tenant);
    tenant->runner->spare_count--;
    return container_of(l, struct http_call, link);
}

void http_tenant_return_call(struct http_call *c)
{
    struct http_tenant *tenant = c->tenant;
    struct runner_http *r = c->runner;
    if (--tenant->open == 0)
        tenant->idle_since_ns = clock_steady_ns(r->clock);
    http_call_reset(c);
    if (r->spare_count >= SPARE_MAX) {
        http_call_free(c);
        return;
    }
    list_push_front(&tenant->spare, &c->link); /* reuse the most recent one first: its memory is cached */
    r->spare_count++;
}

bool http_tenant_add_call(struct http_call *c)
{
    if (curl_multi_add_handle(c->tenant->multi, c->easy) != CURLM_OK)
        return false;
    list_push(&c->tenant->running, &c->link);
    return true;
}

static long http_tenant_local_port(const struct http_call *c)
{
    long port = 0;
    curl_easy_getinfo(c->easy, CURLINFO_LOCAL_PORT, &port);
    return port;
}

/* Pausing and resuming a call makes libcurl write to its connection. A finished call has no connection. Returns false
 * if no call uses the connection with this local port. */
static bool http_tenant_force_write(const struct http_tenant *tenant, const struct http_host *h, long port)
{
    list_each (&tenant->running, link) {
        struct http_call *c = container_of(link, struct http_call, link);
        if (c->host != h || http_tenant_local_port(c) != port || curl_easy_pause(c->easy, CURLPAUSE_RECV) != CURLE_OK)
            continue;
        curl_easy_pause(c->easy, CURLPAUSE_CONT);
        return true;
    }
    return false;
}

/* If an HTTP/2 stream is cancelled, libcurl sends the reset only with its next write to the connection. Until then the
 * server would keep working in vain. So another call on the connection is made to write; if there is none, the
 * connection is shut down. */
static void http_tenant_remove_unfinished(struct http_call *c)
{
    long port = http_tenant_local_port(c);
    curl_multi_remove_handle(c->tenant->multi, c->easy);
    if (c->is_tls && port && !http_tenant_force_write(c->tenant, c->host, port))
        http_poller_shut_socket(c->runner->poller, c->tenant, c->host, port);
}

void http_tenant_remove_call(struct http_call *c)
{
    list_remove(&c->link);
    http_tenant_remove_unfinished(c);
}

void http_tenant_reap(struct http_tenant *tenant)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(tenant->multi, &left));) {
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode code = m->data.result;
        CURL *easy = m->easy_handle;
        struct http_call *c = NULL;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&c);
        list_remove(&c->link);
        if (code == CURLE_OK)
            curl_multi_remove_handle(tenant->multi, easy);
        else
            http_tenant_remove_unfinished(c);
        runner_http_finished(c, code);
    }
}

/* ---- libcurl's timer ---- */

static void http_tenant_on_timer(uv_timer_t *t)
{
    struct http_tenant *tenant = t->data;
    int running;
    curl_multi_socket_action(tenant->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    http_tenant_reap(tenant);
}

static int http_tenant_on_timeout(CURLM *multi, long timeout_ms, void *context)
{
    (void)multi;
    struct http_tenant *tenant = context;
    if (timeout_ms < 0)
        uv_timer_stop(&tenant->timer);
    else
        uv_timer_start(&tenant->timer, http_tenant_on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

/* ---- construction and destruction ---- */

static struct str http_tenant_key(const int32_t *id)
{
    return (struct str){ (const char *)id, sizeof *id };
}

static struct http_tenant *http_tenant_new(struct runner_http *r, int32_t id)
{
    struct http_tenant *tenant = xnew(*tenant);
    tenant->id = id;
    tenant->runner = r;
    list_init(&tenant->running);
    list_init(&tenant->spare);
    list_init(&tenant->touched);
    tenant->multi = curl_multi_init();
    if (!tenant->multi)
        abort(); /* out of memory, as in xmalloc */
    uv_timer_init(r->loop, &tenant->timer);
    uv_unref((uv_handle_t *)&tenant->timer);
    tenant->timer.data = tenant;
    curl_multi_setopt(tenant->multi, CURLMOPT_TIMERFUNCTION, http_tenant_on_timeout);
    curl_multi_setopt(tenant->multi, CURLMOPT_TIMERDATA, tenant);
    curl_multi_setopt(tenant->multi, CURLMOPT_MAXCONNECTS, (long)r->setup.in_flight_max);
    curl_multi_setopt(tenant->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)r->setup.host_connections_max);
    http_poller_watch(tenant);
    return tenant;
}

struct http_tenant *http_tenant_of(struct runner_http *r, int32_t id)
{
    struct http_tenant *tenant = map_get(&r->tenants, http_tenant_key(&id));
    if (!tenant) {
        tenant = http_tenant_new(r, id);
        map_put(&r->tenants, http_tenant_key(&tenant->id), tenant);
    }
    return tenant;
}

static void http_tenant_on_closed(uv_handle_t *h)
{
    free(h->data);
}

void http_tenant_free(struct http_tenant *tenant)
{
    assert(tenant->open == 0 && !list_linked(&tenant->touched));
    map_remove(&tenant->runner->tenants, http_tenant_key(&tenant->id));
    for (struct list *l; (l = list_pop(&tenant->spare));) {
        tenant->runner->spare_count--;
        http_call_free(container_of(l, struct http_call, link));
    }
    curl_multi_cleanup(tenant->multi);
    uv_close((uv_handle_t *)&tenant->timer, http_tenant_on_closed);
}
