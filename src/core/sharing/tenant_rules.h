#pragma once
/* core/sharing/tenant_rules.h - a tenant and its limits, as read from its catalog entry. The tenant `default` (number
 * 1) always exists and needs no entry. */
#include "base/arena.h"
#include "base/json/jsonw.h"

struct tenant_rules {
    int32_t number;             /* stored in rows; never reused */
    struct str name;            /* letters, digits and . _ - */
    int64_t max_running;        /* tasks claimed and not settled; 0: limited only by its share of the node */
    int64_t max_pending;        /* tasks that are not final; further creates are refused (429); 0: no limit */
    int64_t max_recurring;      /* 0: no limit */
    int64_t creates_per_second; /* 0: no limit */
    int64_t payload_bytes;      /* of one task; 0: limited only by the server's setting */
    bool disabled;              /* its API keys are refused; its scheduled tasks wait */
};

enum err tenant_rules_read(struct str doc, struct arena *a, struct tenant_rules *ret, struct error *e) must_use;
void tenant_rules_write(struct jw *w, const struct tenant_rules *r);
