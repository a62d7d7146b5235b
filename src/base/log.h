#pragma once
/* base/log.h - structured logging: one event per line, with fields; logfmt on a terminal, JSON lines otherwise.
 *
 *   log_warn("claim_failed", kv_err(&e), kv_i64("retry_ms", backoff_ms));
 *
 * - Base, core and adapters return errors. Only node, api, server, cli and main log, and each error once.
 * - Values are escaped (control characters, bidirectional controls, invalid UTF-8) and truncated at LOG_VALUE_MAX
 *   bytes.
 * - Each line is written by one write(2), so any thread may log.
 * - log_open passes the clock in: base reads no clock.
 * - While a thread works for a request, its lines name the request (log_request_enter). */
#include "base/str.h"
#include "base/uuid.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_AUTO, LOG_LOGFMT, LOG_JSON }; /* AUTO: logfmt if fd is a terminal */
enum { LOG_VALUE_MAX = 2048, LOG_LINE_MAX = 16384, LOG_REQUEST_MAX = 128 };

struct log_setup {
    int fd;
    enum log_format format;
    enum log_level level; /* the lowest level that is written */
    int64_t (*now_ms)(void *context);
    void *context;
};

/* Before log_open, nothing is written. Call it once, at start, before other threads exist. */
void log_open(const struct log_setup *setup);

struct kv {
    const char *key;
    enum { KV_STR, KV_I64, KV_U64, KV_F64, KV_BOOL, KV_UUID } kind;
    union {
        struct str s;
        int64_t i;
        uint64_t u;
        double f;
        bool b;
        struct uuid id;
    };
};

static inline struct kv kv_str(const char *key, struct str v)
{
    return (struct kv){ .key = key, .kind = KV_STR, .s = v };
}
static inline struct kv kv_cstr(const char *key, const char *v)
{
    return kv_str(key, v ? str_from(v) : S(""));
}
static inline struct kv kv_i64(const char *key, int64_t v)
{
    return (struct kv){ .key = key, .kind = KV_I64, .i = v };
}
static inline struct kv kv_u64(const char *key, uint64_t v)
{
    return (struct kv){ .key = key, .kind = KV_U64, .u = v };
}
static inline struct kv kv_f64(const char *key, double v)
{
    return (struct kv){ .key = key, .kind = KV_F64, .f = v };
}
static inline struct kv kv_bool(const char *key, bool v)
{
    return (struct kv){ .key = key, .kind = KV_BOOL, .b = v };
}
static inline struct kv kv_uuid(const char *key, struct uuid v)
{
    return (struct kv){ .key = key, .kind = KV_UUID, .id = v };
}
static inline struct kv kv_err(const struct error *e)
{
    return kv_cstr("error", e->text[0] ? e->text : err_text(e->code));
}

/* From now on the lines of this thread have the field `request`; a line with one of its own, of another request, has
 * `by_request`. An empty id, or one that is longer than LOG_REQUEST_MAX: they have none. The id is copied: the request
 * may end before the thread leaves it. Returns what it was before, for log_request_leave.
 *
 *   cleanup_with(log_request_leave) struct log_request before = log_request_enter(id); */
struct log_request {
    size_t n;
    char text[LOG_REQUEST_MAX];
};
struct log_request log_request_enter(struct str id) must_use;
void log_request_leave(struct log_request *before);

void log_event(enum log_level level, const char *event, const struct kv *kvs, size_t count);
bool log_wants(enum log_level level);

#define LOG_AT_(level, event, ...)                                                                                     \
    do {                                                                                                               \
        if (log_wants(level)) {                                                                                        \
            const struct kv kvs_[] = { { 0 }, ##__VA_ARGS__ };                                                         \
            log_event((level), (event), kvs_ + 1, array_count(kvs_) - 1);                                              \
        }                                                                                                              \
    } while (0)
#define log_debug(event, ...) LOG_AT_(LOG_DEBUG, event, ##__VA_ARGS__)
#define log_info(event, ...)  LOG_AT_(LOG_INFO, event, ##__VA_ARGS__)
#define log_warn(event, ...)  LOG_AT_(LOG_WARN, event, ##__VA_ARGS__)
#define log_error(event, ...) LOG_AT_(LOG_ERROR, event, ##__VA_ARGS__)

/* For what is tried again and again: true for the first failure after a success, which is the one to log. *fails_now
 * remembers the last try. */
static inline bool log_first_failure(bool *fails_now, bool failed)
{
    bool is_first = failed && !*fails_now;
    *fails_now = failed;
    return is_first;
}
