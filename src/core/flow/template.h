#pragma once
/* core/flow/template.h - JSON values with references in them, as a workflow's definition has in bodies, payloads,
 * headers, URLs, inputs, `over` and `result`.
 *
 *   {"$ref": "/steps/a/output/id", "default": 0}   the value that the reference names; if there is none, the default
 *   {"$join": ["order-", {"$ref": "/input/id"}]}    a text, joined from texts, numbers and booleans
 *   {"$literal": …}                                 the value as it stands, also if it holds "$ref"
 *
 * A value that a reference yields is not scanned for further references. Other names that begin with '$' are
 * refused. */
#include "base/json/jsonw.h"
#include "core/flow/reference.h"

enum template_kind {
    TEMPLATE_VALUE, /* any JSON value with references at any depth */
    TEMPLATE_TEXT,  /* the value of a header: a text, $ref or $join, without control characters */
    /* a text, or a $join that begins with a text which reaches beyond the host: no data can choose the host. What
     * references yield is percent-encoded and cannot add a segment "." or ".." to the path. */
    TEMPLATE_URL,
};

/* Checks the template and visits its references, in order. Errors have their path within the template as field. */
enum err template_check(json_t *v, enum template_kind kind, const struct reference_visitor *visitor,
                        struct error *e) must_use;

/* Writes the template with its references resolved. ERR_INVALID: a reference without a value, or whose value does not
 * fit its place; the field is the path within the template. ERR_LIMIT: the buffer is full, or the result is nested more
 * than JSON_DEPTH_MAX deep. The template must have been checked. */
enum err template_resolve(struct jw *w, json_t *v, enum template_kind kind, const struct reference_data *d,
                          struct error *e) must_use;

/* The part of a checked URL template before its first reference. It has the scheme and the host. */
struct str template_url_start(json_t *v);
