#pragma once
/* core/time/offset.h - estimates how far the store's clock is ahead of a local steady clock.
 *
 * A node sends a request, the store reads its clock, and the answer arrives. The store's reading was made after the
 * request was sent and before the answer arrived, so each answer gives a lower and an upper bound of the offset. The
 * tightest bounds of the recent answers count; half of the distance between them is the error. A node that uses the
 * lower bound is never ahead of the store: it fires at due + error by the corrected time. Older bounds are widened,
 * since clocks drift. If bounds contradict each other, a clock was set: then only the latest answer counts. */
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

/* In microseconds: the store's clock minus the steady clock. */
struct offset_view {
    bool known; /* false: no answer yet, all values are 0 */
    int64_t low_us;
    int64_t middle_us, error_us;
};

/* sent_us and arrived_us are read from the steady clock; store_us is the store's reading in between. */
void offset_add(struct offset *o, int64_t sent_us, int64_t arrived_us, int64_t store_us);
struct offset_view offset_view(const struct offset *o, int64_t steady_us);
