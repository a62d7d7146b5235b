#include "store/common/settled_notice.h"

#include <stdlib.h>

#include "base/base64.h"

enum { ONE_MAX = 16 + 10 }; /* bytes of one task */

void settled_add(struct settled_list *l, const struct fenced_id *v, size_t n)
{
    if (n == 0)
        return;
    if (l->n + n > l->cap) {
        l->cap = (l->n + n) * 2;
        l->v = xrealloc(l->v, l->cap * sizeof *l->v);
    }
    memcpy(l->v + l->n, v, n * sizeof *v);
    l->n += n;
}

size_t settled_take(struct settled_list *l, struct fenced_id *ret, size_t max)
{
    size_t n = min_of(l->n, max);
    if (n == 0)
        return 0;
    memcpy(ret, l->v, n * sizeof *ret);
    memmove(l->v, l->v + n, (l->n - n) * sizeof *l->v);
    l->n -= n;
    return n;
}

/* ---- bytes of a task ---- */

static size_t settled_write_task(const struct fenced_id *d, uint8_t out[ONE_MAX])
{
    size_t n = sizeof d->id.b;
    uint64_t fence = (uint64_t)d->fence;
    memcpy(out, d->id.b, n);
    for (; fence > 0x7f; fence >>= 7)
        out[n++] = (uint8_t)(fence | 0x80);
    out[n++] = (uint8_t)fence;
    return n;
}

/* Returns the bytes read; 0: no complete task. */
static size_t settled_read_task(const uint8_t *p, size_t n, struct fenced_id *ret)
{
    size_t at = sizeof ret->id.b;
    uint64_t fence = 0;
    if (n <= at)
        return 0;
    memcpy(ret->id.b, p, at);
    for (int shift = 0; at < n && shift < 63; shift += 7) {
        fence |= (uint64_t)(p[at] & 0x7f) << shift;
        if (p[at++] & 0x80)
            continue;
        ret->fence = (int64_t)fence;
        return ret->fence > 0 ? at : 0;
    }
    return 0;
}

/* ---- lines ---- */

size_t settled_write(struct buf *line, const struct fenced_id *v, size_t n)
{
    uint8_t bytes[SETTLED_LINE_MAX];
    size_t room = (line->max - line->n) / 4 * 3, used = 0, count = 0;
    while (count < n && used + ONE_MAX <= min_of(room, sizeof bytes))
        used += settled_write_task(&v[count++], bytes + used);
    char text[SETTLED_LINE_MAX * 4 / 3 + 1];
    buf_add(line, (struct str){ text, base64_write(bytes, used, text) });
    return count;
}

void settled_read(struct settled_list *l, struct str text)
{
    uint8_t bytes[SETTLED_LINE_MAX];
    size_t n = base64_read(str_sub(text, 0, min_of(text.n, (size_t)SETTLED_LINE_MAX)), bytes), one;
    struct fenced_id d;
    for (size_t at = 0; (one = settled_read_task(bytes + at, n - at, &d)); at += one)
        settled_add(l, &d, 1);
}
