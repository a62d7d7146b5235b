#pragma once
/* tests/support/check.h - cmocka with the headers that it needs, and a few checks for our types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* a separate block: cmocka.h needs the four headers above */

#include <string.h>

#include "base/err.h"
#include "base/str.h"

#define assert_ok(rc, e)                                                                                               \
    do {                                                                                                               \
        if ((rc) != ERR_OK)                                                                                            \
            fail_msg("%s: %s %s", #rc, (e)->field, (e)->text);                                                         \
    } while (0)

#define assert_str(s, expected)                                                                                        \
    do {                                                                                                               \
        struct str s_ = (s);                                                                                           \
        const char *x_ = (expected);                                                                                   \
        if (s_.n != strlen(x_) || (s_.n && memcmp(s_.p, x_, s_.n) != 0))                                               \
            fail_msg("%s is '" STR_FMT "', not '%s'", #s, STR_ARG(s_), x_);                                            \
    } while (0)

/* The error's sentence contains this text. */
#define assert_says(e, part)                                                                                           \
    do {                                                                                                               \
        if (!strstr((e)->text, (part)))                                                                                \
            fail_msg("'%s' does not say '%s'", (e)->text, (part));                                                     \
    } while (0)
