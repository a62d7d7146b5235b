#include "port/lease.h"

#include <assert.h>

enum err lease_take(struct lease *l, struct str name, struct uuid holder, int64_t ttl_ms, bool *ret_held,
                    struct error *e)
{
    assert(ttl_ms > 0 && name.n > 0);
    return (l->ops->take)(l, name, holder, ttl_ms, ret_held, e) /* in brackets: take is a macro too */;
}

enum err lease_release(struct lease *l, struct str name, struct uuid holder, struct error *e)
{
    return l->ops->release(l, name, holder, e);
}

void lease_free(struct lease *l)
{
    if (l)
        l->ops->free(l);
}
