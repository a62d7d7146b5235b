#pragma once
/* http/parse.h - reads the head of a request and chunked bodies, strictly: a subset of RFC 9112.
 *
 * The end of a request must be certain. If this server and a proxy in front of it disagree about it, the proxy may send
 * a request that nobody checked. So everything that others read in two ways is refused, and after a refusal the
 * connection closes:
 * - lines end in CR LF; bare CR, bare LF, NUL and folded lines are refused;
 * - names are tokens, with no blank before the colon;
 * - one Content-Length, digits only; never together with Transfer-Encoding;
 * - "chunked" is the only transfer coding, and only in HTTP/1.1; no chunk extensions, no trailers;
 * - the target is a path (or "*" for OPTIONS), and no escape in the path stands for a separator or a control character;
 * - HTTP/1.0 and 1.1; in 1.1 exactly one Host.
 *
 * Pure and incremental: the caller owns the text. The same bytes give the same result, however they are split. */
#include "base/str.h"

/* id, status, sentence for the client */
#define HTTP_BAD_MAP(X)                                                                                                \
    X(TLS, 400, "the client speaks TLS, but this address speaks plain HTTP: use http://")                              \
    X(LINE_END, 400, "a line of the head does not end in CR LF")                                                       \
    X(LINE, 400, "the first line must be a method, a path and a version, with one space between them")                 \
    X(METHOD, 400, "the method holds a character that is not allowed there")                                           \
    X(TARGET, 400, "the URI must be a path that begins with '/'")                                                      \
    X(TARGET_CHAR, 400, "the URI holds a character that must be percent-encoded")                                      \
    X(PATH, 400, "the path holds a broken escape, or an escaped '/', '\\' or control character")                       \
    X(VERSION, 505, "the server speaks HTTP/1.1 and HTTP/1.0")                                                         \
    X(FOLD, 400, "a header line begins with a blank; send each header on one line")                                    \
    X(FIELD, 400, "a header has no colon")                                                                             \
    X(NAME, 400, "a header name holds a space or another character that is not allowed there")                         \
    X(VALUE, 400, "a header value holds a control character")                                                          \
    X(HOST_MISSING, 400, "the header Host is missing")                                                                 \
    X(HOST_TWICE, 400, "the header Host is given twice; send it once")                                                 \
    X(HOST, 400, "the header Host is not a host name or an address, with or without a port")                           \
    X(LENGTH, 400, "the header Content-Length must be a number")                                                       \
    X(LENGTH_TWICE, 400, "the header Content-Length is given twice; send it once")                                     \
    X(LENGTH_HUGE, 413, "the header Content-Length is too large")                                                      \
    X(LENGTH_AND_CODING, 400, "send Content-Length or Transfer-Encoding, not both")                                    \
    X(CODING, 501, "Transfer-Encoding must be chunked; other values are not supported")                                \
    X(CODING_OLD, 400, "HTTP/1.0 has no Transfer-Encoding; send Content-Length")                                       \
    X(EXPECT, 417, "the header Expect must be 100-continue")                                                           \
    X(LINE_LONG, 414, "the URI is too long")                                                                           \
    X(HEADERS_LONG, 431, "the headers are too large")                                                                  \
    X(HEADERS_MANY, 431, "there are too many headers")                                                                 \
    X(CHUNK, 400, "a chunk of the body does not begin with its size in hexadecimal digits")                            \
    X(CHUNK_EXTENSION, 400, "chunk extensions are not supported")                                                      \
    X(CHUNK_END, 400, "a chunk of the body does not end in CR LF")                                                     \
    X(TRAILER, 400, "trailers are not supported")

enum http_bad {
    HTTP_BAD_NONE,
#define X(id, status, sentence) HTTP_BAD_##id,
    HTTP_BAD_MAP(X)
#undef X
};

int http_bad_status(enum http_bad bad);
const char *http_bad_text(enum http_bad bad);

enum { HTTP_FIELDS_MAX = 100, HTTP_HEAD_MAX = 60000 };

struct http_parse_limits {
    size_t line_max;    /* bytes of the first line, without its end */
    size_t headers_max; /* bytes of all header lines, with their ends; both together are below HTTP_HEAD_MAX */
    size_t field_max;   /* number of headers; at most HTTP_FIELDS_MAX */
};

/* A part of the head. */
struct http_span {
    uint16_t at, n;
};

struct http_field {
    struct http_span name, value; /* the value without blanks around it */
};

enum http_parse { HTTP_PARSE_MORE, HTTP_PARSE_DONE, HTTP_PARSE_BAD };

enum http_stage { HTTP_STAGE_LINE, HTTP_STAGE_FIELDS, HTTP_STAGE_END };

struct http_parser {
    const struct http_parse_limits *limits;
    enum http_bad bad;
    enum http_stage stage;
    size_t line_at, scanned; /* where the current line begins; up to where it was searched for its end */
    size_t headers_at;
    bool has_blank; /* an empty line came before the first line: one is ignored */

    /* The result, complete after HTTP_PARSE_DONE. */
    struct http_span method, target;
    struct http_field fields[HTTP_FIELDS_MAX];
    size_t field_count;
    size_t bytes;    /* of the head */
    uint64_t length; /* Content-Length; 0 without one */
    bool is_old;     /* HTTP/1.0 */
    bool has_host, has_length, has_coding, is_chunked;
    bool says_close, says_keep_alive;
    bool expects_continue; /* the client waits for 100 before it sends the body */
};

void http_parser_init(struct http_parser *p, const struct http_parse_limits *limits);

/* text is all that came since the request began; it may be at another address in each call. HTTP_PARSE_BAD: p->bad
 * says why, and every later call says so again. */
enum http_parse http_parse_head(struct http_parser *p, struct str text);

static inline struct str http_span_str(struct http_span s, struct str text)
{
    return str_sub(text, s.at, (size_t)s.at + s.n);
}

static inline bool http_has_body(const struct http_parser *p)
{
    return p->is_chunked || p->length > 0;
}

static inline bool http_keeps_alive(const struct http_parser *p)
{
    return p->is_old ? p->says_keep_alive && !p->says_close : !p->says_close;
}

/* ---- chunked bodies ---- */

enum http_chunk { HTTP_CHUNK_MORE, HTTP_CHUNK_DATA, HTTP_CHUNK_END, HTTP_CHUNK_BAD };

struct http_chunks {
    uint8_t state, digits;
    uint64_t left; /* of the current chunk */
    enum http_bad bad;
};

/* Reads on in *text and moves it past the bytes that were read. HTTP_CHUNK_DATA: *ret_data is the next piece of the
 * body, within the text; call again. HTTP_CHUNK_END: *text begins behind the body. A zeroed struct is the start. */
enum http_chunk http_chunks_read(struct http_chunks *c, struct str *text, struct str *ret_data);
