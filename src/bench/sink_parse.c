#include "bench/sink_parse.h"

static const struct {
    struct str name;
    size_t offset; /* of the struct str in struct sink_request */
} headers[] = {
    { { "webhook-id", 10 }, offsetof(struct sink_request, webhook_id) },
    { { "belfry-task-id", 14 }, offsetof(struct sink_request, task_id) },
    { { "belfry-attempt", 14 }, offsetof(struct sink_request, attempt) },
    { { "belfry-fence", 12 }, offsetof(struct sink_request, fence) },
    { { "belfry-scheduled-at", 19 }, offsetof(struct sink_request, scheduled_at) },
    { { "connection", 10 }, offsetof(struct sink_request, connection) },
    { { "content-length", 14 }, offsetof(struct sink_request, content_length) },
    { { "transfer-encoding", 17 }, offsetof(struct sink_request, transfer_encoding) },
};

/* Cuts a line off *rest. False: it does not end in CR LF, or contains a control character other than tab. */
static bool sink_parse_cut_line(struct str *rest, struct str *ret)
{
    const char *end = memchr(rest->p, '\n', rest->n);
    if (!end || end == rest->p || end[-1] != '\r')
        return false;
    struct str line = { rest->p, (size_t)(end - rest->p) - 1 };
    for (size_t i = 0; i < line.n; i++)
        if (((unsigned char)line.p[i] < ' ' && line.p[i] != '\t') || line.p[i] == 0x7f)
            return false;
    *rest = str_sub(*rest, line.n + 2, rest->n);
    *ret = line;
    return true;
}

static bool sink_parse_request_line(struct str line, struct sink_request *r)
{
    size_t first = str_find(line, ' ', 0);
    if (first == 0 || first >= line.n)
        return false;
    size_t second = str_find(line, ' ', first + 1);
    if (second >= line.n)
        return false;
    r->method = str_sub(line, 0, first);
    r->path = str_sub(line, first + 1, second);
    struct str version = str_sub(line, second + 1, line.n);
    r->keep_alive = str_eq(version, S("HTTP/1.1"));
    for (size_t i = 0; i < r->method.n; i++)
        if (r->method.p[i] < 'A' || r->method.p[i] > 'Z')
            return false;
    return r->path.n > 0 && (r->path.p[0] == '/' || r->path.p[0] == '*') &&
           (r->keep_alive || str_eq(version, S("HTTP/1.0")));
}

static bool sink_parse_header(struct str line, struct sink_request *r)
{
    size_t colon = str_find(line, ':', 0);
    if (colon == 0 || colon >= line.n || line.p[0] == ' ' || line.p[0] == '\t' || line.p[colon - 1] == ' ' ||
        line.p[colon - 1] == '\t')
        return false;
    struct str name = str_sub(line, 0, colon);
    for (size_t i = 0; i < array_count(headers); i++) {
        if (!str_eq_nocase(name, headers[i].name))
            continue;
        struct str *value = (struct str *)(void *)((char *)r + headers[i].offset);
        if (value->p)
            return false; /* twice */
        *value = str_trim(str_sub(line, colon + 1, line.n));
    }
    return true;
}

static bool sink_parse_framing(struct sink_request *r)
{
    int64_t length = 0;
    struct str given = r->content_length;
    if (r->transfer_encoding.p || (given.n && !is_digit(given.p[0])))
        return false;
    if (given.p && !str_to_i64(given, 0, SINK_BODY_MAX, &length))
        return false;
    r->body_bytes = (size_t)length;
    if (r->connection.p)
        r->keep_alive =
            r->keep_alive ? !str_eq_nocase(r->connection, S("close")) : str_eq_nocase(r->connection, S("keep-alive"));
    return true;
}

enum sink_parse sink_parse(struct str text, struct sink_request *ret)
{
    const char *end = text.n ? memmem(text.p, min_of(text.n, (size_t)SINK_HEAD_MAX), "\r\n\r\n", 4) : NULL;
    if (!end)
        return text.n < SINK_HEAD_MAX ? SINK_MORE : SINK_BAD;
    struct sink_request r = { .head_bytes = (size_t)(end - text.p) + 4 };
    struct str rest = str_sub(text, 0, r.head_bytes - 2), line;
    if (!sink_parse_cut_line(&rest, &line) || !sink_parse_request_line(line, &r))
        return SINK_BAD;
    r.headers = rest;
    while (rest.n)
        if (!sink_parse_cut_line(&rest, &line) || !sink_parse_header(line, &r))
            return SINK_BAD;
    if (!sink_parse_framing(&r))
        return SINK_BAD;
    *ret = r;
    return SINK_DONE;
}

void sink_parse_path(struct str path, struct sink_behaviour *b)
{
    struct str word, number, rest = str_sub(path, 0, str_find(path, '?', 0));
    while (str_cut(&rest, '/', &word)) {
        struct str ahead = rest;
        if (!str_cut(&ahead, '/', &number))
            return;
        bool known = (str_eq(word, S("status")) && str_to_i64(number, 200, 599, &b->status)) ||
                     (str_eq(word, S("delay")) && str_to_i64(number, 0, 3600000, &b->delay_ms)) ||
                     (str_eq(word, S("fail")) && str_to_i64(number, 0, 1000000, &b->fail_first));
        if (known)
            rest = ahead;
    }
}
