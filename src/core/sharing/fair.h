#pragma once
/* core/sharing/fair.h - shares the free slots of a claim among the lines that have tasks due.
 *
 * A line is what is claimed as one: the lanes of one queue and class that the same gates hold back. There are five
 * levels. Pools of workers (core/sharing/pools.h) share evenly: each has slots of its own, so they compete only for
 * what a claim can carry, and what somebody got in one pool does not count in another. In a pool the classes high,
 * normal and low share 60 : 30 : 10. The tenants of a class share it evenly. The queues of a tenant share by their
 * weight, the lines of a queue evenly. A line that got more than its share comes later in the next rounds, so shares
 * hold over many small claims as over one large claim: with one slot as with a thousand. Only tasks that were really
 * taken count. A line that has nothing due, or is at a cap, leaves its share to the others and saves up nothing.
 *
 * Ageing: a line gains one priority level for every AGEING_MS that its head has waited, so a low line counts as normal
 * and then as high.
 *
 *   fair_share(f, &round);      quotas for a claim
 *   …the claim…                 sets asks[i].taken and asks[i].next_due_ms
 *   fair_took(f, &round);       not called if the claim failed; several times if it takes its tasks bit by bit
 *
 * A round has all lines that wait, also in fair_took: those that got no quota keep their turn only if they are in it.
 * If a line took less than its quota, the rest is shared in the next round, which may follow at once or come before
 * fair_took. The order of the asks changes nothing. */
#include "base/prng.h"
#include "core/task/task.h"

enum { FAIR_CAPS = 8, FAIR_ROOM_MAX = 1 << 20 };

/* If there are several tenants, one takes at most this part of the slots of a pool. The caller sets that cap. */
enum { TENANT_SLOTS_PERCENT = 80 };

/* A node of the tree: the root, a pool, a class of it, a tenant in a class, a queue in a class, or a line. Private to
 * fair.c. */
struct fair_node {
    struct fair_node *parent;
    uint64_t pass;  /* tasks it got so far over its weight; the lowest is picked next */
    uint64_t floor; /* for its children: one that returns to a round starts here at least */
    uint64_t weight;
    int64_t rank; /* among equal passes the lowest is first, then the first by name */
    struct str name;
    /* valid within one round: */
    uint64_t planned;                   /* the pass if all quotas are used */
    uint64_t lowest_held, highest_pass; /* of its children */
    bool is_in, held;                   /* held: has more tasks due, and no cap stops it */
    struct fair_node **heap;            /* its children; the first `ready` of them can take more */
    size_t count, ready;
    struct fair_ask *ask; /* of a line */
};

/* Embedded by the owner of the line. It must not move between fair_add and fair_remove. */
struct fair_line {
    struct fair_node node;
    enum priority_class class_;
    struct fair_queue *queue;
};

struct fair;
struct fair *fair_new(void);
void fair_free(struct fair *f); /* NULL is fine; all lines must have been removed */

struct fair_key {
    int64_t pool, tenant; /* numbers */
};

/* rank: which of the queue's lines is first if nothing else decides. */
void fair_add(struct fair *f, struct fair_line *l, struct fair_key of, struct str queue, enum priority_class class_,
              int64_t rank);
void fair_remove(struct fair *f, struct fair_line *l);

/* What a line asks for in a round. caps are indexes into the round's caps, each at most once; -1 for none
 * (FAIR_ASK). */
struct fair_ask {
    struct fair_line *line;
    /* Due time of its head. If it is after until_ms, the line is not in the round. For fair_took: of the head that is
     * left. */
    int64_t next_due_ms;
    int priority;   /* of its head; -1: unknown, the lowest of its class is assumed */
    int64_t weight; /* of its queue, at least 1; the same in all lines of the queue */
    int caps[FAIR_CAPS];
    enum priority_class counted; /* result: the class that it counts in, by its age */
    bool open;                   /* result: it takes part: it has tasks due and none of its caps is used up */
    bool capped;                 /* result: a cap that is no part of the room stops it, now or after its quota */
    size_t quota;                /* result */
    size_t taken;                /* for fair_took: at most the quota */
};
#define FAIR_ASK ((struct fair_ask){ .priority = -1, .weight = 100, .caps = { -1, -1, -1, -1, -1, -1, -1, -1 } })

struct fair_round {
    struct fair_ask *asks; /* no line twice */
    size_t n;
    /* What each cap still allows, for all lines that name it together. fair_share counts it down. Negative means 0. */
    int64_t *caps;
    size_t cap_count;
    size_t room_caps; /* the first of them are parts of the room: a line that finds one used up waits for its turn */
    size_t room;      /* at most FAIR_ROOM_MAX */
    int64_t now_ms, until_ms;
};

void fair_share(struct fair *f, struct fair_round *r); /* fills in the quotas; their sum is at most room */
void fair_took(struct fair *f, const struct fair_round *r);

/* Draws a class at random, in proportion to the shares. For a caller that asks lines one after the other and may get no
 * further than the first. */
enum priority_class fair_draw(struct prng *random);

/* The class that a task of this class and priority (-1: unknown) counts in after it has waited waited_ms. */
enum priority_class fair_class(enum priority_class class_, int priority, int64_t waited_ms);
