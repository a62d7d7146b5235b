#include "server/settings/store_url.h"

#include <stdio.h>

#include "server/settings/secret_url.h"
#include "store/postgres/store_postgres.h"

enum err store_url_read(const struct options *o, const char *name, struct buf *ret, struct error *e)
{
    char field[32];
    if (!option_given(o, name))
        return ERR_OK;
    if (secret_url_read(o, name, ret, e))
        return e->code;
    snprintf(field, sizeof field, "--%s", name);
    if (!is_postgres_url(buf_str(ret)))
        return error_field(e, field, "must be a URL that begins with postgres://, or file:/path with one");
    return ERR_OK;
}
