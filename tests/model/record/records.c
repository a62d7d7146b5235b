/* Small records: idempotency keys, dedupe keys. */
#include <assert.h>
#include <stdlib.h>

#include "model/internal.h"

/* ---- idempotency ---- */

struct idempotency_key idempotency_key_of(int32_t tenant, const uint8_t key[32])
{
    struct idempotency_key k = { .tenant = tenant };
    memcpy(k.key, key, sizeof k.key);
    return k;
}

enum err memory_idempotency_check(const struct store_memory *s, const struct idempotency *i, struct error *e)
{
    if (!i)
        return ERR_OK;
    struct idempotency_key key = idempotency_key_of(i->tenant, i->key);
    if (!map_get(&s->idempotency, idempotency_bytes(&key)))
        return ERR_OK;
    error_set(e, ERR_CONFLICT, "this key has been used before");
    return error_in(e, "idempotency-key");
}

void memory_idempotency_put(struct store_memory *s, const struct idempotency *i)
{
    if (!i)
        return;
    struct idempotency_row *row = xmalloc(sizeof *row + str_pack_size(i->answer));
    char *at = (char *)(row + 1);
    *row = (struct idempotency_row){ .key = idempotency_key_of(i->tenant, i->key), .record = *i };
    row->record.answer = str_pack(i->answer, &at);
    map_put(&s->idempotency, idempotency_bytes(&row->key), row);
}

/* ---- dedupe keys ---- */

enum { DEDUPE_BYTES = sizeof(int32_t) + DEDUPE_KEY_MAX };

static struct str memory_dedupe_bytes(int32_t tenant, struct str key, char out[DEDUPE_BYTES])
{
    assert(key.n > 0 && key.n <= DEDUPE_KEY_MAX);
    memcpy(out, &tenant, sizeof tenant);
    memcpy(out + sizeof tenant, key.p, key.n);
    return (struct str){ out, sizeof tenant + key.n };
}

const struct dedupe_row *dedupe_find(const struct store_memory *s, int32_t tenant, struct str key)
{
    char bytes[DEDUPE_BYTES];
    return map_get(&s->dedupe, memory_dedupe_bytes(tenant, key, bytes));
}

struct dedupe_taking dedupe_begin(struct store_memory *s, const struct task *put)
{
    struct dedupe_taking k = { .store = s, .put = put };
    map_init(&k.rows, HASH_STABLE);
    return k;
}

void dedupe_release(struct dedupe_taking *k)
{
    map_each (&k->rows, slot)
        free(slot->value);
    map_release(&k->rows);
}

static bool memory_dedupe_is_held(const struct dedupe_taking *k, const struct dedupe_row *row)
{
    const struct task *t = table_get(&k->store->table, row->task);
    if (t && k->put && uuid_eq(t->id, k->put->id))
        t = k->put;
    return t && !t->deleted;
}

enum err dedupe_take(struct dedupe_taking *k, const struct task *t, struct uuid takes_over, struct error *e)
{
    if (t->dedupe_key.n == 0 || t->kind == TASK_OCCURRENCE)
        return ERR_OK;
    assert(t->dedupe_window_ms >= 0);
    char bytes[DEDUPE_BYTES];
    struct str key = memory_dedupe_bytes(t->tenant, t->dedupe_key, bytes);
    const struct dedupe_row *ours = map_get(&k->rows, key), *row = ours ? ours : map_get(&k->store->dedupe, key);
    bool held = row && row->until_ms > t->created_ms && (ours || memory_dedupe_is_held(k, row));
    if (held && !uuid_eq(row->task, takes_over)) {
        error_set(e, ERR_CONFLICT, "another task holds this key");
        return error_in(e, "dedupe_key");
    }
    struct dedupe_row *taken = xmalloc(sizeof *taken + key.n);
    *taken = (struct dedupe_row){ t->id, t->created_ms + t->dedupe_window_ms, { taken->bytes, key.n } };
    memcpy(taken->bytes, key.p, key.n);
    free(map_put(&k->rows, taken->key, taken));
    return ERR_OK;
}

void dedupe_keep(struct dedupe_taking *k)
{
    map_each (&k->rows, slot)
        free(map_put(&k->store->dedupe, slot->key, slot->value));
    map_release(&k->rows);
}
