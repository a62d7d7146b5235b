#include "api/server/gzip.h"

#include <assert.h>
#include <stdlib.h>
#define ZLIB_CONST /* zlib does not write to what it reads */
#include <zlib.h>

enum { WINDOW_BITS_GZIP = 15 + 16, MEMORY_LEVEL = 8 };

bool gzip_buf(struct buf *body)
{
    unsigned char piece[16 * 1024];
    struct buf out;
    z_stream z = { 0 };
    assert(body->n <= UINT32_MAX);
    buf_init(&out, body->max);
    if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        abort(); /* out of memory */
    z.next_in = (unsigned char *)body->p;
    z.avail_in = (uInt)body->n;
    int rc;
    do {
        z.next_out = piece;
        z.avail_out = sizeof piece;
        rc = deflate(&z, Z_FINISH);
        buf_add(&out, (struct str){ (const char *)piece, sizeof piece - z.avail_out });
    } while (rc == Z_OK);
    assert(rc == Z_STREAM_END);
    deflateEnd(&z);
    if (out.full) { /* larger than before, and at the limit */
        buf_release(&out);
        return false;
    }
    buf_release(body);
    *body = out;
    return true;
}

void gunzip(struct str gzip, size_t bytes, struct buf *out)
{
    char *text = xmalloc(bytes + 1);
    z_stream z = { 0 };
    if (inflateInit2(&z, WINDOW_BITS_GZIP) != Z_OK)
        abort(); /* out of memory */
    z.next_in = (const unsigned char *)gzip.p;
    z.avail_in = (uInt)gzip.n;
    z.next_out = (unsigned char *)text;
    z.avail_out = (uInt)bytes + 1;
    int rc = inflate(&z, Z_FINISH);
    assert(rc == Z_STREAM_END && z.total_out == bytes);
    inflateEnd(&z);
    buf_add(out, (struct str){ text, bytes });
    free(text);
}
