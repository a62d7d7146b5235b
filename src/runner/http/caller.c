/* A multi handle of libcurl each: what it caches (connections, names) is its own, and what a handle caches (TLS sessions)
 * stays with the tenant because handles do. */
#include <assert.h>
#include <stdlib.h>

#include "runner/http/internal.h"

enum { SPARE_MAX = 512 };

/* ---- calls ---- */

struct call *caller_take(struct caller *who)
{
    who->open++;
    struct list *l = list_pop(&who->spare);
    if (!l)
        return call_new(who);
    who->runner->spare_count--;
    return container_of(l, struct call, link);
}

void caller_give_back(struct call *c)
{
    struct caller *who = c->caller;
    struct runner_http *r = c->runner;
    if (--who->open == 0)
        who->idle_since_ns = clock_steady_ns(r->clock);
    call_reset(c);
    if (r->spare_count >= SPARE_MAX) {
        call_free(c);
        return;
    }
    list_push_front(&who->spare, &c->link); /* the one whose memory is warm */
    r->spare_count++;
}

bool caller_add(struct call *c)
{
    if (curl_multi_add_handle(c->caller->multi, c->easy) != CURLM_OK)
        return false;
    list_push(&c->caller->running, &c->link);
    return true;
}

static long own_port(const struct call *c)
{
    long port = 0;
    curl_easy_getinfo(c->easy, CURLINFO_LOCAL_PORT, &port);
    return port;
}

/* To pause a call and let it go on makes libcurl write. One that is done already has no connection. */
static bool make_write(const struct caller *who, const struct host *h, long port)
{
    list_each (&who->running, link) {
        struct call *c = container_of(link, struct call, link);
        if (c->host != h || own_port(c) != port || curl_easy_pause(c->easy, CURLPAUSE_RECV) != CURLE_OK)
            continue;
        curl_easy_pause(c->easy, CURLPAUSE_CONT);
        return true;
    }
    return false;
}

/* Of a stream that is broken off libcurl keeps the reset until it next has something to write on that connection: for as long the receiver
 * would go on working for nobody. Where no other call can make it write, the connection goes. */
static void remove_unfinished(struct call *c)
{
    long port = own_port(c);
    curl_multi_remove_handle(c->caller->multi, c->easy);
    if (c->is_tls && port && !make_write(c->caller, c->host, port))
        poller_shut(c->runner->poller, c->caller, c->host, port);
}

void caller_remove(struct call *c)
{
    list_remove(&c->link);
    remove_unfinished(c);
}

void caller_reap(struct caller *who)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(who->multi, &left));) {
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode code = m->data.result;
        CURL *easy = m->easy_handle;
        struct call *c = NULL;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&c);
        list_remove(&c->link);
        if (code == CURLE_OK)
            curl_multi_remove_handle(who->multi, easy);
        else
            remove_unfinished(c);
        runner_http_finished(c, code);
    }
}

/* ---- time ---- */

static void on_timer(uv_timer_t *t)
{
    struct caller *who = t->data;
    int running;
    curl_multi_socket_action(who->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    caller_reap(who);
}

static int set_timer(CURLM *multi, long timeout_ms, void *context)
{
    (void)multi;
    struct caller *who = context;
    if (timeout_ms < 0)
        uv_timer_stop(&who->timer);
    else
        uv_timer_start(&who->timer, on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

/* ---- birth and death ---- */

static struct str key_of(const int32_t *tenant)
{
    return (struct str){ (const char *)tenant, sizeof *tenant };
}

static struct caller *caller_new(struct runner_http *r, int32_t tenant)
{
    struct caller *who = xnew(*who);
    who->tenant = tenant;
    who->runner = r;
    list_init(&who->running);
    list_init(&who->spare);
    list_init(&who->touched);
    who->multi = curl_multi_init();
    if (!who->multi)
        abort(); /* out of memory, as xmalloc */
    uv_timer_init(r->loop, &who->timer);
    uv_unref((uv_handle_t *)&who->timer);
    who->timer.data = who;
    curl_multi_setopt(who->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(who->multi, CURLMOPT_TIMERDATA, who);
    curl_multi_setopt(who->multi, CURLMOPT_MAXCONNECTS, (long)r->setup.in_flight_max);
    curl_multi_setopt(who->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)r->setup.host_connections_max);
    poller_watch(who);
    return who;
}

struct caller *caller_of(struct runner_http *r, int32_t tenant)
{
    struct caller *who = map_get(&r->callers, key_of(&tenant));
    if (!who) {
        who = caller_new(r, tenant);
        map_put(&r->callers, key_of(&who->tenant), who);
    }
    return who;
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

void caller_free(struct caller *who)
{
    assert(who->open == 0 && !list_linked(&who->touched));
    map_remove(&who->runner->callers, key_of(&who->tenant));
    for (struct list *l; (l = list_pop(&who->spare));) {
        who->runner->spare_count--;
        call_free(container_of(l, struct call, link));
    }
    curl_multi_cleanup(who->multi);
    uv_close((uv_handle_t *)&who->timer, on_closed);
}
