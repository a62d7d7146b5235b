#pragma once
/* port/store/nodes.h - nodes that share a store: OP_HEARTBEAT, OP_NODE_DEAD, OP_LIMIT_TAKE, OP_LEASE; the notices that
 * nodes send each other, and the catalog barrier. A part of port/store.h. */
#include "core/sharing/pools.h"
#include "core/task/task.h"
#include "port/store/operation.h"

/* A process that claims tasks. It lives while its heartbeats rise. A node that has seen the count unchanged for long
 * enough, and sent its own heartbeats all the time, may mark it dead. */
struct node_row {
    struct uuid id;
    struct str name, version; /* host and process; of the program */
    int64_t beats;            /* heartbeats so far; the first is 1 */
    int64_t joined_ms;
    bool dead;
    int64_t dead_ms;        /* since when; 0: it lives */
    int64_t fires_until_ms; /* it has fired no task that is due later; 0: it does not say */
    struct str doc;         /* JSON for people who look at the cluster: lag, running, clock offset … */
};

struct node_rows {
    struct node_row *v;
    size_t n;
};

/* OP_HEARTBEAT - says that this node lives.
 *
 *  1. beats rises by one; name, version and doc are as given. The first heartbeat inserts the node, with joined_ms
 *     now_ms.
 *  2. If the node is marked dead, only ret_dead changes: its claims belong to others, and it joins again under a new
 *     id.
 *  3. With `alone`, every other node is marked dead: a process that owns its data directory knows that nobody else
 *     lives.
 *  4. With `leave`, the node goes. It holds nothing but what it has handed off. Its row is deleted, and it is not
 *     inserted. Its places (OP_LIMIT_TAKE) are released as by OP_NODE_DEAD.
 *  5. ret has all nodes that are not dead, by id, this one among them unless it left; behind them at most
 *     NODES_DEAD_SHOWN dead ones, the latest joined_ms first, then by id.
 *  6. ret_store_us is the store's clock at that moment, in microseconds since 1970; 0: the store has no clock of its
 *     own.
 *  7. ret_recall_requested: OP_RECALL_LIST of this node would find requests. ret_has_orphans: OP_ORPHANS would find
 *     tasks.
 *  8. ret_workers has the workers of a fleet that live, in groups by their kind (OP_WORKER_REPORT), in no order. A
 *     worker lives if it has not left and was seen within WORKER_SILENT_MS before the latest report of any worker, and
 *     within WORKER_GONE_MS. So if no report comes for a while, because the events are down, nobody dies of it.
 *  9. The node's fires_until_ms becomes what is given, and never less than it was: an older heartbeat, whose answer was
 *     lost, may be applied after a newer one.
 * 10. node.beats is what the last answered heartbeat returned; 0: this is the first one. If the count does not rise
 *     above it, the store is older than the node knew. Then the floor of the fences rises (core/task/fence.h). */
struct op_heartbeat {
    struct op op;
    struct node_row node; /* id, name, version, doc, fires_until_ms, beats */
    int64_t now_ms;
    bool alone, leave;
    struct node_rows ret;
    bool ret_dead, ret_recall_requested, ret_has_orphans;
    struct worker_groups ret_workers;
    int64_t ret_store_us;
};

/* OP_NODE_DEAD - marks a node dead.
 *
 *  1. If its beats are still those that the caller saw: dead_ms becomes now_ms. Its places are released, as far as no
 *     task runs that it had claimed (OP_LIMIT_TAKE 8).
 *  2. Else ret_marked_dead is false. It is false too if the node is dead already or unknown, or if its heartbeat is
 *     being written at this moment: ask again.
 *  3. From then on OP_ORPHANS finds what it had claimed, and it claims nothing (OP_CLAIM 7). */
struct op_node_dead {
    struct op op;
    struct uuid node;
    int64_t beats, now_ms;
    bool ret_marked_dead;
};

/* OP_LIMIT_TAKE - takes a node's share of limits that hold for all nodes together: rates and concurrency of queues and
 * tenants.
 *
 *  1. Each limit is a row by its key. Only what is limited has one.
 *  2. Rate: a node takes tokens out of one bucket, which fills by `rate` a second up to `burst` (core/sharing/bucket.h)
 *     and begins full. It gives back what it did not use.
 *  3. Concurrency: a node holds places. want_places is how many it wants from now on. It gets at least what it held
 *     before, if it wants that many, and never so many that all nodes together hold more than `concurrency`.
 *  4. A limit that became smaller takes from nobody what they hold. Nobody gets more until the sum fits.
 *  5. What is given back is there before anything is taken.
 *  6. Without a rate the bucket stays as it is. Without a concurrency the node's places are given up.
 *  7. A node that is dead or unknown gets nothing and changes nothing.
 *  8. The key says which tasks a limit is about (share_subject). Tasks of it that run without a live node count as
 *     places taken: leased tasks (struct lease_terms), and tasks that dead nodes have claimed, handed off or not, up to
 *     the places they held.
 *  9. now_ms is the store's time (OP_HEARTBEAT 6) where it has one: clocks that differ by more than a second would add
 *     tokens. */
struct share {
    struct str key; /* what is limited: at most SHARE_KEY_MAX bytes */
    double rate;    /* tokens a second; 0: no bucket */
    int64_t burst;  /* >= 1 with a rate */
    int64_t want_tokens, give_back_tokens;
    int64_t concurrency; /* 0: no limit, and no places */
    int64_t want_places;
    int64_t ret_tokens, ret_places;
    /* If ret_tokens < want_tokens: when there will be one; INT64_MAX: never for this node. Else now_ms. */
    int64_t ret_next_ms;
};

/* "q:<tenant>:<queue>" is about the tasks of a queue, "t:<tenant>" about those of a tenant, any other key about
 * none. */
struct share_subject {
    int32_t tenant;   /* 0: none */
    struct str queue; /* empty: any */
};
struct share_subject share_subject(struct str key);
bool share_is_about(const struct share_subject *subject, struct lane lane);

struct op_limit_take {
    struct op op;
    struct uuid node;
    struct share *v; /* no key twice */
    size_t n;
    int64_t now_ms;
};

/* OP_LEASE - takes or renews a named lease until now_ms + ttl_ms, if it is free, has expired (from that moment on), or
 * is held by `holder`. Else ret_held is false and its holder stays. */
struct op_lease {
    struct op op;
    struct str name;
    struct uuid holder;
    int64_t now_ms, ttl_ms;
    bool ret_held;
};

/* What other nodes on the same store have just done, so that this node need not wait for its next poll. Called on a
 * thread of the store; must not block. A notice may be lost, and one may come for nothing. */
struct store_notice {
    bool due; /* a task became due, or will before the next poll: at due_ms, in any lane */
    int64_t due_ms;
    bool lanes;              /* there may be lanes that this node does not know: read them anew */
    bool catalog;            /* the catalog or an API key has changed: apply it, then call store_catalog_applied */
    uint64_t catalog_change; /* the number for that call; 0: no node waits for it */
    bool recall_requested;   /* a task of this node is asked back (OP_RECALL_LIST) */
    struct uuid recall_node; /* whose task it is, for the sender of the notice; nil: of several nodes */
    bool given_back;         /* a node returned a task that was asked back */
    bool nodes;              /* a node joined, left or was marked dead, or the workers of a fleet have changed */
    const struct fenced_id
        *settled; /* tasks that other nodes settled for the claiming node (store_notify_settled); for the call */
    size_t settled_count;
    struct str broadcast; /* a line of another node (store_broadcast), for the call; then nothing else is set */
    bool all;             /* notices may have been lost: look at everything */
};

struct store_watch {
    void (*on_notice)(struct store_watch *w, const struct store_notice *notice);
    struct uuid node; /* the node that watches: its own changes cause no notice */
};

/* A wait until the other nodes have applied changes of the catalog and of API keys. */
struct store_barrier {
    void (*done)(struct store_barrier *barrier); /* once, on any thread, also before store_barrier_wait returns */
    struct list link;                            /* the store's, like the next */
    uint64_t number;
};
