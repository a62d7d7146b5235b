#pragma once
/* bench/sink_parse.h - parses the head of an HTTP/1.1 request, strictly and without copying.
 *
 * It refuses bare line feeds, folded headers, repeated Content-Length headers and chunked bodies. */
#include "base/str.h"

enum { SINK_HEAD_MAX = 16384, SINK_BODY_MAX = 4 << 20 };

enum sink_parse { SINK_MORE, SINK_DONE, SINK_BAD };

struct sink_request {
    struct str method, path; /* these and the next ones point into the text; empty: not given */
    struct str webhook_id, task_id, attempt, fence, scheduled_at, connection, content_length, transfer_encoding;
    struct str headers; /* all header lines, each with its CR LF */
    size_t head_bytes, body_bytes;
    bool keep_alive;
};

/* SINK_MORE: the head is incomplete. SINK_BAD: the caller answers 400 and closes. */
enum sink_parse sink_parse(struct str text, struct sink_request *ret);

/* Reads the behaviour that a path asks for: /status/503, /delay/250 (ms), /fail/2, or several of them. Other fields
 * of *b stay unchanged. */
struct sink_behaviour {
    int64_t status, delay_ms, fail_first;
};
void sink_parse_path(struct str path, struct sink_behaviour *b);
