/* A row without a scope does not compile: its name is pasted, and SCOPE_NONE is asserted away. */
#include "http/routes.h"

#include <stdio.h>

#include "core/action.h"

enum { NO_BODY = 0, BODY = 1 << 20, BATCH = 16 << 20 };

#define READS 0
#define EDIT  ROUTE_WRITES
#define RE    ROUTE_RECURRING

/* method, pattern, scope, body limit, handler, flags, argument */
#define ROUTES(X)                                                                                                      \
    X(GET, "/health", PUBLIC, NO_BODY, status_health, ROUTE_INLINE, 0)                                                 \
    X(GET, "/ready", PUBLIC, NO_BODY, status_ready, READS, 0)                                                          \
    X(GET, "/openapi.json", PUBLIC, NO_BODY, status_openapi, ROUTE_INLINE, 0)                                          \
    X(GET, "/metrics", METRICS_READ, NO_BODY, status_metrics, ROUTE_INLINE, 0)                                         \
    X(GET, "/v1/scheduler/status", STATUS_READ, NO_BODY, status_scheduler, READS, 0)                                   \
    X(GET, "/v1/dlq", DLQ_READ, NO_BODY, dlq_list, READS, 0)                                                           \
    X(POST, "/v1/tasks", TASKS_WRITE, BODY, tasks_create, ROUTE_WRITES | ROUTE_INLINE | ROUTE_BODY_KEY, 0)             \
    X(POST, "/v1/tasks/batch", TASKS_WRITE, BATCH, batch_create, ROUTE_WRITES, 0)                                      \
    X(POST, "/v1/tasks/recurring", TASKS_WRITE, BODY, tasks_create, ROUTE_WRITES | ROUTE_INLINE | ROUTE_BODY_KEY | RE, \
      0)                                                                                                               \
    X(GET, "/v1/tasks", TASKS_READ, NO_BODY, tasks_list, READS, 0)                                                     \
    X(GET, "/v1/tasks/{id}", TASKS_READ, NO_BODY, tasks_get, READS, 0)                                                 \
    X(PATCH, "/v1/tasks/{id}", TASKS_WRITE, BODY, tasks_patch, EDIT, 0)                                                \
    X(DELETE, "/v1/tasks/{id}", TASKS_WRITE, BODY, tasks_delete, EDIT, ACTION_DELETE)                                  \
    X(POST, "/v1/tasks/{id}/cancel", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_CANCEL)                                \
    X(POST, "/v1/tasks/{id}/pause", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_PAUSE)                                  \
    X(POST, "/v1/tasks/{id}/resume", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_RESUME)                                \
    X(POST, "/v1/tasks/{id}/run-now", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_RUN_NOW)                              \
    X(POST, "/v1/tasks/{id}/retry", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_RETRY)                                  \
    X(POST, "/v1/tasks/{id}/force-complete", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_FORCE_COMPLETE)                \
    X(GET, "/v1/tasks/{id}/executions", TASKS_READ, NO_BODY, executions_list, READS, 0)                                \
    X(GET, "/v1/tasks/{id}/occurrences", TASKS_READ, NO_BODY, occurrences_list, READS, 0)                              \
    X(POST, "/v1/recurring-tasks", TASKS_WRITE, BODY, tasks_create, ROUTE_WRITES | ROUTE_INLINE | ROUTE_BODY_KEY | RE, \
      0)                                                                                                               \
    X(GET, "/v1/recurring-tasks", TASKS_READ, NO_BODY, tasks_list, READS | RE, 0)                                      \
    X(GET, "/v1/recurring-tasks/{id}", TASKS_READ, NO_BODY, tasks_get, READS | RE, 0)                                  \
    X(PATCH, "/v1/recurring-tasks/{id}", TASKS_WRITE, BODY, tasks_patch, EDIT | RE, 0)                                 \
    X(DELETE, "/v1/recurring-tasks/{id}", TASKS_WRITE, BODY, tasks_delete, EDIT | RE, ACTION_DELETE)                   \
    X(POST, "/v1/recurring-tasks/{id}/pause", TASKS_WRITE, BODY, tasks_act, EDIT | RE, ACTION_PAUSE)                   \
    X(POST, "/v1/recurring-tasks/{id}/resume", TASKS_WRITE, BODY, tasks_act, EDIT | RE, ACTION_RESUME)                 \
    X(POST, "/v1/recurring-tasks/{id}/trigger-now", TASKS_WRITE, BODY, tasks_act, EDIT | RE, ACTION_RUN_NOW)

#define X(method, pattern, scope, body_max, run, flags, argument)                                                      \
    _Static_assert(SCOPE_##scope != SCOPE_NONE, "a route without a scope");
ROUTES(X)
#undef X

const struct route routes[] = {
#define X(method, pattern, scope, body_max, run, flags, argument)                                                      \
    { HTTP_##method, pattern, SCOPE_##scope, body_max, run, flags, argument },
    ROUTES(X)
#undef X
};
const size_t route_count = array_count(routes);

static const char *const method_names[] = { [HTTP_GET] = "GET",
                                            [HTTP_POST] = "POST",
                                            [HTTP_PATCH] = "PATCH",
                                            [HTTP_DELETE] = "DELETE",
                                            [HTTP_OPTIONS] = "OPTIONS" };

enum http_method method_parse(const char *name)
{
    if (strcmp(name, "HEAD") == 0)
        return HTTP_GET;
    for (size_t i = 0; i < array_count(method_names); i++)
        if (strcmp(name, method_names[i]) == 0)
            return (enum http_method)i;
    return HTTP_OTHER;
}

const char *method_name(enum http_method m)
{
    return m < HTTP_OTHER ? method_names[m] : "OTHER";
}

/* Whether the path is one of the pattern's; at most one id stands in a pattern. */
static bool matches(const char *pattern, struct str path, struct uuid *ret_id)
{
    struct str p = str_from(pattern);
    size_t brace = str_find(p, '{', 0);
    if (brace == p.n)
        return str_eq(p, path);
    struct str head = str_sub(p, 0, brace), tail = str_sub(p, brace + strlen("{id}"), p.n);
    if (path.n != head.n + UUID_TEXT + tail.n || !str_starts(path, head))
        return false;
    return str_eq(str_sub(path, head.n + UUID_TEXT, path.n), tail) &&
           uuid_parse(str_sub(path, head.n, head.n + UUID_TEXT), ret_id);
}

static void write_allow(unsigned methods, char out[ALLOW_TEXT])
{
    size_t n = 0;
    out[0] = '\0';
    if (!methods)
        return;
    for (unsigned m = 0; m < HTTP_OPTIONS; m++)
        if (methods & 1U << m)
            n += (size_t)snprintf(out + n, ALLOW_TEXT - n, "%s, ", m == HTTP_GET ? "GET, HEAD" : method_names[m]);
    snprintf(out + n, ALLOW_TEXT - n, "OPTIONS");
}

const struct route *route_find(enum http_method method, struct str path, struct uuid *ret_id,
                               char ret_allow[ALLOW_TEXT])
{
    unsigned methods = 0;
    for (size_t i = 0; i < route_count; i++) {
        if (!matches(routes[i].pattern, path, ret_id))
            continue;
        if (routes[i].method == method)
            return &routes[i];
        methods |= 1U << routes[i].method;
    }
    write_allow(methods, ret_allow);
    return NULL;
}
