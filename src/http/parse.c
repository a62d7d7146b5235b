/* The head is read line by line. A line is judged when its end has come, so that it does not matter how the bytes were
 * split. The limits are judged first: a line that is too long is refused before its end has come. */
#include "http/parse.h"

#include <assert.h>

static const struct {
    int status;
    const char *text;
} http_bads[] = {
#define X(id, status, sentence) [HTTP_BAD_##id] = { status, sentence },
    HTTP_BAD_MAP(X)
#undef X
};

int http_bad_status(enum http_bad bad)
{
    assert(bad != HTTP_BAD_NONE);
    return http_bads[bad].status;
}

const char *http_bad_text(enum http_bad bad)
{
    assert(bad != HTTP_BAD_NONE);
    return http_bads[bad].text;
}

/* ---- characters ---- */

enum {
    IN_TOKEN = 1,  /* names and methods (RFC 9110, 5.6.2) */
    IN_VALUE = 2,  /* values: visible, blank, and bytes from 0x80 on (RFC 9110, 5.5) */
    IN_TARGET = 4, /* paths and queries: visible, but no '#' and no backslash, which others read as a separator */
    IN_HOST = 8,   /* names of hosts (RFC 3986, 3.2.2) */
    IN_COLON = 16, /* addresses in brackets have it, too */
};

/* clang-format off */
static const uint8_t http_classes[128] = {
     0,  0,  0,  0,  0,  0,  0,  0,  0,  2,  0,  0,  0,  0,  0,  0, /* ................ */
     0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0, /* ................ */
     2, 15,  6,  3, 15, 15, 15, 15, 14, 14, 15, 15, 14, 15, 15,  6, /*  !"#$%&'()*+,-./ */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 22, 14,  6, 14,  6,  6, /* 0123456789:;<=>? */
     6, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, /* @ABCDEFGHIJKLMNO */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,  6,  2,  6,  7, 15, /* PQRSTUVWXYZ[\]^_ */
     7, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, /* `abcdefghijklmno */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,  6,  7,  6, 15,  0, /* pqrstuvwxyz{|}~. */
};
/* clang-format on */

static unsigned http_class_of(char c)
{
    return (unsigned char)c < array_count(http_classes) ? http_classes[(unsigned char)c] : IN_VALUE;
}

static bool http_is_all(struct str s, unsigned classes)
{
    for (size_t i = 0; i < s.n; i++)
        if (!(http_class_of(s.p[i]) & classes))
            return false;
    return true;
}

/* ---- the first line ---- */

/* An escape that stands for a separator or a control character has two readings: a proxy that decodes it sees another
 * path than one that does not. */
static bool http_path_is_plain(struct str path)
{
    for (size_t i = 0; i < path.n; i++) {
        if (path.p[i] != '%')
            continue;
        int high = i + 2 < path.n ? hex_value(path.p[i + 1]) : -1, low = high >= 0 ? hex_value(path.p[i + 2]) : -1;
        int c = low >= 0 ? high * 16 + low : -1;
        if (c < ' ' || c == '/' || c == '\\' || c == 0x7f)
            return false;
        i += 2;
    }
    return true;
}

static enum http_bad http_judge_target(struct str method, struct str target)
{
    if (str_eq(target, S("*")) && str_eq(method, S("OPTIONS")))
        return HTTP_BAD_NONE;
    if (target.n == 0 || target.p[0] != '/')
        return HTTP_BAD_TARGET;
    if (!http_is_all(target, IN_TARGET))
        return HTTP_BAD_TARGET_CHAR;
    return http_path_is_plain(str_sub(target, 0, str_find(target, '?', 0))) ? HTTP_BAD_NONE : HTTP_BAD_PATH;
}

static enum http_bad http_read_version(struct http_parser *p, struct str version)
{
    p->is_old = str_eq(version, S("HTTP/1.0"));
    if (p->is_old || str_eq(version, S("HTTP/1.1")))
        return HTTP_BAD_NONE;
    bool has_form = version.n == 8 && str_starts(version, S("HTTP/")) && is_digit(version.p[5]) &&
                    version.p[6] == '.' && is_digit(version.p[7]);
    return has_form ? HTTP_BAD_VERSION : HTTP_BAD_LINE;
}

static struct http_span http_span_of(struct str text, struct str part)
{
    return (struct http_span){ (uint16_t)(part.p - text.p), (uint16_t)part.n };
}

static enum http_bad http_read_first_line(struct http_parser *p, struct str text, struct str line)
{
    size_t first = str_find(line, ' ', 0), second = first < line.n ? str_find(line, ' ', first + 1) : line.n;
    if (first == 0 || second >= line.n)
        return HTTP_BAD_LINE;
    struct str method = str_sub(line, 0, first), target = str_sub(line, first + 1, second);
    if (!http_is_all(method, IN_TOKEN))
        return HTTP_BAD_METHOD;
    enum http_bad bad = http_read_version(p, str_sub(line, second + 1, line.n));
    if (bad == HTTP_BAD_NONE)
        bad = http_judge_target(method, target);
    p->method = http_span_of(text, method);
    p->target = http_span_of(text, target);
    return bad;
}

/* ---- headers ---- */

/* A name or an address in brackets, and perhaps a port. Empty is allowed: the URI may have no host. */
static bool http_host_is_valid(struct str value)
{
    size_t bracket = value.n && value.p[0] == '[';
    size_t end = str_find(value, bracket ? ']' : ':', 0);
    if (bracket && end == value.n)
        return false;
    struct str host = str_sub(value, bracket, end), port = str_sub(value, end + bracket, value.n);
    if (!http_is_all(host, bracket ? IN_HOST | IN_COLON : IN_HOST) || (port.n && port.p[0] != ':'))
        return false;
    for (size_t i = 1; i < port.n; i++)
        if (!is_digit(port.p[i]))
            return false;
    return true;
}

static enum http_bad http_read_host(struct http_parser *p, struct str value)
{
    if (p->has_host)
        return HTTP_BAD_HOST_TWICE;
    p->has_host = true;
    return http_host_is_valid(value) ? HTTP_BAD_NONE : HTTP_BAD_HOST;
}

static enum http_bad http_read_length(struct http_parser *p, struct str value)
{
    enum { DIGITS_MAX = 18 };
    if (p->has_length)
        return HTTP_BAD_LENGTH_TWICE;
    p->has_length = true;
    for (size_t i = 0; i < value.n; i++)
        if (!is_digit(value.p[i]))
            return HTTP_BAD_LENGTH;
    if (value.n == 0)
        return HTTP_BAD_LENGTH;
    if (value.n > DIGITS_MAX)
        return HTTP_BAD_LENGTH_HUGE;
    for (size_t i = 0; i < value.n; i++)
        p->length = p->length * 10 + (uint64_t)(value.p[i] - '0');
    return HTTP_BAD_NONE;
}

/* Two of these headers have the meaning of a list, which is not supported either. */
static enum http_bad http_read_coding(struct http_parser *p, struct str value)
{
    p->is_chunked = !p->has_coding && str_eq_nocase(value, S("chunked"));
    p->has_coding = true;
    return HTTP_BAD_NONE;
}

static enum http_bad http_read_connection(struct http_parser *p, struct str value)
{
    struct str rest = value, word;
    while (str_cut(&rest, ',', &word)) {
        word = str_trim(word);
        p->says_close |= str_eq_nocase(word, S("close"));
        p->says_keep_alive |= str_eq_nocase(word, S("keep-alive"));
    }
    return HTTP_BAD_NONE;
}

static enum http_bad http_read_expect(struct http_parser *p, struct str value)
{
    if (p->is_old) /* RFC 9110, 10.1.1: ignored */
        return HTTP_BAD_NONE;
    p->expects_continue = str_eq_nocase(value, S("100-continue"));
    return p->expects_continue ? HTTP_BAD_NONE : HTTP_BAD_EXPECT;
}

static const struct {
    struct str name;
    enum http_bad (*read)(struct http_parser *p, struct str value);
} http_known_fields[] = {
    { { "host", 4 }, http_read_host },
    { { "content-length", 14 }, http_read_length },
    { { "transfer-encoding", 17 }, http_read_coding },
    { { "connection", 10 }, http_read_connection },
    { { "expect", 6 }, http_read_expect },
};

static enum http_bad http_read_field(struct http_parser *p, struct str text, struct str line)
{
    if (line.p[0] == ' ' || line.p[0] == '\t')
        return HTTP_BAD_FOLD;
    size_t colon = str_find(line, ':', 0);
    if (colon >= line.n)
        return HTTP_BAD_FIELD;
    struct str name = str_sub(line, 0, colon), value = str_trim(str_sub(line, colon + 1, line.n));
    if (name.n == 0 || !http_is_all(name, IN_TOKEN))
        return HTTP_BAD_NAME;
    if (!http_is_all(value, IN_VALUE))
        return HTTP_BAD_VALUE;
    if (p->field_count >= p->limits->field_max)
        return HTTP_BAD_HEADERS_MANY;
    p->fields[p->field_count++] = (struct http_field){ http_span_of(text, name), http_span_of(text, value) };
    for (size_t i = 0; i < array_count(http_known_fields); i++)
        if (str_eq_nocase(name, http_known_fields[i].name))
            return http_known_fields[i].read(p, value);
    return HTTP_BAD_NONE;
}

static enum http_bad http_judge_framing(const struct http_parser *p)
{
    if (p->has_length && p->has_coding)
        return HTTP_BAD_LENGTH_AND_CODING;
    if (p->has_coding && !p->is_chunked)
        return HTTP_BAD_CODING;
    if (p->has_coding && p->is_old)
        return HTTP_BAD_CODING_OLD;
    return p->has_host || p->is_old ? HTTP_BAD_NONE : HTTP_BAD_HOST_MISSING;
}

/* ---- lines ---- */

void http_parser_init(struct http_parser *p, const struct http_parse_limits *limits)
{
    assert(limits->line_max + limits->headers_max < HTTP_HEAD_MAX && limits->field_max <= HTTP_FIELDS_MAX);
    *p = (struct http_parser){ .limits = limits };
}

/* Whether the line that begins at line_at and has come up to `end` is within the limits. */
static enum http_bad http_judge_size(const struct http_parser *p, size_t end)
{
    if (p->stage == HTTP_STAGE_LINE)
        return end - p->line_at > p->limits->line_max + strlen("\r\n") ? HTTP_BAD_LINE_LONG : HTTP_BAD_NONE;
    return end - p->headers_at > p->limits->headers_max + strlen("\r\n") ? HTTP_BAD_HEADERS_LONG : HTTP_BAD_NONE;
}

static enum http_bad http_read_line(struct http_parser *p, struct str text, struct str line)
{
    if (p->stage == HTTP_STAGE_LINE && line.n == 0 && !p->has_blank) {
        p->has_blank = true;
        return HTTP_BAD_NONE;
    }
    if (p->stage == HTTP_STAGE_LINE) {
        p->stage = HTTP_STAGE_FIELDS;
        p->headers_at = p->line_at + line.n + strlen("\r\n");
        return http_read_first_line(p, text, line);
    }
    if (line.n)
        return http_read_field(p, text, line);
    p->stage = HTTP_STAGE_END;
    p->bytes = p->line_at + strlen("\r\n");
    return http_judge_framing(p);
}

enum http_parse http_parse_head(struct http_parser *p, struct str text)
{
    enum { TLS_HANDSHAKE = 22 }; /* the first byte that a client of TLS sends; it sends no line end after it */
    if (p->bad == HTTP_BAD_NONE && text.n && text.p[0] == TLS_HANDSHAKE)
        p->bad = HTTP_BAD_TLS;
    while (p->bad == HTTP_BAD_NONE && p->stage != HTTP_STAGE_END) {
        const char *end = text.n > p->scanned ? memchr(text.p + p->scanned, '\n', text.n - p->scanned) : NULL;
        size_t behind = end ? (size_t)(end - text.p) + 1 : text.n;
        p->scanned = behind;
        p->bad = http_judge_size(p, behind);
        if (p->bad == HTTP_BAD_NONE && !end)
            return HTTP_PARSE_MORE;
        if (p->bad == HTTP_BAD_NONE && (behind - p->line_at < 2 || end[-1] != '\r'))
            p->bad = HTTP_BAD_LINE_END;
        if (p->bad == HTTP_BAD_NONE)
            p->bad = http_read_line(p, text, str_sub(text, p->line_at, behind - strlen("\r\n")));
        p->line_at = behind;
    }
    return p->bad == HTTP_BAD_NONE ? HTTP_PARSE_DONE : HTTP_PARSE_BAD;
}
