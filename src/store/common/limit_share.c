#include "store/common/limit_share.h"

#include "base/mem.h"

enum { SEEN_EVERY_MS = 60 * 1000 }; /* if only seen_ms changes, a row is written at most once a minute */

static void share_take_tokens(struct share *s, struct bucket *b, int64_t now_ms)
{
    if (b->rate > 0)
        bucket_set(b, s->rate, s->burst, now_ms);
    else
        bucket_init(b, s->rate, s->burst, now_ms);
    if (s->give_back_tokens)
        bucket_give_back(b, s->give_back_tokens, now_ms);
    s->ret_tokens = bucket_take(b, s->want_tokens, now_ms);
    s->ret_next_ms = s->ret_tokens < s->want_tokens ? bucket_next_ms(b, now_ms) : now_ms;
}

static int64_t share_places(const struct share *s, const struct share_row *row)
{
    if (s->concurrency == 0)
        return 0;
    int64_t room = min_of(s->want_places, s->concurrency - row->others);
    return min_of(s->want_places, max_of(row->held, room));
}

void share_take(struct share *s, struct share_row *row, int64_t now_ms)
{
    s->ret_tokens = 0;
    s->ret_next_ms = now_ms;
    if (s->rate > 0 && (s->want_tokens > 0 || s->give_back_tokens > 0))
        share_take_tokens(s, &row->bucket, now_ms);
    else if (now_ms - row->bucket.seen_ms > SEEN_EVERY_MS)
        row->bucket.seen_ms = now_ms;
    row->held = s->ret_places = share_places(s, row);
}

bool share_bucket_same(const struct bucket *a, const struct bucket *b)
{
    return a->rate == b->rate && a->burst == b->burst && a->level == b->level && a->since_ms == b->since_ms &&
           a->taken == b->taken && a->seen_ms == b->seen_ms;
}

void share_refuse(struct share *s, int64_t now_ms)
{
    s->ret_tokens = s->ret_places = 0;
    s->ret_next_ms = s->want_tokens > 0 ? INT64_MAX : now_ms;
}
