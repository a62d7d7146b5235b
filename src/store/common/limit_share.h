#pragma once
/* store/common/limit_share.h - what a node gets of a limit that holds for all (OP_LIMIT_TAKE): the arithmetic, the same in every store. */
#include "core/sharing/bucket.h"
#include "port/store.h"

/* A limit as the store has it; all zero: nobody has asked for it yet. */
struct share_row {
    struct bucket bucket; /* rate 0: there was no rate yet; seen_ms is when it was asked for all the same */
    int64_t held;         /* places of the node that asks */
    int64_t others;       /* of all other nodes that live */
};

/* Gives the share its results, and makes the row what it is then. */
void share_take(struct share *share, struct share_row *row, int64_t now_ms);
bool share_bucket_same(const struct bucket *a, const struct bucket *b); /* nothing to write */
void share_refuse(struct share *share, int64_t now_ms);                 /* of a node that is dead or unknown */

/* A bucket that may go: no different from one that is made anew. */
bool share_is_idle(const struct bucket *b, int64_t now_ms);
