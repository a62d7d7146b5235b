#pragma once
/* server/reseal_catalog.h - encrypts the secrets of notification settings and signing keys with the first key
 * of the key file. The thread that owns the reader. */
#include "port/secrets.h"
#include "port/store.h"

struct reseal_setup {
    const struct secrets *secrets;
    struct reader *reader;
    void (*found)(void *context, struct str key_id);                  /* a secret needs this key */
    enum err (*apply)(void *context, struct op *op, struct error *e); /* and waits for it */
    void *context;
};

enum err reseal_catalog(const struct reseal_setup *setup, int64_t now_ms, struct error *e) must_use;
