#pragma once
/* bench/sink_parse.h - the head of an HTTP/1.1 request, read strictly and without a copy: all that the sink needs.
 *
 * Nothing is guessed: a bare line feed, a header folded over lines, two lengths, a body in chunks are refused. */
#include "base/str.h"

enum { SINK_HEAD_MAX = 16384, SINK_BODY_MAX = 4 << 20 };

enum sink_parse { SINK_MORE, SINK_DONE, SINK_BAD };

struct sink_request {
    struct str method, path; /* borrowed from the text, like the next ones; empty: not given */
    struct str webhook_id, task_id, attempt, fence, scheduled_at, connection, content_length, transfer_encoding;
    size_t head_bytes, body_bytes;
    bool keep_alive;
};

/* SINK_MORE: the head is not there yet. SINK_BAD: answer 400 and close. */
enum sink_parse sink_parse(struct str text, struct sink_request *ret);

/* What a path asks for: /status/503, /delay/250 (ms), /fail/2, also one behind the other. What is not said stays as it was. */
struct sink_behaviour {
    int64_t status, delay_ms, fail_first;
};
void sink_parse_path(struct str path, struct sink_behaviour *b);
