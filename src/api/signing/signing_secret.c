#include "api/signing/signing_secret.h"

#include "api/server/internal.h"
#include "port/signer.h"

enum { SEALED_MAX = 4096 };

static enum err signing_secret_import(const struct signing_secret_body *body, struct str *ret, int *ret_algorithm,
                                      struct error *e)
{
    bool is_secret = webhook_secret_is_valid(body->secret);
    if (!is_secret && !webhook_private_key_is_valid(body->secret))
        return error_field(e, "secret",
                           "must be whsec_ and base64 of 24 to 64 bytes, or whsk_ and base64 of an ed25519 key");
    *ret_algorithm = is_secret ? SIGNING_HMAC_SHA256 : SIGNING_ED25519;
    if (body->algorithm >= 0 && body->algorithm != *ret_algorithm)
        return error_field(e, "algorithm", "is %s, but the secret is one of %s",
                           signing_algorithm_names[body->algorithm], signing_algorithm_names[*ret_algorithm]);
    *ret = body->secret;
    return ERR_OK;
}

static enum err signing_secret_generate(struct request *q, int algorithm, struct str *ret, struct error *e)
{
    char text[WEBHOOK_KEY_MAX + 1];
    if (algorithm == SIGNING_ED25519)
        webhook_private_key_make(text);
    else
        webhook_secret_make(text);
    bool fits = arena_str(&q->arena, str_from(text), ret);
    explicit_bzero(text, sizeof text);
    return fits ? ERR_OK : error_no_room(e);
}

static enum err signing_secret_seal(struct request *q, struct uuid key, struct str plain, struct str *ret,
                                    struct error *e)
{
    cleanup_with(buf_release) struct buf out;
    const struct secrets *secrets = q->server->setup.secrets;
    buf_init(&out, SEALED_MAX);
    *ret = plain;
    if (!secrets)
        return ERR_OK;
    secret_seal(secrets, &(struct secret_place){ q->who.tenant, key, S(SIGNING_FIELD) }, plain, &out);
    return !out.full && arena_str(&q->arena, buf_str(&out), ret) ? ERR_OK : error_no_room(e);
}

enum err signing_secret_make(struct request *q, struct uuid key, const struct signing_secret_body *body, int otherwise,
                             struct signing_secret *ret, struct str *ret_shown, struct error *e)
{
    struct signing_secret made = { .algorithm = body->algorithm >= 0 ? body->algorithm : otherwise };
    struct str plain;
    char public_key[WEBHOOK_PUBLIC_TEXT + 1];
    enum err rc = body->secret.n ? signing_secret_import(body, &plain, &made.algorithm, e)
                                 : signing_secret_generate(q, made.algorithm, &plain, e);
    if (rc || signing_secret_seal(q, key, plain, &made.secret, e))
        return e->code;
    bool is_pair = made.algorithm == SIGNING_ED25519;
    if (is_pair) {
        webhook_public_key(plain, public_key);
        if (!arena_str(&q->arena, str_from(public_key), &made.public_key))
            return error_no_room(e);
    }
    *ret_shown = is_pair || body->secret.n ? (struct str){ 0 } : plain;
    *ret = made;
    return ERR_OK;
}
