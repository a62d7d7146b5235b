/* The parser of requests. Read in one piece and in two, a request is the same. The parts of an accepted head are within
 * it, and its framing is certain. The body behind it is read in chunks. */
#include <stdlib.h>

#include "http/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_parse_limits limits = { .line_max = 512, .headers_max = 2048, .field_max = 16 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void require_sound(const struct http_parser *p, struct str text)
{
    require(p->bytes <= text.n && p->bytes <= limits.line_max + limits.headers_max + 8);
    require(text.p[p->bytes - 1] == '\n' && p->field_count <= limits.field_max);
    require(!(p->is_chunked && (p->has_length || p->is_old)) && (p->is_old || p->has_host));
    struct str target = http_span_str(p->target, text), method = http_span_str(p->method, text);
    require(method.n > 0 && target.n > 0 && (target.p[0] == '/' || target.p[0] == '*'));
    for (size_t i = 0; i < p->field_count; i++) {
        struct str name = http_span_str(p->fields[i].name, text), value = http_span_str(p->fields[i].value, text);
        require(name.n > 0 && name.p >= target.p && value.p + value.n <= text.p + p->bytes);
        for (size_t k = 0; k < value.n; k++)
            require((unsigned char)value.p[k] >= ' ' || value.p[k] == '\t');
    }
}

static enum http_chunk read_all(struct http_chunks *c, struct str piece, size_t *ret_body)
{
    struct str data;
    enum http_chunk got;
    while ((got = http_chunks_read(c, &piece, &data)) == HTTP_CHUNK_DATA) {
        require(data.n > 0);
        *ret_body += data.n;
    }
    require(got == HTTP_CHUNK_END || got == HTTP_CHUNK_BAD || piece.n == 0);
    return got;
}

static void read_body(struct str text, size_t split)
{
    struct http_chunks whole = { 0 }, parts = { 0 };
    size_t whole_bytes = 0, part_bytes = 0;
    enum http_chunk a = read_all(&whole, text, &whole_bytes);
    enum http_chunk b = read_all(&parts, str_sub(text, 0, split), &part_bytes);
    if (b == HTTP_CHUNK_MORE)
        b = read_all(&parts, str_sub(text, split, text.n), &part_bytes);
    require(a == b && whole_bytes == part_bytes && whole.bad == parts.bad);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str text = { (const char *)data + 1, size - 1 };
    size_t split = min_of((size_t)data[0] * 8, text.n);
    struct http_parser whole, parts;
    http_parser_init(&whole, &limits);
    http_parser_init(&parts, &limits);
    enum http_parse a = http_parse_head(&whole, text), b = http_parse_head(&parts, str_sub(text, 0, split));
    if (b == HTTP_PARSE_MORE)
        b = http_parse_head(&parts, text);
    require(a == b && whole.bad == parts.bad);
    if (a == HTTP_PARSE_DONE) {
        require(whole.bytes == parts.bytes && whole.length == parts.length);
        require_sound(&whole, text);
        struct str rest = str_sub(text, whole.bytes, text.n);
        read_body(rest, min_of(split, rest.n));
    }
    return 0;
}
