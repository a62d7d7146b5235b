#pragma once
/* api/server/openapi.h - openapi.json, the description of the API, embedded in the binary. Any thread. */
#include "base/buf.h"

struct str openapi_json(void);

/* What its answers need, made once: anybody may ask for it. */
struct openapi {
    char etag[24];
    struct buf gzip; /* the text, compressed */
};

void openapi_init(struct openapi *o);
void openapi_release(struct openapi *o);
