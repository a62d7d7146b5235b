#pragma once
/* platform/otlp/otlp_encode.h - messages of the OpenTelemetry protocol as protobuf: ExportTraceServiceRequest of
 * opentelemetry/proto/collector/trace/v1, with what Belfry fills in. Pure. */
#include "base/buf.h"
#include "port/tracer.h"

/* The largest span: name, state, error, a link and 16 attributes of SPAN_TEXT_MAX bytes. */
enum { OTLP_SPAN_MAX = 8192, OTLP_ATTRIBUTES_MAX = 16 };

/* Appends a Span. */
void otlp_add_span(struct buf *out, const struct span *s);

/* Appends the attribute of a Resource. */
void otlp_add_resource_attribute(struct buf *out, struct str key, struct str value);

/* Appends an ExportTraceServiceRequest with spans as otlp_add_span writes them. resource: attributes as the function
 * above writes them. */
void otlp_add_request(struct buf *out, struct str resource, const struct str *spans, size_t n);

/* How many spans the collector refused although it answered with success (ExportTraceServiceResponse). */
int64_t otlp_read_rejected(struct str response);
