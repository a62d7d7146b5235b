#pragma once
/* api/server/request.h - one API request: its input, its identity, the state of its handler, and its answer.
 *
 * A request belongs to one thread at a time, and only that thread may touch it:
 * 1. An HTTP thread creates it and reads its headers. If the API key is not cached, a pool thread looks it up. Then the
 *    HTTP thread reads its body.
 * 2. The request runs on that HTTP thread (ROUTE_INLINE) or on a pool thread, which has a store reader.
 * 3. It may wait, suspended, for the writer, the owner of a task or a timer. The thread that completes the wait owns it
 *    then.
 * 4. Its HTTP thread sends the answer and frees it.
 *
 * "The caller's thread" below is the thread that owns the request. A function that passes the request on says so:
 * afterwards the caller must not touch it. */
#include "api/server/api_server.h"
#include "api/server/idempotency.h"
#include "api/server/respond.h"
#include "api/server/routes.h"
#include "api/server/thread_pool.h"
#include "api/server/timers.h"
#include "base/log.h"
#include "base/thread_owner.h"
#include "node/trace/spans.h"

/* The headers that the API uses. They live as long as the request. */
struct request_head {
    struct str authorization, idempotency_key, if_match, content_type, content_encoding, origin, timing;
    struct str host, csrf_token;
    struct str cookie, sec_fetch_site, forwarded; /* lists; forwarded: what proxies add */
    struct str last_event_id;
    struct str accept, accept_encoding, if_none_match; /* lists: several lines are joined */
    struct str traceparent, tracestate, request_id;    /* for the trace of tasks (core/task/trace.h) */
    const char *repeated; /* the name of a header that may be given once and is given twice; NULL: none */
};

/* State of the multi-step handlers: an edit of a task (api/resource/edit.c), an update of the catalog
 * (api/catalog/catalog_update.c). */
struct edit;
struct catalog_update;

/* Where the time of a request went, for Server-Timing. */
struct request_timing {
    int64_t begin_ns, mark_ns; /* mark_ns: until when it is attributed; 0: the client did not ask for it */
    int64_t auth_ns, body_ns, queue_ns, store_ns;
};

struct request {
    struct api_server *server;
    struct http_exchange *exchange;  /* NULL: an internal request */
    struct thread_pool *pool;        /* whose threads run it */
    struct thread_owner http_thread; /* reads the request and sends its answer; not taken: an internal request */
    struct list link;                /* in the pool's queue */

    struct str uri;   /* as received; the request's own copy */
    struct str path;  /* percent-decoded */
    struct str query; /* as received, without the '?' */
    enum http_method method;
    const struct route *route;
    struct uuid id;    /* {id} in the path */
    struct uuid other; /* {other} in the path */
    struct str name;   /* {name} in the path */
    struct request_head head;
    struct str trace;   /* what its new tasks keep of the caller (core/task/trace.h) */
    struct str session; /* the text of its session, from its cookie; empty: it has none */
    struct request_span span;
    struct identity who;
    bool authenticated;         /* `who` was checked, or the route is public */
    int32_t certificate_tenant; /* an API key must be of this tenant, too; 0: the client has no mapped certificate */

    struct buf body;

    struct request_timing timing;

    bool suspended; /* its HTTP thread waits until request_answer */
    bool answered;
    bool finished; /* request_finish */

    int64_t now_ms; /* when the current step began to run */
    struct arena arena;
    struct response response;
    struct idempotency record;
    bool has_record;
    struct inflight_key inflight_key;
    struct str object_name; /* of what the route acts on, if that has an id, too; in the arena. For the audit row */
    struct str act_reason;  /* that the body gives the act, for the audit row, too; empty: none */
    int64_t act_until_ms;   /* the end that it gives; 0: none */
    struct audit audit;     /* api/server/audit.h */
    bool has_audit;

    route_handler *next;            /* what a pool thread runs next */
    enum thread_pool_cost cost;     /* of what is left to run */
    void (*op_done)(struct op *op); /* of the operation that is submitted */
    union {
        struct op op;
        struct op_insert insert;
        struct op_put put;
        struct op_catalog catalog;
        struct op_key_put key;
        struct op_lease lease;
        struct op_lease_renew lease_renew;
        struct op_settle settle;
        struct op_breakers breakers;
        struct op_define define;
        struct op_stop stop;
        struct op_signal signal;
        struct op_fold fold;
    } write;
    struct catalog_change job_change; /* the change in write.catalog, if it changes a job */
    struct task *tasks;               /* the tasks that a create made */
    size_t task_count;
    const struct definition *definition;  /* of the run that a create made; NULL: it has a name */
    struct depends_on *depends;           /* what the task that a create made waits for; n 0: for nothing */
    void (*on_answer)(struct request *q); /* of an internal request: gets the answer, and owns the request */
    void *context;                        /* for the handler, or for on_answer */
    struct edit *edit;
    struct withdrawal *withdrawal;
    struct dedupe_pass *dedupe;
    struct catalog_update *catalog_update;
    struct calendar_reapply_run *calendar_reapply_run;
    struct queue_view *queues;
    struct batch *batch;
    struct live_stream *live_stream; /* that the answer is to be; NULL: none, or it was opened */
    struct recall_group *recalls;    /* what comes of the orders that were told; NULL: nobody asks */
    int64_t sure_ms;                 /* steady: from then on no task starts that a worker was asked to return */
    enum task_state became;          /* the state of the task that was taken back last (recall_ask) */
    struct stopping *stopping;       /* of a run; an internal request may do it, so it has no `context` */
};

#define REQUEST_CERTIFICATE_EXPIRED "the client certificate has expired; connect again with a new one"

enum { REQUEST_ARENA_MAX = 192 << 20, LIST_DEFAULT = 20 };

struct request *request_new(struct api_server *s, struct http_exchange *exchange, struct str uri);
void request_free(struct request *q);
/* The answer was made: it may take long until the client has read it. The HTTP thread of the request. */
void request_release_memory(struct request *q);

/* An internal request: no client sent it. It acts for a tenant with all scopes. Start it with request_later(q,
 * request_run); on_answer gets its answer. key is its Idempotency-Key; NULL: none. Any thread. The caller must have
 * counted it with api_server_begin_run, so that the server does not stop before it ends. */
struct request *request_new_internal(struct api_server *s, enum http_method method, const char *path, int32_t tenant,
                                     const char *key);
void request_set_body(struct request *q, struct str body); /* of an internal request; it is copied */

/* Answers a request whose API key is missing or wrong, and counts it. */
void request_refuse_key(struct request *q, enum auth_result result);

/* Looks up the API key in the store. False: the request is answered. A pool thread. */
bool request_identify(struct request *q, struct reader *r);

/* For a request that has waited, before it takes or answers anything: whether a new one with its key would be allowed.
 * Reads the store only if keys or tenants may have changed. False: the request is answered as the new one would be. A
 * pool thread. */
bool request_still_allowed(struct request *q, struct reader *r);

/* Checks what `who` may do, once it is known. False: the request is answered (403). The caller's thread. */
bool request_admit(struct request *q);

/* Whether `who` is an operator: it has the scope admin in the tenant `default`. The caller's thread. */
bool request_is_operator(const struct request *q);

/* For routes that show data of all tenants: requires a key of the tenant `default`. False: the request is answered
 * (403). */
bool request_require_default_tenant(struct request *q);

/* Whether the tenant of `who` is enabled. False: the request is answered (403). The caller's thread. */
bool request_tenant_is_enabled(struct request *q);

/* Runs the request's route from the start. Its HTTP thread (r is NULL) or a pool thread. */
enum handled request_run(struct request *q, struct reader *r);

/* Sends the answer in q->response: wakes the connection. The caller's thread; passes q on. */
void request_answer(struct request *q);

/* From now on the request uses its tenant's share of the budgets, and its connection may stay idle. */
void request_name_owner(const struct request *q);

/* The last step before the answer is sent: ETag, 304, gzip of a body of at most gzip_max bytes. A second call does
 * nothing. The caller's thread. */
void request_finish(struct request *q, size_t gzip_max);

/* Attributes the time since the last call to a part of q->timing. The caller's thread. */
void request_time(struct request *q, int64_t *part);

/* Runs next on a pool thread. The caller's thread; passes q on. */
enum handled request_later(struct request *q, route_handler *next);

/* Submits q->write to the writer. done is called on the writer's thread after the commit. The caller's thread; passes q
 * on. */
enum handled request_submit(struct request *q, void (*done)(struct op *op));

/* The first call in such a done: ends the operation. Releases its arena and returns the request, which now belongs to
 * the calling thread. op stays readable while the request lives. The writer's thread. */
struct request *request_finish_op(struct op *op);

/* If the operation failed, answers with its error and returns true: the caller is done with q. The writer's thread. */
bool request_op_failed(struct request *q, const struct op *op);

/* Submits another operation than q->write: its done continues with q, its context becomes q. Passes q on. */
enum handled request_submit_op(struct request *q, struct op *op);

/* Answers with a failure, and logs it if the cause is the server and not the client. The caller's thread, like the
 * functions below. */
enum handled request_fail(struct request *q, const struct error *e);
enum handled request_refuse(struct request *q, enum problem p, const char *detail);

/* Reserves an idempotency key for this request. False: the request is answered (400 or 409). */
bool request_reserve_key(struct request *q, struct str key, const char *field);

/* Answers from the stored record of q's key, or with 422 if that record is of another body. ERR_NOT_FOUND: there is no
 * record. A pool thread. */
enum err request_replay(struct request *q, struct reader *r, struct error *e);
route_handler request_replay_stored; /* the same as a step, after the writer reported a conflict with a record */

/* Copies the answer into q's idempotency record and returns the record for an operation; NULL without a key. */
const struct idempotency *request_record(struct request *q);

/* For a request that changes nothing: stores the idempotency record, if there is one, and answers. May pass q on. */
enum handled request_store_record(struct request *q);
/* The same for a request whose act another node has done: leaves the audit row, too. */
enum handled request_store_act(struct request *q);

/* Whether the operation failed because its idempotency key already has a record. The answer is in that record then. */
bool request_is_replay(const struct op *op);

/* If so, goes on to answer from that record and returns true: the caller is done with q. */
bool request_replayed(struct request *q, const struct op *op);

/* Reads the task in the path. ERR_NOT_FOUND if it does not exist or the route does not show it. A pool thread. */
enum err request_get_task(struct request *q, struct reader *r, struct task *ret, struct error *e) must_use;

/* For what runs for a request on any thread: until log_request_leave, lines of the log name the request
 * (base/log.h). Steps on pool threads, callbacks of the HTTP server and `done` of submitted operations have it. */
struct log_request request_log_enter(const struct request *q) must_use;

struct uuid request_new_id(struct request *q); /* a new UUIDv7 */

/* Tells the node that these tasks were written, if the setup has `nudge`. The caller's thread. */
void request_nudge(struct request *q, const struct task *tasks, size_t n);
/* Answers a request whose operation writes these tasks, with the error if it failed. If the store's answer was lost,
 * they may have been written: the node is told of them, too. */
void request_answer_written(struct request *q, const struct op *op, const struct task *tasks, size_t n);

/* Whether the API reads bodies of this Content-Type. Any thread. */
bool media_type_is_known(struct str type, bool *ret_ndjson);
bool media_type_is_ical(struct str type);
