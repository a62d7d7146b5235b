/* A row without a scope does not compile: the scope's name is pasted, and SCOPE_NONE fails the assertion.
 *
 * Which rows are SLOW or MAYBE was measured with the most expensive requests that are valid
 * (docs/decisions/0063-slow-requests-leave-threads-to-others.md has the figures). */
#include "api/server/routes.h"

#include <stdio.h>

#include "core/task/action.h"

enum {
    NO_BODY = 0,
    LOGIN = 4 << 10,
    SMALL = 64 << 10,
    BODY = 1 << 20,
    DATES = 4 << 20,
    DEFINITION = 4 << 20,
    RUN = 6 << 20,
    BATCH = 16 << 20
};

#define READS 0
#define EDIT  ROUTE_WRITES
#define RE    ROUTE_RECURRING
#define OP    ROUTE_OPERATOR
#define KNOWN (ROUTE_OPERATOR | ROUTE_KNOWN)
#define PAGE  (ROUTE_INLINE | ROUTE_PAGE)
#define SLOW  ROUTE_SLOW
#define MAYBE ROUTE_MAYBE_SLOW

/* method, pattern, scope, body limit, handler, flags, argument */
#define ROUTES(X)                                                                                                      \
    X(GET, "/health", PUBLIC, NO_BODY, status_health, ROUTE_INLINE | OP, 0)                                            \
    X(GET, "/ready", PUBLIC, NO_BODY, status_ready, OP | ROUTE_PROBE, 0)                                               \
    X(GET, "/openapi.json", PUBLIC, NO_BODY, status_openapi, ROUTE_INLINE | OP, 0)                                     \
    X(GET, "/", PUBLIC, NO_BODY, site_redirect, PAGE, 0)                                                               \
    X(GET, "/ui", PUBLIC, NO_BODY, site_redirect, PAGE, 1)                                                             \
    X(GET, "/ui/", PUBLIC, NO_BODY, site_index, PAGE, 0)                                                               \
    X(GET, "/ui/{path}", PUBLIC, NO_BODY, site_file, PAGE, 0)                                                          \
    X(GET, "/metrics", METRICS_READ, NO_BODY, status_metrics, ROUTE_INLINE | ROUTE_TEXT | KNOWN, 0)                    \
    X(GET, "/v1/scheduler/status", STATUS_READ, NO_BODY, status_scheduler, OP, 0)                                      \
    X(GET, "/v1/stats", STATUS_READ, NO_BODY, stats_list, OP, 0)                                                       \
    X(GET, "/v1/alerts", STATUS_READ, NO_BODY, alerts_list, KNOWN, 0)                                                  \
    X(GET, "/v1/workers", STATUS_READ, NO_BODY, workers_list, OP, 0)                                                   \
    X(GET, "/v1/workers/{id}", STATUS_READ, NO_BODY, workers_get, OP, 0)                                               \
    X(GET, "/v1/events", TASKS_READ, NO_BODY, live_stream_events, ROUTE_EVENTS, 0)                                     \
    X(GET, "/v1/audit", AUDIT_READ, NO_BODY, audit_list, OP, 0)                                                        \
    X(GET, "/v1/breakers", QUEUES_READ, NO_BODY, breakers_list, OP, 0)                                                 \
    X(POST, "/v1/breakers/{id}/close", QUEUES_WRITE, SMALL, breakers_close_one, EDIT | OP, 0)                          \
    X(GET, "/v1/dlq", DLQ_READ, NO_BODY, dlq_list, MAYBE, 0)                                                           \
    X(GET, "/v1/queues", QUEUES_READ, NO_BODY, queues_list, READS, 0)                                                  \
    X(GET, "/v1/queues/{name}", QUEUES_READ, NO_BODY, queues_get, READS, 0)                                            \
    X(PUT, "/v1/queues/{name}", QUEUES_WRITE, SMALL, queues_put, EDIT, 0)                                              \
    X(PATCH, "/v1/queues/{name}", QUEUES_WRITE, SMALL, queues_patch, EDIT, 0)                                          \
    X(DELETE, "/v1/queues/{name}", QUEUES_WRITE, SMALL, queues_delete, EDIT, 0)                                        \
    X(GET, "/v1/notification-settings", NOTIFICATIONS_READ, NO_BODY, settings_list, READS, 0)                          \
    X(POST, "/v1/notification-settings", NOTIFICATIONS_WRITE, SMALL, settings_create, EDIT, 0)                         \
    X(GET, "/v1/notification-settings/{id}", NOTIFICATIONS_READ, NO_BODY, settings_get, READS, 0)                      \
    X(PATCH, "/v1/notification-settings/{id}", NOTIFICATIONS_WRITE, SMALL, settings_patch, EDIT, 0)                    \
    X(DELETE, "/v1/notification-settings/{id}", NOTIFICATIONS_WRITE, SMALL, settings_delete, EDIT, 0)                  \
    X(POST, "/v1/notification-settings/{id}/test", NOTIFICATIONS_WRITE, SMALL, messages_test, EDIT, 0)                 \
    X(GET, "/v1/incidents", NOTIFICATIONS_READ, NO_BODY, incidents_list, READS, 0)                                     \
    X(GET, "/v1/incidents/{id}", NOTIFICATIONS_READ, NO_BODY, incidents_get, READS, 0)                                 \
    X(POST, "/v1/incidents/{id}/ack", NOTIFICATIONS_WRITE, SMALL, incidents_ack, EDIT, 0)                              \
    X(POST, "/v1/incidents/{id}/mute", NOTIFICATIONS_WRITE, SMALL, incidents_mute, EDIT, 0)                            \
    X(POST, "/v1/incidents/{id}/unmute", NOTIFICATIONS_WRITE, SMALL, incidents_unmute, EDIT, 0)                        \
    X(GET, "/v1/checks", NOTIFICATIONS_READ, NO_BODY, checks_list, READS, 0)                                           \
    X(GET, "/v1/notifications", NOTIFICATIONS_READ, NO_BODY, messages_list, READS, 0)                                  \
    X(GET, "/v1/notifications/{id}", NOTIFICATIONS_READ, NO_BODY, messages_get, READS, 0)                              \
    X(POST, "/v1/notifications/{id}/resend", NOTIFICATIONS_WRITE, SMALL, messages_resend, EDIT, 0)                     \
    X(GET, "/v1/signing-keys", SIGNING_KEYS_READ, NO_BODY, signing_keys_list, READS, 0)                                \
    X(POST, "/v1/signing-keys", SIGNING_KEYS_WRITE, SMALL, signing_keys_create, EDIT, 0)                               \
    X(GET, "/v1/signing-keys/{id}", SIGNING_KEYS_READ, NO_BODY, signing_keys_get, READS, 0)                            \
    X(DELETE, "/v1/signing-keys/{id}", SIGNING_KEYS_WRITE, SMALL, signing_keys_delete, EDIT, 0)                        \
    X(POST, "/v1/signing-keys/{id}/rotate", SIGNING_KEYS_WRITE, SMALL, signing_keys_rotate, EDIT, 0)                   \
    X(GET, "/v1/calendars", CALENDARS_READ, NO_BODY, calendars_list, SLOW, 0)                                          \
    X(GET, "/v1/calendars/{name}", CALENDARS_READ, NO_BODY, calendars_get, READS, 0)                                   \
    X(PUT, "/v1/calendars/{name}", CALENDARS_WRITE, DATES, calendars_put, EDIT | ROUTE_ICAL | SLOW, 0)                 \
    X(DELETE, "/v1/calendars/{name}", CALENDARS_WRITE, SMALL, calendars_delete, EDIT, 0)                               \
    X(GET, "/v1/tenants", ADMIN, NO_BODY, tenants_list, OP, 0)                                                         \
    X(POST, "/v1/tenants", ADMIN, SMALL, tenants_create, EDIT | OP, 0)                                                 \
    X(GET, "/v1/tenants/{name}", ADMIN, NO_BODY, tenants_get, OP, 0)                                                   \
    X(PATCH, "/v1/tenants/{name}", ADMIN, SMALL, tenants_patch, EDIT | OP, 0)                                          \
    X(GET, "/v1/api-keys", ADMIN, NO_BODY, keys_list, OP, 0)                                                           \
    X(POST, "/v1/api-keys", ADMIN, SMALL, keys_create, EDIT | OP, 0)                                                   \
    X(DELETE, "/v1/api-keys/{name}", ADMIN, SMALL, keys_delete, EDIT | OP, 0)                                          \
    X(POST, "/v1/session", PUBLIC, LOGIN, session_login, ROUTE_AUDITED, 0)                                             \
    X(GET, "/v1/session", ANY, NO_BODY, session_get, READS, 0)                                                         \
    X(DELETE, "/v1/session", ANY, LOGIN, session_logout, ROUTE_AUDITED, 0)                                             \
    X(POST, "/v1/session/codes", ANY, LOGIN, session_code_create, ROUTE_AUDITED, 0)                                    \
    X(GET, "/v1/dlq/{id}", DLQ_READ, NO_BODY, dlq_get, READS, 0)                                                       \
    X(POST, "/v1/dlq/retry", DLQ_WRITE, BODY, jobs_redrive, EDIT | SLOW, 0)                                            \
    X(POST, "/v1/dlq/{id}/retry", DLQ_WRITE, BODY, dlq_retry, EDIT, 0)                                                 \
    X(POST, "/v1/dlq/{id}/archive", DLQ_WRITE, BODY, dlq_archive, EDIT, 0)                                             \
    X(GET, "/v1/jobs", TASKS_READ, NO_BODY, jobs_list, READS, 0)                                                       \
    X(GET, "/v1/jobs/{id}", TASKS_READ, NO_BODY, jobs_get, READS, 0)                                                   \
    X(POST, "/v1/jobs/{id}/cancel", TASKS_WRITE, BODY, jobs_cancel, EDIT, 0)                                           \
    X(POST, "/v1/tasks/bulk", TASKS_WRITE, BODY, jobs_bulk, EDIT | SLOW, 0)                                            \
    X(POST, "/v1/tasks", TASKS_WRITE, BODY, tasks_create, ROUTE_WRITES | ROUTE_INLINE | ROUTE_BODY_KEY, 0)             \
    X(POST, "/v1/tasks/batch", TASKS_WRITE, BATCH, batch_create, ROUTE_WRITES | MAYBE, 0)                              \
    X(POST, "/v1/tasks/recurring", TASKS_WRITE, BODY, tasks_create, ROUTE_WRITES | ROUTE_INLINE | ROUTE_BODY_KEY | RE, \
      0)                                                                                                               \
    X(GET, "/v1/tasks", TASKS_READ, NO_BODY, tasks_list, MAYBE, 0)                                                     \
    X(GET, "/v1/tasks/names", TASKS_READ, NO_BODY, tasks_names, READS, 0)                                              \
    X(GET, "/v1/tasks/{id}", TASKS_READ, NO_BODY, tasks_get, READS, 0)                                                 \
    X(PATCH, "/v1/tasks/{id}", TASKS_WRITE, BODY, tasks_patch, EDIT, 0)                                                \
    X(DELETE, "/v1/tasks/{id}", TASKS_WRITE, BODY, tasks_delete, EDIT, ACTION_DELETE)                                  \
    X(POST, "/v1/tasks/{id}/cancel", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_CANCEL)                                \
    X(POST, "/v1/tasks/{id}/pause", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_PAUSE)                                  \
    X(POST, "/v1/tasks/{id}/resume", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_RESUME)                                \
    X(POST, "/v1/tasks/{id}/run-now", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_RUN_NOW)                              \
    X(POST, "/v1/tasks/{id}/retry", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_RETRY)                                  \
    X(POST, "/v1/tasks/{id}/force-complete", TASKS_WRITE, BODY, tasks_act, EDIT, ACTION_FORCE_COMPLETE)                \
    X(GET, "/v1/tasks/{id}/upcoming", TASKS_READ, NO_BODY, upcoming_of_task, SLOW, 0)                                  \
    X(GET, "/v1/tasks/{id}/dependencies", TASKS_READ, NO_BODY, dependencies_get, READS, 0)                             \
    X(POST, "/v1/tasks/{id}/dependencies", TASKS_WRITE, BODY, dependencies_add, EDIT, 0)                               \
    X(DELETE, "/v1/tasks/{id}/dependencies/{other}", TASKS_WRITE, SMALL, dependencies_remove, EDIT, 0)                 \
    X(GET, "/v1/tasks/{id}/explain", TASKS_READ, NO_BODY, tasks_explain, 0, 0)                                         \
    X(POST, "/v1/leases", TASKS_LEASE, SMALL, leases_acquire, READS, 0)                                                \
    X(POST, "/v1/leases/{name}/heartbeat", TASKS_LEASE, SMALL, leases_heartbeat, READS, 0)                             \
    X(POST, "/v1/leases/{name}/complete", TASKS_LEASE, BODY, leases_report, READS, 0)                                  \
    X(POST, "/v1/leases/{name}/fail", TASKS_LEASE, SMALL, leases_report, READS, 1)                                     \
    X(GET, "/v1/workflow-definitions", WORKFLOWS_READ, NO_BODY, workflow_definitions_list, READS, 0)                   \
    X(GET, "/v1/workflow-definitions/{name}", WORKFLOWS_READ, NO_BODY, workflow_definitions_get, SLOW, 0)              \
    X(PUT, "/v1/workflow-definitions/{name}", WORKFLOWS_WRITE, DEFINITION, workflow_definitions_put, EDIT | MAYBE, 0)  \
    X(DELETE, "/v1/workflow-definitions/{name}", WORKFLOWS_WRITE, SMALL, workflow_definitions_delete, EDIT, 0)         \
    X(POST, "/v1/workflows", WORKFLOWS_WRITE, RUN, workflows_create, EDIT | ROUTE_BODY_KEY | MAYBE, 0)                 \
    X(GET, "/v1/workflows", WORKFLOWS_READ, NO_BODY, workflows_list, MAYBE, 0)                                         \
    X(GET, "/v1/workflows/{id}", WORKFLOWS_READ, NO_BODY, workflows_get, READS, 0)                                     \
    X(GET, "/v1/workflows/{id}/status", WORKFLOWS_READ, NO_BODY, workflows_status, READS, 0)                           \
    X(GET, "/v1/workflows/{id}/steps", WORKFLOWS_READ, NO_BODY, workflow_steps_list, READS, 0)                         \
    X(GET, "/v1/workflows/{id}/steps/{name}", WORKFLOWS_READ, NO_BODY, workflow_steps_get, READS, 0)                   \
    X(POST, "/v1/workflows/{id}/cancel", WORKFLOWS_WRITE, SMALL, workflows_act, EDIT, ACTION_CANCEL)                   \
    X(POST, "/v1/workflows/{id}/pause", WORKFLOWS_WRITE, SMALL, workflows_act, EDIT, ACTION_PAUSE)                     \
    X(POST, "/v1/workflows/{id}/resume", WORKFLOWS_WRITE, SMALL, workflows_act, EDIT, ACTION_RESUME)                   \
    X(POST, "/v1/workflows/{id}/retry", WORKFLOWS_WRITE, BODY, workflows_retry, EDIT, 0)                               \
    X(POST, "/v1/workflows/{id}/rerun", WORKFLOWS_WRITE, BODY, workflows_rerun, EDIT, 0)                               \
    X(POST, "/v1/workflows/{id}/signals/{name}", WORKFLOWS_SIGNAL, BODY, workflow_signals_send, EDIT, 0)               \
    X(POST, "/v1/workflows/{id}/steps/{name}/run-now", WORKFLOWS_WRITE, BODY, workflow_steps_act, EDIT,                \
      ACTION_RUN_NOW)                                                                                                  \
    X(POST, "/v1/workflows/{id}/steps/{name}/force-complete", WORKFLOWS_WRITE, BODY, workflow_steps_act, EDIT,         \
      ACTION_FORCE_COMPLETE)                                                                                           \
    X(POST, "/v1/workflows/{id}/steps/{name}/skip", WORKFLOWS_WRITE, BODY, workflow_steps_act, EDIT, ACTION_CANCEL)    \
    X(POST, "/v1/preview", TASKS_READ, BODY, preview_body, SLOW, 0)                                                    \
    X(GET, "/v1/upcoming", TASKS_READ, NO_BODY, upcoming_of_all, SLOW, 0)                                              \
    X(GET, "/v1/tasks/{id}/executions", TASKS_READ, NO_BODY, executions_list, READS, 0)                                \
    X(GET, "/v1/executions", TASKS_READ, NO_BODY, executions_of_all, MAYBE, 0)                                         \
    X(GET, "/v1/tasks/{id}/occurrences", TASKS_READ, NO_BODY, occurrences_list, READS, 0)                              \
    X(POST, "/v1/recurring-tasks", TASKS_WRITE, BODY, tasks_create, ROUTE_WRITES | ROUTE_INLINE | ROUTE_BODY_KEY | RE, \
      0)                                                                                                               \
    X(GET, "/v1/recurring-tasks", TASKS_READ, NO_BODY, tasks_list, READS | RE | MAYBE, 0)                              \
    X(GET, "/v1/recurring-tasks/{id}", TASKS_READ, NO_BODY, tasks_get, READS | RE, 0)                                  \
    X(PATCH, "/v1/recurring-tasks/{id}", TASKS_WRITE, BODY, tasks_patch, EDIT | RE, 0)                                 \
    X(DELETE, "/v1/recurring-tasks/{id}", TASKS_WRITE, BODY, tasks_delete, EDIT | RE, ACTION_DELETE)                   \
    X(POST, "/v1/recurring-tasks/{id}/pause", TASKS_WRITE, BODY, tasks_act, EDIT | RE, ACTION_PAUSE)                   \
    X(POST, "/v1/recurring-tasks/{id}/resume", TASKS_WRITE, BODY, tasks_act, EDIT | RE, ACTION_RESUME)                 \
    X(POST, "/v1/recurring-tasks/{id}/trigger-now", TASKS_WRITE, BODY, tasks_act, EDIT | RE, ACTION_RUN_NOW)

#define X(method, pattern, scope, body_max, run, flags, argument)                                                      \
    _Static_assert(SCOPE_##scope != SCOPE_NONE, "a route without a scope");                                            \
    _Static_assert(!((flags)&OP) || !((flags) & (SLOW | MAYBE)), "the operator's listener has one pool thread");
ROUTES(X)
#undef X

const struct route routes[] = {
#define X(method, pattern, scope, body_max, run, flags, argument)                                                      \
    { HTTP_##method, #method " " pattern, pattern, SCOPE_##scope, body_max, run, flags, argument },
    ROUTES(X)
#undef X
};
const size_t route_count = array_count(routes);

static const char *const method_names[] = {
    [HTTP_GET] = "GET",     [HTTP_POST] = "POST",     [HTTP_PUT] = "PUT",
    [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE", [HTTP_OPTIONS] = "OPTIONS"
};

enum http_method method_parse(struct str name)
{
    if (str_eq(name, S("HEAD")))
        return HTTP_GET;
    for (size_t i = 0; i < array_count(method_names); i++)
        if (str_eq(name, str_from(method_names[i])))
            return (enum http_method)i;
    return HTTP_OTHER;
}

const char *method_name(enum http_method m)
{
    return m < HTTP_OTHER ? method_names[m] : "OTHER";
}

bool route_name_is_valid(struct str name)
{
    return name.n <= ROUTE_NAME_MAX && str_is_plain(name, "._:-");
}

static bool route_take_param(bool is_id, struct str word, struct route_params *ret)
{
    if (is_id)
        return word.n == UUID_TEXT && uuid_parse(word, &ret->id);
    ret->name = word;
    return route_name_is_valid(word);
}

/* A pattern whose first parameter is an id, and which has a second one behind it: {other}, an id, or {name}. */
static bool route_matches_two(struct str head, struct str tail, struct str path, struct route_params *ret)
{
    size_t brace = str_find(tail, '{', 0), at = head.n + UUID_TEXT;
    struct str middle = str_sub(tail, 0, brace), end = str_sub(tail, str_find(tail, '}', brace) + 1, tail.n);
    if (path.n < at + middle.n + end.n || !str_starts(path, head) ||
        !str_eq(str_sub(path, at, at + middle.n), middle) || !str_eq(str_sub(path, path.n - end.n, path.n), end))
        return false;
    struct str word = str_sub(path, at + middle.n, path.n - end.n);
    if (!uuid_parse(str_sub(path, head.n, at), &ret->id))
        return false;
    if (tail.p[brace + 1] == 'n')
        return route_take_param(false, word, ret);
    return word.n == UUID_TEXT && uuid_parse(word, &ret->other);
}

/* Whether the path fits the pattern. A pattern has at most two parameters. */
static bool route_matches(const char *pattern, struct str path, struct route_params *ret)
{
    struct str p = str_from(pattern);
    size_t brace = str_find(p, '{', 0);
    if (brace == p.n)
        return str_eq(p, path);
    size_t behind = str_find(p, '}', brace) + 1;
    struct str head = str_sub(p, 0, brace), tail = str_sub(p, behind, p.n);
    if (str_find(tail, '{', 0) < tail.n)
        return route_matches_two(head, tail, path, ret);
    if (path.n < head.n + tail.n || !str_starts(path, head) || !str_eq(str_sub(path, path.n - tail.n, path.n), tail))
        return false;
    struct str word = str_sub(path, head.n, path.n - tail.n);
    if (p.p[brace + 1] != 'p')
        return route_take_param(p.p[brace + 1] == 'i', word, ret);
    ret->name = word;
    return word.n > 0;
}

bool route_misses_id(struct str path, struct str *ret)
{
    for (size_t i = 0; i < route_count; i++) {
        struct str p = str_from(routes[i].pattern);
        size_t brace = str_find(p, '{', 0), behind = str_find(p, '}', brace) + 1;
        if (brace == p.n || p.p[brace + 1] != 'i' || !str_starts(path, str_sub(p, 0, brace)))
            continue;
        struct str tail = str_sub(p, behind, p.n), word = str_sub(path, brace, str_find(path, '/', brace));
        struct str fixed = str_sub(tail, 0, str_find(tail, '{', 0)), rest = str_sub(path, brace + word.n, path.n);
        struct uuid id;
        bool fits = fixed.n < tail.n ? str_starts(rest, fixed) : str_eq(rest, fixed);
        if (!fits || !word.n || (word.n == UUID_TEXT && uuid_parse(word, &id)))
            continue;
        *ret = word;
        return true;
    }
    return false;
}

static void route_write_allow(unsigned methods, char out[ALLOW_TEXT])
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

const struct route *route_find(enum http_method method, struct str path, struct route_params *ret_words,
                               char ret_allow[ALLOW_TEXT])
{
    unsigned methods = 0;
    for (size_t i = 0; i < route_count; i++) {
        if (!route_matches(routes[i].pattern, path, ret_words))
            continue;
        if (routes[i].method == method)
            return &routes[i];
        methods |= 1U << routes[i].method;
    }
    route_write_allow(methods, ret_allow);
    return NULL;
}
