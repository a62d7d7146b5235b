#pragma once
/* store/common/limit_share.h - the arithmetic of OP_LIMIT_TAKE: a node's share of a limit that holds for all nodes
 * together. The same in every store. */
#include "core/sharing/bucket.h"
#include "port/store.h"

/* A limit as stored; all zero: no node has used it yet. */
struct share_row {
    struct bucket bucket; /* rate 0: the limit has had no rate so far; seen_ms is maintained all the same */
    int64_t held;         /* places of the calling node */
    int64_t others;       /* places of all other live nodes */
};

/* Sets the results of the share and updates the row. */
void share_take(struct share *share, struct share_row *row, int64_t now_ms);
bool share_bucket_same(const struct bucket *a, const struct bucket *b); /* then it need not be written */
void share_refuse(struct share *share, int64_t now_ms);                 /* for a node that is dead or unknown */
