#pragma once
/* api/server/routes.h - the one table of routes. To add a route, add a row. Tests compare the table with openapi.json.
 * All functions: any thread. */
#include "api/auth/auth.h"
#include "base/str.h"
#include "base/uuid.h"

enum http_method { HTTP_GET, HTTP_POST, HTTP_PUT, HTTP_PATCH, HTTP_DELETE, HTTP_OPTIONS, HTTP_OTHER };

struct request;
struct reader;

/* DONE: the answer is in q->response. LATER: the request was passed on to another thread, which will call
 * request_answer. */
enum handled { HANDLED_DONE, HANDLED_LATER };
typedef enum handled route_handler(struct request *q, struct reader *r);

enum {
    ROUTE_WRITES = 1,        /* accepts an Idempotency-Key */
    ROUTE_INLINE = 2,        /* needs no reader: runs on the HTTP thread, with r NULL */
    ROUTE_RECURRING = 4,     /* shows recurring tasks only */
    ROUTE_BODY_KEY = 8,      /* its body may hold the idempotency key too: the handler checks it */
    ROUTE_ICAL = 16,         /* its body may be text/calendar */
    ROUTE_TEXT = 64,         /* its answer is text/plain, not JSON */
    ROUTE_OPERATOR = 32,     /* the operator's listener serves it too */
    ROUTE_EVENTS = 128,      /* its answer is text/event-stream, not JSON */
    ROUTE_AUDITED = 512,     /* leaves an audit row, but takes no Idempotency-Key: a record would hold a secret */
    ROUTE_KNOWN = 1024,      /* while the store is away, takes a key that was valid when it was last looked up */
    ROUTE_PAGE = 256,        /* for browsers: no part of the API, so openapi.json does not describe it */
    ROUTE_PROBE = 2048,      /* has a pool thread that runs nothing else: it never waits for other requests */
    ROUTE_SLOW = 4096,       /* may hold its thread for 50 ms or longer (api/server/thread_pool.h) */
    ROUTE_MAYBE_SLOW = 8192, /* the same if it asks for more than a short page, or has a body of more than 32 KiB */
};

struct route {
    enum http_method method;
    const char *action; /* method and pattern, as audit rows name it */
    /* {id} stands for a UUID, {name} for 1 to ROUTE_NAME_MAX letters, digits and . _ : -, {path} for any text */
    const char *pattern;
    enum scope scope;
    size_t body_max; /* 0: no body allowed */
    route_handler *run;
    unsigned flags;
    int argument; /* for the handler: an enum action */
};

extern const struct route routes[];
extern const size_t route_count;

#define ROUTE_MISSING "there is no route at this path; GET /openapi.json lists all routes"
enum { PATH_MAX_BYTES = 256, ALLOW_TEXT = 64, ROUTE_NAME_MAX = 100 };

/* The values of {id} and {name} or {path} in a path. The name is borrowed from the path. */
struct route_params {
    struct uuid id, other;
    struct str name;
};

/* Whether the path would be one of a route if it had an id where it has *ret. */
bool route_misses_id(struct str path, struct str *ret);

/* Finds a route; HEAD counts as GET. NULL: no such route. ret_allow then lists the methods that the path has; empty:
 * the path is unknown. */
const struct route *route_find(enum http_method method, struct str path, struct route_params *ret_words,
                               char ret_allow[ALLOW_TEXT]);
bool route_name_is_valid(struct str name); /* whether {name} accepts it */

enum http_method method_parse(struct str name);
const char *method_name(enum http_method m);

/* The handlers, by file. They run on a pool thread; those with ROUTE_INLINE run on an HTTP thread and get no reader. */
route_handler tasks_create, tasks_list, tasks_get, tasks_names; /* tasks.c */
route_handler tasks_show;                           /* the task q->id, whatever the query; for other handlers */
route_handler tasks_patch, tasks_delete, tasks_act; /* edit.c */
route_handler batch_create;                         /* batch.c */
route_handler executions_list, executions_of_all, occurrences_list;             /* executions.c */
route_handler preview_body, upcoming_of_task, upcoming_of_all;                  /* preview.c */
route_handler dependencies_get, dependencies_add, dependencies_remove;          /* dependencies.c */
route_handler tasks_explain;                                                    /* explain.c */
route_handler leases_acquire, leases_heartbeat, leases_report;                  /* lease_acquire.c, lease_reports.c */
route_handler queues_list, queues_get, queues_put, queues_patch, queues_delete; /* queues.c */
route_handler calendars_list, calendars_get, calendars_put, calendars_delete;   /* calendars.c */
route_handler tenants_list, tenants_get, tenants_create, tenants_patch;         /* tenants.c */
route_handler keys_list, keys_create, keys_delete;                              /* keys.c */
route_handler dlq_list, dlq_get;                                                /* dlq.c */
route_handler dlq_retry, dlq_archive;                                           /* edit.c */
route_handler jobs_bulk, jobs_redrive, jobs_list, jobs_get, jobs_cancel;        /* jobs.c */
route_handler status_health, status_ready, status_scheduler, status_metrics, status_openapi; /* status.c */
route_handler breakers_list, breakers_close_one;                                             /* breakers.c */
route_handler audit_list;                                                                    /* audit.c */
route_handler stats_list, alerts_list;                                                       /* src/api/stats */
route_handler live_stream_events;        /* api/live/live_streams.c */
route_handler workers_list, workers_get; /* workers.c */
route_handler settings_list, settings_get, settings_create, settings_patch,
    settings_delete; /* src/api/notify/settings.c */
route_handler signing_keys_list, signing_keys_get, signing_keys_create, signing_keys_rotate,
    signing_keys_delete; /* src/api/signing/signing_keys.c */
route_handler incidents_list, incidents_get, incidents_ack, incidents_mute,
    incidents_unmute;                                                          /* src/api/notify/incidents.c */
route_handler checks_list;                                                     /* src/api/notify/checks.c */
route_handler messages_list, messages_get, messages_resend, messages_test;     /* src/api/notify/messages.c */
route_handler site_redirect, site_index, site_file;                            /* src/api/dashboard: site.c */
route_handler session_login, session_get, session_logout, session_code_create; /* session.c */
/* src/api/workflow: definitions.c, runs.c, stop.c, retry.c, rerun.c, steps.c, signals.c */
route_handler workflow_definitions_list, workflow_definitions_get, workflow_definitions_put,
    workflow_definitions_delete;
route_handler workflows_create, workflows_list, workflows_get, workflows_status;
route_handler workflows_act, workflows_retry, workflows_rerun;
route_handler workflow_steps_list, workflow_steps_get, workflow_steps_act;
route_handler workflow_signals_send;
