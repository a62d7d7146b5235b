/* Runs, hosts and their queues. A run's target is read, then the run joins its host's queue. It goes to libcurl when
 * the host's address is known and the host is below its limit. Hosts with waiting runs take turns, so a slow host does
 * not delay the others.
 *
 * If a quick look at the URL shows that the host is busy, the target is read only when the run's turn comes. If it then
 * has another host, the run moves to that host's queue. */
#include "runner/http/runner_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "core/target/target_url.h"
#include "port/crypto.h"
#include "runner/http/internal.h"

enum { SWEEP_MS = 1000, HOST_FAILED_S = 2 /* how long a host without an address is not looked up again */ };
static const int64_t SECOND_NS = 1000000000;

static void runner_http_start_calls(struct runner_http *r);

/* ---- end of a run ---- */

/* Every run ends here. */
static void runner_http_finish(struct http_call *c, struct outcome o)
{
    struct runner_http *r = c->runner;
    struct run *run = c->run;
    free(c->http_run);
    run->handle = NULL;
    if (--r->open == 0)
        http_poller_keep_loop_alive(r->poller, false);
    run->done(run, &o);
    http_tenant_return_call(c);
}

/* The call of a run that is about to start or to end; created if needed. */
static struct http_call *runner_http_call_of(struct runner_http *r, struct http_run *t)
{
    if (t->call)
        return t->call;
    struct http_call *c = t->call = http_tenant_take_call(http_tenant_of(r, t->run->task->tenant));
    c->http_run = t;
    c->run = t->run;
    c->host = t->host;
    c->output.max = t->run->task->links & TASK_KEEPS_OUTPUT ? r->setup.kept_output_max + 1 : r->setup.output_max;
    return c;
}

static void http_host_mark_ready(struct http_host *h)
{
    if (h->state == HOST_READY && !list_empty(&h->waiting) && h->running < h->runner->setup.host_connections_max &&
        !list_linked(&h->ready))
        list_push(&h->runner->ready, &h->ready);
}

/* Called when libcurl no longer has the call. */
static void http_call_leave_host(struct http_call *c)
{
    c->runner->running--;
    c->host->running--;
    http_host_mark_ready(c->host);
}

void runner_http_finished(struct http_call *c, CURLcode code)
{
    struct runner_http *r = c->runner;
    assert_owned(&r->owner);
    (void)failpoint("after_call");
    http_call_leave_host(c);
    runner_http_finish(c, http_call_outcome(c, code));
    runner_http_start_calls(r);
}

/* ---- hosts ---- */

static bool http_host_is_busy(const struct http_host *h)
{
    return h->running > 0 || h->sockets > 0 || !list_empty(&h->waiting) || h->state == HOST_LOOKUP;
}

static void http_host_free(struct http_host *h)
{
    free(h->name);
    free(h);
}

static struct http_host *http_host_of(struct runner_http *r, struct str name)
{
    char lower[256];
    for (size_t i = 0; i < name.n; i++)
        lower[i] = ascii_lower(name.p[i]);
    struct http_host *h = map_get(&r->hosts, (struct str){ lower, name.n });
    if (h)
        return h;
    h = xnew(*h);
    h->runner = r;
    h->name = xmalloc(name.n + 1);
    memcpy(h->name, lower, name.n);
    h->name[name.n] = '\0';
    list_init(&h->waiting);
    list_init(&h->ready);
    list_init(&h->idle);
    h->is_literal = address_parse(name, &h->literal);
    h->expires_ns = h->is_literal ? INT64_MAX : 0;
    map_put(&r->hosts, (struct str){ h->name, name.n }, h);
    return h;
}

/* All waiting runs fail with the host's failure. A `done` may queue more runs; these fail in http_host_wake. */
static void http_host_fail_waiting(struct http_host *h)
{
    for (struct list *l; (l = list_pop(&h->waiting));) {
        struct http_call *c = runner_http_call_of(h->runner, container_of(l, struct http_run, link));
        runner_http_finish(c, h->lacks_file ? http_call_lacks_file(c) : http_call_failure(c, h->failure, h->why));
    }
}

/* Checks every address and stores the allowed ones as the host's addresses. Returns how many were checked. */
static size_t http_host_store_allowed(struct http_host *h, const struct http_lookup *l)
{
    size_t n = 0, judged = 0;
    h->addresses[0] = '\0';
    for (size_t i = 0; i < l->count; i++) {
        struct address a;
        char text[INET6_ADDRSTRLEN];
        if (!address_of_sockaddr(l->addresses[i], &a))
            continue;
        judged++;
        if (!guard_allows_address(&h->runner->guard, a, 0) ||
            !inet_ntop(a.is_v6 ? AF_INET6 : AF_INET, a.b, text, sizeof text))
            continue;
        if (n + strlen(text) + 4 > sizeof h->addresses)
            break;
        n += (size_t)snprintf(h->addresses + n, sizeof h->addresses - n, a.is_v6 ? "%s[%s]" : "%s%s", n ? "," : "",
                              text);
    }
    return judged;
}

static void http_host_on_lookup(void *context, const struct http_lookup *l)
{
    struct http_host *h = context;
    struct runner_http *r = h->runner;
    assert_owned(&r->owner);
    size_t judged = http_host_store_allowed(h, l);
    bool found = h->addresses[0] != '\0';
    h->expires_ns = clock_steady_ns(r->clock) + (found ? l->ttl_s : HOST_FAILED_S) * SECOND_NS;
    h->state = found ? HOST_READY : HOST_FAILED;
    h->lacks_file = l->lacks_file;
    h->failure = FAILURE_CONNECT;
    h->why = judged ? GUARD_NOT_FOUND : l->why;
    if (r->closing)
        return;
    if (!found)
        http_host_fail_waiting(h);
    http_host_mark_ready(h);
    runner_http_start_calls(r);
}

/* What is allowed changes with the tenants. */
static void http_host_judge_literal(struct http_host *h)
{
    h->state = guard_allows_address(&h->runner->guard, h->literal, 0) ? HOST_READY : HOST_FAILED;
    h->failure = FAILURE_REFUSED;
    h->why = guard_refusal(&h->runner->guard, h->literal);
}

/* Called when a run has joined the queue: starts a lookup, fails the queue or starts calls. */
static void http_host_wake(struct http_host *h)
{
    struct runner_http *r = h->runner;
    if (h->is_literal)
        http_host_judge_literal(h);
    if (h->state != HOST_LOOKUP && h->expires_ns <= clock_steady_ns(r->clock)) {
        h->state = HOST_LOOKUP;
        if (list_linked(&h->ready))
            list_remove(&h->ready);
        http_dns_lookup(r->dns, h->name, http_host_on_lookup, h);
        return;
    }
    if (h->state == HOST_FAILED)
        http_host_fail_waiting(h);
    http_host_mark_ready(h);
    runner_http_start_calls(r);
}

/* ---- giving calls to libcurl ---- */

static void runner_http_refuse(struct http_call *c, const struct error *e)
{
    snprintf(c->error, sizeof c->error, "%s%s%s", e->field, e->field[0] ? " " : "", e->text);
    runner_http_finish(c, e->code == ERR_UNAVAILABLE ? http_call_lacks_key(c, c->error)
                                                     : http_call_failure(c, FAILURE_REFUSED, c->error));
}

/* Returns false if the target was refused; the run has ended then. */
static bool runner_http_read_target(struct runner_http *r, struct http_run *t)
{
    struct http_call *c = runner_http_call_of(r, t);
    struct str name;
    struct error e;
    if (http_call_read(c, &name, &e)) {
        runner_http_refuse(c, &e);
        return false;
    }
    c->host = t->host = http_host_of(r, name);
    return true;
}

static void http_host_start_call(struct http_host *h)
{
    struct runner_http *r = h->runner;
    struct http_run *t = container_of(list_pop(&h->waiting), struct http_run, link);
    if (!t->call && !runner_http_read_target(r, t))
        return;
    if (t->host != h) {
        list_push(&t->host->waiting, &t->link);
        http_host_wake(t->host);
        return;
    }
    struct http_call *c = t->call;
    (void)failpoint("before_call");
    http_call_prepare(c);
    h->running++;
    r->running++;
    if (http_tenant_add_call(c))
        return;
    http_call_leave_host(c);
    runner_http_finish(c, http_call_failure(c, FAILURE_INTERNAL, "call could not be started"));
}

/* Starts calls while limits allow, one from each host in turn. A `done` may call this function again; the outer call
 * continues. */
static void runner_http_start_calls(struct runner_http *r)
{
    if (r->starting_calls)
        return;
    r->starting_calls = true;
    while (r->running < r->setup.in_flight_max) {
        struct list *l = list_pop(&r->ready);
        if (!l)
            break;
        struct http_host *h = container_of(l, struct http_host, ready);
        http_host_start_call(h);
        http_host_mark_ready(h);
    }
    r->starting_calls = false;
}

/* Returns the host if the URL shows, without full parsing, that the task must wait for it. Otherwise NULL. */
static struct http_host *runner_http_crowded_host(struct runner_http *r, const struct task *task)
{
    struct target_url u;
    char text[TARGET_URL_MAX], lower[TARGET_HOST_MAX];
    if (!target_url_read(task, text, &u))
        return NULL;
    size_t n = str_find(u.host, ':', 0);
    if (n > sizeof lower)
        return NULL;
    for (size_t i = 0; i < n; i++)
        lower[i] = ascii_lower(u.host.p[i]);
    struct http_host *h = map_get(&r->hosts, (struct str){ lower, n });
    bool crowded = h && (h->state == HOST_LOOKUP || (h->state == HOST_READY && !list_empty(&h->waiting)));
    return crowded ? h : NULL;
}

static void runner_http_on_sweep(uv_timer_t *t);

static void runner_http_start(struct runner *base, struct run *run)
{
    struct runner_http *r = container_of(base, struct runner_http, base);
    assert_owned(&r->owner);
    thread_owner_take(&r->owner);
    struct http_run *t = xnew(*t);
    t->run = run;
    run->handle = t;
    if (r->open++ == 0)
        http_poller_keep_loop_alive(r->poller, true);
    t->host = runner_http_crowded_host(r, run->task);
    if (!t->host && !runner_http_read_target(r, t))
        return;
    list_push(&t->host->waiting, &t->link);
    if (!uv_is_active((uv_handle_t *)r->sweep_timer))
        uv_timer_start(r->sweep_timer, runner_http_on_sweep, SWEEP_MS, SWEEP_MS);
    http_host_wake(t->host);
}

static void runner_http_abort(struct runner *base, struct run *run)
{
    struct runner_http *r = container_of(base, struct runner_http, base);
    assert_owned(&r->owner);
    struct http_run *t = run->handle;
    if (!t)
        return; /* it has ended already */
    struct http_call *c = runner_http_call_of(r, t);
    if (c->is_started) {
        http_tenant_remove_call(c);
        http_call_leave_host(c);
    } else {
        list_remove(&t->link);
    }
    runner_http_finish(c, http_call_cancelled(c));
    runner_http_start_calls(r);
}

/* ---- sweep: once a second while there are hosts or tenants ---- */

static void runner_http_drop_tenants(struct runner_http *r, int64_t now_ns)
{
    size_t n = 0;
    struct http_tenant **idle = xcalloc(r->tenants.n + 1, sizeof(struct http_tenant *));
    map_each (&r->tenants, slot) {
        struct http_tenant *p = slot->value;
        if (p->open == 0 && now_ns - p->idle_since_ns >= r->setup.idle_timeout_ms * 1000000)
            idle[n++] = p;
    }
    for (size_t i = 0; i < n; i++)
        http_tenant_free(idle[i]);
    free(idle);
}

static void runner_http_drop_hosts(struct runner_http *r, int64_t now_ns)
{
    size_t n = 0;
    struct http_host **unused = xcalloc(r->hosts.n + 1, sizeof(struct http_host *));
    map_each (&r->hosts, slot) {
        struct http_host *h = slot->value;
        if (!http_host_is_busy(h) && (h->is_literal || h->expires_ns <= now_ns))
            unused[n++] = h;
    }
    for (size_t i = 0; i < n; i++) {
        map_remove(&r->hosts, str_from(unused[i]->name));
        http_host_free(unused[i]);
    }
    free(unused);
}

static void runner_http_on_sweep(uv_timer_t *t)
{
    struct runner_http *r = t->data;
    int64_t now_ns = clock_steady_ns(r->clock);
    runner_http_drop_tenants(r, now_ns); /* before the hosts: connections refer to their hosts */
    runner_http_drop_hosts(r, now_ns);
    if (r->hosts.n == 0 && r->tenants.n == 0)
        uv_timer_stop(r->sweep_timer);
}

/* ---- construction and destruction ---- */

static void runner_http_on_sweep_closed(uv_handle_t *h)
{
    free(h);
}

static void runner_http_free(struct runner *base)
{
    struct runner_http *r = container_of(base, struct runner_http, base);
    thread_owner_drop(&r->owner); /* another thread may free the runner after the loop has ended */
    r->closing = true;
    http_dns_free(r->dns);
    runner_http_drop_tenants(r, INT64_MAX);
    http_poller_free(r->poller);
    map_each (&r->hosts, slot)
        http_host_free(slot->value);
    map_release(&r->hosts);
    map_release(&r->tenants);
    if (r->sweep_timer)
        uv_close((uv_handle_t *)r->sweep_timer, runner_http_on_sweep_closed);
    guard_release(&r->guard);
    free(r->user_agent);
    free(r);
    curl_global_cleanup();
}

/* Checks the file at start: libcurl would report an unreadable file only with each call. */
static enum err runner_http_check_ca_file(const char *path, struct error *e)
{
    char line[256];
    bool found = false;
    FILE *f = fopen(path, "re");
    if (!f)
        return error_field(e, "http.ca_file", "'%s' cannot be read: %s", path, strerror(errno));
    while (!found && fgets(line, sizeof line, f))
        found = str_starts(str_from(line), S("-----BEGIN ")) && strstr(line, "CERTIFICATE-----");
    fclose(f);
    return found ? ERR_OK : error_field(e, "http.ca_file", "'%s' holds no certificate in PEM", path);
}

static const struct runner_ops runner_http_ops = { runner_http_start, runner_http_abort, runner_http_free };

static uint64_t runner_http_random_seed(void)
{
    uint64_t seed;
    crypto_random(&seed, sizeof seed);
    return seed;
}

static void runner_http_init_sweep(struct runner_http *r, uv_loop_t *loop)
{
    r->sweep_timer = xnew(*r->sweep_timer); /* freed when the loop has closed it */
    uv_timer_init(loop, r->sweep_timer);
    uv_unref((uv_handle_t *)r->sweep_timer);
    r->sweep_timer->data = r;
}

struct runner *runner_http_new(uv_loop_t *loop, struct clock *clock, const struct runner_http_setup *setup,
                               struct error *e)
{
    if (setup->ca_file && runner_http_check_ca_file(setup->ca_file, e))
        return NULL;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    struct runner_http *r = xnew(*r);
    r->base = (struct runner){ &runner_http_ops, .host_calls_max = setup->host_connections_max };
    r->clock = clock;
    r->setup = *setup;
    r->user_agent = xstrdup(setup->user_agent ? setup->user_agent : "Belfry/" BELFRY_VERSION);
    list_init(&r->ready);
    prng_init(&r->random, runner_http_random_seed());
    map_init(&r->hosts, (struct hash_key){ prng_u64(&r->random), prng_u64(&r->random) });
    map_init(&r->tenants, r->hosts.key);
    r->loop = loop;
    guard_init(&r->guard, &setup->guard);
    r->dns = http_dns_new(loop, setup->name_servers, e);
    r->poller = r->dns ? http_poller_new(loop, setup) : NULL;
    if (!r->poller) {
        if (r->dns)
            (void)error_set(e, ERR_UNAVAILABLE, "libcurl could not be started");
        runner_http_free(&r->base);
        return NULL;
    }
    runner_http_init_sweep(r, loop);
    return &r->base;
}
