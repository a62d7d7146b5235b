#include "node/tenant_needs.h"

#include <string.h>

#include "core/sharing/breaker.h"
#include "node/tenant_set.h"

enum { NEEDS_TEXT_MAX = 2048 };

/* The bytes that tell one combination from another: both numbers, then the labels. False: there is nothing to tell. */
static bool tenant_needs_bytes(const struct lane *lane, char out[NEEDS_TEXT_MAX], struct str *ret)
{
    int64_t numbers[] = { lane->cpu_milli, lane->memory_mb };
    if ((!lane->requires.n && !lane->cpu_milli && !lane->memory_mb) ||
        lane->requires.n > NEEDS_TEXT_MAX - sizeof numbers)
        return false;
    memcpy(out, numbers, sizeof numbers);
    if (lane->requires.n)
        memcpy(out + sizeof numbers, lane->requires.p, lane->requires.n);
    *ret = (struct str){ out, sizeof numbers + lane->requires.n };
    return true;
}

void tenant_needs_know(struct tenant_set *needs, const struct lane *lanes, size_t count)
{
    char bytes[NEEDS_TEXT_MAX];
    struct str item;
    for (size_t i = 0; i < count; i++)
        if (tenant_needs_bytes(&lanes[i], bytes, &item))
            tenant_set_know(needs, lanes[i].tenant, item);
}

bool tenant_needs_accept(struct tenant_set *needs, const struct task *t)
{
    char bytes[NEEDS_TEXT_MAX];
    struct lane lane = task_lane(t);
    struct str item;
    return !tenant_needs_bytes(&lane, bytes, &item) || tenant_set_accept(needs, lane.tenant, item);
}

void tenant_hosts_know(struct tenant_set *hosts, const struct lane *lanes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (lanes[i].host.n)
            tenant_set_know(hosts, lanes[i].tenant, lanes[i].host);
}

struct str tenant_hosts_lane(struct tenant_set *hosts, int32_t tenant, struct str host)
{
    bool own = str_eq(host, BREAKER_ANY_HOST) || tenant_set_accept(hosts, tenant, host);
    return own ? host : S(TENANT_HOSTS_OTHERS);
}
