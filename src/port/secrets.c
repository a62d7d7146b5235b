#include "port/secrets.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"

enum { FIELD_MAX = 256, INFO_MAX = 4 + 16 + FIELD_MAX, KEY_TEXT = 43 };

/* ---- the key file ---- */

bool secrets_is_id(struct str id)
{
    return id.n == SECRETS_ID && str_is_plain(id, "");
}

static enum err secrets_too_many(struct error *e)
{
    return error_set(e, ERR_INVALID, "has more than %d keys", SECRETS_KEYS_MAX);
}

static enum err secrets_read_line(struct secrets *s, struct str line, size_t number, struct error *e)
{
    struct str id;
    bool good = str_cut(&line, ' ', &id) && secrets_is_id(id);
    struct str text = str_trim(line);
    if (good && str_eq(text, S("lost"))) {
        if (s->lost_count == SECRETS_KEYS_MAX)
            return secrets_too_many(e);
        memcpy(s->lost[s->lost_count++], id.p, SECRETS_ID);
        return ERR_OK;
    }
    if (s->n == SECRETS_KEYS_MAX)
        return secrets_too_many(e);
    struct secrets_key *k = &s->keys[s->n++];
    if (!good || text.n != KEY_TEXT || base64_read_exact(text, k->key) != sizeof k->key)
        return error_set(e, ERR_INVALID, "line %zu is no key: 8 letters or digits, a blank and 43 letters", number);
    memcpy(k->id, id.p, SECRETS_ID);
    return ERR_OK;
}

enum err secrets_parse(struct str text, struct secrets *ret, struct error *e)
{
    struct secrets s = { 0 };
    struct str line;
    for (size_t number = 1; str_cut(&text, '\n', &line); number++) {
        line = str_trim(line);
        if (!line.n || line.p[0] == '#')
            continue;
        if (secrets_read_line(&s, line, number, e))
            return e->code;
    }
    if (s.n == 0)
        return error_set(e, ERR_INVALID, "has no key");
    *ret = s;
    explicit_bzero(&s, sizeof s);
    return ERR_OK;
}

void secrets_new_line(char out[SECRETS_LINE + 1])
{
    uint8_t id[5], key[SEAL_KEY_SIZE];
    char id_text[SECRETS_ID + 1] = "", key_text[KEY_TEXT + 1] = "";
    crypto_random(id, sizeof id);
    crypto_random(key, sizeof key);
    static const char letters[] = "0123456789abcdefghijklmnopqrstuv";
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof id; i++)
        bits = bits << 8 | id[i];
    for (size_t i = 0; i < SECRETS_ID; i++, bits >>= 5)
        id_text[i] = letters[bits & 31];
    (void)base64_write(key, sizeof key, key_text);
    snprintf(out, SECRETS_LINE + 1, "%s %s\n", id_text, key_text);
    explicit_bzero(key, sizeof key);
    explicit_bzero(key_text, sizeof key_text);
}

/* ---- what a store knows of the keys ---- */

struct key_print secrets_print(const struct secrets *s, size_t i)
{
    struct key_print k;
    uint8_t mac[SHA256_SIZE];
    crypto_hmac_sha256((struct str){ (const char *)s->keys[i].key, SEAL_KEY_SIZE }, S("belfry key file"), mac);
    memcpy(k.id, s->keys[i].id, sizeof k.id);
    memcpy(k.print, mac, sizeof k.print);
    return k;
}

bool secrets_is_lost(const struct secrets *s, struct str id)
{
    for (size_t i = 0; s && i < s->lost_count; i++)
        if (str_eq(str_from(s->lost[i]), id))
            return true;
    return false;
}

size_t secrets_find_print(const struct secrets *s, const uint8_t print[SECRETS_PRINT])
{
    size_t i = 0;
    for (; i < s->n; i++) {
        struct key_print own = secrets_print(s, i);
        if (crypto_equal(own.print, print, SECRETS_PRINT))
            break;
    }
    return i;
}

const struct key_print *secrets_lack(const struct secrets *s, const struct key_prints *known)
{
    for (size_t k = 0; k < known->n; k++) {
        const struct key_print *p = &known->v[k];
        size_t i = secrets_find_print(s, p->print);
        bool has = i < s->n && strcmp(s->keys[i].id, p->id) == 0;
        if (!has && !secrets_is_lost(s, str_from(p->id)))
            return p;
    }
    return NULL;
}

const struct key_print *key_prints_find(const struct key_prints *known, struct str id)
{
    for (size_t i = 0; i < known->n; i++)
        if (str_eq(str_from(known->v[i].id), id))
            return &known->v[i];
    return NULL;
}

bool key_prints_add(struct key_prints *known, struct str name, struct str value)
{
    struct str id = str_sub(name, strlen("key:"), name.n);
    if (value.n != SECRETS_PRINT)
        return false;
    if (str_eq(name, S("key_print"))) {
        memcpy(known->current, value.p, SECRETS_PRINT);
        known->has_current = true;
        return true;
    }
    if (!str_starts(name, S("key:")) || !secrets_is_id(id) || known->n == KEY_PRINTS_MAX)
        return false;
    struct key_print *k = &known->v[known->n++];
    memcpy(k->id, id.p, SECRETS_ID);
    memcpy(k->print, value.p, SECRETS_PRINT);
    return true;
}

/* ---- sealing ---- */

/* Tenant, row and field as bytes. */
static struct str secret_info(const struct secret_place *at, char out[INFO_MAX])
{
    struct str field = str_sub(at->field, 0, min_of(at->field.n, (size_t)FIELD_MAX));
    for (int i = 0; i < 4; i++)
        out[i] = (char)((uint32_t)at->tenant >> (24 - 8 * i));
    memcpy(out + 4, at->row.b, sizeof at->row.b);
    for (size_t i = 0; i < field.n; i++)
        out[20 + i] = ascii_lower(field.p[i]);
    return (struct str){ out, 20 + field.n };
}

bool secret_is_sealed(struct str text)
{
    return str_starts(text, S(SECRET_PREFIX));
}

void secret_seal(const struct secrets *s, const struct secret_place *at, struct str plain, struct buf *out)
{
    const struct secrets_key *k = &s->keys[0];
    char info_text[INFO_MAX];
    uint8_t key[SEAL_KEY_SIZE];
    size_t n = plain.n + SEAL_EXTRA;
    struct str info = secret_info(at, info_text);
    char *sealed = xmalloc(n), *text = xmalloc(n * 4 / 3 + 3);
    crypto_hkdf_sha256((struct str){ (const char *)k->key, sizeof k->key }, S("belfry secrets"), info, key);
    crypto_seal(key, info, plain, sealed);
    buf_printf(out, SECRET_PREFIX "%s:", k->id);
    buf_add(out, (struct str){ text, base64_write(sealed, n, text) });
    explicit_bzero(key, sizeof key);
    free(sealed);
    free(text);
}

static const struct secrets_key *secrets_find(const struct secrets *s, struct str id)
{
    for (size_t i = 0; s && i < s->n; i++)
        if (str_eq(str_from(s->keys[i].id), id))
            return &s->keys[i];
    return NULL;
}

static enum err secret_open_with(const struct secrets_key *k, const struct secret_place *at, struct str text,
                                 struct arena *a, struct str *ret, struct error *e)
{
    char info_text[INFO_MAX];
    uint8_t key[SEAL_KEY_SIZE];
    struct str info = secret_info(at, info_text);
    char *sealed = xmalloc(text.n + 1), *plain = arena_array(a, char, text.n + 1);
    size_t n = base64_read_exact(text, sealed);
    crypto_hkdf_sha256((struct str){ (const char *)k->key, sizeof k->key }, S("belfry secrets"), info, key);
    bool good = plain && n >= SEAL_EXTRA && crypto_unseal(key, info, (struct str){ sealed, n }, plain);
    explicit_bzero(key, sizeof key);
    free(sealed);
    if (!good)
        return error_set(e, ERR_CORRUPT, "cannot be decrypted: it was changed, or copied from another place");
    plain[n - SEAL_EXTRA] = '\0';
    *ret = (struct str){ plain, n - SEAL_EXTRA };
    return ERR_OK;
}

enum err secret_open(const struct secrets *s, const struct secret_place *at, struct str sealed, struct arena *a,
                     struct str *ret, struct error *e)
{
    struct str rest = str_sub(sealed, strlen(SECRET_PREFIX), sealed.n), id;
    if (!secret_is_sealed(sealed) || !str_cut(&rest, ':', &id))
        return error_set(e, ERR_CORRUPT, "is not a ciphertext");
    const struct secrets_key *k = secrets_find(s, id);
    if (!k && secrets_is_lost(s, id))
        return error_set(e, ERR_CORRUPT, "needs key '" STR_FMT "', which is lost: give the value again", STR_ARG(id));
    if (!k)
        return error_set(e, ERR_NOT_FOUND, "needs key '%.*s', which secrets.key_file lacks here",
                         (int)min_of(id.n, (size_t)SECRETS_ID), id.p);
    return secret_open_with(k, at, rest, a, ret, e);
}

void secrets_mac(const struct secrets *s, int32_t tenant, struct str purpose, struct str text, uint8_t out[SHA256_SIZE])
{
    const struct secrets_key *k = &s->keys[0];
    struct secret_place at = { .tenant = tenant, .field = purpose };
    char info_text[INFO_MAX];
    uint8_t key[SEAL_KEY_SIZE];
    struct str info = secret_info(&at, info_text);
    crypto_hkdf_sha256((struct str){ (const char *)k->key, sizeof k->key }, S("belfry secrets"), info, key);
    crypto_hmac_sha256((struct str){ (const char *)key, sizeof key }, text, out);
    explicit_bzero(key, sizeof key);
}

/* ---- headers ---- */

bool header_is_secret(struct str name)
{
    static const char *const words[] = { "authorization", "cookie", "token", "secret", "key", "password", "\\" };
    for (size_t i = 0; i < array_count(words); i++)
        if (str_contains_nocase(name, str_from(words[i])))
            return true;
    return false;
}

struct uuid task_secrets_row(const struct task *t)
{
    return t->kind == TASK_OCCURRENCE ? t->parent : t->id;
}

enum err secret_headers_open(const struct secrets *s, const struct task *t, struct webhook *w, struct arena *a,
                             struct error *e)
{
    for (size_t i = 0; i < w->header_count; i++) {
        struct webhook_header *h = &w->headers[i];
        if (!header_is_secret(h->name) || !secret_is_sealed(h->value))
            continue;
        struct secret_place at = { t->tenant, task_secrets_row(t), h->name };
        struct error why;
        char field[sizeof why.field];
        snprintf(field, sizeof field, "headers.%.40s", h->name.p);
        enum err rc = secret_open(s, &at, h->value, a, &h->value, &why);
        if (!rc)
            continue;
        (void)error_field(e, field, "%s", why.text);
        return e->code = rc == ERR_NOT_FOUND ? ERR_UNAVAILABLE : e->code;
    }
    return ERR_OK;
}
