/* All breakers of a process: one piece of memory each, found by tenant and host, in the order of their last use. */
#include <assert.h>
#include <stdlib.h>

#include "core/sharing/breaker.h"

enum { EVICT_LOOKS = 16 };

struct entry {
    struct breaker breaker;
    struct list link;
    size_t key_n;
    char key[]; /* the tenant's number, then the host */
};

struct key {
    char p[sizeof(int32_t) + TARGET_HOST_MAX];
    size_t n;
};

static struct key key_of(int32_t tenant, struct str host)
{
    struct key k = { .n = sizeof tenant + min_of(host.n, (size_t)TARGET_HOST_MAX) };
    memcpy(k.p, &tenant, sizeof tenant);
    if (host.n)
        memcpy(k.p + sizeof tenant, host.p, k.n - sizeof tenant);
    return k;
}

void breakers_init(struct breakers *b, size_t max, struct hash_key key)
{
    assert(max >= 2 * EVICT_LOOKS); /* so that what was just used is never looked at */
    map_init(&b->by_key, key);
    list_init(&b->recent);
    b->max = max;
}

static void evict(struct breakers *b, struct entry *e)
{
    map_remove(&b->by_key, (struct str){ e->key, e->key_n });
    list_remove(&e->link);
    free(e);
}

void breakers_release(struct breakers *b)
{
    list_each (&b->recent, link)
        evict(b, container_of(link, struct entry, link));
    map_release(&b->by_key);
}

/* A closed one is worth little; looking for one must not cost more the more are open. */
static void make_room(struct breakers *b)
{
    struct entry *oldest = container_of(b->recent.next, struct entry, link);
    int looks = 0;
    list_each (&b->recent, link) {
        struct entry *e = container_of(link, struct entry, link);
        if (e->breaker.state == BREAKER_CLOSED && !e->breaker.hold_until_ms) {
            oldest = e;
            break;
        }
        if (++looks == EVICT_LOOKS)
            break;
    }
    evict(b, oldest);
}

static struct entry *entry_new(struct breakers *b, const struct key *k, int64_t now_ms)
{
    if (b->by_key.n == b->max)
        make_room(b);
    struct entry *e = xmalloc(sizeof *e + k->n);
    breaker_init(&e->breaker, k->n > sizeof(int32_t) ? &breaker_host : &breaker_tenant, now_ms);
    e->key_n = k->n;
    memcpy(e->key, k->p, k->n);
    list_push(&b->recent, &e->link);
    map_put(&b->by_key, (struct str){ e->key, e->key_n }, e);
    return e;
}

static struct breaker *get(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms)
{
    struct key k = key_of(tenant, host);
    struct entry *e = map_get(&b->by_key, (struct str){ k.p, k.n });
    if (!e)
        return &entry_new(b, &k, now_ms)->breaker;
    list_remove(&e->link);
    list_push(&b->recent, &e->link);
    return &e->breaker;
}

/* Neither is asked for a trial unless the other would let it go. The host's is the more telling one: its times come first. */
struct breakers_answer breakers_ask(struct breakers *b, int32_t tenant, struct str host, int64_t timeout_ms,
                                    int64_t now_ms)
{
    struct breaker *of_tenant = get(b, tenant, S(""), now_ms), *of_host = host.n ? get(b, tenant, host, now_ms) : NULL;
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
    breaker_report(get(b, tenant, S(""), now_ms), went->tenant_trial, o, now_ms);
    if (host.n)
        breaker_report(get(b, tenant, host, now_ms), went->host_trial, o, now_ms);
}

bool breakers_status(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms, struct breaker_status *ret)
{
    struct key k = key_of(tenant, host);
    struct entry *e = map_get(&b->by_key, (struct str){ k.p, k.n });
    if (e)
        *ret = breaker_status(&e->breaker, now_ms);
    return e != NULL;
}

void breakers_each(struct breakers *b, int64_t now_ms, void (*see)(void *context, const struct breaker_view *),
                   void *context)
{
    list_each (&b->recent, link) {
        struct entry *e = container_of(link, struct entry, link);
        struct breaker_view view = { .status = breaker_status(&e->breaker, now_ms) };
        if (view.status.state == BREAKER_CLOSED && !view.status.held_by_retry_after)
            continue;
        memcpy(&view.tenant, e->key, sizeof view.tenant);
        view.host = (struct str){ e->key + sizeof view.tenant, e->key_n - sizeof view.tenant };
        see(context, &view);
    }
}
