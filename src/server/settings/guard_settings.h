#pragma once
/* server/settings/guard_settings.h - the settings http.allow and http.allow_loopback: addresses that tasks may call
 * although they are not public. */
#include "base/option/option.h"
#include "platform/ssrf_guard.h"

enum { GUARD_ALLOWED_MAX = 64 };

struct guard_settings {
    struct address_range allowed[GUARD_ALLOWED_MAX];
    size_t count;
};

/* *ret_setup borrows from *ret. Loopback is allowed only if http.allow_loopback says so. */
enum err guard_settings_read(const struct options *o, struct guard_settings *ret, struct guard_setup *ret_setup,
                             struct error *e) must_use;
