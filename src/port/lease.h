#pragma once
/* port/lease.h - who leads, where that is not the store's to say (OP_LEASE): one holder of a name at a time, until its time is over.
 *
 *  - taken or renewed until now + ttl_ms by the adapter's clock if it is free, over, or held by `holder` already; else *ret_held is false;
 *  - let go early by its holder; by another it stays whose it is. */
#include "base/err.h"
#include "base/str.h"
#include "base/uuid.h"

struct lease {
    const struct lease_ops *ops;
};

struct lease_ops {
    enum err (*take)(struct lease *, struct str name, struct uuid holder, int64_t ttl_ms, bool *ret_held,
                     struct error *);
    enum err (*let_go)(struct lease *, struct str name, struct uuid holder, struct error *);
    void (*free)(struct lease *);
};

enum err lease_take(struct lease *l, struct str name, struct uuid holder, int64_t ttl_ms, bool *ret_held,
                    struct error *e) must_use;
enum err lease_let_go(struct lease *l, struct str name, struct uuid holder, struct error *e) must_use;
void lease_free(struct lease *l);
