#pragma once
/* node/cluster/membership_internal.h - what membership.c (beats, the lease, doors) and membership_peers.c (the other nodes) share. */
#include "node/cluster/membership.h"

enum {
    DEAD_BEATS = 5, /* silent for so long */
    MEMBERSHIP_ARENA = 1 << 20,
    US_PER_MS = 1000,
};

/* How a doc begins, whoever wrote it; and what stands behind that. */
#define STATE(name) "{\"state\":\"" name "\""
#define BEAT        "beat_ms"

struct peer {
    struct uuid id;
    int64_t beats, since_us, beat_ms;
    bool risen; /* since we came, or looked around */
};

struct membership {
    struct membership_setup setup;
    struct uuid_gen ids;
    struct uuid id;
    struct moment now;
    bool joined, ready, closing, leaving, left;

    struct op_heartbeat beat;
    struct buf doc;
    bool beating, at_once;
    int64_t asked_us;             /* when the beat in flight, or the last one, was sent */
    int64_t sent_us, answered_us; /* of the last one that was answered well; 0: none */
    uint64_t failed;              /* in a row */
    int64_t beats;                /* ours, as the last answer had them */
    bool dead_held;               /* the last beat said so */

    struct arena arena; /* of the rows */
    struct node_rows rows;
    uint64_t generation;
    struct peer *peers;
    size_t peer_count;
    enum active_peers active_peers;

    struct op_node_dead mark_dead;
    bool marking_dead;

    struct op_lease lease;
    struct io_lease io_request; /* instead, if it is not the store's */
    bool renewing;
    int64_t renewed_us, leader_until_us; /* asked; held until */

    bool sharing; /* with others: else all is ours */
    struct partitions own;
    struct uuid *sharers; /* among whom the partitions are shared, as of the last beat */
    size_t ready_count;
    int64_t worker_slots;

    struct offset offset;
    int64_t skew_us;
};

/* ---- the others (membership_peers.c), by the rows of the last beat ---- */

void peers_watch(struct membership *m, bool gap, int64_t now_us); /* gap: in our own beats before it */
const struct node_row *peers_row(const struct membership *m, struct uuid id);
enum active_peers peers_active(const struct membership *m);
void peers_share(struct membership *m);
void peers_mark_silent_dead(struct membership *m);
