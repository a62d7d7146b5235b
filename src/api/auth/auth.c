/* One lock guards the cache. It is held for a lookup and a copy; the HMAC is computed outside of it. The cache holds
 * the hash from the stored row, never the text of a key. */
#include "api/auth/auth.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "api/auth/session_keys.h"
#include "base/map.h"
#include "port/crypto.h"

static const char base62[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

struct auth_cached_key {
    char id[AUTH_ID + 1];
    struct identity who;
    uint8_t hash[SHA256_SIZE];
    int64_t expires_ms; /* as in struct api_key */
    int64_t stale_ns;   /* when the cached row is read again */
};

struct auth {
    pthread_mutex_t lock;
    struct map keys; /* id → struct auth_cached_key */
    struct clock *clock;
    char *pepper;
    size_t pepper_size;
    _Atomic uint64_t changes; /* of keys and tenants; a row that was read before the last one is not cached */
};

bool identity_may(const struct identity *who, enum scope scope)
{
    assert(scope != SCOPE_NONE);
    return scope == SCOPE_PUBLIC || scope == SCOPE_ANY || (who->scopes & (1U << scope | 1U << SCOPE_ADMIN));
}

struct auth *auth_new(struct str pepper, struct clock *clock)
{
    assert(pepper.n >= 16);
    struct auth *a = xnew(*a);
    struct hash_key key;
    crypto_random(&key, sizeof key);
    map_init(&a->keys, key);
    pthread_mutex_init(&a->lock, NULL);
    a->clock = clock;
    a->pepper = memcpy(xmalloc(pepper.n), pepper.p, pepper.n);
    a->pepper_size = pepper.n;
    return a;
}

static void auth_cache_empty(struct auth *a)
{
    map_each (&a->keys, slot)
        free(slot->value);
    struct hash_key key = a->keys.key;
    map_release(&a->keys);
    map_init(&a->keys, key);
}

void auth_free(struct auth *a)
{
    if (!a)
        return;
    auth_cache_empty(a);
    map_release(&a->keys);
    pthread_mutex_destroy(&a->lock);
    explicit_bzero(a->pepper, a->pepper_size);
    free(a->pepper);
    free(a);
}

static void auth_checksum(struct str head, char out[AUTH_CHECK])
{
    uint64_t h = hash_bytes(HASH_STABLE, head);
    for (int i = 0; i < AUTH_CHECK; i++, h /= 62)
        out[i] = base62[h % 62];
}

bool auth_key_is_well_formed(struct str text)
{
    if (text.n != AUTH_KEY_TEXT || !str_starts(text, S("bf_")))
        return false;
    for (size_t i = 3; i < text.n; i++)
        if (!memchr(base62, text.p[i], sizeof base62 - 1))
            return false;
    char check[AUTH_CHECK];
    auth_checksum(str_sub(text, 0, text.n - AUTH_CHECK), check);
    return memcmp(check, text.p + text.n - AUTH_CHECK, AUTH_CHECK) == 0;
}

/* "Bearer bf_…" → the key; false: not a well-formed key. */
static bool auth_header_key(struct str header, struct str *ret)
{
    struct str scheme;
    if (!str_cut(&header, ' ', &scheme) || !str_eq_nocase(scheme, S("Bearer")))
        return false;
    *ret = str_trim(header);
    return auth_key_is_well_formed(*ret);
}

static struct str auth_key_id(struct str text)
{
    return str_sub(text, 3, 3 + AUTH_ID);
}

static enum auth_result auth_verify(const struct auth *a, struct str text, const struct auth_cached_key *c,
                                    struct identity *ret)
{
    uint8_t hash[SHA256_SIZE];
    crypto_hmac_sha256((struct str){ a->pepper, a->pepper_size }, text, hash);
    if (!crypto_equal(hash, c->hash, sizeof hash))
        return AUTH_REFUSED;
    *ret = c->who;
    if (c->expires_ms < 0)
        return AUTH_REVOKED;
    return c->expires_ms && c->expires_ms <= clock_wall_ms(a->clock) ? AUTH_EXPIRED : AUTH_OK;
}

static bool auth_cache_get(struct auth *a, struct str text, struct auth_cached_key *ret)
{
    pthread_mutex_lock(&a->lock);
    const struct auth_cached_key *c = map_get(&a->keys, auth_key_id(text));
    if (c) {
        *ret = *c;
        ret->who.check.changes = a->changes; /* the row is still right */
    }
    pthread_mutex_unlock(&a->lock);
    return c;
}

static enum auth_result auth_check_cached(struct auth *a, struct str text, enum auth_kind kind, struct identity *ret)
{
    struct auth_cached_key copy;
    if (!auth_cache_get(a, text, &copy))
        return AUTH_NOT_CACHED;
    bool fresh = copy.stale_ns > clock_steady_ns(a->clock);
    if ((copy.who.session[0] != '\0') != (kind == AUTH_SESSION))
        return AUTH_REFUSED;
    struct identity who;
    enum auth_result result = auth_verify(a, text, &copy, &who);
    if (!fresh)
        return result == AUTH_OK ? AUTH_STALE : AUTH_NOT_CACHED;
    if (result != AUTH_REFUSED)
        *ret = who;
    return result;
}

bool auth_was_valid(struct auth *a, struct str header, struct identity *ret)
{
    struct auth_cached_key copy;
    struct str text;
    return auth_header_key(header, &text) && auth_cache_get(a, text, &copy) && !copy.who.session[0] &&
           auth_verify(a, text, &copy, ret) == AUTH_OK;
}

enum auth_result auth_check(struct auth *a, struct str header, struct identity *ret)
{
    struct str text;
    if (header.n == 0)
        return AUTH_MISSING;
    return auth_header_key(header, &text) ? auth_check_cached(a, text, AUTH_KEY, ret) : AUTH_MALFORMED;
}

enum auth_result auth_check_session(struct auth *a, struct str text, struct identity *ret)
{
    return auth_key_is_well_formed(text) ? auth_check_cached(a, text, AUTH_SESSION, ret) : AUTH_MALFORMED;
}

void auth_check_again(struct auth *a)
{
    atomic_fetch_add(&a->changes, 1);
}

bool auth_still_holds(const struct auth *a, const struct identity *who)
{
    const struct identity_check *c = &who->check;
    return c->changes == atomic_load(&a->changes) && c->until_ns > clock_steady_ns(a->clock) &&
           (!c->expires_ms || c->expires_ms > clock_wall_ms(a->clock));
}

struct identity_check auth_check_of_certificate(const struct auth *a, int64_t expires_ms)
{
    return (struct identity_check){ atomic_load(&a->changes), INT64_MAX, expires_ms };
}

static void auth_cache_add(struct auth *a, const struct auth_cached_key *c)
{
    pthread_mutex_lock(&a->lock);
    if (a->changes == c->who.check.changes) {
        if (a->keys.n >= AUTH_CACHE_MAX)
            auth_cache_empty(a); /* the keys in use are cached again by their next request */
        struct auth_cached_key *mine = memcpy(xmalloc(sizeof *c), c, sizeof *c);
        free(map_put(&a->keys, str_from(mine->id), mine));
    }
    pthread_mutex_unlock(&a->lock);
}

void auth_cache_set_stale(struct auth *a)
{
    pthread_mutex_lock(&a->lock);
    a->changes++;
    map_each (&a->keys, slot)
        ((struct auth_cached_key *)slot->value)->stale_ns = 0;
    pthread_mutex_unlock(&a->lock);
}

void auth_cache_remove(struct auth *a, struct str id)
{
    pthread_mutex_lock(&a->lock);
    a->changes++;
    free(map_remove(&a->keys, id));
    map_each (&a->keys, slot) { /* its sessions are read again */
        struct auth_cached_key *c = slot->value;
        if (str_eq(str_from(c->who.key_id), id))
            c->stale_ns = 0;
    }
    pthread_mutex_unlock(&a->lock);
}

/* A parent that is younger than the session is another key with the same id. */
static void auth_end_with_parent(struct api_key *key, const struct api_key *parent)
{
    if (key->expires_ms < 0)
        return;
    if (!parent || parent->created_ms > key->created_ms || parent->tenant != key->tenant)
        key->expires_ms = -1;
    else if (parent->expires_ms && (parent->expires_ms < 0 || parent->expires_ms < key->expires_ms))
        key->expires_ms = parent->expires_ms;
}

enum err auth_read_key(struct reader *r, struct str id, struct arena *a, struct api_key *ret, struct error *e)
{
    struct api_key key, parent;
    enum err rc = reader_key(r, id, a, &key, e);
    if (rc)
        return rc;
    if (key.parent.n) {
        rc = reader_key(r, key.parent, a, &parent, e);
        if (rc && rc != ERR_NOT_FOUND)
            return rc;
        auth_end_with_parent(&key, rc ? NULL : &parent);
    }
    *ret = key;
    return ERR_OK;
}

static enum auth_kind auth_kind_of(const struct api_key *key)
{
    bool is_code = str_eq(key->scopes, S(LOGIN_CODE_SCOPES));
    return key->parent.n == 0 ? AUTH_KEY : is_code ? AUTH_CODE : AUTH_SESSION;
}
static void auth_fill_identity(struct auth_cached_key *c, const struct api_key *key)
{
    struct str owner = key->parent.n ? key->parent : key->id;
    c->who = (struct identity){ .tenant = key->tenant, .scopes = scopes_parse(key->scopes) };
    c->expires_ms = key->expires_ms;
    memcpy(c->id, key->id.p, AUTH_ID);
    memcpy(c->who.key_id, owner.p, min_of(owner.n, (size_t)AUTH_ID));
    if (key->parent.n)
        memcpy(c->who.session, key->id.p, AUTH_ID);
    if (key->name.n) {
        struct str name = str_utf8_cut(key->name, AUTH_NAME_BYTES);
        memcpy(c->who.key_name, name.p, name.n);
    }
    memcpy(c->hash, key->hash, sizeof c->hash);
}

enum err auth_check_text(struct auth *a, struct str text, enum auth_kind kind, struct reader *r,
                         enum auth_result *ret_result, struct identity *ret, struct error *e)
{
    assert(auth_key_is_well_formed(text));
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, 64 * 1024);
    struct api_key key;
    uint64_t changes_before = atomic_load(&a->changes);
    enum err rc = auth_read_key(r, auth_key_id(text), &arena, &key, e);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == ERR_NOT_FOUND || auth_kind_of(&key) != kind) {
        *ret_result = AUTH_REFUSED;
        return ERR_OK;
    }
    struct auth_cached_key c = { 0 };
    auth_fill_identity(&c, &key);
    c.stale_ns = clock_steady_ns(a->clock) + (int64_t)AUTH_CACHE_MS * 1000000;
    c.who.check = (struct identity_check){ changes_before, c.stale_ns, c.expires_ms };
    *ret_result = auth_verify(a, text, &c, ret);
    if (*ret_result == AUTH_OK && kind != AUTH_CODE) /* guessed ids must not fill the cache */
        auth_cache_add(a, &c);
    return ERR_OK;
}

enum err auth_check_store(struct auth *a, struct str header, struct reader *r, enum auth_result *ret_result,
                          struct identity *ret, struct error *e)
{
    struct str text;
    bool found = auth_header_key(header, &text);
    assert(found);
    return auth_check_text(a, text, AUTH_KEY, r, ret_result, ret, e);
}

/* Base62 without bias: bytes from 248 on are discarded. */
static void auth_random_text(char *out, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint8_t bytes[64];
        crypto_random(bytes, sizeof bytes);
        for (size_t k = 0; k < sizeof bytes && i < n; k++)
            if (bytes[k] < 248)
                out[i++] = base62[bytes[k] % 62];
        explicit_bzero(bytes, sizeof bytes);
    }
}

void auth_id_make(char out[AUTH_ID + 1])
{
    auth_random_text(out, AUTH_ID);
    out[AUTH_ID] = '\0';
}

void auth_key_make(struct str pepper, struct str id, int32_t tenant, struct str name, struct str scopes, int64_t now_ms,
                   char ret_text[AUTH_KEY_TEXT + 1], struct api_key *ret)
{
    assert(id.n == AUTH_ID);
    memcpy(ret_text, "bf_", 3);
    memcpy(ret_text + 3, id.p, AUTH_ID);
    auth_random_text(ret_text + 3 + AUTH_ID, AUTH_SECRET);
    auth_checksum((struct str){ ret_text, AUTH_KEY_TEXT - AUTH_CHECK }, ret_text + AUTH_KEY_TEXT - AUTH_CHECK);
    ret_text[AUTH_KEY_TEXT] = '\0';
    *ret = (struct api_key){ .id = id, .tenant = tenant, .name = name, .scopes = scopes, .created_ms = now_ms };
    crypto_hmac_sha256(pepper, str_from(ret_text), ret->hash);
}

bool api_key_is_admin(const struct api_key *k, int64_t now_ms)
{
    return (scopes_parse(k->scopes) & 1U << SCOPE_ADMIN) && (!k->expires_ms || k->expires_ms > now_ms);
}
