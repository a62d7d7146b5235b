#pragma once
/* node/tenant_set.h - for each tenant a set of byte strings, of which it may have a limited number. Any thread calls
 * these functions. */
#include "base/str.h"

struct tenant_set;

struct tenant_set *tenant_set_new(size_t max); /* for each tenant */
void tenant_set_free(struct tenant_set *s);    /* NULL is fine */

void tenant_set_know(struct tenant_set *s, int32_t tenant, struct str item); /* it exists, beyond the limit too */
/* Whether it is known, or there is room for it: then it is known from now on. */
bool tenant_set_accept(struct tenant_set *s, int32_t tenant, struct str item);
/* Whether one was refused since the set was cleared. */
bool tenant_set_has_refused(struct tenant_set *s);
void tenant_set_clear(struct tenant_set *s);
