/* Runs, hosts and their queues. A run is read, joins its host's queue, and goes to libcurl when the host is known and below
 * its limit; hosts with work take turns, so that a slow one does not hold up the others. One that must wait in any case, by what a
 * glance says of its host, is read when its turn comes; should it then turn out to go elsewhere, it goes to that host's queue. */
#include "runner/http/runner_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/failpoint.h"
#include "core/target/target_url.h"
#include "runner/http/internal.h"

enum { SWEEP_MS = 1000, TTL_MIN_S = 5, TTL_MAX_S = 60, TTL_FAILED_S = 2 };
static const int64_t SECOND_NS = 1000000000;

static void pump(struct runner_http *r);

/* ---- the end of a run ---- */

/* The one place where a run ends. */
static void finish(struct call *c, struct outcome o)
{
    struct runner_http *r = c->runner;
    struct run *run = c->run;
    free(c->ticket);
    run->handle = NULL;
    if (--r->open == 0)
        poller_hold(r->poller, false);
    run->done(run, &o);
    caller_give_back(c);
}

/* For a run that is to be called, or whose end is to be told. */
static struct call *call_of(struct runner_http *r, struct ticket *t)
{
    if (t->call)
        return t->call;
    struct call *c = t->call = caller_take(caller_of(r, t->run->task->tenant));
    c->ticket = t;
    c->run = t->run;
    c->host = t->host;
    return c;
}

static void mark_ready(struct host *h)
{
    if (h->state == HOST_READY && !list_empty(&h->waiting) && h->running < h->runner->setup.host_connections_max &&
        !list_linked(&h->ready))
        list_push(&h->runner->ready, &h->ready);
}

/* libcurl no longer has the call. */
static void leave_host(struct call *c)
{
    c->runner->running--;
    c->host->running--;
    mark_ready(c->host);
}

void runner_http_finished(struct call *c, CURLcode code)
{
    struct runner_http *r = c->runner;
    (void)failpoint("after_call");
    leave_host(c);
    finish(c, call_outcome(c, code));
    pump(r);
}

/* ---- hosts ---- */

static bool is_busy(const struct host *h)
{
    return h->running > 0 || h->sockets > 0 || !list_empty(&h->waiting) || h->state == HOST_LOOKUP;
}

static void host_free(struct host *h)
{
    free(h->name);
    free(h);
}

static struct host *host_of(struct runner_http *r, struct str name)
{
    char lower[256];
    for (size_t i = 0; i < name.n; i++)
        lower[i] = ascii_lower(name.p[i]);
    struct host *h = map_get(&r->hosts, (struct str){ lower, name.n });
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
    struct address a;
    h->is_literal = address_parse(name, &a);
    h->expires_ns = h->is_literal ? INT64_MAX : 0;
    if (h->is_literal) {
        bool blocked = address_blocked(&r->guard.policy, a);
        h->state = blocked ? HOST_FAILED : HOST_READY;
        h->failure = FAILURE_REFUSED;
        h->why = "address is not allowed";
    }
    map_put(&r->hosts, (struct str){ h->name, name.n }, h);
    return h;
}

/* Those waiting share the host's failure. Each done may queue more; they fail where they start. */
static void fail_waiting(struct host *h)
{
    for (struct list *l; (l = list_pop(&h->waiting));) {
        struct call *c = call_of(h->runner, container_of(l, struct ticket, link));
        finish(c, call_failure(c, h->failure, h->why));
    }
}

/* Every address is judged; those that pass are what the name stands for. Returns how many there were to judge. */
static size_t keep_allowed(struct host *h, const struct lookup *l)
{
    size_t n = 0, judged = 0;
    h->addresses[0] = '\0';
    for (size_t i = 0; i < l->count; i++) {
        struct address a;
        char text[INET6_ADDRSTRLEN];
        if (!address_of_sockaddr(l->addresses[i], &a))
            continue;
        judged++;
        if (address_blocked(&h->runner->guard.policy, a) ||
            !inet_ntop(a.is_v6 ? AF_INET6 : AF_INET, a.b, text, sizeof text))
            continue;
        if (n + strlen(text) + 4 > sizeof h->addresses)
            break;
        n += (size_t)snprintf(h->addresses + n, sizeof h->addresses - n, a.is_v6 ? "%s[%s]" : "%s%s", n ? "," : "",
                              text);
    }
    return judged;
}

static void on_lookup(void *context, const struct lookup *l)
{
    struct host *h = context;
    struct runner_http *r = h->runner;
    size_t judged = keep_allowed(h, l);
    bool found = h->addresses[0] != '\0';
    int ttl_s = found ? max_of(TTL_MIN_S, min_of(l->ttl_s, TTL_MAX_S)) : TTL_FAILED_S;
    h->expires_ns = clock_steady_ns(r->clock) + ttl_s * SECOND_NS;
    h->state = found ? HOST_READY : HOST_FAILED;
    h->failure = judged ? FAILURE_REFUSED : FAILURE_CONNECT;
    h->why = judged ? "address is not allowed" : l->why;
    if (r->closing)
        return;
    if (!found)
        fail_waiting(h);
    mark_ready(h);
    pump(r);
}

/* A call has joined the queue: does what its host needs. */
static void wake(struct host *h)
{
    struct runner_http *r = h->runner;
    if (h->state != HOST_LOOKUP && h->expires_ns <= clock_steady_ns(r->clock)) {
        h->state = HOST_LOOKUP;
        if (list_linked(&h->ready))
            list_remove(&h->ready);
        names_lookup(r->names, h->name, on_lookup, h);
        return;
    }
    if (h->state == HOST_FAILED)
        fail_waiting(h);
    mark_ready(h);
    pump(r);
}

/* ---- giving calls to libcurl ---- */

static void refuse(struct call *c, const struct error *e)
{
    snprintf(c->error, sizeof c->error, "%s%s%s", e->field, e->field[0] ? " " : "", e->text);
    finish(c, call_failure(c, FAILURE_REFUSED, c->error));
}

/* False: it was refused, and is done. */
static bool read_ticket(struct runner_http *r, struct ticket *t)
{
    struct call *c = call_of(r, t);
    struct str name;
    struct error e;
    if (call_read(c, &name, &e)) {
        refuse(c, &e);
        return false;
    }
    c->host = t->host = host_of(r, name);
    return true;
}

static void start_call(struct host *h)
{
    struct runner_http *r = h->runner;
    struct ticket *t = container_of(list_pop(&h->waiting), struct ticket, link);
    if (!t->call && !read_ticket(r, t))
        return;
    if (t->host != h) {
        list_push(&t->host->waiting, &t->link);
        wake(t->host);
        return;
    }
    struct call *c = t->call;
    (void)failpoint("before_call");
    call_prepare(c);
    h->running++;
    r->running++;
    if (caller_add(c))
        return;
    leave_host(c);
    finish(c, call_failure(c, FAILURE_INTERNAL, "call could not be started"));
}

/* Starts what may start, a call from each host in turn. A done within it may lead back here: the outer one goes on. */
static void pump(struct runner_http *r)
{
    if (r->pumping)
        return;
    r->pumping = true;
    while (r->running < r->setup.in_flight_max) {
        struct list *l = list_pop(&r->ready);
        if (!l)
            break;
        struct host *h = container_of(l, struct host, ready);
        start_call(h);
        mark_ready(h);
    }
    r->pumping = false;
}

/* A host at which the task must wait, whatever a closer look says of it; NULL: it is to be looked at. */
static struct host *crowded_host(struct runner_http *r, const struct task *task)
{
    struct target_url u;
    char lower[TARGET_HOST_MAX];
    if (!target_url_read(task, &u))
        return NULL;
    size_t n = str_find(u.host, ':', 0);
    if (n > sizeof lower)
        return NULL;
    for (size_t i = 0; i < n; i++)
        lower[i] = ascii_lower(u.host.p[i]);
    struct host *h = map_get(&r->hosts, (struct str){ lower, n });
    bool crowded = h && (h->state == HOST_LOOKUP || (h->state == HOST_READY && !list_empty(&h->waiting)));
    return crowded ? h : NULL;
}

static void on_sweep(uv_timer_t *t);

static void http_start(struct runner *base, struct run *run)
{
    struct runner_http *r = container_of(base, struct runner_http, base);
    struct ticket *t = xnew(*t);
    t->run = run;
    run->handle = t;
    if (r->open++ == 0)
        poller_hold(r->poller, true);
    t->host = crowded_host(r, run->task);
    if (!t->host && !read_ticket(r, t))
        return;
    t->queued_ns = clock_steady_ns(r->clock);
    list_push(&t->host->waiting, &t->link);
    if (!uv_is_active((uv_handle_t *)r->sweep_timer))
        uv_timer_start(r->sweep_timer, on_sweep, SWEEP_MS, SWEEP_MS);
    wake(t->host);
}

static void http_abort(struct runner *base, struct run *run)
{
    struct runner_http *r = container_of(base, struct runner_http, base);
    struct ticket *t = run->handle;
    if (!t)
        return; /* done already */
    struct call *c = call_of(r, t);
    if (c->is_started) {
        caller_remove(c);
        leave_host(c);
    } else {
        list_remove(&t->link);
    }
    finish(c, call_cancelled(c));
    pump(r);
}

/* ---- the sweep: once a second while hosts or callers are known ---- */

/* The oldest stand in front, so a look at those is enough. */
static void fail_overdue(struct host *h, int64_t now_ns)
{
    int64_t longest_ns = h->runner->setup.queue_timeout_ms * 1000000;
    while (!list_empty(&h->waiting)) {
        struct ticket *t = container_of(h->waiting.next, struct ticket, link);
        if (now_ns - t->queued_ns < longest_ns)
            return;
        list_remove(&t->link);
        struct call *c = call_of(h->runner, t);
        finish(c, call_failure(c, FAILURE_TIMEOUT, "waited too long for a connection to this host"));
    }
    if (list_linked(&h->ready))
        list_remove(&h->ready);
}

/* By a list of them, because a done may add hosts. */
static void sweep_waiting(struct runner_http *r, int64_t now_ns)
{
    size_t n = 0;
    struct host **all = xcalloc(r->hosts.n + 1, sizeof(struct host *));
    map_each (&r->hosts, slot)
        all[n++] = slot->value;
    for (size_t i = 0; i < n; i++)
        if (!list_empty(&all[i]->waiting))
            fail_overdue(all[i], now_ns);
    free(all);
}

static void drop_callers(struct runner_http *r, int64_t now_ns)
{
    size_t n = 0;
    struct caller **idle = xcalloc(r->callers.n + 1, sizeof(struct caller *));
    map_each (&r->callers, slot) {
        struct caller *p = slot->value;
        if (p->open == 0 && now_ns - p->idle_since_ns >= r->setup.idle_timeout_ms * 1000000)
            idle[n++] = p;
    }
    for (size_t i = 0; i < n; i++)
        caller_free(idle[i]);
    free(idle);
}

static void drop_hosts(struct runner_http *r, int64_t now_ns)
{
    size_t n = 0;
    struct host **unused = xcalloc(r->hosts.n + 1, sizeof(struct host *));
    map_each (&r->hosts, slot) {
        struct host *h = slot->value;
        if (!is_busy(h) && (h->is_literal || h->expires_ns <= now_ns))
            unused[n++] = h;
    }
    for (size_t i = 0; i < n; i++) {
        map_remove(&r->hosts, str_from(unused[i]->name));
        host_free(unused[i]);
    }
    free(unused);
}

static void on_sweep(uv_timer_t *t)
{
    struct runner_http *r = t->data;
    int64_t now_ns = clock_steady_ns(r->clock);
    sweep_waiting(r, now_ns);
    drop_callers(r, now_ns); /* first: connections know their hosts */
    drop_hosts(r, now_ns);
    if (r->hosts.n == 0 && r->callers.n == 0)
        uv_timer_stop(r->sweep_timer);
}

/* ---- birth and death ---- */

static void on_sweep_closed(uv_handle_t *h)
{
    free(h);
}

static void http_free(struct runner *base)
{
    struct runner_http *r = container_of(base, struct runner_http, base);
    r->closing = true;
    names_free(r->names);
    drop_callers(r, INT64_MAX);
    poller_free(r->poller);
    map_each (&r->hosts, slot)
        host_free(slot->value);
    map_release(&r->hosts);
    map_release(&r->callers);
    if (r->sweep_timer)
        uv_close((uv_handle_t *)r->sweep_timer, on_sweep_closed);
    guard_release(&r->guard);
    free(r->user_agent);
    free(r);
    curl_global_cleanup();
}

/* libcurl would tell with each call that it cannot read the file. */
static enum err check_ca_file(const char *path, struct error *e)
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

static const struct runner_ops http_ops = { http_start, http_abort, http_free };

static uint64_t random_seed(void)
{
    uint64_t seed = 0;
    (void)!getrandom(&seed, sizeof seed, 0);
    return seed;
}

static void start_sweep(struct runner_http *r, uv_loop_t *loop)
{
    r->sweep_timer = xnew(*r->sweep_timer); /* outlives the runner by the time the loop takes to close it */
    uv_timer_init(loop, r->sweep_timer);
    uv_unref((uv_handle_t *)r->sweep_timer);
    r->sweep_timer->data = r;
}

struct runner *runner_http_new(uv_loop_t *loop, struct clock *clock, const struct runner_http_setup *setup,
                               struct error *e)
{
    if (setup->ca_file && check_ca_file(setup->ca_file, e))
        return NULL;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    struct runner_http *r = xnew(*r);
    r->base.ops = &http_ops;
    r->clock = clock;
    r->setup = *setup;
    r->user_agent = xstrdup(setup->user_agent ? setup->user_agent : "Belfry/" BELFRY_VERSION);
    list_init(&r->ready);
    prng_init(&r->random, random_seed());
    map_init(&r->hosts, (struct hash_key){ prng_u64(&r->random), prng_u64(&r->random) });
    map_init(&r->callers, r->hosts.key);
    r->loop = loop;
    guard_init(&r->guard, setup->allowed, setup->allowed_count, setup->allow_loopback);
    r->names = names_new(loop, setup->name_servers, e);
    r->poller = r->names ? poller_new(loop, setup) : NULL;
    if (!r->poller) {
        if (r->names)
            (void)error_set(e, ERR_UNAVAILABLE, "libcurl could not be started");
        http_free(&r->base);
        return NULL;
    }
    start_sweep(r, loop);
    return &r->base;
}
