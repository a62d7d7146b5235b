/* A message inside another one has its length before it. Lengths of small messages are inserted when they are known;
 * those of a request are computed before. */
#include "platform/otlp/otlp_encode.h"

#include <assert.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };
enum { VARINT_MAX = 10, STATUS_ERROR = 2, FLAG_SAMPLED = 1 };

/* The numbers of fields in opentelemetry/proto. */
enum {
    REQUEST_RESOURCE_SPANS = 1,
    RESOURCE_SPANS_RESOURCE = 1,
    RESOURCE_SPANS_SCOPE_SPANS = 2,
    RESOURCE_ATTRIBUTES = 1,
    SCOPE_SPANS_SCOPE = 1,
    SCOPE_SPANS_SPANS = 2,
    SCOPE_NAME = 1,
    SCOPE_VERSION = 2,
    SPAN_TRACE_ID = 1,
    SPAN_SPAN_ID = 2,
    SPAN_TRACE_STATE = 3,
    SPAN_PARENT_ID = 4,
    SPAN_NAME = 5,
    SPAN_KIND = 6,
    SPAN_START = 7,
    SPAN_END = 8,
    SPAN_ATTRIBUTES = 9,
    SPAN_LINKS = 13,
    SPAN_STATUS = 15,
    SPAN_FLAGS = 16,
    LINK_TRACE_ID = 1,
    LINK_SPAN_ID = 2,
    STATUS_MESSAGE = 2,
    STATUS_CODE = 3,
    KEY_VALUE_KEY = 1,
    KEY_VALUE_VALUE = 2,
    VALUE_STRING = 1,
    VALUE_INT = 3,
    RESPONSE_PARTIAL_SUCCESS = 1,
    PARTIAL_REJECTED = 1,
};

/* ---- protobuf ---- */

static size_t protobuf_varint(uint64_t v, char out[VARINT_MAX])
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (char)(v | 0x80);
    out[n++] = (char)v;
    return n;
}

static void protobuf_add_varint(struct buf *out, uint64_t v)
{
    char bytes[VARINT_MAX];
    buf_add(out, (struct str){ bytes, protobuf_varint(v, bytes) });
}

static void protobuf_add_tag(struct buf *out, unsigned field, enum wire_type type)
{
    protobuf_add_varint(out, field << 3 | type);
}

static void protobuf_add_bytes(struct buf *out, unsigned field, struct str s)
{
    protobuf_add_tag(out, field, WIRE_BYTES);
    protobuf_add_varint(out, s.n);
    buf_add(out, s);
}

static void protobuf_add_number(struct buf *out, unsigned field, uint64_t v)
{
    protobuf_add_tag(out, field, WIRE_VARINT);
    protobuf_add_varint(out, v);
}

static void protobuf_add_fixed(struct buf *out, unsigned field, enum wire_type type, uint64_t v)
{
    protobuf_add_tag(out, field, type);
    for (int i = 0; i < (type == WIRE_FIXED64 ? 8 : 4); i++, v >>= 8)
        buf_char(out, (char)(v & 0xff));
}

/* Begins a message in a message; returns where its length goes. */
static size_t protobuf_begin(struct buf *out, unsigned field)
{
    protobuf_add_tag(out, field, WIRE_BYTES);
    return out->n;
}

static void protobuf_end(struct buf *out, size_t begin)
{
    char bytes[VARINT_MAX];
    size_t size = out->n - begin, n = protobuf_varint(size, bytes);
    buf_add(out, (struct str){ bytes, n }); /* makes room */
    if (out->full)
        return;
    memmove(out->p + begin + n, out->p + begin, size);
    memcpy(out->p + begin, bytes, n);
}

/* ---- spans ---- */

static int otlp_digit(char c)
{
    return is_digit(c) ? c - '0' : c - 'a' + 10;
}

static void otlp_add_id(struct buf *out, unsigned field, const char *hex, size_t digits)
{
    char bytes[TRACE_ID / 2];
    assert(digits <= TRACE_ID);
    for (size_t i = 0; i < digits / 2; i++)
        bytes[i] = (char)(otlp_digit(hex[2 * i]) << 4 | otlp_digit(hex[2 * i + 1]));
    protobuf_add_bytes(out, field, (struct str){ bytes, digits / 2 });
}

static void otlp_add_span_id(struct buf *out, unsigned field, uint64_t id)
{
    char hex[TRACE_SPAN + 1];
    trace_span_text(id, hex);
    otlp_add_id(out, field, hex, TRACE_SPAN);
}

static void otlp_add_attribute(struct buf *out, unsigned field, const struct span_attribute *a)
{
    size_t pair = protobuf_begin(out, field);
    protobuf_add_bytes(out, KEY_VALUE_KEY, str_from(a->key));
    size_t value = protobuf_begin(out, KEY_VALUE_VALUE);
    if (a->text.p)
        protobuf_add_bytes(out, VALUE_STRING, str_utf8_cut(a->text, SPAN_TEXT_MAX));
    else
        protobuf_add_number(out, VALUE_INT, (uint64_t)a->number);
    protobuf_end(out, value);
    protobuf_end(out, pair);
}

static void otlp_add_link(struct buf *out, const struct trace *t)
{
    size_t link = protobuf_begin(out, SPAN_LINKS);
    otlp_add_id(out, LINK_TRACE_ID, t->linked_id, TRACE_ID);
    otlp_add_id(out, LINK_SPAN_ID, t->linked_span, TRACE_SPAN);
    protobuf_end(out, link);
}

static void otlp_add_status(struct buf *out, struct str error)
{
    size_t status = protobuf_begin(out, SPAN_STATUS);
    if (error.n)
        protobuf_add_bytes(out, STATUS_MESSAGE, str_utf8_cut(error, SPAN_TEXT_MAX));
    protobuf_add_number(out, STATUS_CODE, STATUS_ERROR);
    protobuf_end(out, status);
}

void otlp_add_span(struct buf *out, const struct span *s)
{
    assert(s->attribute_count <= OTLP_ATTRIBUTES_MAX && s->id);
    otlp_add_id(out, SPAN_TRACE_ID, s->trace.id, TRACE_ID);
    otlp_add_span_id(out, SPAN_SPAN_ID, s->id);
    if (s->trace.state.n)
        protobuf_add_bytes(out, SPAN_TRACE_STATE, s->trace.state);
    if (s->parent)
        otlp_add_span_id(out, SPAN_PARENT_ID, s->parent);
    protobuf_add_bytes(out, SPAN_NAME, str_utf8_cut(s->name, SPAN_TEXT_MAX));
    protobuf_add_number(out, SPAN_KIND, s->kind);
    protobuf_add_fixed(out, SPAN_START, WIRE_FIXED64, (uint64_t)s->start_us * 1000);
    protobuf_add_fixed(out, SPAN_END, WIRE_FIXED64, (uint64_t)max_of(s->end_us, s->start_us) * 1000);
    for (size_t i = 0; i < s->attribute_count; i++)
        otlp_add_attribute(out, SPAN_ATTRIBUTES, &s->attributes[i]);
    if (s->trace.linked_id[0])
        otlp_add_link(out, &s->trace);
    if (s->failed)
        otlp_add_status(out, s->error);
    protobuf_add_fixed(out, SPAN_FLAGS, WIRE_FIXED32, s->trace.sampled ? FLAG_SAMPLED : 0);
}

/* ---- requests ---- */

void otlp_add_resource_attribute(struct buf *out, struct str key, struct str value)
{
    size_t pair = protobuf_begin(out, RESOURCE_ATTRIBUTES);
    protobuf_add_bytes(out, KEY_VALUE_KEY, key);
    size_t inner = protobuf_begin(out, KEY_VALUE_VALUE);
    protobuf_add_bytes(out, VALUE_STRING, value);
    protobuf_end(out, inner);
    protobuf_end(out, pair);
}

static size_t otlp_size_of_bytes(size_t n) /* with a tag of one byte */
{
    char bytes[VARINT_MAX];
    return 1 + protobuf_varint(n, bytes) + n;
}

static void otlp_add_scope(struct buf *out)
{
    size_t scope = protobuf_begin(out, SCOPE_SPANS_SCOPE);
    protobuf_add_bytes(out, SCOPE_NAME, S("belfry"));
    protobuf_add_bytes(out, SCOPE_VERSION, S(BELFRY_VERSION));
    protobuf_end(out, scope);
}

void otlp_add_request(struct buf *out, struct str resource, const struct str *spans, size_t n)
{
    cleanup_with(buf_release) struct buf scope;
    buf_init(&scope, OTLP_SPAN_MAX);
    otlp_add_scope(&scope);
    size_t scope_spans = scope.n;
    for (size_t i = 0; i < n; i++)
        scope_spans += otlp_size_of_bytes(spans[i].n);
    protobuf_add_tag(out, REQUEST_RESOURCE_SPANS, WIRE_BYTES);
    protobuf_add_varint(out, otlp_size_of_bytes(resource.n) + otlp_size_of_bytes(scope_spans));
    protobuf_add_bytes(out, RESOURCE_SPANS_RESOURCE, resource);
    protobuf_add_tag(out, RESOURCE_SPANS_SCOPE_SPANS, WIRE_BYTES);
    protobuf_add_varint(out, scope_spans);
    buf_add(out, buf_str(&scope));
    for (size_t i = 0; i < n; i++)
        protobuf_add_bytes(out, SCOPE_SPANS_SPANS, spans[i]);
}

/* ---- answers ---- */

static bool protobuf_take_varint(struct str *rest, uint64_t *ret)
{
    uint64_t v = 0;
    for (size_t i = 0; i < rest->n && i < VARINT_MAX; i++) {
        v |= (uint64_t)(rest->p[i] & 0x7f) << min_of(7 * i, (size_t)63);
        if (!(rest->p[i] & 0x80)) {
            *rest = str_sub(*rest, i + 1, rest->n);
            *ret = v;
            return true;
        }
    }
    return false;
}

/* Takes the next field. Of WIRE_BYTES, *ret_bytes is its content; of others *ret_number is set, if it is a varint. */
static bool protobuf_take_field(struct str *rest, uint64_t *ret_tag, uint64_t *ret_number, struct str *ret_bytes)
{
    if (!protobuf_take_varint(rest, ret_tag))
        return false;
    size_t fixed = (*ret_tag & 7) == WIRE_FIXED64 ? 8 : (*ret_tag & 7) == WIRE_FIXED32 ? 4 : 0;
    uint64_t n = fixed;
    *ret_number = 0;
    *ret_bytes = (struct str){ NULL, 0 };
    if (!fixed && !protobuf_take_varint(rest, &n))
        return false;
    if ((*ret_tag & 7) == WIRE_VARINT) {
        *ret_number = n;
        return true;
    }
    if (n > rest->n)
        return false;
    *ret_bytes = str_sub(*rest, 0, n);
    *rest = str_sub(*rest, n, rest->n);
    return true;
}

int64_t otlp_read_rejected(struct str response)
{
    struct str rest = response, partial;
    uint64_t tag, number;
    while (protobuf_take_field(&rest, &tag, &number, &partial)) {
        if (tag != (RESPONSE_PARTIAL_SUCCESS << 3 | WIRE_BYTES))
            continue;
        struct str inner = partial, ignored;
        while (protobuf_take_field(&inner, &tag, &number, &ignored))
            if (tag == (PARTIAL_REJECTED << 3 | WIRE_VARINT))
                return number < INT32_MAX ? (int64_t)number : 0;
    }
    return 0;
}
