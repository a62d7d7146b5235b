/* The dead letters: what failed after all its retries, occurrences of recurring tasks among them. */
#include "http/listing.h"

enum handled dlq_list(struct request *q, struct reader *r)
{
    struct listing l;
    if (!listing_read(q, LISTING_DLQ, &l))
        return HANDLED_DONE;
    return listing_answer(q, r, &l, (struct task_filter){ .states = 1U << TASK_FAILED, .occurrences = true });
}
