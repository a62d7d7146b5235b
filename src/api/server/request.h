#pragma once
/* api/server/request.h - one request on its way: what it asks, who asks, what was found, what is answered.
 *
 * It belongs to one thread at a time: an HTTP thread gathers it, then it runs there or on an API thread, then perhaps waits
 * for the writer or for a task's owner, and goes back to its HTTP thread to be answered. */
#include "api/server/api_server.h"
#include "api/server/idempotency.h"
#include "api/server/respond.h"
#include "api/server/routes.h"
#include "api/server/timers.h"

struct connection;
struct MHD_Connection;

/* The headers that matter; they live as long as the request. */
struct request_head {
    struct str authorization, idempotency_key, if_match, content_type, content_length, transfer_encoding, expect;
    struct str host;
    size_t bytes;      /* of all headers */
    const char *twice; /* one that may stand there once and does not */
    bool odd_name;     /* one is called what no header may be */
};

/* An edit: what is read, and what is to become of it (api/resource/edit.c); the same for the catalog (api/resource/change.c). */
struct edit;
struct change;

struct request {
    struct api_server *server;
    struct MHD_Connection *connection;
    struct connection *socket;
    struct list link; /* in the pool */

    struct str uri;   /* as it came, its own copy */
    struct str path;  /* decoded */
    struct str query; /* as it came, without the '?' */
    enum http_method method;
    const struct route *route;
    struct uuid id;  /* in the path */
    struct str name; /* the same */
    struct request_head head;
    struct identity who;
    bool known; /* who is checked */

    struct buf body;
    size_t body_seen;
    size_t body_counted; /* of the server's sum */

    bool entered;   /* the handler has been called */
    bool unframed;  /* nobody knows where it ends: it is answered at once */
    bool refused;   /* the answer is there already; the body is read and dropped */
    bool suspended; /* the connection waits for request_answer */
    bool answered;

    int64_t now_ms; /* when it was run */
    struct arena arena;
    struct response response;
    struct idempotency record;
    bool has_record;
    struct flight flight;

    route_handler *next; /* what the pool runs */
    union {
        struct op op;
        struct op_insert insert;
        struct op_put put;
        struct op_catalog catalog;
        struct op_key_put key;
        struct op_lease lease;
        struct op_lease_renew keep;
        struct op_settle settle;
    } write;
    struct catalog_change job_change; /* of a job: what write.catalog puts */
    struct task *tasks;               /* what a create made */
    size_t task_count;
    void (*own_answer)(struct request *q); /* one that we ask ourselves: takes the answer, and the request */
    void *context;                         /* its */
    struct edit *edit;
    struct withdrawal *withdrawal;
    struct dedupe_pass *dedupe; /* api/resource/dedupe.c */
    struct change *change;
    struct calendar_reapply_run *calendar_reapply_run;
    struct queue_view *queues;
    struct batch *batch;
};

enum { REQUEST_ARENA_MAX = 192 << 20, LIST_DEFAULT = 20 };

struct request *request_new(struct api_server *s, struct MHD_Connection *connection, struct str uri);
void request_free(struct request *q);

/* A request that nobody sent: of a tenant, with all rights, to be run by request_later(q, request_run) and answered by own_answer. The
 * server must not be stopping (api_server_begin_run). key: its Idempotency-Key; NULL: none. */
struct request *request_own(struct api_server *s, enum http_method method, const char *path, int32_t tenant,
                            const char *key);

/* Runs the request's route from the start: on an HTTP thread (r NULL) or on one of the pool. */
enum handled request_run(struct request *q, struct reader *r);

/* The answer is in q->response: wakes the connection. Any thread; q is not the caller's any more. */
void request_answer(struct request *q);

/* Runs next on an API thread. q is not the caller's any more. */
enum handled request_later(struct request *q, route_handler *next);

/* Hands q->write to the writer; done is called after the commit. q is not the caller's any more. */
enum handled request_submit(struct request *q, void (*done)(struct op *op));
struct request *request_of(struct op *op);

/* The same with another operation than q->write, whose done goes on with q. */
enum handled request_hand_over(struct request *q, struct op *op);

/* The answer to a failure: logged if it is ours. */
enum handled request_fail(struct request *q, const struct error *e);
enum handled request_refuse(struct request *q, enum problem p, const char *detail);

/* Reserves an idempotency key. False: the answer is there. */
bool request_reserve_key(struct request *q, struct str key, const char *field);

/* The answer of the record of q's key, or 422. ERR_NOT_FOUND: there is none. */
enum err request_replay(struct request *q, struct reader *r, struct error *e);
route_handler request_replay_stored; /* the same as a step, after a conflict */

/* Fills in the record's answer and returns it for an operation; NULL without a key. */
const struct idempotency *request_record(struct request *q);

/* The operation failed because its key has a record: goes on with that. */
bool request_is_replay(const struct op *op);

/* The task in the path, if the route may see it. */
enum err request_get_task(struct request *q, struct reader *r, struct task *ret, struct error *e) must_use;

/* What the processes do as a whole tells of all tenants: it takes a key of the default one. False: the answer is there. */
bool request_sees_all(struct request *q);

struct uuid request_new_id(struct request *q);
void request_nudge(struct request *q, const struct task *tasks, size_t n);

/* What a create's operation ends in: counts, nudges, answers. */
void tasks_created(struct op *op);

/* Whether a Content-Type is one that we read. */
bool media_type_is_known(struct str type, bool *ret_ndjson);
bool media_type_is_ical(struct str type);
