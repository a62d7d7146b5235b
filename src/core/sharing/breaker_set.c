/* The table of all breakers of a process. Each entry is one allocation, found by tenant and host and linked in the
 * order of its last use. */
#include <assert.h>
#include <stdlib.h>

#include "core/sharing/breaker.h"

enum { EVICT_LOOKS = 16 };

struct breakers_entry {
    struct breaker breaker;
    struct list link;
    size_t key_n;
    char key[]; /* the tenant's number, then the host */
};

struct breakers_key {
    char p[sizeof(int32_t) + TARGET_HOST_MAX];
    size_t n;
};

static struct breakers_key breakers_key_of(int32_t tenant, struct str host)
{
    struct breakers_key k = { .n = sizeof tenant + min_of(host.n, (size_t)TARGET_HOST_MAX) };
    memcpy(k.p, &tenant, sizeof tenant);
    if (host.n)
        memcpy(k.p + sizeof tenant, host.p, k.n - sizeof tenant);
    return k;
}

void breakers_init(struct breakers *b, size_t max, struct hash_key key)
{
    assert(max >= 2 * EVICT_LOOKS); /* a breaker that was just used is never a candidate */
    map_init(&b->by_key, key);
    list_init(&b->recent);
    b->max = max;
}

static void breakers_evict(struct breakers *b, struct breakers_entry *e)
{
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
        if (e->breaker.state == BREAKER_CLOSED && !e->breaker.hold_until_ms) {
            oldest = e;
            break;
        }
        if (++looks == EVICT_LOOKS)
            break;
    }
    breakers_evict(b, oldest);
}

static struct breakers_entry *breakers_add(struct breakers *b, const struct breakers_key *k, int64_t now_ms)
{
    if (b->by_key.n == b->max)
        breakers_evict_one(b);
    struct breakers_entry *e = xmalloc(sizeof *e + k->n);
    breaker_init(&e->breaker, k->n > sizeof(int32_t) ? &breaker_host : &breaker_tenant, now_ms);
    e->key_n = k->n;
    memcpy(e->key, k->p, k->n);
    list_push(&b->recent, &e->link);
    map_put(&b->by_key, (struct str){ e->key, e->key_n }, e);
    return e;
}

static struct breaker *breakers_get_or_create(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms)
{
    struct breakers_key k = breakers_key_of(tenant, host);
    struct breakers_entry *e = map_get(&b->by_key, (struct str){ k.p, k.n });
    if (!e)
        return &breakers_add(b, &k, now_ms)->breaker;
    list_remove(&e->link);
    list_push(&b->recent, &e->link);
    return &e->breaker;
}

/* Asks each breaker for a trial only if the other one would let the call go. If both hold the call, the host's time is
 * used, since the host's breaker says more about this call. */
struct breakers_answer breakers_ask(struct breakers *b, int32_t tenant, struct str host, int64_t timeout_ms,
                                    int64_t now_ms)
{
    struct breaker *of_tenant = breakers_get_or_create(b, tenant, S(""), now_ms),
                   *of_host = host.n ? breakers_get_or_create(b, tenant, host, now_ms) : NULL;
    struct breaker_answer answer = { .go = true };
    if (of_host && (!breaker_would_go(of_host, now_ms) || breaker_would_go(of_tenant, now_ms)))
        answer = breaker_ask(of_host, timeout_ms, now_ms);
    if (!answer.go)
        return (struct breakers_answer){ .until_ms = answer.until_ms };
    struct breaker_answer second = breaker_ask(of_tenant, timeout_ms, now_ms);
    return (struct breakers_answer){ .go = second.go,
                                     .host_trial = answer.trial,
                                     .tenant_trial = second.trial,
                                     .by_tenant = !second.go,
                                     .until_ms = second.until_ms };
}

void breakers_report(struct breakers *b, int32_t tenant, struct str host, const struct breakers_answer *went,
                     const struct outcome *o, int64_t now_ms)
{
    breaker_report(breakers_get_or_create(b, tenant, S(""), now_ms), went->tenant_trial, o, now_ms);
    if (host.n)
        breaker_report(breakers_get_or_create(b, tenant, host, now_ms), went->host_trial, o, now_ms);
}

bool breakers_status(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms, struct breaker_status *ret)
{
    struct breakers_key k = breakers_key_of(tenant, host);
    struct breakers_entry *e = map_get(&b->by_key, (struct str){ k.p, k.n });
    if (e)
        *ret = breaker_status(&e->breaker, now_ms);
    return e != NULL;
}

void breakers_each(struct breakers *b, int64_t now_ms, void (*see)(void *context, const struct breaker_view *),
                   void *context)
{
    list_each (&b->recent, link) {
        struct breakers_entry *e = container_of(link, struct breakers_entry, link);
        struct breaker_view view = { .status = breaker_status(&e->breaker, now_ms) };
        if (view.status.state == BREAKER_CLOSED && !view.status.held_by_retry_after)
            continue;
        memcpy(&view.tenant, e->key, sizeof view.tenant);
        view.host = (struct str){ e->key + sizeof view.tenant, e->key_n - sizeof view.tenant };
        see(context, &view);
    }
}
