#pragma once
/* api/server/gzip.h - gzip (RFC 1952) of answers. Level 1: less time than the default, and JSON shrinks nearly as
 * much. */
#include "base/buf.h"

enum {
    GZIP_MIN = 1024,           /* shorter answers are sent as they are */
    GZIP_INLINE_MAX = 64 << 10 /* longer answers are compressed by pool threads only: an HTTP thread must not stall */
};

bool gzip_buf(struct buf *body); /* replaces the content; false: it would be too large and stays. Any thread */

/* Appends what was compressed, of so many bytes, when Belfry was built. Any thread. */
void gunzip(struct str gzip, size_t bytes, struct buf *out);
