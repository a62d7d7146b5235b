#include "port/store/audit.h"

#include <string.h>

struct audit_range audit_range_of(const struct audit_filter *f)
{
    struct audit_range r = { .lowest = uuid_floor(f->from_ms), .below = f->before, .action = f->action };
    struct uuid end = uuid_floor(f->to_ms);
    if (uuid_is_nil(r.lowest)) /* stores write nil as NULL */
        r.lowest.b[sizeof r.lowest.b - 1] = 1;
    if (uuid_is_nil(r.below))
        memset(r.below.b, 0xff, sizeof r.below.b);
    if (f->to_ms && uuid_cmp(end, r.below) < 0)
        r.below = end;
    r.is_prefix = r.action.n && r.action.p[r.action.n - 1] == '*';
    r.action.n -= r.is_prefix;
    return r;
}
