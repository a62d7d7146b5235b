#pragma once
/* tests/conformance/needs.h - a test that needs more than the adapter under test has. */
#include <stdio.h>

/* Not by skip(): as cmocka writes that down, those who read it take it for a failure. */
#define needs(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            printf("# skipped, for want of %s\n", #what);                                                              \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)
