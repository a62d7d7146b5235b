#pragma once
/* cli/workflow/place.h - JSON text of a definition: finds the value at a path ("steps[3].depends_on[0]"). */
#include "base/buf.h"

struct workflow_place {
    size_t at; /* of its key, within the quotes, or of the value itself if it is an element */
    struct str value;
    bool is_whole, is_member; /* is_whole: the whole path; else the value around it */
};

struct workflow_place workflow_place_find(struct str json, struct str path);
size_t workflow_place_line(struct str json, const struct workflow_place *p); /* from 1 on */

/* Appends the JSON without blanks and line ends outside of texts. */
void workflow_text_compact(struct str json, struct buf *out);
