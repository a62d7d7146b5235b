#include "api/server/seal.h"

#include <assert.h>

#include "api/server/internal.h"
#include "base/base64.h"

enum { BOUND_MAX = 512, SEALED_MAX = SEAL_PLAIN_MAX + SEAL_EXTRA };

static struct str seal_bound(const struct request *q, enum seal_kind kind, char out[BOUND_MAX])
{
    struct str whom = kind == SEAL_LEASE ? str_from(q->who.key_id) : q->path;
    size_t n = 0;
    out[n++] = (char)kind;
    memcpy(out + n, &q->who.tenant, sizeof q->who.tenant);
    n += sizeof q->who.tenant;
    whom.n = min_of(whom.n, BOUND_MAX - n);
    memcpy(out + n, whom.p, whom.n);
    return (struct str){ out, n + whom.n };
}

struct str seal_text(const struct request *q, enum seal_kind kind, struct str plain, char out[SEAL_TEXT_MAX + 1])
{
    char bound[BOUND_MAX], sealed[SEALED_MAX];
    assert(plain.n <= SEAL_PLAIN_MAX);
    crypto_seal(q->server->seal_key, seal_bound(q, kind, bound), plain, sealed);
    size_t n = base64_write(sealed, plain.n + SEAL_EXTRA, out);
    out[n] = '\0';
    return (struct str){ out, n };
}

int seal_open(const struct request *q, enum seal_kind kind, struct str text, char out[SEAL_PLAIN_MAX + 1])
{
    char bound[BOUND_MAX], sealed[SEALED_MAX];
    if (text.n > SEAL_TEXT_MAX)
        return -1;
    size_t n = base64_read_exact(text, sealed);
    if (n < SEAL_EXTRA ||
        !crypto_unseal(q->server->seal_key, seal_bound(q, kind, bound), (struct str){ sealed, n }, out))
        return -1;
    out[n - SEAL_EXTRA] = '\0';
    return (int)(n - SEAL_EXTRA);
}

/* ---- cursors ---- */

static enum err seal_refuse_cursor(struct error *e)
{
    return error_field(e, "cursor", "is none that this list returned to you; begin without one");
}

enum err seal_open_id(const struct request *q, struct str cursor, struct uuid *ret, struct error *e)
{
    char plain[SEAL_PLAIN_MAX + 1];
    *ret = (struct uuid){ 0 };
    if (!cursor.n)
        return ERR_OK;
    if (seal_open(q, SEAL_CURSOR, cursor, plain) != sizeof ret->b)
        return seal_refuse_cursor(e);
    memcpy(ret->b, plain, sizeof ret->b);
    return ERR_OK;
}

enum err seal_open_name(struct request *q, struct str cursor, struct str *ret, struct error *e)
{
    char plain[SEAL_PLAIN_MAX + 1];
    *ret = S("");
    if (!cursor.n)
        return ERR_OK;
    int n = seal_open(q, SEAL_CURSOR, cursor, plain);
    if (n < 0)
        return seal_refuse_cursor(e);
    return arena_str(&q->arena, (struct str){ plain, (size_t)n }, ret)
               ? ERR_OK
               : error_set(e, ERR_LIMIT, "the request needs too much memory");
}
