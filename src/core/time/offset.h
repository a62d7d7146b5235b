#pragma once
/* core/time/offset.h - what the store's clock shows, known from questions that it answered.
 *
 * A question is sent, the store reads its clock, the answer arrives. When it was sent the store's clock can not have shown more than
 * that, and when it arrived not less: each answer gives bounds of how far that clock is ahead of a steady one of ours, and the best of
 * the recent ones hold. Half of what is between them is the error. Who goes by the lower bound is never ahead of the store (DESIGN §7:
 * fires at due + error by the corrected time). Older bounds count for less: clocks drift. When bounds contradict each other, somebody
 * set a clock: then only the latest answer counts. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OFFSET_SAMPLES = 16 };

struct offset_sample {
    int64_t low_us, high_us, at_us;
};

struct offset {
    struct offset_sample v[OFFSET_SAMPLES]; /* a ring */
    size_t n, next;
};

/* In microseconds: the store's clock less the steady one. */
struct offset_view {
    bool known; /* else all is 0 */
    int64_t low_us;
    int64_t middle_us, error_us;
};

/* sent and arrived by the steady clock, store_us what the store read in between. */
void offset_add(struct offset *o, int64_t sent_us, int64_t arrived_us, int64_t store_us);
struct offset_view offset_view(const struct offset *o, int64_t steady_us);
