#include "platform/writer_split.h"

#include <string.h>

static void writer_split_submit(struct writer *base, struct op *op)
{
    struct writer_split *s = container_of(base, struct writer_split, base);
    writer_submit(s->ways[op_table[op->kind].route], op);
}

/* Both go the way of the first. */
static void writer_split_submit_pair(struct writer *base, struct op *first, struct op *second)
{
    struct writer_split *s = container_of(base, struct writer_split, base);
    writer_submit_pair(s->ways[op_table[first->kind].route], first, second);
}

struct writer *writer_split_init(struct writer_split *s, struct writer *const ways[OP_ROUTES])
{
    static const struct writer_ops ops = { writer_split_submit, writer_split_submit_pair };
    s->base = (struct writer){ &ops };
    memcpy(s->ways, ways, sizeof s->ways);
    return &s->base;
}
