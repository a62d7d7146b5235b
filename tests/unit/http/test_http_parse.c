/* Each row is a rule of RFC 9112 (or of RFC 9110, then it says so), with its section. Every row is read in one piece,
 * byte by byte and split at every place, with the same result. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "check.h"
#include "http/parse.h"

static const struct http_parse_limits limits = { .line_max = 200, .headers_max = 1000, .field_max = 20 };

#define REST "Host: x\r\n\r\n"

struct row {
    const char *section, *rule, *text;
    size_t n;          /* 0: up to NUL */
    enum http_bad bad; /* NONE: accepted */
};

#define ROW(section, rule, text, bad)                                                                                  \
    {                                                                                                                  \
        section, rule, text, sizeof(text) - 1, HTTP_BAD_##bad                                                          \
    }

static const struct row rows[] = {
    ROW("2.1", "a request line, headers, an empty line", "GET /a?b=c HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n", NONE),
    ROW("2.2", "a server should ignore one empty line before the request line", "\r\nGET / HTTP/1.1\r\n" REST, NONE),
    ROW("2.2", "but not several", "\r\n\r\nGET / HTTP/1.1\r\n" REST, LINE),
    ROW("2.2", "a bare LF does not end the request line", "GET / HTTP/1.1\n" REST, LINE_END),
    ROW("2.2", "nor a header", "GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", LINE_END),
    ROW("2.2", "nor the head", "GET / HTTP/1.1\r\nHost: x\r\n\n", LINE_END),
    ROW("2.2", "a bare CR is invalid in the request line", "GET /\r HTTP/1.1\r\n" REST, TARGET_CHAR),
    ROW("2.2", "and in a value", "GET / HTTP/1.1\r\nHost: x\r\nX: a\rContent-Length: 5\r\n\r\n", VALUE),
    ROW("2.2", "and in a name", "GET / HTTP/1.1\r\nHost: x\r\nX\rY: a\r\n\r\n", NAME),
    ROW("2.2", "CR CR LF ends no line", "GET / HTTP/1.1\r\nHost: x\r\r\n\r\n", VALUE),
    ROW("2.2", "no blank between the request line and the first header", "GET / HTTP/1.1\r\n Host: x\r\n\r\n", FOLD),
    ROW("2.3", "HTTP/1.0 is read", "GET / HTTP/1.0\r\n\r\n", NONE),
    ROW("2.3", "other versions are not", "GET / HTTP/1.2\r\n" REST, VERSION),
    ROW("2.3", "nor HTTP/2", "PRI * HTTP/2.0\r\n\r\n", VERSION),
    ROW("2.3", "the name is case-sensitive", "GET / http/1.1\r\n" REST, LINE),
    ROW("2.3", "a version has one digit on both sides", "GET / HTTP/1.10\r\n" REST, LINE),
    ROW("2.3", "and a point between them", "GET / HTTP/1,1\r\n" REST, LINE),
    ROW("2.3", "it must be there", "GET /\r\n" REST, LINE),
    ROW("3", "one space after the method", "GET  / HTTP/1.1\r\n" REST, LINE),
    ROW("3", "one space after the target", "GET /  HTTP/1.1\r\n" REST, LINE),
    ROW("3", "no space at the end", "GET / HTTP/1.1 \r\n" REST, LINE),
    ROW("3", "no space at the begin", " GET / HTTP/1.1\r\n" REST, LINE),
    ROW("3", "a tab is no space", "GET\t/\tHTTP/1.1\r\n" REST, LINE),
    ROW("3", "no space in the target", "GET /a b HTTP/1.1\r\n" REST, LINE),
    ROW("3", "one word is no request", "HELLO\r\n\r\n", LINE),
    ROW("3.1", "the method is a token", "G@T / HTTP/1.1\r\n" REST, METHOD),
    ROW("3.1", "any token", "M-SEARCH / HTTP/1.1\r\n" REST, NONE),
    ROW("3.1", "no NUL in it", "GE\0T / HTTP/1.1\r\n" REST, METHOD),
    ROW("3.1", "no byte above 0x7f", "G\xc3\x84T / HTTP/1.1\r\n" REST, METHOD),
    ROW("3.2", "no fragment in the target", "GET /a#b HTTP/1.1\r\n" REST, TARGET_CHAR),
    ROW("3.2", "no control character", "GET /a\x01 HTTP/1.1\r\n" REST, TARGET_CHAR),
    ROW("3.2", "no NUL", "GET /a\0b HTTP/1.1\r\n" REST, TARGET_CHAR),
    ROW("3.2", "no DEL", "GET /a\x7f HTTP/1.1\r\n" REST, TARGET_CHAR),
    ROW("3.2", "no byte above 0x7f", "GET /\xff HTTP/1.1\r\n" REST, TARGET_CHAR),
    ROW("3.2", "no backslash", "GET /a\\b HTTP/1.1\r\n" REST, TARGET_CHAR),
    ROW("3.2", "other visible characters are the handler's", "GET /{a}|\"b\"<c>^`[d] HTTP/1.1\r\n" REST, NONE),
    ROW("3.2", "Host must be there", "GET / HTTP/1.1\r\nAccept: */*\r\n\r\n", HOST_MISSING),
    ROW("3.2", "once", "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", HOST_TWICE),
    ROW("3.2", "in 1.0 it may be missing", "GET / HTTP/1.0\r\nAccept: */*\r\n\r\n", NONE),
    ROW("3.2", "but not twice", "GET / HTTP/1.0\r\nHost: x\r\nhost: x\r\n\r\n", HOST_TWICE),
    ROW("3.2", "an invalid value is refused", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", HOST),
    ROW("3.2", "a path is no host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", HOST),
    ROW("3.2", "nor user information", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", HOST),
    ROW("3.2", "a list is no host", "GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n", HOST),
    ROW("3.2", "a port has digits", "GET / HTTP/1.1\r\nHost: a:8o\r\n\r\n", HOST),
    ROW("3.2", "a name and a port", "GET / HTTP/1.1\r\nHost: a.example:8080\r\n\r\n", NONE),
    ROW("3.2", "an IPv6 address and a port", "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", NONE),
    ROW("3.2", "an IPv6 address", "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n", NONE),
    ROW("3.2", "an open bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", HOST),
    ROW("3.2", "text behind a bracket", "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n", HOST),
    ROW("3.2", "an address without brackets", "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", HOST),
    ROW("3.2", "empty is allowed", "GET / HTTP/1.1\r\nHost:\r\n\r\n", NONE),
    ROW("3.2.1", "the path begins with a slash", "GET a HTTP/1.1\r\n" REST, TARGET),
    ROW("3.2.2", "absolute-form is not supported", "GET http://x/ HTTP/1.1\r\n" REST, TARGET),
    ROW("3.2.3", "authority-form is not supported", "CONNECT x:80 HTTP/1.1\r\n" REST, TARGET),
    ROW("3.2.4", "asterisk-form is for OPTIONS", "OPTIONS * HTTP/1.1\r\n" REST, NONE),
    ROW("3.2.4", "and for nothing else", "GET * HTTP/1.1\r\n" REST, TARGET),
    ROW("3.3", "an escape has two digits", "GET /a%4 HTTP/1.1\r\n" REST, PATH),
    ROW("3.3", "hexadecimal ones", "GET /a%zz HTTP/1.1\r\n" REST, PATH),
    ROW("3.3", "no escaped slash", "GET /v1%2ftasks HTTP/1.1\r\n" REST, PATH),
    ROW("3.3", "in either case", "GET /v1%2Ftasks HTTP/1.1\r\n" REST, PATH),
    ROW("3.3", "no escaped backslash", "GET /a%5c HTTP/1.1\r\n" REST, PATH),
    ROW("3.3", "no escaped NUL", "GET /a%00 HTTP/1.1\r\n" REST, PATH),
    ROW("3.3", "no escaped control character", "GET /a%1f HTTP/1.1\r\n" REST, PATH),
    ROW("3.3", "no escaped DEL", "GET /a%7F HTTP/1.1\r\n" REST, PATH),
    ROW("3.3", "other escapes are the handler's", "GET /%61%20%c3%a4 HTTP/1.1\r\n" REST, NONE),
    ROW("3.3", "and so is the query", "GET /a?b=%2f%00 HTTP/1.1\r\n" REST, NONE),
    ROW("5", "a header has a colon", "GET / HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n", FIELD),
    ROW("5", "and a name", "GET / HTTP/1.1\r\nHost: x\r\n: a\r\n\r\n", NAME),
    ROW("5", "a value may be empty", "GET / HTTP/1.1\r\nHost: x\r\nA:\r\n\r\n", NONE),
    ROW("5", "and have tabs and bytes above 0x7f", "GET / HTTP/1.1\r\nHost: x\r\nA: \t b\tc\xff \r\n\r\n", NONE),
    ROW("5.1", "no blank before the colon", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\n", NAME),
    ROW("5.1", "no tab either", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length\t: 5\r\n\r\n", NAME),
    ROW("5.1", "a name is a token", "GET / HTTP/1.1\r\nHost: x\r\nA(b): c\r\n\r\n", NAME),
    ROW("5.2", "folded lines are refused", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", FOLD),
    ROW("5.2", "with a tab, too", "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n", FOLD),
    ROW("9110 5.5", "no NUL in a value", "GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", VALUE),
    ROW("9110 5.5", "no DEL", "GET / HTTP/1.1\r\nHost: x\r\nA: b\x7f\r\n\r\n", VALUE),
    ROW("6.1", "chunked", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n", NONE),
    ROW("6.1", "an unknown coding: 501", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", CODING),
    ROW("6.1", "in a list, too", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", CODING),
    ROW("6.1", "chunked twice", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", CODING),
    ROW("6.1", "chunked on two lines",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", CODING),
    ROW("6.1", "an empty coding", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\r\n", CODING),
    ROW("6.1", "a parameter", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked;a=b\r\n\r\n", CODING),
    ROW("6.1", "identity is gone", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n", CODING),
    ROW("6.1", "in HTTP/1.0 it is faulty", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", CODING_OLD),
    ROW("6.1", "with a length it is an attack",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", LENGTH_AND_CODING),
    ROW("6.1", "in either order", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\n",
        LENGTH_AND_CODING),
    ROW("6.2", "a length", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0042\r\n\r\n", NONE),
    ROW("6.3", "two lengths", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        LENGTH_TWICE),
    ROW("6.3", "twice the same", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        LENGTH_TWICE),
    ROW("6.3", "a list of lengths", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\n", LENGTH),
    ROW("6.3", "a sign", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n", LENGTH),
    ROW("6.3", "below zero", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", LENGTH),
    ROW("6.3", "hexadecimal", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\n", LENGTH),
    ROW("6.3", "empty", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n", LENGTH),
    ROW("6.3", "a blank inside", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5 5\r\n\r\n", LENGTH),
    ROW("6.3", "beyond all", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999999999999\r\n\r\n", LENGTH_HUGE),
    ROW("9110 10.1.1", "100-continue", "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n\r\n", NONE),
    ROW("9110 10.1.1", "another expectation: 417", "POST / HTTP/1.1\r\nHost: x\r\nExpect: a\r\n\r\n", EXPECT),
    ROW("9110 10.1.1", "ignored in HTTP/1.0", "POST / HTTP/1.0\r\nExpect: a\r\n\r\n", NONE),
};

/* What a parser found, without the places at which it stopped. */
struct result {
    enum http_parse parse;
    enum http_bad bad;
    size_t bytes, field_count;
    uint64_t length;
    bool chunked, keeps, expects;
};

static struct result result_of(const struct http_parser *p, enum http_parse parse)
{
    if (parse == HTTP_PARSE_BAD)
        return (struct result){ .parse = parse, .bad = p->bad };
    return (struct result){
        parse, p->bad, p->bytes, p->field_count, p->length, p->is_chunked, http_keeps_alive(p), p->expects_continue
    };
}

static void assert_same(const struct row *row, struct result a, struct result b)
{
    if (a.parse != b.parse || a.bad != b.bad || a.bytes != b.bytes || a.field_count != b.field_count ||
        a.length != b.length || a.chunked != b.chunked || a.keeps != b.keeps || a.expects != b.expects)
        fail_msg("%s %s: read in pieces it is another request", row->section, row->rule);
}

/* Reads the text up to each of the given ends; stops where the parser stops. */
static struct result read_in_pieces(struct str text, size_t first, size_t step)
{
    struct http_parser p;
    enum http_parse got = HTTP_PARSE_MORE;
    http_parser_init(&p, &limits);
    for (size_t n = first; got == HTTP_PARSE_MORE; n += step) {
        size_t have = min_of(n, text.n);
        char *moved = memcpy(xmalloc(have + 1), text.p, have); /* of the exact size, at another address each time */
        got = http_parse_head(&p, (struct str){ moved, have });
        free(moved);
        if (have == text.n)
            break;
    }
    return result_of(&p, got);
}

static void every_rule_holds_however_the_bytes_are_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_count(rows); i++) {
        struct str text = { rows[i].text, rows[i].n };
        struct result whole = read_in_pieces(text, text.n, 1);
        if (whole.bad != rows[i].bad || whole.parse != (rows[i].bad ? HTTP_PARSE_BAD : HTTP_PARSE_DONE))
            fail_msg("%s %s: %s", rows[i].section, rows[i].rule, whole.bad ? http_bad_text(whole.bad) : "accepted");
        assert_same(&rows[i], whole, read_in_pieces(text, 0, 1));
        for (size_t at = 1; at < text.n; at++)
            assert_same(&rows[i], whole, read_in_pieces(text, at, text.n));
        if (whole.parse == HTTP_PARSE_DONE)
            assert_int_equal(whole.bytes, text.n);
    }
}

static struct http_parser parse(const char *text)
{
    struct http_parser p;
    http_parser_init(&p, &limits);
    assert_int_equal(http_parse_head(&p, str_from(text)), HTTP_PARSE_DONE);
    return p;
}

static void the_head_is_shown_as_views(void **state)
{
    (void)state;
    const char *text = "\r\nPOST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length:  12 \r\nA: b c\r\n\r\nGET / HTTP/1.1";
    struct http_parser p = parse(text);
    assert_true(str_eq(http_span_str(p.method, str_from(text)), S("POST")));
    assert_true(str_eq(http_span_str(p.target, str_from(text)), S("/a?b")));
    assert_int_equal(p.field_count, 3);
    assert_true(str_eq(http_span_str(p.fields[1].name, str_from(text)), S("Content-Length")));
    assert_true(str_eq(http_span_str(p.fields[1].value, str_from(text)), S("12")));
    assert_true(str_eq(http_span_str(p.fields[2].value, str_from(text)), S("b c")));
    assert_int_equal(p.length, 12);
    assert_string_equal(text + p.bytes, "GET / HTTP/1.1");
    assert_int_equal(http_parse_head(&p, str_from(text)), HTTP_PARSE_DONE); /* again, without effect */
}

/* RFC 9112, 9.3 and 9.6. */
static void a_connection_is_kept_as_the_request_says(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool keeps;
    } heads[] = {
        { "GET / HTTP/1.1\r\nHost: x\r\n\r\n", true },
        { "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false },
        { "GET / HTTP/1.1\r\nHost: x\r\nConnection: te, CLOSE\r\n\r\n", false },
        { "GET / HTTP/1.1\r\nHost: x\r\nConnection: te\r\nConnection: close\r\n\r\n", false },
        { "GET / HTTP/1.0\r\n\r\n", false },
        { "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true },
        { "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false },
    };
    for (size_t i = 0; i < array_count(heads); i++) {
        struct http_parser p = parse(heads[i].text);
        assert_int_equal(http_keeps_alive(&p), heads[i].keeps);
    }
}

/* RFC 9112, 3 and 9110, 5.4: what is too long is refused, before its end has come. */
static void limits_are_exact(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 20);
    for (size_t more = 0; more < 2; more++) {
        buf_reset(&b);
        buf_text(&b, "GET /");
        while (b.n < limits.line_max - strlen(" HTTP/1.1") + more)
            buf_char(&b, 'a');
        buf_text(&b, " HTTP/1.1\r\n" REST);
        const struct row row = { "3", "the request line", b.p, b.n, more ? HTTP_BAD_LINE_LONG : HTTP_BAD_NONE };
        struct result whole = read_in_pieces(buf_str(&b), b.n, 1);
        assert_int_equal(whole.bad, row.bad);
        assert_same(&row, whole, read_in_pieces(buf_str(&b), 0, 1));
        buf_reset(&b);
        buf_text(&b, "GET / HTTP/1.1\r\nHost: x\r\nA: ");
        size_t at = strlen("GET / HTTP/1.1\r\n");
        while (b.n - at < limits.headers_max - strlen("\r\n") + more)
            buf_char(&b, 'a');
        buf_text(&b, "\r\n\r\n");
        whole = read_in_pieces(buf_str(&b), b.n, 1);
        assert_int_equal(whole.bad, more ? HTTP_BAD_HEADERS_LONG : HTTP_BAD_NONE);
        assert_same(&row, whole, read_in_pieces(buf_str(&b), 0, 1));
        buf_reset(&b);
        buf_text(&b, "GET / HTTP/1.1\r\nHost: x\r\n");
        for (size_t i = 1; i < limits.field_max + more; i++)
            buf_text(&b, "a: b\r\n");
        buf_text(&b, "\r\n");
        whole = read_in_pieces(buf_str(&b), b.n, 1);
        assert_int_equal(whole.bad, more ? HTTP_BAD_HEADERS_MANY : HTTP_BAD_NONE);
    }
    struct http_parser p;
    http_parser_init(&p, &limits);
    buf_reset(&b);
    while (b.n < limits.line_max + 3)
        buf_char(&b, 'a');
    assert_int_equal(http_parse_head(&p, buf_str(&b)), HTTP_PARSE_BAD); /* without the end of the line */
    assert_int_equal(http_bad_status(p.bad), 414);
    buf_release(&b);
}

/* ---- chunked bodies (RFC 9112, 7.1) ---- */

static const struct {
    const char *rule, *text, *body, *rest;
    enum http_bad bad;
} bodies[] = {
    { "chunks", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nGET", "abcde", "GET", HTTP_BAD_NONE },
    { "no chunk", "0\r\n\r\n", "", "", HTTP_BAD_NONE },
    { "digits in both cases, and zeros", "0a\r\n0123456789\r\nB\r\nabcdefghijk\r\n000\r\n\r\n", "0123456789abcdefghijk",
      "", HTTP_BAD_NONE },
    { "data is not looked at", "4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n", "", HTTP_BAD_NONE },
    { "no size", "\r\n\r\n", "", NULL, HTTP_BAD_CHUNK },
    { "no number", "zz\r\nab\r\n0\r\n\r\n", "", NULL, HTTP_BAD_CHUNK },
    { "a prefix", "0x2\r\nab\r\n0\r\n\r\n", "", NULL, HTTP_BAD_CHUNK },
    { "a sign", "+2\r\nab\r\n0\r\n\r\n", "", NULL, HTTP_BAD_CHUNK },
    { "a blank before", " 2\r\nab\r\n0\r\n\r\n", "", NULL, HTTP_BAD_CHUNK },
    { "a blank behind", "2 \r\nab\r\n0\r\n\r\n", "", NULL, HTTP_BAD_CHUNK_EXTENSION },
    { "an extension", "2;a=b\r\nab\r\n0\r\n\r\n", "", NULL, HTTP_BAD_CHUNK_EXTENSION },
    { "an extension of the last chunk", "0;a\r\n\r\n", "", NULL, HTTP_BAD_CHUNK_EXTENSION },
    { "a bare LF behind the size", "2\nab\r\n0\r\n\r\n", "", NULL, HTTP_BAD_CHUNK },
    { "a bare CR behind the size", "2\rab\r\n0\r\n\r\n", "", NULL, HTTP_BAD_CHUNK },
    { "too many digits", "000000002\r\nab\r\n0\r\n\r\n", "", NULL, HTTP_BAD_CHUNK },
    { "more data than the size says", "2\r\nabc\r\n0\r\n\r\n", "ab", NULL, HTTP_BAD_CHUNK_END },
    { "a bare LF behind the data", "2\r\nab\n0\r\n\r\n", "ab", NULL, HTTP_BAD_CHUNK_END },
    { "a trailer", "0\r\nA: b\r\n\r\n", "", NULL, HTTP_BAD_TRAILER },
    { "a bare LF at the end", "0\r\n\n", "", NULL, HTTP_BAD_TRAILER },
};

static enum http_chunk read_chunks(struct http_chunks *c, struct str piece, struct buf *body, struct str *ret_rest)
{
    struct str data;
    enum http_chunk got;
    while ((got = http_chunks_read(c, &piece, &data)) == HTTP_CHUNK_DATA)
        buf_add(body, data);
    *ret_rest = piece;
    return got;
}

static void chunks_are_read_however_they_are_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_count(bodies); i++) {
        struct str text = str_from(bodies[i].text);
        for (size_t step = 1; step <= text.n; step++) {
            struct http_chunks c = { 0 };
            struct buf body;
            struct str rest = { 0 };
            enum http_chunk got = HTTP_CHUNK_MORE;
            size_t at = 0;
            buf_init(&body, 1000);
            for (; at < text.n && got == HTTP_CHUNK_MORE; at += step)
                got = read_chunks(&c, str_sub(text, at, min_of(at + step, text.n)), &body, &rest);
            if (got != (bodies[i].bad ? HTTP_CHUNK_BAD : HTTP_CHUNK_END) || c.bad != bodies[i].bad)
                fail_msg("%s, %zu bytes at a time: %d, %s", bodies[i].rule, step, (int)got,
                         c.bad ? http_bad_text(c.bad) : "no error");
            assert_string_equal(buf_cstr(&body), bodies[i].body);
            if (bodies[i].rest)
                assert_int_equal(text.n - (min_of(at, text.n) - rest.n), strlen(bodies[i].rest));
            buf_release(&body);
        }
    }
}

static void every_refusal_has_a_status_and_a_sentence(void **state)
{
    (void)state;
#define X(id, status, sentence)                                                                                        \
    assert_int_equal(http_bad_status(HTTP_BAD_##id), status);                                                          \
    assert_string_equal(http_bad_text(HTTP_BAD_##id), sentence);
    HTTP_BAD_MAP(X)
#undef X
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_holds_however_the_bytes_are_split),
        cmocka_unit_test(the_head_is_shown_as_views),
        cmocka_unit_test(a_connection_is_kept_as_the_request_says),
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(chunks_are_read_however_they_are_split),
        cmocka_unit_test(every_refusal_has_a_status_and_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
