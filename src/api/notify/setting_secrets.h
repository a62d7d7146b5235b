#pragma once
/* api/notify/setting_secrets.h - the secrets of a notification setting are write-only: *** stands for the value that it
 * has. With a key file they are encrypted before they are stored. A pool thread that owns the request. */
#include "api/server/request.h"
#include "core/notify/setting.h"

/* Puts the values that the setting has where the new one has ***. was NULL: it is new. */
enum err setting_secrets_keep(const struct setting *was, struct setting *next, struct error *e) must_use;
/* Checks new secrets, and encrypts them. A signing secret that is replaced goes on to sign for a day. */
enum err setting_secrets_seal(struct request *q, struct uuid id, const struct setting *was, struct setting *next,
                              struct error *e) must_use;
