#pragma once
/* workflow/definition_reseal.h - encrypts the secrets of stored definitions with the first key of the key file: those
 * of other keys, and those that an earlier version has stored as they are. The thread that owns the reader. */
#include "port/secrets.h"
#include "port/store.h"

struct definition_reseal {
    const struct secrets *secrets;
    struct reader *reader;
    void (*found)(void *context, struct str key_id);                  /* a secret needs this key */
    enum err (*apply)(void *context, struct op *op, struct error *e); /* and waits for it */
    enum err (*pause)(void *context, struct error *e);                /* between two pages; an error ends the walk */
    void *context;
    int64_t ret_changed, ret_left; /* left: changed by another, or cannot be decrypted */
};

/* One walk through all definitions. */
enum err definition_reseal(struct definition_reseal *r, struct error *e) must_use;
