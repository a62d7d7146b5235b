#pragma once
/* base/embed.h - files that travel inside the binary: migrations, pages, texts. tools/embed makes the tables at build time,
 * sorted by name; a NUL stands behind each text. */
#include "base/str.h"

struct embedded_file {
    const char *name; /* without its folder */
    struct str text;
};
