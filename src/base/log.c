/* Each call builds its line in a local buffer and writes it with one write(2), so threads need no lock. The only shared
 * state is the setup, which does not change after the start; the request is the thread's own. A line that is too long
 * loses whole fields: room for "truncated":true and the line end is reserved. Errors of write(2) are ignored: a full
 * disk must not stop the process. */
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/json/jsonw.h"
#include "base/rfc3339.h"

static struct {
    struct log_setup setup;
    bool is_open, is_json;
} state;

static _Thread_local struct log_request current;

static const char *const level_names[] = { "debug", "info", "warn", "error" };

void log_open(const struct log_setup *setup)
{
    assert(setup->now_ms && setup->fd >= 0);
    bool is_json = setup->format == LOG_JSON || (setup->format == LOG_AUTO && !isatty(setup->fd));
    state.setup = *setup;
    state.is_json = is_json;
    state.is_open = true;
}

bool log_wants(enum log_level level)
{
    return state.is_open && level >= state.setup.level;
}

/* Names come from our own code, never from users, so they need no escaping in either format. */
static bool log_is_name(const char *name)
{
    return name[0] && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static bool log_is_bare(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~' || s.p[i] == '"' || s.p[i] == '=' || s.p[i] == '\\')
            return false;
    return s.n > 0;
}

static void log_add_text(struct buf *line, struct str s)
{
    if (!state.is_json && s.n <= LOG_VALUE_MAX && log_is_bare(s)) {
        buf_add(line, s);
        return;
    }
    struct str shown = str_utf8_cut(s, LOG_VALUE_MAX);
    buf_char(line, '"');
    json_escape(line, shown);
    buf_text(line, shown.n < s.n ? "…\"" : "\"");
}

static void log_add_value(struct buf *line, const struct kv *kv)
{
    struct jw w;
    jw_init(&w, line);
    char id[UUID_TEXT + 1];
    switch (kv->kind) {
    case KV_STR: log_add_text(line, kv->s); break;
    case KV_I64: jw_i64(&w, kv->i); break;
    case KV_U64: jw_u64(&w, kv->u); break;
    case KV_F64: jw_f64(&w, kv->f); break;
    case KV_BOOL: jw_bool(&w, kv->b); break;
    case KV_UUID:
        uuid_format(kv->id, id);
        log_add_text(line, str_from(id));
        break;
    }
}

/* Returns false and leaves the line unchanged if the field does not fit. */
static bool log_add_field(struct buf *line, const struct kv *kv)
{
    assert(log_is_name(kv->key));
    size_t before = line->n;
    if (state.is_json)
        buf_printf(line, "%s\"%s\":", before ? "," : "{", kv->key);
    else
        buf_printf(line, "%s%s=", before ? " " : "", kv->key);
    log_add_value(line, kv);
    if (!line->full)
        return true;
    buf_cut(line, before);
    return false;
}

static void log_write_line(struct str line)
{
    while (line.n) {
        ssize_t n = write(state.setup.fd, line.p, line.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return;
        line = str_sub(line, (size_t)n, line.n);
    }
}

struct log_request log_request_enter(struct str id)
{
    struct log_request before = current;
    current.n = id.n <= sizeof current.text ? id.n : 0;
    if (current.n)
        memcpy(current.text, id.p, current.n);
    return before;
}

void log_request_leave(struct log_request *before)
{
    current = *before;
}

/* Adds the request of the thread, unless the line names it. */
static bool log_add_request(struct buf *line, const struct kv *kvs, size_t count)
{
    struct str id = { current.text, current.n };
    const char *key = "request";
    for (size_t i = 0; i < count; i++)
        if (strcmp(kvs[i].key, "request") == 0) {
            if (str_eq(kvs[i].s, id))
                return true;
            key = "by_request";
        }
    const struct kv request = kv_str(key, id);
    return !id.n || log_add_field(line, &request);
}

void log_event(enum log_level level, const char *event, const struct kv *kvs, size_t count)
{
    assert((size_t)level < array_count(level_names) && log_is_name(event));
    if (!log_wants(level))
        return;
    char time[RFC3339_TEXT + 1];
    rfc3339_format(state.setup.now_ms(state.setup.context), time);
    const struct kv head[] = { kv_cstr("time", time), kv_cstr("level", level_names[level]), kv_cstr("event", event) };
    const struct kv truncated = kv_bool("truncated", true);
    cleanup_with(buf_release) struct buf line;
    buf_init(&line, LOG_LINE_MAX - strlen(",\"truncated\":true}\n"));
    bool whole = true;
    for (size_t i = 0; i < array_count(head); i++)
        whole &= log_add_field(&line, &head[i]);
    for (size_t i = 0; i < count; i++)
        whole &= log_add_field(&line, &kvs[i]);
    whole &= log_add_request(&line, kvs, count);
    line.max = LOG_LINE_MAX;
    if (!whole)
        (void)log_add_field(&line, &truncated);
    buf_text(&line, state.is_json ? "}\n" : "\n");
    assert(!line.full);
    log_write_line(buf_str(&line));
}
