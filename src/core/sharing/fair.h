#pragma once
/* core/sharing/fair.h - shares the free slots of a claim among the lanes that have tasks due.
 *
 * There are three levels. The classes high, normal and low share 60 : 30 : 10. The tenants of a class share it evenly.
 * The lanes of a tenant share by the weight of their queue. A lane that got more than its share comes later in the next
 * rounds, so shares hold over many small claims as over one large claim. Only tasks that were really taken count. A
 * lane that has nothing due, or is at a cap, leaves its share to the others and saves up nothing.
 *
 * Ageing: a lane gains one priority level for every AGEING_MS that its head has waited, so a low lane counts as normal
 * and then as high. Lanes of one tenant that count in the same class each have their queue's weight.
 *
 *   fair_share(f, &round);      quotas for a claim
 *   …the claim…                 sets asks[i].taken and asks[i].next_due_ms
 *   fair_took(f, &round);       not called if the claim failed
 *
 * If a lane took less than its quota, the rest is shared in the next round, which may follow at once. The order of the
 * asks changes nothing. One round at a time. */
#include "base/prng.h"
#include "core/task/task.h"

enum { AGEING_MS = 600000, FAIR_CAPS = 4, FAIR_ROOM_MAX = 1 << 20 };

/* A node of the tree: the root, a class, a tenant in a class, or a lane. Private to fair.c. */
struct fair_node {
    struct fair_node *parent;
    uint64_t pass;  /* tasks it got so far over its weight; the lowest is picked next */
    uint64_t floor; /* for its children: one that returns to a round starts here at least */
    uint64_t weight;
    int64_t rank; /* among equal passes the lowest is first */
    /* valid within one round: */
    uint64_t planned;                   /* the pass if all quotas are used */
    uint64_t lowest_held, highest_pass; /* of its children */
    bool is_in, held;                   /* held: has more tasks due, and no cap stops it */
    struct fair_node **heap;            /* its children; the first `ready` of them can take more */
    size_t count, ready;
    struct fair_ask *ask; /* of a lane */
};

/* Embedded by the owner of the lane. It must not move between fair_add and fair_remove. */
struct fair_lane {
    struct fair_node node;
    struct lane lane; /* the queue's name is borrowed */
    struct fair_tenant *tenant;
};

struct fair;
struct fair *fair_new(void);
void fair_free(struct fair *f); /* NULL is fine; all lanes must have been removed */

void fair_add(struct fair *f, struct fair_lane *l, struct lane lane);
void fair_remove(struct fair *f, struct fair_lane *l);

/* What a lane asks for in a round. caps are indexes into the round's caps, each at most once; -1 for none
 * (FAIR_ASK). */
struct fair_ask {
    struct fair_lane *lane;
    /* Due time of its head. If it is after until_ms, the lane is not in the round. For fair_took: of the head that is
     * left. */
    int64_t next_due_ms;
    int priority;   /* of its head; -1: unknown, the lowest of its class is assumed */
    int64_t weight; /* of its queue, at least 1 */
    int caps[FAIR_CAPS];
    enum priority_class counted; /* result: the class that it counts in, by its age */
    bool open;                   /* result: it takes part: it has tasks due and none of its caps is used up */
    bool capped;                 /* result: a cap stops it, now or after its quota */
    size_t quota;                /* result */
    size_t taken;                /* for fair_took: at most the quota */
};
#define FAIR_ASK ((struct fair_ask){ .priority = -1, .weight = 100, .caps = { -1, -1, -1, -1 } })

struct fair_round {
    struct fair_ask *asks; /* no lane twice */
    size_t n;
    /* What each cap still allows, for all lanes that name it together. fair_share counts it down. Negative means 0. */
    int64_t *caps;
    size_t cap_count;
    size_t room; /* at most FAIR_ROOM_MAX */
    int64_t now_ms, until_ms;
};

void fair_share(struct fair *f, struct fair_round *r); /* fills in the quotas; their sum is at most room */
void fair_took(struct fair *f, const struct fair_round *r);

/* Draws a class at random, in proportion to the shares. For a caller that asks lanes one after the other and may get no
 * further than the first. */
enum priority_class fair_draw(struct prng *random);

/* The class that a task of this class and priority (-1: unknown) counts in after it has waited waited_ms. */
enum priority_class fair_class(enum priority_class class_, int priority, int64_t waited_ms);
