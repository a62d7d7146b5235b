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
    if (h->until_ms == INT64_MAX || h->gate == LANE_TENANT_BREAKER) /* a trial call may end before its time is over */
        *(of_queue ? &e->queue->waits : &e->queue->tenant->waits) = true;
}

enum { CAP_LOW, CAP_LOW_AND_NORMAL, CLASS_CAPS };

/* What its class leaves to a line: a lower class does not take the room that is kept for a higher one. */
static void lanes_round_cap_class(struct fair_ask *ask, enum priority_class class_)
{
    ask->caps[2] = class_ == CLASS_LOW ? CAP_LOW : -1;
    ask->caps[3] = class_ == CLASS_HIGH ? -1 : CAP_LOW_AND_NORMAL;
}

/* The head of a line is the task that is next in it. */
static bool lanes_round_is_head(const struct fair_ask *ask, const struct lane_entry *e)
{
    struct lane head = { .priority = ask->priority };
    return lane_order_ms(&e->lane, e->next_due_ms) < lane_order_ms(&head, ask->next_due_ms);
}

static struct fair_ask *lanes_round_ask_of(struct lanes *l, struct lanes_round *r, struct line_entry *line)
{
    if (line->round == l->round)
        return line->ask;
    struct fair_ask *ask = &r->fair.asks[r->fair.n++];
    *ask = FAIR_ASK;
    ask->line = &line->fair;
    ask->next_due_ms = INT64_MAX;
    ask->weight = max_of(line->queue->rules.weight, (int64_t)1);
    lanes_round_cap_class(ask, line->class_);
    line->round = l->round;
    line->ask = ask;
    line->asked = NULL;
    return ask;
}

/* Adds a lane to the round, or closes it. */
static void lanes_round_consider(struct lanes *l, struct lanes_round *r, struct lane_entry *e, struct moment now)
{
    struct queue_entry *q = e->queue;
    struct tenant_entry *t = q->tenant;
    lanes_want_shares(l, e, now);
    struct allowance of_queue = lanes_queue_allows(l, q, now.wall_ms),
                     of_tenant = lanes_tenant_allows(l, t, now.wall_ms);
    if (of_queue.n == 0 || of_tenant.n == 0) {
        const struct lane_hold *h = of_queue.n == 0 ? &of_queue.hold : &of_tenant.hold;
        lanes_note_waiting(e, h, of_queue.n == 0);
        lanes_wait_for_shares(l, e, h->gate);
        lane_close(l, e, h->gate, h->until_ms);
        return;
    }
    struct fair_ask *ask = lanes_round_ask_of(l, r, e->line);
    if (ask->next_due_ms == INT64_MAX || lanes_round_is_head(ask, e)) {
        ask->next_due_ms = e->next_due_ms;
        ask->priority = e->lane.priority;
    }
    ask->caps[0] = lanes_round_cap(l, r, &q->round, &q->cap, of_queue);
    ask->caps[1] = lanes_round_cap(l, r, &t->round, &t->cap, of_tenant);
    e->next_asked = e->line->asked;
    e->line->asked = e;
    lane_set_place(l, e, LANE_ASKED);
    e->heard_ms = e->heard_suspect_ms = INT64_MAX;
}

static void lanes_round_make(struct lanes_round *r, size_t n)
{
    r->v = xcalloc(n, sizeof *r->v);
    r->entries = xcalloc(n, sizeof(struct lane_entry *));
    r->lines = xcalloc(n, sizeof *r->lines);
    r->asks = xcalloc(n, sizeof(struct fair_ask *));
    r->fair.asks = xcalloc(n, sizeof *r->fair.asks);
    r->fair.caps = xcalloc(2 * n + CLASS_CAPS, sizeof *r->fair.caps);
}

static void lanes_round_end(struct lanes_round *r)
{
    free(r->v);
    free(r->entries);
    free(r->lines);
    free(r->asks);
    free(r->fair.asks);
    free(r->fair.caps);
    *r = (struct lanes_round){ 0 };
}

/* The claim asks the lines that got a quota. The others wait, and stay in the round: they lose no turn. */
static void lanes_round_make_lines(struct lanes *l, struct lanes_round *r)
{
    for (size_t i = 0; i < r->fair.n; i++) {
        struct fair_ask *ask = &r->fair.asks[i];
        struct line_entry *line = container_of(ask->line, struct line_entry, fair);
        size_t lanes = 0;
        for (struct lane_entry *e = line->asked, *next; e; e = next) {
            next = e->next_asked;
            if (ask->quota == 0) {
                lane_open(l, e);
                continue;
            }
            r->v[r->n] = (struct lane_quota){ .lane = e->lane, .max = ask->quota };
            r->entries[r->n++] = e;
            lanes++;
        }
        if (!lanes)
            continue;
        r->asks[r->line_count] = ask;
        r->lines[r->line_count++] = (struct claim_line){ .lanes = lanes, .max = ask->quota };
    }
}

static void lanes_remember_found(struct lanes *l, size_t n, struct lane_entry *e)
{
    if (n == l->found_cap) {
        l->found_cap = max_of(l->found_cap * 2, (size_t)16);
        l->found = xrealloc(l->found, l->found_cap * sizeof(struct lane_entry *));
    }
    l->found[n] = e;
}

/* The lanes of classes with room that have something due until then; returns how many. */
static size_t lanes_find_due(struct lanes *l, const size_t room[CLASSES], int64_t now_ms, int64_t until_ms)
{
    struct heap_node *node;
    size_t n = 0;
    while ((node = heap_peek(&l->closed)) && node->key <= now_ms)
        lane_open(l, container_of(node, struct lane_entry, at));
    for (int c = 0; c < CLASSES; c++)
        while (room[c] && (node = heap_peek(&l->due[c])) && node->key <= until_ms) {
            struct lane_entry *e = container_of(node, struct lane_entry, at);
            lane_set_place(l, e, LANE_IDLE);
            lanes_remember_found(l, n++, e);
        }
    return n;
}

static bool lanes_ask_due(struct lanes *l, const size_t room[CLASSES], struct moment now, struct lanes_round *r)
{
    int64_t now_ms = now.wall_ms, until_ms = now_ms + l->window_ms;
    size_t n = lanes_find_due(l, room, now_ms, until_ms);
    if (n == 0)
        return false;
    lanes_round_make(r, n);
    r->fair.caps[CAP_LOW] = (int64_t)room[CLASS_LOW];
    r->fair.caps[CAP_LOW_AND_NORMAL] = (int64_t)room[CLASS_NORMAL];
    r->fair.cap_count = r->fair.room_caps = CLASS_CAPS;
    r->fair.room = min_of(room[CLASS_HIGH], (size_t)FAIR_ROOM_MAX);
    r->fair.now_ms = now_ms;
    r->fair.until_ms = until_ms;
    for (size_t i = 0; i < n; i++)
        lanes_round_consider(l, r, l->found[i], now);
    if (r->fair.n)
        fair_share(l->fair, &r->fair);
    lanes_round_make_lines(l, r);
    bool asks = r->n > 0;
    if (!asks)
        lanes_round_end(r);
    return asks;
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

static bool lanes_ask_either(struct lanes *l, const size_t room[CLASSES], struct moment now, struct lanes_round *r)
{
    if (l->asked_suspects) /* the two kinds take turns */
        return lanes_ask_due(l, room, now, r) || lanes_ask_suspects(l, now, r);
    return lanes_ask_suspects(l, now, r) || lanes_ask_due(l, room, now, r);
}

bool lanes_ask(struct lanes *l, const size_t room[CLASSES], enum lanes_wanted wanted, struct moment now,
               struct lanes_round *ret)
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
static void lanes_lane_answered(struct lanes *l, struct lane_entry *e, const struct lane_quota *q, bool limited,
                                const struct op_claim *a)
{
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

/* The lanes of the line begin at `first`. */
static void lanes_line_answered(struct lanes *l, struct lanes_round *r, size_t line, size_t first,
                                const struct op_claim *a)
{
    struct fair_ask *ask = r->asks[line];
    ask->next_due_ms = INT64_MAX;
    for (size_t i = first; i < first + r->lines[line].lanes; i++) {
        ask->taken += r->v[i].ret_taken;
        ask->next_due_ms = min_of(ask->next_due_ms, r->v[i].ret_next_due_ms);
    }
    bool limited = ask->taken >= r->lines[line].max || a->ret.n >= a->max;
    for (size_t i = first; i < first + r->lines[line].lanes; i++)
        lanes_lane_answered(l, r->entries[i], &r->v[i], limited, a);
}

void lanes_answered(struct lanes *l, struct lanes_round *r, const struct op_claim *answer)
{
    l->suspects_open = false;
    for (size_t i = 0; i < r->n; i++) {
        struct lane_entry *e = r->entries[i];
        lane_suspect_due(l, e, min_of(answer->ret_next_suspect_ms, e->heard_suspect_ms));
    }
    for (size_t i = 0, first = 0; i < r->line_count; first += r->lines[i++].lanes)
        lanes_line_answered(l, r, i, first, answer);
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
