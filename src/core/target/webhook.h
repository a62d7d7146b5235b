#pragma once
/* core/target/webhook.h - an HTTP call to a target, read from a task and checked. Pure: no call is made here.
 *
 * The API checks a target with it before it stores the task, and the runner reads it again before each call, since the
 * rules may have become stricter meanwhile. Errors name the field ("url", "headers.Host"). */
#include "base/json/json.h"
#include "core/task/task.h"

enum webhook_method { METHOD_POST, METHOD_GET, METHOD_PUT, METHOD_PATCH, METHOD_DELETE, METHOD_HEAD, METHOD_OPTIONS };
enum { WEBHOOK_URL_MAX = 8192, WEBHOOK_HEADERS_MAX = 64, WEBHOOK_HEADER_VALUE_MAX = 8192 };

struct webhook_header {
    struct str name, value;
};

struct webhook {
    struct str url; /* visible ASCII; the runner's parser decides whether it is a URL */
    enum webhook_method method;
    struct webhook_header *headers; /* as the user gave them */
    size_t header_count;
    bool has_content_type; /* among the headers */
    bool has_body, body_is_json;
    struct str body;
    int64_t timeout_ms; /* 0: only the task's own timeout applies */
};

/* Reads target_config {"url", "method", "headers", "body", "timeout_ms"}. Texts live in the arena or in the task. The
 * body:
 * - a JSON string is sent as the text that it holds;
 * - any other JSON value is sent as it was written;
 * - null means no body;
 * - if absent, the task's payload is sent, except with GET and HEAD. */
enum err webhook_read(const struct task *t, struct arena *a, struct webhook *ret, struct error *e) must_use;

/* The same rules for other targets that have headers and a body. They fill w; w->method decides whether the payload is
 * sent if there is no body. `doc` is the config, `body` its member if has_body. */
enum err webhook_headers_read(json_t *object, struct arena *a, struct webhook *w, struct error *e) must_use;
enum err webhook_body_read(const struct task *t, json_t *body, bool has_body, const struct json_doc *doc,
                           struct arena *a, struct webhook *w, struct error *e) must_use;

const char *webhook_method_name(enum webhook_method m);

/* Checks whether a user may set this header: its name is a token and not reserved, its value visible ASCII. */
enum err webhook_header_check(struct str name, struct str value, struct error *e) must_use;
