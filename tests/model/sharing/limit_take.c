/* OP_LIMIT_TAKE: the limits of all nodes together, by key, each with the places that nodes hold. */
#include <stdlib.h>

#include "model/internal.h"
#include "store/common/limit_share.h"

struct share_entry {
    struct bucket bucket;
    struct {
        struct uuid node;
        int64_t n;
    } * places;
    size_t place_count;
    struct str key;
    char text[];
};

void memory_shares_release(struct map *shares)
{
    map_each (shares, slot) {
        free(((struct share_entry *)slot->value)->places);
        free(slot->value);
    }
    map_release(shares);
}

static struct share_entry *memory_share_open(struct store_memory *s, struct str key)
{
    struct share_entry *x = map_get(&s->shares, key);
    if (x)
        return x;
    x = xcalloc(1, sizeof *x + str_pack_size(key));
    char *at = x->text;
    x->key = str_pack(key, &at);
    map_put(&s->shares, x->key, x);
    return x;
}

static size_t memory_share_find_places(const struct share_entry *x, struct uuid node)
{
    size_t i = 0;
    while (i < x->place_count && !uuid_eq(x->places[i].node, node))
        i++;
    return i;
}

static void memory_share_set_places(struct share_entry *x, struct uuid node, int64_t n)
{
    size_t i = memory_share_find_places(x, node);
    if (i < x->place_count)
        x->places[i] = x->places[--x->place_count];
    if (x->place_count + (n > 0) == 0) {
        free(x->places);
        x->places = NULL;
    }
    if (n == 0)
        return;
    x->places = xrealloc(x->places, (x->place_count + 1) * sizeof *x->places);
    x->places[x->place_count].node = node;
    x->places[x->place_count++].n = n;
}

static int64_t memory_share_count_rows(const struct claim *c, const struct share_subject *about)
{
    int64_t n = 0;
    list_each (&c->rows, link)
        n += share_is_about(about, task_lane(&container_of(link, struct row, link)->task));
    return n;
}

/* RUNNING tasks of claims that a node has made. */
static int64_t memory_share_count_claimed(const struct store_memory *s, struct uuid node,
                                          const struct share_subject *about)
{
    int64_t n = 0;
    map_each (&s->table.claims, slot) {
        const struct claim *c = slot->value;
        n += c->hold != CLAIM_LEASED && uuid_eq(c->node, node) ? memory_share_count_rows(c, about) : 0;
    }
    return n;
}

static int64_t memory_share_count_leased(const struct store_memory *s, const struct share_subject *about)
{
    int64_t n = 0;
    map_each (&s->table.claims, slot)
        n +=
            ((const struct claim *)slot->value)->hold == CLAIM_LEASED ? memory_share_count_rows(slot->value, about) : 0;
    return n;
}

/* The places of a node that is not alive count as far as tasks that it claimed still run. */
static int64_t memory_share_places_of(const struct store_memory *s, const struct share_entry *x, size_t i,
                                      const struct share_subject *about)
{
    struct uuid node = x->places[i].node;
    return memory_node_is_alive(s, node) ? x->places[i].n
                                         : min_of(x->places[i].n, memory_share_count_claimed(s, node, about));
}

static void memory_share_take(struct store_memory *s, struct uuid node, struct share *share, int64_t now_ms)
{
    struct share_entry *x = memory_share_open(s, share->key);
    struct share_row row = { .bucket = x->bucket };
    struct share_subject about = share_subject(share->key);
    for (size_t i = 0; i < x->place_count; i++)
        *(uuid_eq(x->places[i].node, node) ? &row.held : &row.others) += memory_share_places_of(s, x, i, &about);
    if (share->concurrency)
        row.others += memory_share_count_leased(s, &about);
    share_take(share, &row, now_ms);
    x->bucket = row.bucket;
    memory_share_set_places(x, node, row.held);
}

enum err memory_limit_take(struct store_memory *s, struct op *base)
{
    struct op_limit_take *op = container_of(base, struct op_limit_take, op);
    bool lives = memory_node_is_alive(s, op->node);
    for (size_t i = 0; i < op->n; i++)
        if (lives)
            memory_share_take(s, op->node, &op->v[i], op->now_ms);
        else
            share_refuse(&op->v[i], op->now_ms);
    return ERR_OK;
}

static bool memory_node_has_claims(const struct store_memory *s, struct uuid node)
{
    map_each (&s->table.claims, slot) {
        const struct claim *c = slot->value;
        if (c->hold != CLAIM_LEASED && uuid_eq(c->node, node))
            return true;
    }
    return false;
}

void memory_places_drop(struct store_memory *s, struct uuid node)
{
    bool stay = memory_node_has_claims(s, node);
    map_each (&s->shares, slot)
        if (!stay)
            memory_share_set_places(slot->value, node, 0);
}

void memory_places_drop_stale(struct store_memory *s)
{
    map_each (&s->shares, slot) {
        struct share_entry *x = slot->value;
        for (size_t i = x->place_count; i-- > 0;) {
            struct uuid node = x->places[i].node;
            if (!memory_node_is_alive(s, node) && !memory_node_has_claims(s, node))
                memory_share_set_places(x, node, 0);
        }
    }
}

/* Whether a new bucket would behave the same. */
static bool memory_bucket_is_idle(const struct bucket *b, int64_t now_ms)
{
    struct bucket copy = *b;
    return now_ms - b->seen_ms > NODE_KEPT_MS && (b->rate <= 0 || bucket_available(&copy, now_ms) >= b->burst);
}

bool memory_share_may_go(const void *entry, const struct sweep *w)
{
    const struct share_entry *x = entry;
    return x->place_count == 0 && memory_bucket_is_idle(&x->bucket, w->now_ms);
}
