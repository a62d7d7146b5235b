/* OP_LIMIT_TAKE: limits of all nodes together, by their keys, each with the places that are taken of it. */
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

static struct share_entry *open_share(struct store_memory *s, struct str key)
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

static size_t find_places(const struct share_entry *x, struct uuid node)
{
    size_t i = 0;
    while (i < x->place_count && !uuid_eq(x->places[i].node, node))
        i++;
    return i;
}

static void set_places(struct share_entry *x, struct uuid node, int64_t n)
{
    size_t i = find_places(x, node);
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

static int64_t count_rows(const struct claim *c, const struct share_subject *about)
{
    int64_t n = 0;
    list_each (&c->rows, link)
        n += share_is_about(about, task_lane(&container_of(link, struct row, link)->task));
    return n;
}

/* What runs of a node's handed claims. */
static int64_t count_handed(const struct store_memory *s, struct uuid node, const struct share_subject *about)
{
    int64_t n = 0;
    map_each (&s->table.claims, slot) {
        const struct claim *c = slot->value;
        n += c->hold == CLAIM_HANDED && uuid_eq(c->node, node) ? count_rows(c, about) : 0;
    }
    return n;
}

static int64_t count_leased(const struct store_memory *s, const struct share_subject *about)
{
    int64_t n = 0;
    map_each (&s->table.claims, slot)
        n += ((const struct claim *)slot->value)->hold == CLAIM_LEASED ? count_rows(slot->value, about) : 0;
    return n;
}

/* Places of one that does not live are there for what it has handed. */
static int64_t places_of(const struct store_memory *s, const struct share_entry *x, size_t i,
                         const struct share_subject *about)
{
    struct uuid node = x->places[i].node;
    return memory_node_lives(s, node) ? x->places[i].n : min_of(x->places[i].n, count_handed(s, node, about));
}

static void take_share(struct store_memory *s, struct uuid node, struct share *share, int64_t now_ms)
{
    struct share_entry *x = open_share(s, share->key);
    struct share_row row = { .bucket = x->bucket };
    struct share_subject about = share_subject(share->key);
    for (size_t i = 0; i < x->place_count; i++)
        *(uuid_eq(x->places[i].node, node) ? &row.held : &row.others) += places_of(s, x, i, &about);
    if (share->concurrency)
        row.others += count_leased(s, &about);
    share_take(share, &row, now_ms);
    x->bucket = row.bucket;
    set_places(x, node, row.held);
}

enum err memory_limit_take(struct store_memory *s, struct op *base)
{
    struct op_limit_take *op = container_of(base, struct op_limit_take, op);
    bool lives = memory_node_lives(s, op->node);
    for (size_t i = 0; i < op->n; i++)
        if (lives)
            take_share(s, op->node, &op->v[i], op->now_ms);
        else
            share_refuse(&op->v[i], op->now_ms);
    return ERR_OK;
}

static bool has_handed(const struct store_memory *s, struct uuid node)
{
    map_each (&s->table.claims, slot) {
        const struct claim *c = slot->value;
        if (c->hold == CLAIM_HANDED && uuid_eq(c->node, node))
            return true;
    }
    return false;
}

void memory_places_drop(struct store_memory *s, struct uuid node)
{
    bool stay = has_handed(s, node);
    map_each (&s->shares, slot)
        if (!stay)
            set_places(slot->value, node, 0);
}

void memory_places_tidy(struct store_memory *s)
{
    map_each (&s->shares, slot) {
        struct share_entry *x = slot->value;
        for (size_t i = x->place_count; i-- > 0;) {
            struct uuid node = x->places[i].node;
            if (!memory_node_lives(s, node) && !has_handed(s, node))
                set_places(x, node, 0);
        }
    }
}

bool memory_share_may_go(const void *entry, const struct sweep *w)
{
    const struct share_entry *x = entry;
    return x->place_count == 0 && share_is_idle(&x->bucket, w->now_ms);
}
