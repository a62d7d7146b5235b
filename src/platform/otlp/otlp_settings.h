#pragma once
/* platform/otlp/otlp_settings.h - where spans go, from Belfry's settings and the variables OTEL_… that all programs
 * with OpenTelemetry know. Belfry's settings come first. */
#include "base/buf.h"

enum { OTLP_TEXT_MAX = 8192, OTLP_HEADERS_MAX = 32 };

struct otlp_settings {
    struct buf url;      /* empty: no spans are recorded */
    struct buf headers;  /* "Name: value", each with its NUL */
    struct buf resource; /* attributes, as otlp_encode.h writes them */
    double ratio;
};

/* endpoint and ratio: trace.endpoint, trace.ratio; empty: not given. instance: host and process. env: as getenv. */
enum err otlp_settings_read(struct str endpoint, struct str ratio, const char *instance,
                            const char *(*env)(const char *name), struct otlp_settings *ret, struct error *e) must_use;
void otlp_settings_release(struct otlp_settings *s); /* zeros are fine */
