#pragma once
/* base/sentence.h - shared parts of error sentences, so that JSON fields, flags and configuration files use the same
 * wording: "did you mean", "between 1 and 10", a quoted value. */
#include "base/str.h"

/* Finds the known name that is closest to a misspelled one, if any is close enough. */
struct suggest {
    struct str given;
    struct str closest; /* p NULL: none is close */
    size_t distance;
};

void suggest_init(struct suggest *s, struct str given);
void suggest_offer(struct suggest *s, struct str known);
bool suggest_is_close(struct str given, struct str known, size_t *ret_distance); /* the rule of suggest_offer */

/* A range as text: "between 1 and 10", "at least 1", "at most 10", "exactly 3", or "" if neither bound is stricter than
 * the type's own (least, most). The bounds of a duration are milliseconds and are written as durations. */
struct range {
    int64_t min, max;
    int64_t least, most; /* of the type */
    bool is_duration;
};

enum { RANGE_TEXT = 112, QUOTE_TEXT = 64 };

void range_text(struct range r, char out[RANGE_TEXT]);
void range_short_text(struct range r, char out[RANGE_TEXT]); /* for help: "1 to 10" */

/* Writes v in single quotes, truncated to QUOTE_TEXT with "…". Control characters and invalid UTF-8 become '?'. */
void quote_text(struct str v, char out[QUOTE_TEXT]);
