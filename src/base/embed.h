#pragma once
/* base/embed.h - files that are compiled into the binary: migrations, web pages, texts. tools/embed generates the
 * tables at build time, sorted by name. Each text ends in NUL. */
#include "base/str.h"

struct embedded_file {
    const char *name; /* without the folder */
    struct str text;
};
