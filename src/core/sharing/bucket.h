#pragma once
/* core/sharing/bucket.h - a token bucket: so many a second on average, so many at once after a rest.
 *
 * The level is always computed from one moment when it was known and from whole tokens taken since, never added up step by step: it
 * does not drift. A clock that is set back leaves the level as it was; one that jumps ahead fills the bucket, and no more. Times
 * within a second of each other may come in any order. */
#include <stdbool.h>
#include <stdint.h>

struct bucket {
    double rate;   /* a second */
    int64_t burst; /* the most that it holds */
    double level;  /* at since_ms */
    int64_t since_ms, taken;
    int64_t seen_ms; /* the latest time that it was told */
};

/* Full. rate > 0, burst >= 1. */
void bucket_init(struct bucket *b, double rate, int64_t burst, int64_t now_ms);

/* Other limits from now on; what is in it stays, as far as it holds that much. The same limits change nothing. */
void bucket_set(struct bucket *b, double rate, int64_t burst, int64_t now_ms);

int64_t bucket_available(struct bucket *b, int64_t now_ms); /* whole tokens, at least 0 */

/* Takes up to n; returns how many. */
int64_t bucket_take(struct bucket *b, int64_t n, int64_t now_ms);

/* What was taken and not used. */
void bucket_give_back(struct bucket *b, int64_t n, int64_t now_ms);

/* When there is at least one; now_ms if there is. */
int64_t bucket_next_ms(struct bucket *b, int64_t now_ms);
