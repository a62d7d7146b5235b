#pragma once
/* api/server/seal.h - texts that a client gets and gives back unchanged: cursors of lists, ids of leases. They are
 * encrypted, because a page may end at another tenant's task, and bound to whom they were given for what. Every node of
 * a cluster reads them: the key comes from the pepper. Any thread. */
#include "base/err.h"
#include "base/uuid.h"

struct request;

enum seal_kind {
    SEAL_CURSOR, /* for the tenant, and this path */
    SEAL_LEASE,  /* for the tenant, and this API key */
};

enum { SEAL_PLAIN_MAX = 255, SEAL_TEXT_MAX = 380 };

struct str seal_text(const struct request *q, enum seal_kind kind, struct str plain, char out[SEAL_TEXT_MAX + 1]);
/* Returns the size of the text; -1: it was not given to this client for this. */
int seal_open(const struct request *q, enum seal_kind kind, struct str text, char out[SEAL_PLAIN_MAX + 1]);

/* The cursor of a page, as the query has it; empty: the first page. */
enum err seal_open_id(const struct request *q, struct str cursor, struct uuid *ret, struct error *e) must_use;
enum err seal_open_name(struct request *q, struct str cursor, struct str *ret, struct error *e) must_use;
