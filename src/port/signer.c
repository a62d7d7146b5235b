#include "port/signer.h"

enum { OPEN_ARENA = 16 << 10 };

static enum err signer_open_one(const struct secrets *s, const struct secret_place *at,
                                const struct signing_secret *from, struct signer_secret *ret, struct error *e)
{
    cleanup_with(arena_release) struct arena scratch;
    struct str plain = from->secret;
    struct error why = { 0 };
    arena_init(&scratch, OPEN_ARENA);
    bool is_sealed = secret_is_sealed(plain);
    enum err rc = is_sealed ? secret_open(s, at, from->secret, &scratch, &plain, &why) : ERR_OK;
    if (rc == ERR_OK && (plain.n > WEBHOOK_KEY_MAX || !webhook_key_signs(plain)))
        rc = error_set(&why, ERR_CORRUPT, "is not readable");
    if (rc) {
        (void)error_field(e, "signing_key", "%s", why.text);
        return e->code = rc == ERR_NOT_FOUND ? ERR_UNAVAILABLE : e->code;
    }
    memcpy(ret->text, plain.p, plain.n);
    ret->text[plain.n] = '\0';
    ret->until_ms = from->until_ms;
    if (is_sealed) { /* the arena is ours */
        union {
            const char *in;
            char *out;
        } wiped = { plain.p };
        explicit_bzero(wiped.out, plain.n);
    }
    return ERR_OK;
}

enum err signer_open(const struct secrets *s, int32_t tenant, const struct signing_key *k, struct signer *ret,
                     struct error *e)
{
    struct secret_place at = { tenant, k->id, S(SIGNING_FIELD) };
    ret->n = 0;
    for (size_t i = 0; i < k->count; i++) {
        if (signer_open_one(s, &at, &k->secrets[i], &ret->v[i], e)) {
            signer_wipe(ret);
            return e->code;
        }
        ret->n = i + 1;
    }
    return ERR_OK;
}

void signer_write(const struct signer *s, struct str id, int64_t now_ms, struct str body, struct buf *out)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].until_ms && now_ms >= s->v[i].until_ms)
            continue;
        if (out->n)
            buf_char(out, ' ');
        webhook_sign(str_from(s->v[i].text), id, now_ms / 1000, body, out);
    }
}

void signer_wipe(struct signer *s)
{
    explicit_bzero(s, sizeof *s);
}

enum err signer_of_task(const struct signing_source *from, const struct secrets *s, const struct task *t,
                        struct signer *ret, struct error *e)
{
    cleanup_with(arena_release) struct arena scratch;
    struct signing_key key;
    enum err rc = ERR_NOT_FOUND;
    ret->n = 0;
    arena_init(&scratch, OPEN_ARENA);
    if (from->find)
        rc = from->find(from->context, t, &scratch, &key, e);
    else if (t->signing.n)
        rc = signing_key_read(t->signing, &scratch, &key, e);
    if (rc)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    return signer_open(s, t->tenant, &key, ret, e);
}
