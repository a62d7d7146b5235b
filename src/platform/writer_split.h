#pragma once
/* platform/writer_split.h - several writers behind one door, for a store that carries more than one transaction at once.
 *
 * A node whose beats stand in line behind a large transaction, or behind a row that another node has locked, looks dead to the others: so
 * beats, burials, leases, shares and wishes have a writer that does nothing else. Claims have one too: they are made while what was
 * claimed before is settled. None of these depends on the order in which it and other operations are committed. */
#include "port/store.h"

enum writer_way { WRITER_ALL, WRITER_CLAIMS, WRITER_URGENT, WRITER_WAYS };

struct writer_split {
    struct writer base;
    struct writer *ways[WRITER_WAYS];
};

/* They are borrowed. */
struct writer *writer_split_init(struct writer_split *s, struct writer *const ways[WRITER_WAYS]);
