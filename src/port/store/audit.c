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

bool audit_matches(const struct audit_filter *f, const struct audit *row)
{
    struct audit_range r = audit_range_of(f);
    return uuid_cmp(row->id, r.lowest) >= 0 && uuid_cmp(row->id, r.below) < 0 &&
           (!f->tenant || row->tenant == f->tenant) && (!f->actor.n || str_eq(row->actor, f->actor)) &&
           (!f->object.n || str_eq(row->object, f->object)) &&
           (r.is_prefix ? str_starts(row->action, r.action) : !r.action.n || str_eq(row->action, r.action));
}
