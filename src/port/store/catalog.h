#pragma once
/* port/store/catalog.h - operations on the catalog (port/catalog.h) and on API keys: OP_CATALOG, OP_KEY_PUT. A part of
 * port/store.h. */
#include "port/catalog.h"
#include "port/store/operation.h"

/* An API key. It is stored hashed and looked up by its id. A session of a browser and a login code are keys with a
 * parent, the key that they act for. They always expire. */
struct api_key {
    struct str id; /* the public part */
    int32_t tenant;
    uint8_t hash[32];
    struct str name, scopes; /* scopes: words separated by blanks */
    int64_t created_ms;
    int64_t expires_ms; /* 0: never; negative: it was revoked at -expires_ms */
    struct str parent;  /* the id of the key that it acts for; empty: none */
};

enum { KEY_ENDED_KEPT_MS = 24 * 3600 * 1000, KEY_ENDED_MAX = 100 };

/* OP_KEY_PUT - stores or removes an API key.
 *
 *  1. The record of the idempotency key is checked first.
 *  2. It replaces a key of the same id.
 *  3. With `remove`, the key of that id and tenant is revoked, at now_ms: ERR_NOT_FOUND if there is none, or if it was
 *     revoked before. It stays, so that who sends it is told apart from who guesses; no list of keys has it.
 *  4. The store does not judge expiry, nor whether the parent has ended: the reader of a key does.
 *  5. No list of keys has a key with a parent. When one is put, others that expired or were revoked KEY_ENDED_KEPT_MS
 *     before its created_ms are deleted, at most KEY_ENDED_MAX. */
struct op_key_put {
    struct op op;
    const struct api_key *key;
    bool remove;
    int64_t now_ms;                        /* with `remove` */
    const struct idempotency *idempotency; /* NULL: none */
};

/* OP_CATALOG - changes entries of the catalog, all or none, in their order.
 *
 *  1. The record of the idempotency key is checked first.
 *  2. Each change names the version that it expects: 0, there must be no entry yet; -1, any. Another version:
 *     ERR_CONFLICT, field "version". An entry that is expected or to be removed and does not exist: ERR_NOT_FOUND.
 *  3. An entry that is put gets the next version, updated_ms now_ms, and created_ms now_ms if it is new. Tenant, kind,
 *     name and doc are the change's.
 *  4. A removed entry that is put again begins at version 1. ret_version of a removal is 0.
 *  5. A doc of more than CATALOG_DOC_MAX bytes: ERR_LIMIT, field "doc".
 *  6. A CALENDAR is not removed while a RECURRING task of its tenant that is neither final nor deleted names it:
 *     ERR_CONFLICT, field "calendar". */
struct catalog_change {
    struct catalog_entry entry;
    int64_t version; /* expected */
    bool remove;
    int64_t ret_version, ret_created_ms;
};

struct op_catalog {
    struct op op;
    struct catalog_change *v;
    size_t n;
    int64_t now_ms;
    const struct idempotency *idempotency; /* NULL: none */
};

enum err catalog_docs_fit(const struct op_catalog *op, struct error *e) must_use; /* rule 5, for stores */
