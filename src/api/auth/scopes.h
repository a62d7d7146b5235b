#pragma once
/* api/auth/scopes.h - what the holder of an API key or of a client certificate may do. */
#include "base/buf.h"

/* The scope that a route requires. SCOPE_NONE means "no scope was given": a route with it does not compile. ADMIN
 * includes every scope. */
#define SCOPE_MAP(X)                                                                                                   \
    X(TASKS_READ, "tasks:read")                                                                                        \
    X(TASKS_WRITE, "tasks:write")                                                                                      \
    X(TASKS_LEASE, "tasks:lease")                                                                                      \
    X(DLQ_READ, "dlq:read")                                                                                            \
    X(QUEUES_READ, "queues:read")                                                                                      \
    X(QUEUES_WRITE, "queues:write")                                                                                    \
    X(CALENDARS_READ, "calendars:read")                                                                                \
    X(CALENDARS_WRITE, "calendars:write")                                                                              \
    X(DLQ_WRITE, "dlq:write")                                                                                          \
    X(WORKFLOWS_READ, "workflows:read")                                                                                \
    X(WORKFLOWS_WRITE, "workflows:write")                                                                              \
    X(WORKFLOWS_SIGNAL, "workflows:signal")                                                                            \
    X(WORKFLOWS_SIGNAL_AS, "workflows:signal-as")                                                                      \
    X(STATUS_READ, "status:read")                                                                                      \
    X(AUDIT_READ, "audit:read")                                                                                        \
    X(NOTIFICATIONS_READ, "notifications:read")                                                                        \
    X(NOTIFICATIONS_WRITE, "notifications:write")                                                                      \
    X(SIGNING_KEYS_READ, "signing-keys:read")                                                                          \
    X(SIGNING_KEYS_WRITE, "signing-keys:write")                                                                        \
    X(METRICS_READ, "metrics:read")                                                                                    \
    X(ADMIN, "admin")
enum scope {
    SCOPE_NONE,
    SCOPE_PUBLIC,
    SCOPE_ANY, /* any valid key: the route shows or ends what the key itself is */
#define X(id, name) SCOPE_##id,
    SCOPE_MAP(X)
#undef X
};
const char *scope_name(enum scope s);    /* "public" for SCOPE_PUBLIC, "any" for SCOPE_ANY */
uint32_t scopes_parse(struct str words); /* unknown words give no scope */
void scopes_names(struct buf *out);      /* the names of all scopes, separated by commas */
