#pragma once
/* store/common/settled_notice.h - the format in which a node tells other nodes which of their tasks it has settled:
 * short lines of text.
 *
 * A task is its id (16 bytes) and its fence (a varint: 7 bits a byte, lowest first, the highest bit set in all bytes
 * but the last). The bytes of all tasks of a line are base64url without padding. */
#include "base/buf.h"
#include "port/store.h"

enum {
    SETTLED_LINE_MAX = 7900,  /* with the line's head: a PostgreSQL notification has room for 7,999 bytes */
    SETTLED_LINE_COUNT = 340, /* tasks that fit in a line if their fences are below 128 */
};

struct settled_list {
    struct fenced_id *v;
    size_t n, cap;
};

void settled_add(struct settled_list *l, const struct fenced_id *v, size_t n);
/* Removes tasks from the front; returns how many. */
size_t settled_take(struct settled_list *l, struct fenced_id *ret, size_t max);

/* Appends as many tasks as fit to the line; returns how many. */
size_t settled_write(struct buf *line, const struct fenced_id *v, size_t n);
void settled_read(struct settled_list *l, struct str text); /* appends the tasks that can be decoded */
