#pragma once
/* api/auth/sender.h - the name of who sent a request, as users see it: "paused by deploy-bot". A pool thread. */
#include "api/server/request.h"

/* The name of the API key with the id `sender`; if it has no name, its id. If `sender` is no key of the tenant, the
 * text itself. *ret_key: the id of the key; empty: it is none. */
enum err sender_read(struct request *q, struct reader *r, struct str sender, struct str *ret_name, struct str *ret_key,
                     struct error *e) must_use;
enum err sender_name_read(struct request *q, struct reader *r, struct str sender, struct str *ret,
                          struct error *e) must_use;
/* That of the key that sent q. */
enum err sender_own_name(struct request *q, struct reader *r, struct str *ret, struct error *e) must_use;
