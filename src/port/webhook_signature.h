#pragma once
/* port/webhook_signature.h - signatures of webhooks as Standard Webhooks has them, over "id.timestamp.body".
 *
 * A key is one of:
 *  - a secret, "whsec_" and base64 of 24 to 64 bytes: HMAC-SHA256, "v1,…";
 *  - a private key, "whsk_" and base64 of the 32 bytes of its seed, or of the seed and the public key: Ed25519,
 *    "v1a,…";
 *  - the public key of a private one, "whpk_" and base64 of 32 bytes: it verifies only.
 *
 * Any thread. */
#include "base/buf.h"

enum {
    WEBHOOK_SECRET_BYTES = 32,
    WEBHOOK_SECRET_TEXT = 6 + 44,
    WEBHOOK_PRIVATE_TEXT = 5 + 44,
    WEBHOOK_PUBLIC_TEXT = 5 + 44,
    WEBHOOK_KEY_MAX = 6 + 88, /* letters of any key */
    WEBHOOK_SIGNATURE_MAX = 4 + 88,
};

/* base64 must be as encoders write it: '+', '/', with its padding or without. */
bool webhook_secret_is_valid(struct str secret);
bool webhook_private_key_is_valid(struct str key); /* a public key in it is that of the seed */
bool webhook_public_key_is_valid(struct str key);

bool webhook_key_signs(struct str key); /* it is a secret or a private key, perhaps in another alphabet */

void webhook_secret_make(char out[WEBHOOK_SECRET_TEXT + 1]);
void webhook_private_key_make(char out[WEBHOOK_PRIVATE_TEXT + 1]);
/* The public key of a valid private key. */
void webhook_public_key(struct str private_key, char out[WEBHOOK_PUBLIC_TEXT + 1]);

/* Appends "v1," or "v1a," and the signature. The key is a valid secret or private key. */
void webhook_sign(struct str key, struct str id, int64_t timestamp_s, struct str body, struct buf *out);

struct webhook_signed {
    struct str id, timestamp, body; /* as received */
    struct str signatures;          /* the header: separated by blanks */
};
enum webhook_verdict {
    WEBHOOK_SIGNED,      /* by this key */
    WEBHOOK_NO_SUCH,     /* it has no signature of the kind that the key makes */
    WEBHOOK_OTHER_SIGNED /* it was signed by another key, or changed */
};
/* The key is a valid secret, private key or public key. */
enum webhook_verdict webhook_verify(struct str key, const struct webhook_signed *s);
