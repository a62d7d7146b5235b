#pragma once
/* platform/writer_split.h - several writers as one, for a store that runs more than one transaction at once.
 *
 * If the heartbeats of a node wait behind a large transaction, or behind a row that another node has locked, the other
 * nodes take it for dead. So the table of operations (port/store/operation_table.h) gives each a route: OP_VIA_URGENT
 * operations have a writer of their own, and so have claims, which are made while earlier claims are being settled. No
 * operation of these routes depends on the order in which it and operations of another route are committed. */
#include "port/store/operation_table.h"
#include "port/writer.h"

struct writer_split {
    struct writer base;
    struct writer *ways[OP_ROUTES];
};

/* The writers are borrowed. */
struct writer *writer_split_init(struct writer_split *s, struct writer *const ways[OP_ROUTES]);
