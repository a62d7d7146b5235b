#pragma once
/* port/store/operation_table.h - one row for each operation of a store: how it travels, how much it weighs, how it is
 * checked.
 *
 * The batcher, the writer split and the store's front door read these rows. A new operation is a row in OP_MAP
 * (port/store/operation.h), a row here, its contract in port/store/, and a handler in each store. */
#include "port/store/operation.h"

/* Where a transaction has room for some operations only, which go first. */
enum op_urgency {
    OP_FRONT, /* a late one delays running tasks, or costs its sender a lease or its life */
    OP_REST
};

/* Which connection carries it, if a store has several (platform/writer_split.h). */
enum op_route {
    OP_VIA_ALL,    /* the connection that keeps the order of everything else */
    OP_VIA_CLAIMS, /* made while earlier claims are being settled */
    OP_VIA_URGENT, /* must not wait behind a large transaction or another node's row lock */
    OP_ROUTES
};

struct op_row {
    const char *name; /* "OP_CLAIM" */
    enum op_urgency urgency;
    enum op_route route;
    size_t (*weight)(const struct op *op);     /* how many rows it may touch; NULL: 1 */
    size_t idempotency_at;                     /* offset of its `const struct idempotency *`; 0: it carries no key */
    void (*check)(const struct op *op);        /* asserts on what the caller gave; NULL: nothing to check */
    void (*check_result)(const struct op *op); /* asserts on what the store answered, if rc is ERR_OK; NULL: nothing */
};

extern const struct op_row op_table[OP_KINDS];

size_t op_weight(const struct op *op);
const struct idempotency *op_idempotency(const struct op *op); /* NULL: it carries none */
/* Of an operation that has been applied: the audit row to write. NULL: it carries none, or changed nothing. */
const struct audit *op_audit(const struct op *op);
