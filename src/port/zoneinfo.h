#pragma once
/* port/zoneinfo.h - the source of time zones. Any thread may call.
 *
 *  - A zone is read once and shared. The caller owns one reference (tz_unref).
 *  - An unknown name is ERR_INVALID. The sentence suggests the closest known name. */
#include "base/buf.h"
#include "core/time/tz.h"

struct zoneinfo {
    const struct zoneinfo_ops *ops;
};

struct zoneinfo_ops {
    enum err (*get)(struct zoneinfo *, struct str name, struct tz **ret, struct error *);
    void (*names)(struct zoneinfo *, struct str prefix, struct buf *out);
    void (*free)(struct zoneinfo *);
};

enum err zoneinfo_get(struct zoneinfo *z, struct str name, struct tz **ret, struct error *e) must_use;
void zoneinfo_names(struct zoneinfo *z, struct str prefix, struct buf *out); /* names with that prefix, one a line */
void zoneinfo_free(struct zoneinfo *z);                                      /* NULL is fine */
