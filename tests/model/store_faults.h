#pragma once
/* model/store_faults.h - a store that injects faults into another store, for simulation and tests.
 *
 * A plan says which of the next calls of store_apply fail, step by step. After its end, and without a plan, every call
 * succeeds. Reads always do. Any thread may set a plan at any time. */
#include "port/store.h"

enum store_fault_kind {
    FAULT_NONE,   /* the call succeeds */
    FAULT_BEFORE, /* the call fails, and nothing is committed */
    FAULT_AFTER,  /* everything is committed, but the call fails and its results are wiped: the answer was lost */
    FAULT_OP,     /* one operation fails and changes nothing; the others succeed */
};

struct store_fault {
    enum store_fault_kind kind;
    size_t times;  /* number of calls that this step lasts; 0: one */
    enum err code; /* the error code; ERR_OK means ERR_UNAVAILABLE */
    size_t op;     /* FAULT_OP: its index in the batch; beyond the end: no operation fails */
};

struct store_faults;

struct store *store_faults_new(struct store *inner, struct store_faults **ret); /* takes inner; store_free frees both */

/* Replaces the rest of the last plan. The steps are copied. */
void store_faults_plan(struct store_faults *f, const struct store_fault *steps, size_t n);
size_t store_faults_left(struct store_faults *f);  /* number of calls that the rest of the plan covers */
size_t store_faults_calls(struct store_faults *f); /* number of calls of store_apply so far */
