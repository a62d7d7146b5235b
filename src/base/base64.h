#pragma once
/* base/base64.h - bytes as text that is safe in a URL: base64url (RFC 4648) without padding. */
#include "base/str.h"

/* `out` has room for (n * 4 + 2) / 3 letters; returns how many there are. */
size_t base64_write(const void *bytes, size_t n, char *out);
/* Stops at the first byte that is not a base64url letter. `ret` has room for text.n * 3 / 4 bytes; returns how many
 * there are. */
size_t base64_read(struct str text, void *ret);
/* As base64_read, but only the text that base64_write makes of these bytes is taken. Any other text, also one that
 * differs only in the unused bits of its last letter, gives 0. */
size_t base64_read_exact(struct str text, void *ret);
