#pragma once
/* base/sentence.h - the parts that sentences about wrong input share, so that JSON, flags and files speak alike:
 * "did you mean", "between 1 and 10", a value in quotes. */
#include "base/str.h"

/* Of all names offered, the closest to what was given, if it is close enough to have been meant. */
struct suggest {
    struct str given;
    struct str closest; /* p NULL: none is close */
    size_t distance;
};

void suggest_init(struct suggest *s, struct str given);
void suggest_offer(struct suggest *s, struct str known);

/* "between 1 and 10", "at least 1", "at most 10", "exactly 3"; "" when neither bound says more than the type (least, most). A duration's
 * bounds are milliseconds and written as durations are. */
struct range {
    int64_t min, max;
    int64_t least, most; /* of the type */
    bool is_duration;
};

enum { RANGE_TEXT = 112, QUOTE_TEXT = 64 };

void range_text(struct range r, char out[RANGE_TEXT]);
void range_short_text(struct range r, char out[RANGE_TEXT]); /* for help: "1 to 10" */

/* 'v', cut at QUOTE_TEXT with a mark; control characters and what is not UTF-8 become '?'. */
void quote_text(struct str v, char out[QUOTE_TEXT]);
