#pragma once
/* port/lease.h - elects the leader outside the store (the store's own lease is OP_LEASE): one holder of a name at a
 * time.
 *
 *  - lease_take takes or renews the lease until now + ttl_ms by the adapter's clock, if it is free, has expired, or is
 *    held by `holder`. Else *ret_held is false.
 *  - The holder can release it early. A release by another holder changes nothing.
 *
 * A handle is used by one thread at a time. */
#include "base/err.h"
#include "base/str.h"
#include "base/uuid.h"

struct lease {
    const struct lease_ops *ops;
};

struct lease_ops {
    enum err (*take)(struct lease *, struct str name, struct uuid holder, int64_t ttl_ms, bool *ret_held,
                     struct error *);
    enum err (*release)(struct lease *, struct str name, struct uuid holder, struct error *);
    void (*free)(struct lease *);
};

enum err lease_take(struct lease *l, struct str name, struct uuid holder, int64_t ttl_ms, bool *ret_held,
                    struct error *e) must_use;
enum err lease_release(struct lease *l, struct str name, struct uuid holder, struct error *e) must_use;
void lease_free(struct lease *l);
