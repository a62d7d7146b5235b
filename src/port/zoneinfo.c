#include "port/zoneinfo.h"

#include <assert.h>

enum { ZONE_NAME_MAX = 64 };

static bool name_is_sound(struct str name)
{
    if (name.n == 0 || name.n > ZONE_NAME_MAX || name.p[0] == '/' || name.p[name.n - 1] == '/')
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !is_digit(c) && c != '_' && c != '-' && c != '+' && c != '/')
            return false; /* no dot: no way out of the directory */
        if (c == '/' && name.p[i - 1] == '/')
            return false; /* one way to write a name */
    }
    return true;
}

enum err zoneinfo_get(struct zoneinfo *z, struct str name, struct tz **ret, struct error *e)
{
    if (!name_is_sound(name))
        return error_field(e, "time_zone",
                           "'" STR_FMT "' is not a time zone name; use one such as Europe/Berlin or UTC",
                           (int)min_of(name.n, (size_t)ZONE_NAME_MAX), name.p);
    enum err rc = z->ops->get(z, name, ret, e);
    assert(rc != ERR_OK || *ret);
    return rc;
}

void zoneinfo_names(struct zoneinfo *z, struct str prefix, struct buf *out)
{
    z->ops->names(z, prefix, out);
}

void zoneinfo_free(struct zoneinfo *z)
{
    if (z)
        z->ops->free(z);
}
