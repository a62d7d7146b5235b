#pragma once
/* core/sharing/tenant_rules.h - a tenant and its limits, as its catalog entry says. The tenant `default` (number 1) is there from the start
 * and needs no entry. */
#include "base/arena.h"
#include "base/json/jsonw.h"

struct tenant_rules {
    int32_t number;             /* what rows carry; never given twice */
    struct str name;            /* letters, digits and . _ - */
    int64_t max_running;        /* claimed and not settled; 0: no limit but its share of the node */
    int64_t max_pending;        /* tasks that are not final; creates beyond are refused (429); 0: no limit */
    int64_t max_recurring;      /* 0: no limit */
    int64_t creates_per_second; /* 0: no limit */
    int64_t payload_bytes;      /* of one task; 0: no limit but the server's */
    bool disabled;              /* its keys open nothing; what it has scheduled waits */
};

enum err tenant_rules_read(struct str doc, struct arena *a, struct tenant_rules *ret, struct error *e) must_use;
void tenant_rules_write(struct jw *w, const struct tenant_rules *r);
