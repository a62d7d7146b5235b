/* The table of all breakers of a process. Each entry is one allocation, found by tenant and host and linked in the
 * order of its last use. A use of a host is a use of its tenant, after it: so each host is linked before its tenant,
 * and the least recently used entry is never a tenant with hosts. */
#include <assert.h>
#include <stdlib.h>

#include "core/sharing/breaker.h"

enum { EVICT_LOOKS = 16 };

struct breakers_entry {
    struct breaker breaker;
    struct list link;
    struct list hosts;     /* of a tenant: its hosts, by of_tenant */
    struct list of_tenant; /* of a host */
    int64_t summed_ms;     /* of a tenant: when its hosts were last summed up; 0: never */
    size_t key_n;
    char key[]; /* the tenant's number, then the host */
};

void breakers_init(struct breakers *b, size_t max, struct hash_key key)
{
    assert(max >= 2 * EVICT_LOOKS); /* a breaker that was just used is never a candidate */
    map_init(&b->by_key, key);
    list_init(&b->recent);
    b->max = max;
}

static void breakers_evict(struct breakers *b, struct breakers_entry *e)
{
    assert(list_empty(&e->hosts));
    list_remove(&e->of_tenant);
    map_remove(&b->by_key, (struct str){ e->key, e->key_n });
    list_remove(&e->link);
    free(e);
}

void breakers_release(struct breakers *b)
{
    list_each (&b->recent, link)
        breakers_evict(b, container_of(link, struct breakers_entry, link));
    map_release(&b->by_key);
}

/* Prefers a closed breaker, since it holds little state. Looks at EVICT_LOOKS entries at most, so that the cost does
 * not grow with the number of open breakers. */
static void breakers_evict_one(struct breakers *b)
{
    struct breakers_entry *oldest = container_of(b->recent.next, struct breakers_entry, link);
    int looks = 0;
    list_each (&b->recent, link) {
        struct breakers_entry *e = container_of(link, struct breakers_entry, link);
        if (e->breaker.state == BREAKER_CLOSED && !e->breaker.hold_until_ms && list_empty(&e->hosts)) {
            oldest = e;
            break;
        }
        if (++looks == EVICT_LOOKS)
            break;
    }
    breakers_evict(b, oldest);
}

static struct breakers_entry *breakers_add(struct breakers *b, const struct host_key *k, int64_t now_ms)
{
    if (b->by_key.n == b->max)
        breakers_evict_one(b);
    struct breakers_entry *e = xmalloc(sizeof *e + k->n);
    breaker_init(&e->breaker, k->n > sizeof(int32_t) ? &breaker_host : &breaker_tenant, now_ms);
    list_init(&e->link);
    list_init(&e->hosts);
    list_init(&e->of_tenant);
    e->summed_ms = 0;
    e->key_n = k->n;
    memcpy(e->key, k->p, k->n);
    map_put(&b->by_key, (struct str){ e->key, e->key_n }, e);
    return e;
}

static struct breakers_entry *breakers_find(struct breakers *b, int32_t tenant, struct str host)
{
    struct host_key k = host_key_of(tenant, host);
    return map_get(&b->by_key, host_key_bytes(&k));
}

static void breakers_use(struct breakers *b, struct breakers_entry *e)
{
    list_remove(&e->link);
    list_push(&b->recent, &e->link);
}

static struct breakers_entry *breakers_get_or_create(struct breakers *b, int32_t tenant, struct str host,
                                                     int64_t now_ms)
{
    struct host_key k = host_key_of(tenant, host);
    struct breakers_entry *e = map_get(&b->by_key, host_key_bytes(&k));
    e = e ? e : breakers_add(b, &k, now_ms);
    breakers_use(b, e);
    return e;
}

/* The two breakers of a call. */
struct breakers_pair {
    struct breakers_entry *tenant, *host;
};

static struct breakers_pair breakers_of_call(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms)
{
    struct breakers_pair p = { .tenant = breakers_get_or_create(b, tenant, S(""), now_ms) };
    p.host = breakers_get_or_create(b, tenant, host, now_ms);
    if (!list_linked(&p.host->of_tenant))
        list_push(&p.tenant->hosts, &p.host->of_tenant);
    breakers_use(b, p.tenant);
    return p;
}

/* ---- asking ---- */

/* The tenant's breaker does not hold a healthy host. If others opened it, a host is healthy until it fails here. */
static bool breakers_is_healthy(const struct breaker *of_tenant, struct breaker *of_host, int64_t now_ms)
{
    if (breaker_is_alive(of_host, now_ms))
        return true;
    return of_tenant->restored && of_host->for_tenant.sum.failures == 0;
}

/* A host with a sign of life is healthy: the tenant's breaker does not hold it. Asks each breaker for a trial only if
 * the other one would let the call go. If both hold the call, the host's time is used, since the host's breaker says
 * more about this call. */
struct breakers_answer breakers_ask(struct breakers *b, int32_t tenant, struct str host, int64_t timeout_ms,
                                    int64_t now_ms)
{
    if (!host.n)
        return (struct breakers_answer){ .go = true };
    struct breakers_pair p = breakers_of_call(b, tenant, host, now_ms);
    struct breaker *of_tenant = &p.tenant->breaker, *of_host = &p.host->breaker;
    bool healthy = breakers_is_healthy(of_tenant, of_host, now_ms);
    struct breaker_answer answer = { .go = true };
    if (!breaker_would_go(of_host, now_ms) || healthy || breaker_would_go(of_tenant, now_ms))
        answer = breaker_ask(of_host, timeout_ms, now_ms);
    if (!answer.go || healthy)
        return (struct breakers_answer){ .go = answer.go, .host_trial = answer.trial, .until_ms = answer.until_ms };
    struct breaker_answer second = breaker_ask(of_tenant, timeout_ms, now_ms);
    return (struct breakers_answer){ .go = second.go,
                                     .host_trial = answer.trial,
                                     .tenant_trial = second.trial,
                                     .by_tenant = !second.go,
                                     .until_ms = second.until_ms };
}

bool breakers_holds(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms, struct breaker_view *ret)
{
    struct breakers_entry *of_tenant = breakers_find(b, tenant, S("")), *of_host = breakers_find(b, tenant, host);
    if (!host.n)
        return false;
    *ret = (struct breaker_view){ .tenant = tenant, .host = host };
    if (of_host && !breaker_would_go(&of_host->breaker, now_ms)) {
        ret->status = breaker_status(&of_host->breaker, now_ms);
        return true;
    }
    if (!of_tenant || breaker_would_go(&of_tenant->breaker, now_ms) ||
        (of_host ? breakers_is_healthy(&of_tenant->breaker, &of_host->breaker, now_ms) : of_tenant->breaker.restored))
        return false;
    ret->host = S("");
    ret->status = breaker_status(&of_tenant->breaker, now_ms);
    return true;
}

/* ---- reporting ---- */

/* The tenant's breaker has closed: it opens again only by failures from now on. */
static void breakers_forget_failures(struct breakers_entry *tenant)
{
    list_each (&tenant->hosts, link)
        breaker_forget_for_tenant(&container_of(link, struct breakers_entry, of_tenant)->breaker);
}

/* Whether enough hosts fail for the tenant's breaker to open. A host fails if it has failed and shown no sign of
 * life. */
static bool breakers_many_fail(struct breakers_entry *tenant, int64_t now_ms, struct breaker_counts *ret)
{
    int failing = 0;
    *ret = (struct breaker_counts){ 0 };
    list_each (&tenant->hosts, link) {
        struct breaker *host = &container_of(link, struct breakers_entry, of_tenant)->breaker;
        struct breaker_counts c = breaker_counts_for_tenant(host, now_ms);
        failing += c.failures > 0 && !breaker_is_alive(host, now_ms);
        ret->total += c.total;
        ret->failures += c.failures;
    }
    return failing >= breaker_tenant.hosts_min && breaker_is_exceeded(&breaker_tenant, *ret);
}

/* Looks at all hosts only if the tenant as a whole fails often enough, and at most once in BREAKER_SUM_MS, so that the
 * cost of a report does not grow with the number of hosts. */
static void breakers_judge_tenant(struct breakers_entry *tenant)
{
    struct breaker *b = &tenant->breaker;
    struct breaker_counts counts;
    int64_t now_ms = b->seen_ms, since_ms = now_ms - tenant->summed_ms;
    if (b->state != BREAKER_CLOSED || !breaker_is_exceeded(b->rules, b->window.sum) ||
        (since_ms >= 0 && since_ms < BREAKER_SUM_MS))
        return;
    tenant->summed_ms = now_ms;
    if (breakers_many_fail(tenant, now_ms, &counts))
        breaker_open(b, counts, now_ms);
}

/* A tenant's breaker that others opened holds only hosts that have failed here. If none has, no call is its trial, and
 * any that succeeds after its time is as good. */
static bool breakers_is_trial(struct breakers_entry *tenant, const struct breakers_answer *went,
                              const struct outcome *o, int64_t now_ms)
{
    struct breaker *b = &tenant->breaker;
    struct breaker_counts counts;
    if (went->tenant_trial || breaker_sign_of(o) != BREAKER_ALIVE)
        return went->tenant_trial;
    (void)breaker_would_go(b, now_ms);
    int64_t since_ms = b->seen_ms - tenant->summed_ms;
    if (b->state != BREAKER_HALF_OPEN || (since_ms >= 0 && since_ms < BREAKER_SUM_MS))
        return false;
    tenant->summed_ms = b->seen_ms;
    (void)breakers_many_fail(tenant, b->seen_ms, &counts);
    return counts.failures == 0;
}

struct breakers_news breakers_report(struct breakers *b, int32_t tenant, struct str host,
                                     const struct breakers_answer *went, const struct outcome *o, int64_t now_ms)
{
    if (!host.n)
        return (struct breakers_news){ 0 };
    struct breakers_pair p = breakers_of_call(b, tenant, host, now_ms);
    bool was_closed = p.tenant->breaker.state == BREAKER_CLOSED;
    breaker_report(&p.tenant->breaker, breakers_is_trial(p.tenant, went, o, now_ms), o, now_ms);
    if (!was_closed && p.tenant->breaker.state == BREAKER_CLOSED)
        breakers_forget_failures(p.tenant);
    breaker_report(&p.host->breaker, went->host_trial, o, now_ms);
    if (breaker_sign_of(o) == BREAKER_FAILURE)
        breakers_judge_tenant(p.tenant);
    return (struct breakers_news){ breaker_news(&p.host->breaker, now_ms), breaker_news(&p.tenant->breaker, now_ms) };
}

/* ---- what others say ---- */

void breakers_restore(struct breakers *b, int32_t tenant, struct str host, int64_t until_ms,
                      struct breaker_counts counts, int64_t now_ms)
{
    struct breakers_entry *e =
        host.n ? breakers_of_call(b, tenant, host, now_ms).host : breakers_get_or_create(b, tenant, host, now_ms);
    breaker_restore(&e->breaker, counts, until_ms, now_ms);
}

void breakers_on_clock_set_back(struct breakers *b, int64_t now_ms)
{
    list_each (&b->recent, link)
        (void)breaker_would_go(&container_of(link, struct breakers_entry, link)->breaker, now_ms);
}

void breakers_allow_trial(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms)
{
    struct breakers_entry *e = breakers_find(b, tenant, host);
    if (e)
        breaker_allow_trial(&e->breaker, now_ms);
}

/* ---- for people ---- */

bool breakers_status(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms, struct breaker_status *ret)
{
    struct breakers_entry *e = breakers_find(b, tenant, host);
    if (e)
        *ret = breaker_status(&e->breaker, now_ms);
    return e != NULL;
}

bool breakers_close(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms)
{
    struct breakers_entry *e = breakers_find(b, tenant, host);
    if (!e)
        return false;
    breaker_close(&e->breaker, now_ms);
    breakers_forget_failures(e);
    return true;
}

static struct breaker_view breakers_view(struct breakers_entry *e, int64_t now_ms)
{
    struct breaker_view v = { .host = { e->key + sizeof v.tenant, e->key_n - sizeof v.tenant },
                              .status = breaker_status(&e->breaker, now_ms) };
    memcpy(&v.tenant, e->key, sizeof v.tenant);
    return v;
}

static int breakers_by_tenant_and_host(const void *a, const void *b)
{
    const struct breaker_view *x = a, *y = b;
    return x->tenant != y->tenant ? (x->tenant > y->tenant) - (x->tenant < y->tenant) : str_cmp(x->host, y->host);
}

void breakers_each(struct breakers *b, int64_t now_ms, void (*see)(void *context, const struct breaker_view *),
                   void *context)
{
    struct breaker_view *v = NULL;
    size_t n = 0, cap = 0;
    list_each (&b->recent, link) {
        struct breaker_view view = breakers_view(container_of(link, struct breakers_entry, link), now_ms);
        if (view.status.state == BREAKER_CLOSED && !view.status.held_by_retry_after)
            continue;
        if (n == cap) {
            cap = max_of(cap * 2, (size_t)16);
            v = xrealloc(v, cap * sizeof *v);
        }
        v[n++] = view;
    }
    if (n)
        qsort(v, n, sizeof *v, breakers_by_tenant_and_host);
    for (size_t i = 0; i < n; i++)
        see(context, &v[i]);
    free(v);
}
