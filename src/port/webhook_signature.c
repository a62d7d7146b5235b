#include "port/webhook_signature.h"

#include "base/base64.h"
#include "port/crypto.h"

enum { KEY_MIN = 24, KEY_MAX = 64, LETTERS_MAX = (KEY_MAX + 2) / 3 * 4, SIGNED_MAX = 32 << 20 };

#define SECRET_START  "whsec_"
#define PRIVATE_START "whsk_"
#define PUBLIC_START  "whpk_"

/* ---- base64 with '+', '/' and padding ---- */

static size_t webhook_base64_write(const uint8_t *bytes, size_t n, char *out)
{
    size_t letters = base64_write(bytes, n, out);
    for (size_t i = 0; i < letters; i++)
        out[i] = out[i] == '-' ? '+' : out[i] == '_' ? '/' : out[i];
    while (letters % 4)
        out[letters++] = '=';
    return letters;
}

/* 0: it is not base64, or too long. The padding may be missing. */
static size_t webhook_base64_read(struct str text, uint8_t out[LETTERS_MAX])
{
    char letters[LETTERS_MAX];
    size_t n = str_find(text, '=', 0);
    if (text.n > LETTERS_MAX || (n < text.n && text.n % 4))
        return 0;
    for (size_t i = n; i < text.n; i++)
        if (text.p[i] != '=')
            return 0;
    for (size_t i = 0; i < n; i++)
        letters[i] = text.p[i] == '+' ? '-' : text.p[i] == '/' ? '_' : text.p[i];
    size_t bytes = base64_read_exact((struct str){ letters, n }, out);
    explicit_bzero(letters, sizeof letters);
    return bytes;
}

static bool webhook_is_base64url(struct str key)
{
    size_t from = str_find(key, '_', 0) + 1;
    return from > key.n || str_find(key, '-', from) < key.n || str_find(key, '_', from) < key.n;
}

/* ---- keys ---- */

enum webhook_kind { WEBHOOK_NO_KEY, WEBHOOK_SECRET, WEBHOOK_PRIVATE, WEBHOOK_PUBLIC };

struct webhook_key {
    enum webhook_kind kind;
    uint8_t bytes[LETTERS_MAX];
    size_t n;
};

static struct webhook_key webhook_key_read(struct str text)
{
    static const struct {
        const char *start;
        enum webhook_kind kind;
        size_t min, max;
    } rows[] = {
        { SECRET_START, WEBHOOK_SECRET, KEY_MIN, KEY_MAX },
        { PRIVATE_START, WEBHOOK_PRIVATE, ED25519_KEY, 2 * ED25519_KEY },
        { PUBLIC_START, WEBHOOK_PUBLIC, ED25519_KEY, ED25519_KEY },
    };
    struct webhook_key k = { 0 };
    for (size_t i = 0; i < array_count(rows); i++) {
        if (!str_starts(text, str_from(rows[i].start)))
            continue;
        k.n = webhook_base64_read(str_sub(text, strlen(rows[i].start), text.n), k.bytes);
        k.kind = k.n >= rows[i].min && k.n <= rows[i].max ? rows[i].kind : WEBHOOK_NO_KEY;
    }
    return k;
}

static bool webhook_key_is(struct str text, enum webhook_kind kind)
{
    uint8_t own[ED25519_KEY];
    struct webhook_key k = webhook_key_read(text);
    bool good = k.kind == kind && !webhook_is_base64url(text);
    if (good && kind == WEBHOOK_PRIVATE) {
        crypto_ed25519_public(k.bytes, own);
        good = k.n == ED25519_KEY || (k.n == 2 * ED25519_KEY && memcmp(own, k.bytes + ED25519_KEY, sizeof own) == 0);
    }
    explicit_bzero(&k, sizeof k);
    return good;
}

bool webhook_secret_is_valid(struct str secret)
{
    return webhook_key_is(secret, WEBHOOK_SECRET);
}

bool webhook_private_key_is_valid(struct str key)
{
    return webhook_key_is(key, WEBHOOK_PRIVATE);
}

bool webhook_public_key_is_valid(struct str key)
{
    return webhook_key_is(key, WEBHOOK_PUBLIC);
}

bool webhook_key_signs(struct str key)
{
    struct webhook_key k = webhook_key_read(key);
    bool signs = k.kind == WEBHOOK_SECRET || k.kind == WEBHOOK_PRIVATE;
    explicit_bzero(&k, sizeof k);
    return signs;
}

static void webhook_key_write(const char *start, const uint8_t bytes[32], char *out)
{
    size_t n = strlen(start);
    memcpy(out, start, n);
    n += webhook_base64_write(bytes, 32, out + n);
    out[n] = '\0';
}

void webhook_secret_make(char out[WEBHOOK_SECRET_TEXT + 1])
{
    uint8_t key[WEBHOOK_SECRET_BYTES];
    crypto_random(key, sizeof key);
    webhook_key_write(SECRET_START, key, out);
    explicit_bzero(key, sizeof key);
}

void webhook_private_key_make(char out[WEBHOOK_PRIVATE_TEXT + 1])
{
    uint8_t key[ED25519_KEY];
    crypto_random(key, sizeof key);
    webhook_key_write(PRIVATE_START, key, out);
    explicit_bzero(key, sizeof key);
}

void webhook_public_key(struct str private_key, char out[WEBHOOK_PUBLIC_TEXT + 1])
{
    uint8_t public_key[ED25519_KEY];
    struct webhook_key k = webhook_key_read(private_key);
    crypto_ed25519_public(k.bytes, public_key);
    webhook_key_write(PUBLIC_START, public_key, out);
    explicit_bzero(&k, sizeof k);
}

/* ---- signing ---- */

void webhook_sign(struct str key, struct str id, int64_t timestamp_s, struct str body, struct buf *out)
{
    cleanup_with(buf_release) struct buf text;
    uint8_t signature[ED25519_SIGNATURE];
    char letters[WEBHOOK_SIGNATURE_MAX];
    struct webhook_key k = webhook_key_read(key);
    bool is_private = k.kind == WEBHOOK_PRIVATE;
    buf_init(&text, SIGNED_MAX);
    buf_printf(&text, STR_FMT ".%lld.", STR_ARG(id), (long long)timestamp_s);
    buf_add(&text, body);
    if (is_private)
        crypto_ed25519_sign(k.bytes, buf_str(&text), signature);
    else
        crypto_hmac_sha256((struct str){ (const char *)k.bytes, k.n }, buf_str(&text), signature);
    explicit_bzero(&k, sizeof k);
    buf_text(out, is_private ? "v1a," : "v1,");
    size_t n = webhook_base64_write(signature, is_private ? ED25519_SIGNATURE : SHA256_SIZE, letters);
    buf_add(out, (struct str){ letters, n });
}

/* ---- verifying ---- */

static bool webhook_verify_one(const struct webhook_key *k, const uint8_t public_key[ED25519_KEY], struct str text,
                               struct str letters)
{
    uint8_t given[LETTERS_MAX], mac[SHA256_SIZE];
    size_t n = webhook_base64_read(letters, given);
    if (k->kind != WEBHOOK_SECRET)
        return n == ED25519_SIGNATURE && crypto_ed25519_verify(public_key, text, given);
    crypto_hmac_sha256((struct str){ (const char *)k->bytes, k->n }, text, mac);
    return n == sizeof mac && crypto_equal(mac, given, sizeof mac);
}

enum webhook_verdict webhook_verify(struct str key, const struct webhook_signed *s)
{
    cleanup_with(buf_release) struct buf text;
    uint8_t public_key[ED25519_KEY] = { 0 };
    struct webhook_key k = webhook_key_read(key);
    struct str start = k.kind == WEBHOOK_SECRET ? S("v1,") : S("v1a,"), rest = s->signatures, word;
    enum webhook_verdict verdict = WEBHOOK_NO_SUCH;
    if (k.kind == WEBHOOK_PRIVATE)
        crypto_ed25519_public(k.bytes, public_key);
    else if (k.kind == WEBHOOK_PUBLIC)
        memcpy(public_key, k.bytes, sizeof public_key);
    buf_init(&text, SIGNED_MAX);
    buf_printf(&text, STR_FMT "." STR_FMT ".", STR_ARG(s->id), STR_ARG(s->timestamp));
    buf_add(&text, s->body);
    while (verdict != WEBHOOK_SIGNED && str_cut(&rest, ' ', &word)) {
        if (!str_starts(word, start))
            continue;
        bool good = webhook_verify_one(&k, public_key, buf_str(&text), str_sub(word, start.n, word.n));
        verdict = good ? WEBHOOK_SIGNED : WEBHOOK_OTHER_SIGNED;
    }
    explicit_bzero(&k, sizeof k);
    return verdict;
}
