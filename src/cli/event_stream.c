#include "cli/event_stream.h"

enum { LINE_BYTES = 1 << 20, ID_BYTES = 256, RETRY_MAX_MS = 60000 };

void event_stream_init(struct event_stream *s)
{
    *s = (struct event_stream){ 0 };
    buf_init(&s->last_id, ID_BYTES);
    buf_init(&s->line, LINE_BYTES);
    buf_init(&s->name, LINE_BYTES);
    buf_init(&s->data, LINE_BYTES);
    buf_init(&s->id, ID_BYTES);
}

void event_stream_release(struct event_stream *s)
{
    struct buf *const all[] = { &s->last_id, &s->line, &s->name, &s->data, &s->id };
    for (size_t i = 0; i < array_count(all); i++)
        buf_release(all[i]);
}

static void event_stream_drop(struct event_stream *s)
{
    buf_reset(&s->name);
    buf_reset(&s->data);
    buf_reset(&s->id);
    s->has_id = s->has_data = false;
}

void event_stream_begin(struct event_stream *s)
{
    buf_reset(&s->line);
    event_stream_drop(s);
    s->is_stopped = false;
}

/* An empty line ends an event. One without data is none, but its id counts. */
static void event_stream_dispatch(struct event_stream *s)
{
    if (s->has_id && !s->id.full) {
        buf_reset(&s->last_id);
        buf_add(&s->last_id, buf_str(&s->id));
    }
    if (s->has_data && !s->on_event(s->context, s->name.n ? buf_str(&s->name) : S("message"), buf_str(&s->data)))
        s->is_stopped = true;
    event_stream_drop(s);
}

static void event_stream_on_field(struct event_stream *s, struct str name, struct str value)
{
    int64_t ms;
    if (str_eq(name, S("event"))) {
        buf_reset(&s->name);
        buf_add(&s->name, value);
    } else if (str_eq(name, S("data"))) {
        if (s->has_data)
            buf_char(&s->data, '\n');
        buf_add(&s->data, value);
        s->has_data = true;
    } else if (str_eq(name, S("id"))) {
        buf_reset(&s->id);
        buf_add(&s->id, value);
        s->has_id = true;
    } else if (str_eq(name, S("retry")) && str_to_i64(value, 0, RETRY_MAX_MS, &ms)) {
        s->retry_ms = ms;
    }
}

/* A line that begins with a colon is a comment. One blank after the colon of a field does not belong to its value. */
static void event_stream_on_line(struct event_stream *s, struct str line)
{
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (!line.n) {
        event_stream_dispatch(s);
        return;
    }
    size_t colon = str_find(line, ':', 0);
    struct str value = colon < line.n ? str_sub(line, colon + 1, line.n) : S("");
    if (value.n && value.p[0] == ' ')
        value = str_sub(value, 1, value.n);
    if (colon)
        event_stream_on_field(s, str_sub(line, 0, colon), value);
}

bool event_stream_feed(struct event_stream *s, struct str bytes)
{
    for (size_t i = 0; i < bytes.n && !s->is_stopped; i++) {
        if (bytes.p[i] != '\n') {
            buf_char(&s->line, bytes.p[i]);
            continue;
        }
        event_stream_on_line(s, buf_str(&s->line));
        buf_reset(&s->line);
    }
    return !s->is_stopped && !s->line.full && !s->data.full;
}
