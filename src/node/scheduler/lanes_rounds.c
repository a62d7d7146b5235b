/* A round gathers the lanes that have something due, closes those that a gate holds back, and shares the room among
 * the rest. */
#include <assert.h>
#include <stdlib.h>

#include "node/scheduler/lanes_internal.h"

enum { SUSPECT_AGAIN_MS = 1000 }; /* for a suspect whose lane is closed */

/* The index of an allowance among the round's caps; -1: no limit. */
static int lanes_round_cap(struct lanes *l, struct lanes_round *r, uint64_t *round, int *cap, struct allowance a)
{
    if (*round == l->round)
        return *cap;
    *round = l->round;
    *cap = -1;
    if (a.n != INT64_MAX) {
        *cap = (int)r->fair.cap_count++;
        r->fair.caps[*cap] = a.n;
    }
    return *cap;
}

static void lanes_note_waiting(struct lane_entry *e, const struct lane_hold *h, bool of_queue)
{
    if (h->until_ms == INT64_MAX)
        *(of_queue ? &e->queue->waits : &e->queue->tenant->waits) = true;
}

/* Adds a lane to the round, or closes it. */
static void lanes_round_consider(struct lanes *l, struct lanes_round *r, struct lane_entry *e, struct moment now)
{
    struct queue_entry *q = e->queue;
    struct tenant_entry *t = q->tenant;
    lanes_want_shares(l, e, now);
    struct allowance of_queue = lanes_queue_allows(l, q, now.wall_ms), of_tenant = lanes_tenant_allows(l, t);
    if (of_queue.n == 0 || of_tenant.n == 0) {
        const struct lane_hold *h = of_queue.n == 0 ? &of_queue.hold : &of_tenant.hold;
        lanes_note_waiting(e, h, of_queue.n == 0);
        lanes_wait_for_shares(l, e, h->gate);
        lane_close(l, e, h->gate, h->until_ms);
        return;
    }
    struct fair_ask *ask = &r->fair.asks[r->n];
    *ask = FAIR_ASK;
    ask->lane = &e->fair;
    ask->next_due_ms = e->next_due_ms;
    ask->weight = max_of(q->rules.weight, (int64_t)1);
    ask->caps[0] = lanes_round_cap(l, r, &q->round, &q->cap, of_queue);
    ask->caps[1] = lanes_round_cap(l, r, &t->round, &t->cap, of_tenant);
    r->entries[r->n++] = e;
    lane_set_place(l, e, LANE_ASKED);
    e->heard_ms = e->heard_suspect_ms = INT64_MAX;
}

static void lanes_round_make(struct lanes_round *r, size_t n)
{
    r->v = xcalloc(n, sizeof *r->v);
    r->entries = xcalloc(n, sizeof(struct lane_entry *));
    r->fair.asks = xcalloc(n, sizeof *r->fair.asks);
    r->fair.caps = xcalloc(2 * n, sizeof *r->fair.caps);
}

static void lanes_round_end(struct lanes_round *r)
{
    free(r->v);
    free(r->entries);
    free(r->fair.asks);
    free(r->fair.caps);
    *r = (struct lanes_round){ 0 };
}

/* Lanes without a quota wait for the results of the others. */
static void lanes_round_keep_with_quota(struct lanes *l, struct lanes_round *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct lane_entry *e = r->entries[i];
        if (r->fair.asks[i].quota == 0) {
            lane_open(l, e);
            continue;
        }
        r->fair.asks[n] = r->fair.asks[i];
        r->entries[n] = e;
        r->v[n++] = (struct lane_quota){ .lane = e->lane, .max = r->fair.asks[i].quota };
    }
    r->n = r->fair.n = n;
}

static void lanes_remember_found(struct lanes *l, size_t n, struct lane_entry *e)
{
    if (n == l->found_cap) {
        l->found_cap = max_of(l->found_cap * 2, (size_t)16);
        l->found = xrealloc(l->found, l->found_cap * sizeof(struct lane_entry *));
    }
    l->found[n] = e;
}

static bool lanes_ask_due(struct lanes *l, size_t room, struct moment now, struct lanes_round *r)
{
    struct heap_node *node;
    int64_t now_ms = now.wall_ms;
    int64_t until_ms = now_ms + l->window_ms;
    while ((node = heap_peek(&l->closed)) && node->key <= now_ms)
        lane_open(l, container_of(node, struct lane_entry, at));
    size_t n = 0;
    while ((node = heap_peek(&l->due)) && node->key <= until_ms) {
        struct lane_entry *e = container_of(node, struct lane_entry, at);
        lane_set_place(l, e, LANE_IDLE);
        lanes_remember_found(l, n++, e);
    }
    if (n == 0)
        return false;
    lanes_round_make(r, n);
    for (size_t i = 0; i < n; i++)
        lanes_round_consider(l, r, l->found[i], now);
    r->fair.n = r->n;
    r->fair.room = min_of(room, (size_t)FAIR_ROOM_MAX);
    r->fair.now_ms = now_ms;
    r->fair.until_ms = until_ms;
    if (r->n)
        fair_share(l->fair, &r->fair);
    lanes_round_keep_with_quota(l, r);
    if (r->n == 0)
        lanes_round_end(r);
    return r->n > 0;
}

/* One suspect, of all lanes that may have one. The store chooses it. Its lane counts it like any task. */
static bool lanes_ask_suspects(struct lanes *l, struct moment now, struct lanes_round *r)
{
    int64_t now_ms = now.wall_ms;
    struct heap_node *node = heap_peek(&l->suspects);
    if (!node || node->key > now_ms)
        return false;
    lanes_round_make(r, l->suspects.n);
    for (size_t i = 0; i < l->suspects.n; i++) {
        struct lane_entry *e = container_of(l->suspects.v[i], struct lane_entry, suspect);
        if (e->suspect_ms <= now_ms)
            r->entries[r->n++] = e;
    }
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct lane_entry *e = r->entries[i];
        lanes_want_shares(l, e, now);
        struct lane_hold h = lanes_hold_of(l, e, now_ms);
        if (h.gate != LANE_NONE) {
            lanes_wait_for_shares(l, e, h.gate);
            lane_suspect_due(l, e, min_of(h.until_ms, now_ms + SUSPECT_AGAIN_MS));
            continue;
        }
        e->heard_suspect_ms = INT64_MAX;
        r->v[n].lane = e->lane;
        r->entries[n++] = e;
    }
    r->n = n;
    r->suspects = true;
    if (n == 0)
        lanes_round_end(r);
    return n > 0;
}

static bool lanes_ask_either(struct lanes *l, size_t room, struct moment now, struct lanes_round *r)
{
    if (l->asked_suspects) /* the two kinds take turns */
        return lanes_ask_due(l, room, now, r) || lanes_ask_suspects(l, now, r);
    return lanes_ask_suspects(l, now, r) || lanes_ask_due(l, room, now, r);
}

bool lanes_ask(struct lanes *l, size_t room, enum lanes_wanted wanted, struct moment now, struct lanes_round *ret)
{
    *ret = (struct lanes_round){ 0 };
    l->round++;
    bool asked = wanted == LANES_DUE       ? lanes_ask_due(l, room, now, ret)
                 : wanted == LANES_SUSPECT ? lanes_ask_suspects(l, now, ret)
                                           : lanes_ask_either(l, room, now, ret);
    ret->until_ms = asked ? now.wall_ms + l->window_ms : 0;
    l->asked_suspects = l->suspects_open = asked && ret->suspects;
    return asked;
}

/* A task that was left within the window although there was room cannot be claimed before it is due: it runs at most
 * once, or found no slot. */
static void lanes_lane_answered(struct lanes *l, struct lane_entry *e, const struct lane_quota *q,
                                const struct op_claim *a)
{
    bool limited = q->ret_taken >= q->max || a->ret.n >= a->max;
    int64_t heard_ms = e->heard_ms;
    e->next_due_ms = q->ret_next_due_ms;
    lane_set_place(l, e, LANE_IDLE);
    if (!limited && q->ret_next_due_ms <= a->until_ms)
        lane_close(l, e, LANE_NONE, max_of(q->ret_next_due_ms, a->now_ms + 1));
    else
        lane_open(l, e);
    if (heard_ms != INT64_MAX)
        lanes_due(l, e, heard_ms, false);
}

void lanes_answered(struct lanes *l, struct lanes_round *r, const struct op_claim *answer)
{
    l->suspects_open = false;
    for (size_t i = 0; i < r->n; i++) {
        struct lane_entry *e = r->entries[i];
        lane_suspect_due(l, e, min_of(answer->ret_next_suspect_ms, e->heard_suspect_ms));
        if (r->suspects)
            continue;
        r->fair.asks[i].taken = r->v[i].ret_taken;
        r->fair.asks[i].next_due_ms = r->v[i].ret_next_due_ms;
        lanes_lane_answered(l, e, &r->v[i], answer);
    }
    if (!r->suspects)
        fair_took(l->fair, &r->fair);
    lanes_round_end(r);
}

void lanes_answer_lost(struct lanes *l, struct lanes_round *r)
{
    l->suspects_open = false;
    for (size_t i = 0; i < r->n && !r->suspects; i++) {
        struct lane_entry *e = r->entries[i];
        e->next_due_ms = min_of(e->next_due_ms, e->heard_ms);
        lane_open(l, e);
    }
    lanes_round_end(r);
}
