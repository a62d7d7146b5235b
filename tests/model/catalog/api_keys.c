/* OP_KEY_PUT. */
#include <stdlib.h>

#include "model/internal.h"

static enum err memory_key_remove(struct store_memory *s, const struct op_key_put *op, struct error *e)
{
    struct api_key *row = map_get(&s->keys, op->key->id);
    if (!row || row->tenant != op->key->tenant || row->expires_ms < 0)
        return error_set(e, ERR_NOT_FOUND, "there is no such key");
    row->expires_ms = -op->now_ms;
    return ERR_OK;
}

static void memory_key_purge(struct store_memory *s, int64_t created_ms)
{
    const struct api_key *ended;
    do {
        ended = NULL;
        map_each (&s->keys, slot) {
            const struct api_key *k = slot->value;
            int64_t end_ms = k->expires_ms < 0 ? -k->expires_ms : k->expires_ms;
            if (k->parent.n && end_ms < created_ms - KEY_ENDED_KEPT_MS)
                ended = k;
        }
        if (ended)
            free(map_remove(&s->keys, ended->id));
    } while (ended);
}

enum err memory_key_put(struct store_memory *s, struct op *base)
{
    const struct op_key_put *op = container_of(base, struct op_key_put, op);
    const struct api_key *key = op->key;
    if (memory_idempotency_check(s, op->idempotency, &base->error) ||
        (op->remove && memory_key_remove(s, op, &base->error)))
        return base->error.code;
    memory_idempotency_put(s, op->idempotency);
    if (op->remove)
        return ERR_OK;
    struct api_key *row = xmalloc(sizeof *row + str_pack_size(key->id) + str_pack_size(key->name) +
                                  str_pack_size(key->scopes) + str_pack_size(key->parent));
    char *at = (char *)(row + 1);
    *row = *key;
    row->id = str_pack(key->id, &at);
    row->name = str_pack(key->name, &at);
    row->scopes = str_pack(key->scopes, &at);
    row->parent = str_pack(key->parent, &at);
    free(map_put(&s->keys, row->id, row));
    if (key->parent.n)
        memory_key_purge(s, key->created_ms);
    return ERR_OK;
}
