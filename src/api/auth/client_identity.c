#include "api/auth/client_identity.h"

const struct client_identity *client_identity_find(const struct client_identities *all, const struct tls_client *c)
{
    for (size_t i = 0; i < c->name_count; i++)
        for (size_t k = 0; k < all->n; k++)
            if (tls_name_equal(&c->names[i], &all->v[k].alternate))
                return &all->v[k];
    return NULL;
}

void client_names_write(const struct tls_client *c, struct buf *out)
{
    if (c->name_count == 0)
        buf_text(out, "it has no alternative name");
    for (size_t i = 0; i < c->name_count; i++)
        buf_printf(out, "%s%s:" STR_FMT, i ? ", " : "", tls_name_kind_text(c->names[i].kind),
                   STR_ARG(c->names[i].text));
}
