#pragma once
/* port/op.h - what every operation on a store (port/store.h) has: its kind, its result, and who wants to know. */
#include "base/arena.h"
#include "base/err.h"
#include "base/list.h"

enum op_kind {
    OP_INSERT,
    OP_CLAIM,
    OP_CLAIMED,
    OP_ORPHANS,
    OP_SETTLE,
    OP_RECURRING,
    OP_SPAWN,
    OP_CATCH_UP,
    OP_PUT,
    OP_KEY_PUT,
    OP_CATALOG,
    OP_LEASE,
    OP_PURGE,
    OP_HEARTBEAT,
    OP_NODE_DEAD,
    OP_LIMIT_TAKE,
    OP_RECALL,
    OP_RECALL_LIST,
    OP_HANDOFF,
    OP_HANDED_OFF,
    OP_RUNNING,
    OP_RETAKE,
    OP_LEASE_RENEW,
    OP_LEASES_EXPIRED,
    OP_WORKER_REPORT
};
enum { OP_KINDS = OP_WORKER_REPORT + 1 };

struct op {
    enum op_kind kind;
    enum err rc; /* result */
    struct error error;
    struct arena arena;          /* for results; whoever made the operation inits and releases it */
    void (*done)(struct op *op); /* called by the writer's owner after the commit, or the failure */
    void *context;
    struct list link; /* the writer's, like the next two */
    /* NULL, or set by a writer in front of another one that calls `done` on a thread of its choice (platform/loop_uv.c):
     * the inner writer then reports the result here instead. */
    void (*deliver)(struct op *op);
    void *deliver_context;
};

/* For the writer that has applied the operation: reports the result, once. The callee may free the operation. */
static inline void op_complete(struct op *op)
{
    if (op->deliver)
        op->deliver(op);
    else
        op->done(op);
}

/* Keeps an answer for whoever asks again with the same key (R2.3), in the transaction of what it answers. Where a record of
 * the key exists already, the operation fails with ERR_CONFLICT, field "idempotency-key", and does nothing else. */
struct idempotency {
    int32_t tenant;
    uint8_t key[32];     /* SHA-256 of method, route and key */
    uint8_t payload[32]; /* SHA-256 of the request's body */
    int status;
    struct str answer;
    int64_t created_ms;
};
