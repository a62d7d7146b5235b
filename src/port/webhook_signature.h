#pragma once
/* port/webhook_signature.h - signatures of webhooks as Standard Webhooks has them: HMAC-SHA256 over id, timestamp and
 * body. A secret is "whsec_" and base64 of 24 to 64 bytes. */
#include "base/buf.h"

enum { WEBHOOK_SECRET_BYTES = 32, WEBHOOK_SECRET_TEXT = 6 + 44 };

bool webhook_secret_is_valid(struct str secret);
void webhook_secret_make(char out[WEBHOOK_SECRET_TEXT + 1]);
/* Appends "v1," and the signature. The secret is valid. */
void webhook_sign(struct str secret, struct str id, int64_t timestamp_s, struct str body, struct buf *out);
