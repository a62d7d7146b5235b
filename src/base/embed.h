#pragma once
/* base/embed.h - files that are compiled into the binary: migrations, web pages, texts. tools/embed generates the
 * tables at build time, sorted by name. Each text ends in NUL. */
#include "base/str.h"

struct embedded_file {
    const char *name; /* without the folder */
    struct str text;
};

/* A file that browsers load. */
struct embedded_asset {
    const char *path; /* below its folder, such as lib/api.js */
    const char *type; /* Content-Type */
    const char *etag; /* a hash of its content, in quotes */
    struct str gzip;
    size_t bytes; /* of the content that is not compressed */
};
