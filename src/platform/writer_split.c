#include "platform/writer_split.h"

#include <string.h>

static enum writer_way way_of(enum op_kind kind)
{
    switch (kind) {
    case OP_CLAIM:
    case OP_CLAIMED:
    case OP_RETAKE: return WRITER_CLAIMS;
    case OP_HEARTBEAT:
    case OP_NODE_DEAD:
    case OP_LEASE:
    case OP_LIMIT_TAKE:
    case OP_RECALL:
    case OP_RECALL_LIST: return WRITER_URGENT;
    default: return WRITER_ALL;
    }
}

static void submit(struct writer *base, struct op *op)
{
    struct writer_split *s = container_of(base, struct writer_split, base);
    writer_submit(s->ways[way_of(op->kind)], op);
}

struct writer *writer_split_init(struct writer_split *s, struct writer *const ways[WRITER_WAYS])
{
    static const struct writer_ops ops = { submit };
    s->base = (struct writer){ &ops };
    memcpy(s->ways, ways, sizeof s->ways);
    return &s->base;
}
