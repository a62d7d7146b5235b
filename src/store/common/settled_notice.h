#pragma once
/* store/common/settled_notice.h - tasks that were settled for others, as one node tells them to the rest: packed into short lines of text.
 *
 * Each is its id and its fence, 16 bytes and then seven bits a byte, the lowest first, the highest bit of all but the last set; all of a
 * line are written in base64. */
#include "base/buf.h"
#include "port/store.h"

enum {
    SETTLED_LINE_MAX = 7900,  /* with what stands before them: a notification has room for 7,999 bytes */
    SETTLED_LINE_COUNT = 340, /* of a line, with fences below 128 */
};

struct settled_list {
    struct fenced_id *v;
    size_t n, cap;
};

void settled_add(struct settled_list *l, const struct fenced_id *v, size_t n);
size_t settled_take(struct settled_list *l, struct fenced_id *ret, size_t max); /* off the front; how many */

/* Behind what is in the line, as many as fit; how many. */
size_t settled_write(struct buf *line, const struct fenced_id *v, size_t n);
void settled_read(struct settled_list *l, struct str text); /* adds what can be read */
