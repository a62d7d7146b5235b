#pragma once
/* model/store_faults.h - a store that fails as it is told, around one that works: for simulation and tests.
 *
 * A plan says what becomes of the next calls of store_apply, step by step; behind its end, and without one, everything goes
 * through. Reads always do. A plan may be set by any thread at any time. */
#include "port/store.h"

enum store_fault_kind {
    FAULT_NONE,   /* goes through */
    FAULT_BEFORE, /* nothing happens, and the call fails */
    FAULT_AFTER,  /* all of it is committed, and the answer is lost: the call fails, results are wiped */
    FAULT_OP,     /* one operation fails and leaves no trace, the others go through */
};

struct store_fault {
    enum store_fault_kind kind;
    size_t times;  /* how many calls this step lasts; 0: one */
    enum err code; /* ERR_OK: ERR_UNAVAILABLE */
    size_t op;     /* FAULT_OP: its place in the batch; beyond its end: nothing fails */
};

struct store_faults;

struct store *store_faults_new(struct store *inner, struct store_faults **ret); /* takes inner; store_free frees both */

/* In place of what is left of the last plan. The steps are copied. */
void store_faults_plan(struct store_faults *f, const struct store_fault *steps, size_t n);
size_t store_faults_left(struct store_faults *f);  /* calls that the plan still speaks about */
size_t store_faults_calls(struct store_faults *f); /* of store_apply, so far */
