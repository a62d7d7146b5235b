#pragma once
/* api/server/routes.h - the one table of routes. A row is all that a new route takes; tests hold openapi.json to it. */
#include "api/server/auth.h"
#include "base/str.h"
#include "base/uuid.h"

enum http_method { HTTP_GET, HTTP_POST, HTTP_PUT, HTTP_PATCH, HTTP_DELETE, HTTP_OPTIONS, HTTP_OTHER };

struct request;
struct reader;

/* DONE: the answer is in q->response. LATER: someone was asked and will call request_answer (or request_again). */
enum handled { HANDLED_DONE, HANDLED_LATER };
typedef enum handled route_handler(struct request *q, struct reader *r);

enum {
    ROUTE_WRITES = 1,    /* takes an Idempotency-Key */
    ROUTE_INLINE = 2,    /* needs no reader: runs where it came in, r is NULL */
    ROUTE_RECURRING = 4, /* sees recurring tasks only */
    ROUTE_BODY_KEY = 8,  /* its body may hold the idempotency key as well: the handler asks for it */
    ROUTE_ICAL = 16,     /* its body may be text/calendar */
};

struct route {
    enum http_method method;
    const char *pattern; /* {id} stands for a UUID, {name} for ROUTE_NAME_MAX of letters, digits and . _ : - */
    enum scope scope;
    size_t body_max; /* 0: it has none */
    route_handler *run;
    unsigned flags;
    int argument; /* the handler's: an enum action */
};

extern const struct route routes[];
extern const size_t route_count;

enum { PATH_MAX_BYTES = 256, ALLOW_TEXT = 64, ROUTE_NAME_MAX = 100 };

/* What stood in the path in place of {id} or {name}; the name is borrowed from it. */
struct route_words {
    struct uuid id;
    struct str name;
};

/* HEAD is GET. NULL: none; ret_allow then lists the methods that the path knows, or is empty if it is unknown. */
const struct route *route_find(enum http_method method, struct str path, struct route_words *ret_words,
                               char ret_allow[ALLOW_TEXT]);
bool route_name_is_sound(struct str name); /* what {name} takes */

enum http_method method_parse(const char *name);
const char *method_name(enum http_method m);

/* The handlers, by the file they are in. */
route_handler tasks_create, tasks_list, tasks_get;                                           /* tasks.c */
route_handler tasks_patch, tasks_delete, tasks_act;                                          /* edit.c */
route_handler batch_create;                                                                  /* batch.c */
route_handler executions_list, occurrences_list;                                             /* executions.c */
route_handler preview, upcoming_of_task, upcoming_of_all;                                    /* foresight.c */
route_handler tasks_explain;                                                                 /* explain.c */
route_handler leases_ask, leases_heartbeat, leases_report;                                   /* leases.c */
route_handler queues_list, queues_get, queues_put, queues_patch, queues_delete;              /* queues.c */
route_handler calendars_list, calendars_get, calendars_put, calendars_delete;                /* calendars.c */
route_handler tenants_list, tenants_get, tenants_create, tenants_patch;                      /* tenants.c */
route_handler keys_list, keys_create, keys_delete;                                           /* keys.c */
route_handler dlq_list, dlq_get;                                                             /* dlq.c */
route_handler dlq_retry, dlq_archive;                                                        /* edit.c */
route_handler jobs_bulk, jobs_redrive, jobs_list, jobs_get, jobs_cancel;                     /* jobs.c */
route_handler status_health, status_ready, status_scheduler, status_metrics, status_openapi; /* status.c */
route_handler workers_list, workers_get;                                                     /* workers.c */
