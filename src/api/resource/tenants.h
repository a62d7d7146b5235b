#pragma once
/* api/resource/tenants.h - which tenant a request is about. Keys of the tenant `default` with scope admin manage the others; every other key
 * knows its own tenant alone. */
#include "api/server/request.h"
#include "core/sharing/tenant_rules.h"

bool request_is_operator(const struct request *q); /* an admin of `default` */

/* The tenant of that name; empty: the request's own. Another's name is as unknown as one that nobody has, unless an operator asks. */
enum err request_tenant(struct request *q, struct reader *r, struct str name, struct tenant_rules *ret,
                        struct error *e) must_use;
