#pragma once
/* core/sharing/bucket.h - a token bucket: `rate` tokens a second on average, `burst` tokens at once.
 *
 * The level is computed from one moment at which it was known and the whole tokens taken since. It is never added up in
 * steps, so it does not drift. If the clock is set back, the level stays. If the clock jumps ahead, the bucket fills up
 * to burst at most. Times within one second of each other may come in any order. */
#include <stdbool.h>
#include <stdint.h>

struct bucket {
    double rate;   /* tokens a second */
    int64_t burst; /* the most tokens that it holds */
    double level;  /* at since_ms */
    int64_t since_ms, taken;
    int64_t seen_ms; /* the latest time passed in */
};

/* Starts full. rate > 0, burst >= 1. */
void bucket_init(struct bucket *b, double rate, int64_t burst, int64_t now_ms);

/* Changes the limits from now on. The tokens in the bucket stay, up to the new burst. The same limits change
 * nothing. */
void bucket_set(struct bucket *b, double rate, int64_t burst, int64_t now_ms);

int64_t bucket_available(struct bucket *b, int64_t now_ms); /* whole tokens, at least 0 */
double bucket_level(struct bucket *b, int64_t now_ms);      /* with the part of the next token that has come */

/* Takes up to n tokens; returns how many it took. */
int64_t bucket_take(struct bucket *b, int64_t n, int64_t now_ms);

/* Returns tokens that were taken and not used. */
void bucket_give_back(struct bucket *b, int64_t n, int64_t now_ms);

/* Returns when at least one token is available; now_ms if one is. */
int64_t bucket_next_ms(struct bucket *b, int64_t now_ms);
