#pragma once
/* api/resource/tenants.h - finds the tenant that a request is about. Admin keys of the tenant `default` manage all
 * tenants; every other key sees its own tenant only. A pool thread that owns the request. */
#include "api/server/request.h"
#include "core/sharing/tenant_rules.h"

/* The tenant of this name; an empty name: the request's own tenant. For a key that may not see the tenant it does not
 * exist. */
enum err request_tenant(struct request *q, struct reader *r, struct str name, struct tenant_rules *ret,
                        struct error *e) must_use;
