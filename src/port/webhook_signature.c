#include "port/webhook_signature.h"

#include "base/base64.h"
#include "port/crypto.h"

enum { KEY_MIN = 24, KEY_MAX = 64, LETTERS_MAX = (KEY_MAX + 2) / 3 * 4, SIGNED_MAX = 32 << 20 };

#define SECRET_START "whsec_"

/* The bytes of a secret; 0: it is none. base64 with '+', '/' and padding. */
static size_t webhook_secret_read(struct str secret, uint8_t out[LETTERS_MAX])
{
    char letters[LETTERS_MAX];
    size_t n = 0;
    if (!str_starts(secret, S(SECRET_START)) || secret.n - strlen(SECRET_START) > LETTERS_MAX)
        return 0;
    for (size_t i = strlen(SECRET_START); i < secret.n && secret.p[i] != '='; i++)
        letters[n++] = secret.p[i] == '+' ? '-' : secret.p[i] == '/' ? '_' : secret.p[i];
    size_t bytes = base64_read_exact((struct str){ letters, n }, out);
    return bytes >= KEY_MIN && bytes <= KEY_MAX ? bytes : 0;
}

bool webhook_secret_is_valid(struct str secret)
{
    uint8_t key[LETTERS_MAX];
    return webhook_secret_read(secret, key) > 0;
}

/* base64url without padding to base64 with padding. */
static size_t webhook_base64(const uint8_t *bytes, size_t n, char *out)
{
    size_t letters = base64_write(bytes, n, out);
    for (size_t i = 0; i < letters; i++)
        out[i] = out[i] == '-' ? '+' : out[i] == '_' ? '/' : out[i];
    while (letters % 4)
        out[letters++] = '=';
    return letters;
}

void webhook_secret_make(char out[WEBHOOK_SECRET_TEXT + 1])
{
    uint8_t key[WEBHOOK_SECRET_BYTES];
    crypto_random(key, sizeof key);
    memcpy(out, SECRET_START, strlen(SECRET_START));
    size_t n = webhook_base64(key, sizeof key, out + strlen(SECRET_START));
    out[strlen(SECRET_START) + n] = '\0';
}

void webhook_sign(struct str secret, struct str id, int64_t timestamp_s, struct str body, struct buf *out)
{
    cleanup_with(buf_release) struct buf text;
    uint8_t key[LETTERS_MAX], mac[SHA256_SIZE];
    char letters[48];
    size_t n = webhook_secret_read(secret, key);
    buf_init(&text, SIGNED_MAX);
    buf_printf(&text, STR_FMT ".%lld.", STR_ARG(id), (long long)timestamp_s);
    buf_add(&text, body);
    crypto_hmac_sha256((struct str){ (const char *)key, n }, buf_str(&text), mac);
    buf_text(out, "v1,");
    buf_add(out, (struct str){ letters, webhook_base64(mac, sizeof mac, letters) });
}
