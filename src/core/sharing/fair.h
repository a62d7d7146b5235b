#pragma once
/* core/sharing/fair.h - how the room there is gets shared among the lanes that have something due (R3.8, DESIGN §4).
 *
 * Three levels: the classes high, normal and low share 60 : 30 : 10, the tenants of a class share it evenly, the lanes of a tenant by
 * the weight of their queue. Who got more than its part comes later next time, so that shares hold over many small claims as
 * over one large one. Only what was really taken counts. Who has nothing due, or stands at a cap, leaves its part to the others and saves
 * up nothing for later.
 *
 * Ageing: a priority level is gained for every AGEING_MS that a lane's head has waited, so that a low lane counts as normal and
 * then as high. Lanes of one tenant that count in the same class each have their queue's weight.
 *
 *   fair_share(f, &round);      quotas, for a claim
 *   …the claim…                 asks[i].taken, asks[i].next_due_ms
 *   fair_took(f, &round);       or nothing at all, if the claim failed
 *
 * A lane may have less than its quota: what was left over is for the next round, which may follow at once. The order of the asks
 * changes nothing. One round at a time. */
#include "base/prng.h"
#include "core/task/task.h"

enum { AGEING_MS = 600000, FAIR_CAPS = 4, FAIR_ROOM_MAX = 1 << 20 };

/* A place in the tree: all, a class, a tenant in a class, or a lane. For fair.c alone. */
struct fair_node {
    struct fair_node *parent;
    uint64_t pass;  /* what it got so far, over its weight: who has the least comes next */
    uint64_t floor; /* for its children: who was away goes on from here */
    uint64_t weight;
    int64_t rank; /* among equals the lowest first */
    /* within one round: */
    uint64_t planned;                   /* the pass, as it will be if the quotas are used */
    uint64_t lowest_held, highest_pass; /* of its children */
    bool is_in, held;                   /* held: has more that is due, and no cap stops it */
    struct fair_node **heap;            /* its children; the first `ready` of them can take more */
    size_t count, ready;
    struct fair_ask *ask; /* of a lane */
};

/* Lives with whoever knows the lane, from fair_add to fair_remove, and does not move. */
struct fair_lane {
    struct fair_node node;
    struct lane lane; /* its queue's name is borrowed */
    struct fair_tenant *tenant;
};

struct fair;
struct fair *fair_new(void);
void fair_free(struct fair *f); /* NULL is fine; no lane is in it any more */

void fair_add(struct fair *f, struct fair_lane *l, struct lane lane);
void fair_remove(struct fair *f, struct fair_lane *l);

/* What a lane would take. caps are indexes into the round's, none of them twice; -1 for none (FAIR_ASK). */
struct fair_ask {
    struct fair_lane *lane;
    int64_t
        next_due_ms; /* of its head; beyond until_ms: it is not in the round. For fair_took: of the head that is left */
    int priority;    /* of its head; -1: not known, and the lowest of its class is assumed */
    int64_t weight;  /* of its queue, at least 1 */
    int caps[FAIR_CAPS];
    enum priority_class counted; /* result: the class that it counts in, by its age */
    bool open;    /* result: it is in the round: something is due, and there was a part for it in its caps */
    bool capped;  /* result: a cap stops it, now or after its quota */
    size_t quota; /* result */
    size_t taken; /* for fair_took: at most the quota */
};
#define FAIR_ASK ((struct fair_ask){ .priority = -1, .weight = 100, .caps = { -1, -1, -1, -1 } })

struct fair_round {
    struct fair_ask *asks; /* no lane twice */
    size_t n;
    int64_t *
        caps; /* what each may still give, to all lanes that name it together; counted down by fair_share. Below 0 is 0 */
    size_t cap_count;
    size_t room; /* at most FAIR_ROOM_MAX */
    int64_t now_ms, until_ms;
};

void fair_share(struct fair *f, struct fair_round *r); /* fills in the quotas; their sum is at most room */
void fair_took(struct fair *f, const struct fair_round *r);

/* A class by chance, as often as its share says: for who must ask in an order, and may get no further than the first. */
enum priority_class fair_draw(struct prng *random);

/* The class that a task of this class and priority (-1: not known) counts in after it waited so long. */
enum priority_class fair_class(enum priority_class class_, int priority, int64_t waited_ms);
