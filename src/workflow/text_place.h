#pragma once
/* workflow/text_place.h - JSON text of a definition: finds the value at a path ("steps[3].depends_on[0]"). Pure. */
#include "base/buf.h"

struct text_place {
    size_t at; /* of its key, within the quotes, or of the value itself if it is an element */
    struct str value;
    bool is_whole, is_member; /* is_whole: the whole path; else the value around it */
};

struct text_place text_place_find(struct str json, struct str path);
size_t text_place_line(struct str json, const struct text_place *p); /* from 1 on */

/* Appends the JSON without blanks and line ends outside of texts. */
void text_compact(struct str json, struct buf *out);
