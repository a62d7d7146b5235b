#pragma once
/* port/store/operation.h - what every operation on a store has: its kind, its result and its completion.
 *
 * OP_MAP is the one list of operations. A row gives the constant and the verb: OP_CLAIM, struct op_claim, and the
 * handler of each store (sqlite_claim, postgres_claim, memory_claim). port/store/operation_table.h says how each is
 * carried to the store. */
#include "base/arena.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

#define OP_MAP(X)                                                                                                      \
    X(INSERT, insert)                                                                                                  \
    X(CLAIM, claim)                                                                                                    \
    X(CLAIMED, claimed)                                                                                                \
    X(ORPHANS, orphans)                                                                                                \
    X(SETTLE, settle)                                                                                                  \
    X(RECURRING, recurring)                                                                                            \
    X(SPAWN, spawn)                                                                                                    \
    X(CATCH_UP, catch_up)                                                                                              \
    X(PUT, put)                                                                                                        \
    X(KEY_PUT, key_put)                                                                                                \
    X(CATALOG, catalog)                                                                                                \
    X(LEASE, lease)                                                                                                    \
    X(PURGE, purge)                                                                                                    \
    X(HEARTBEAT, heartbeat)                                                                                            \
    X(NODE_DEAD, node_dead)                                                                                            \
    X(LIMIT_TAKE, limit_take)                                                                                          \
    X(RECALL, recall)                                                                                                  \
    X(RECALL_LIST, recall_list)                                                                                        \
    X(HANDOFF, handoff)                                                                                                \
    X(HANDED_OFF, handed_off)                                                                                          \
    X(RUNNING, running)                                                                                                \
    X(RETAKE, retake)                                                                                                  \
    X(LEASE_RENEW, lease_renew)                                                                                        \
    X(LEASES_EXPIRED, leases_expired)                                                                                  \
    X(WORKER_REPORT, worker_report)                                                                                    \
    X(BREAKERS, breakers)                                                                                              \
    X(STATS, stats)                                                                                                    \
    X(ARRIVE, arrive)                                                                                                  \
    X(OPEN, open)                                                                                                      \
    X(AWAIT, await)                                                                                                    \
    X(SIGNAL, signal)                                                                                                  \
    X(STOP, stop)                                                                                                      \
    X(DEFINE, define)                                                                                                  \
    X(RESEAL, reseal)                                                                                                  \
    X(FOLD, fold)

enum op_kind {
#define X(name, verb) OP_##name,
    OP_MAP(X)
#undef X
};
enum {
#define X(name, verb) +1
    OP_KINDS = 0 OP_MAP(X)
#undef X
};

struct audit;

struct op {
    enum op_kind kind;
    enum err rc; /* result */
    struct error error;
    struct arena arena;          /* for results; the submitter inits and releases it */
    void (*done)(struct op *op); /* called after the commit or the failure, on the thread that drives the submitter */
    void *context;
    const struct audit *audit; /* NULL, or the row that the operation leaves (port/store/audit.h) */
    struct str request;        /* the name of the request that it is for (port/store/changes.h); empty: none */
    struct list link;          /* the writer's, like the next three */
    int64_t submitted_ns;      /* steady */
    /* NULL, or set by a writer in front of another one that calls `done` on a thread of its choice
     * (platform/loop_uv.c): the inner writer then reports the result here instead. */
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

/* Stores the answer to a request in the transaction of the operation, for a request that repeats the key.
 * If the key has a record already, the operation fails with ERR_CONFLICT, field "idempotency-key", and does nothing
 * else. Every operation that carries a key checks the record before anything else. */
struct idempotency {
    int32_t tenant;
    uint8_t key[32];     /* SHA-256 of method, route and key */
    uint8_t payload[32]; /* SHA-256 of the request's body */
    int status;
    struct str answer;
    int64_t created_ms;
};
