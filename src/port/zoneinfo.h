#pragma once
/* port/zoneinfo.h - where time zones come from.
 *
 *  - a zone is read once and shared; the caller owns one reference (tz_unref);
 *  - an unknown name is ERR_INVALID and its sentence suggests the closest known one;
 *  - when the data behind it change (a new tzdata), zones given out stay as they are and later calls give new ones;
 *    `generation` then differs, so that who holds zones can notice and ask again;
 *  - any thread may call. */
#include "base/buf.h"
#include "core/time/tz.h"

struct zoneinfo {
    const struct zoneinfo_ops *ops;
};

struct zoneinfo_ops {
    enum err (*get)(struct zoneinfo *, struct str name, struct tz **ret, struct error *);
    uint64_t (*generation)(struct zoneinfo *);
    void (*names)(struct zoneinfo *, struct str prefix, struct buf *out);
    void (*free)(struct zoneinfo *);
};

enum err zoneinfo_get(struct zoneinfo *z, struct str name, struct tz **ret, struct error *e) must_use;
uint64_t zoneinfo_generation(struct zoneinfo *z);
void zoneinfo_names(struct zoneinfo *z, struct str prefix, struct buf *out); /* those that begin so, a line each */
void zoneinfo_free(struct zoneinfo *z);                                      /* NULL is fine */
