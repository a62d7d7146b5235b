#include "api/server/openapi.h"

#include <assert.h>
#include <stdio.h>

#include "api/server/gzip.h"
#include "base/embed.h"
#include "base/hash.h"

extern const struct embedded_file openapi_files[]; /* generated from openapi.json by tools/embed */

struct str openapi_json(void)
{
    return openapi_files[0].text;
}

void openapi_init(struct openapi *o)
{
    struct str text = openapi_json();
    buf_init(&o->gzip, text.n + 1024);
    buf_add(&o->gzip, text);
    bool done = gzip_buf(&o->gzip);
    assert(done);
    snprintf(o->etag, sizeof o->etag, "\"%016llx\"", (unsigned long long)hash_bytes(HASH_STABLE, text));
}

void openapi_release(struct openapi *o)
{
    buf_release(&o->gzip);
}
