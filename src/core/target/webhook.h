#pragma once
/* core/target/webhook.h - what an HTTP call to a target consists of, read from a task and checked. Pure: no call is made here.
 *
 * The API reads a body's target with it before it stores it, the runner again before each call: rules may have become
 * stricter meanwhile. Errors name the field ("url", "headers.Host"). */
#include "base/json/json.h"
#include "core/task/task.h"

enum webhook_method { METHOD_POST, METHOD_GET, METHOD_PUT, METHOD_PATCH, METHOD_DELETE, METHOD_HEAD, METHOD_OPTIONS };
enum { WEBHOOK_URL_MAX = 8192, WEBHOOK_HEADERS_MAX = 64, WEBHOOK_HEADER_VALUE_MAX = 8192 };

struct webhook_header {
    struct str name, value;
};

struct webhook {
    struct str url; /* visible ASCII; whether it is a URL is for its one parser to say */
    enum webhook_method method;
    struct webhook_header *headers; /* as the user gave them */
    size_t header_count;
    bool has_content_type; /* among them */
    bool has_body, body_is_json;
    struct str body;
    int64_t timeout_ms; /* 0: the task's alone */
};

/* From target_config {"url", "method", "headers", "body", "timeout_ms"}. A body that is a JSON string is sent as the text it
 * holds, any other as the JSON that was written; null means none; absent means the payload, but GET and HEAD carry none of
 * their own accord. Texts live in the arena, or in the task. */
enum err webhook_read(const struct task *t, struct arena *a, struct webhook *ret, struct error *e) must_use;

/* For other targets that carry headers and a body, by the same rules: into w, whose method says whether it carries the payload of its own
 * accord. `doc` is the config, `body` its member, if has_body. */
enum err webhook_headers_read(json_t *object, struct arena *a, struct webhook *w, struct error *e) must_use;
enum err webhook_body_read(const struct task *t, json_t *body, bool has_body, const struct json_doc *doc,
                           struct arena *a, struct webhook *w, struct error *e) must_use;

const char *webhook_method_name(enum webhook_method m);

/* Whether a header may be called so: what HTTP calls a token. */
bool is_header_name(struct str s);

/* Whether a user may send this header: a token, visible characters, and none that is ours or the connection's. */
enum err webhook_header_check(struct str name, struct str value, struct error *e) must_use;

/* Retry-After: seconds, or one of HTTP's three forms of a date; from now on, capped at a day. -1: not readable. */
int64_t retry_after_ms(struct str value, int64_t now_ms);
