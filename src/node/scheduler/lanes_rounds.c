/* A round gathers the lanes that have something due, closes those that a gate holds back, and shares the room among
 * the rest and the ready tasks (lanes_ahead.c). */
#include <assert.h>
#include <stdlib.h>

#include "node/scheduler/lanes_internal.h"

enum { SUSPECT_AGAIN_MS = 1000 }; /* for a suspect whose lane is closed */

/* ---- parts of a round ---- */

enum { POOL_CAPS = 3, LINE_CAPS = 4 }; /* of a pool; of a line besides those that are parts of the room */

/* A limit that is not below the room (of all pools, or of the one that it is about) is no cap: if it is used up, so is
 * the room, and a line that waits for room keeps its turn. */
int lanes_round_cap(struct lanes *l, struct lanes_round *r, uint64_t *round, int *cap, struct allowance a, size_t room)
{
    if (*round == l->round)
        return *cap;
    *round = l->round;
    *cap = -1;
    if (a.n < (int64_t)room) {
        *cap = (int)r->fair.cap_count++;
        r->fair.caps[*cap] = a.n;
    }
    return *cap;
}

void lanes_round_make(struct lanes_round *r, size_t lanes, size_t lines)
{
    r->v = xcalloc(lanes + 1, sizeof *r->v);
    r->entries = xcalloc(lanes + 1, sizeof(struct lane_entry *));
    r->lines = xcalloc(lines, sizeof *r->lines);
    r->asks = xcalloc(lines, sizeof(struct fair_ask *));
    r->pool_room = xcalloc(lines, sizeof *r->pool_room); /* there are no more pools than lines */
    r->fair.asks = xcalloc(lines, sizeof *r->fair.asks);
    r->fair.caps = xcalloc((POOL_CAPS + 1 + LINE_CAPS) * lines, sizeof *r->fair.caps);
    r->fair.cap_count = r->fair.room_caps = (POOL_CAPS + 1) * lines;
}

void lanes_round_end(struct lanes_round *r)
{
    free(r->v);
    free(r->entries);
    free(r->lines);
    free(r->asks);
    free(r->pool_room);
    free(r->fair.asks);
    free(r->fair.caps);
    *r = (struct lanes_round){ 0 };
}

/* The first cap of a pool. A claim ahead takes no places. */
static int lanes_round_pool(struct lanes *l, struct lanes_round *r, struct pool_entry *p)
{
    size_t room[CLASSES];
    if (p->round == l->round)
        return p->cap;
    p->round = l->round;
    p->cap = (int)(POOL_CAPS * r->pool_count);
    lanes_pool_room(l, p, room);
    int64_t *caps = &r->fair.caps[p->cap];
    for (int c = 0; c < CLASSES; c++)
        caps[CLASS_HIGH - c] = r->ahead ? FAIR_ROOM_MAX : (int64_t)room[c];
    r->pool_room[r->pool_count++] = room[CLASS_HIGH];
    return p->cap;
}

/* A line can use nothing until ready tasks or lanes are added. */
struct fair_ask *lanes_round_ask_of(struct lanes *l, struct lanes_round *r, struct line_entry *line)
{
    if (line->round == l->round)
        return line->ask;
    int pool = lanes_round_pool(l, r, line->pool);
    struct fair_ask *ask = &r->fair.asks[r->fair.n];
    *ask = FAIR_ASK;
    ask->line = &line->fair;
    ask->next_due_ms = INT64_MAX;
    ask->weight = max_of(line->queue->rules.weight, (int64_t)1);
    ask->caps[ASK_POOL] = pool;
    ask->caps[ASK_POOL_NOT_HIGH] = line->class_ == CLASS_HIGH ? -1 : pool + ASK_POOL_NOT_HIGH;
    ask->caps[ASK_POOL_LOW] = line->class_ == CLASS_LOW ? pool + ASK_POOL_LOW : -1;
    ask->caps[ASK_OWN] = (int)(r->fair.room_caps / (POOL_CAPS + 1) * POOL_CAPS + r->fair.n++);
    line->round = l->round;
    line->ask = ask;
    line->asked = NULL;
    return ask;
}

/* The head of a line is the task that is next in it. */
static void lanes_round_add_head(struct fair_ask *ask, const struct lane *lane, int64_t due_ms)
{
    struct lane head = { .priority = ask->priority };
    if (ask->next_due_ms != INT64_MAX && lane_order_ms(lane, due_ms) >= lane_order_ms(&head, ask->next_due_ms))
        return;
    ask->next_due_ms = due_ms;
    ask->priority = lane->priority;
}

void lanes_round_add_lane(struct lanes *l, struct lanes_round *r, struct lane_entry *e)
{
    struct fair_ask *ask = lanes_round_ask_of(l, r, e->line);
    lanes_round_add_head(ask, &e->lane, e->next_due_ms);
    r->fair.caps[ask->caps[ASK_OWN]] = FAIR_ROOM_MAX;
    e->next_asked = e->line->asked;
    e->line->asked = e;
    lane_set_place(l, e, LANE_ASKED);
    lane_plan_ahead(l, e);
    e->heard_ms = e->heard_suspect_ms = INT64_MAX;
}

/* Lines without a quota wait, and stay in the round: they lose no turn. */
void lanes_round_make_lines(struct lanes *l, struct lanes_round *r)
{
    for (size_t i = 0; i < r->fair.n; i++) {
        struct fair_ask *ask = &r->fair.asks[i];
        struct line_entry *line = container_of(ask->line, struct line_entry, fair);
        size_t lanes = 0, max = ask->quota - ask->taken;
        for (struct lane_entry *e = line->asked, *next; e; e = next) {
            next = e->next_asked;
            if (max == 0) {
                lane_open(l, e);
                continue;
            }
            r->v[r->n] = (struct lane_quota){ .lane = e->lane, .max = max };
            r->entries[r->n++] = e;
            lanes++;
        }
        ask->taken = 0;
        if (!lanes)
            continue;
        r->asks[r->line_count] = ask;
        r->lines[r->line_count++] = (struct claim_line){ .lanes = lanes, .max = max };
    }
}

void lanes_remember_found(struct lanes *l, size_t n, struct lane_entry *e)
{
    if (n == l->found_cap) {
        l->found_cap = max_of(l->found_cap * 2, (size_t)16);
        l->found = xrealloc(l->found, l->found_cap * sizeof(struct lane_entry *));
    }
    l->found[n] = e;
}

/* ---- who takes part ---- */

/* Whether a gate is closed. Notes who reopens the lanes: the queue, the tenant or the line. */
static bool lanes_round_stops_at(const struct allowance *a, bool *waits, struct lane_hold *ret_hold)
{
    if (a->n)
        return false;
    *ret_hold = a->hold;
    *waits = *waits || a->hold.until_ms == INT64_MAX;
    return true;
}

/* Whether the line's queue, tenant and workers may run more; then the round knows how much. */
static bool lanes_round_allows(struct lanes *l, struct lanes_round *r, struct line_entry *line, struct moment now,
                               struct lane_hold *ret_hold)
{
    struct queue_entry *q = line->queue;
    struct tenant_entry *t = q->tenant;
    if (line->pool->nobody) {
        *ret_hold = lanes_nobody_allows(l, line, now.wall_ms).hold;
        return false;
    }
    lanes_want_shares(l, q, now);
    struct allowance of_queue = lanes_queue_allows(l, q, now.wall_ms), of_tenant = lanes_tenant_allows_line(l, line),
                     of_share = lanes_share_allows(l, line->tenant), of_line = lanes_line_allows(l, line, now.wall_ms);
    if (lanes_round_stops_at(&of_queue, &q->waits, ret_hold) || lanes_round_stops_at(&of_tenant, &t->waits, ret_hold) ||
        lanes_round_stops_at(&of_share, &t->waits, ret_hold) ||
        lanes_round_stops_at(&of_line, &line->waits, ret_hold)) {
        lanes_wait_for_shares(l, q, ret_hold->gate);
        return false;
    }
    struct fair_ask *ask = lanes_round_ask_of(l, r, line);
    struct pool_tenant *p = line->tenant;
    size_t room = r->fair.room, of_pool = r->pool_room[ask->caps[ASK_POOL] / POOL_CAPS];
    ask->caps[ASK_QUEUE] = lanes_round_cap(l, r, &q->round, &q->cap, of_queue, room);
    ask->caps[ASK_TENANT] = lanes_round_cap(l, r, &t->round, &t->cap, of_tenant, room);
    ask->caps[ASK_SHARE] = lanes_round_cap(l, r, &p->round, &p->cap, of_share, of_pool);
    struct host_entry *trial_of = line->host && line->host->open ? line->host : NULL; /* one of all its lines */
    ask->caps[ASK_LINE] = trial_of ? lanes_round_cap(l, r, &trial_of->cap_round, &trial_of->cap, of_line, of_pool)
                                   : lanes_round_cap(l, r, &line->cap_round, &line->cap, of_line, of_pool);
    return true;
}

/* Adds the lanes of a pool that have something due until then, of classes with room; returns how many are found now. */
static size_t lanes_find_due_in(struct lanes *l, struct pool_entry *p, int64_t until_ms, size_t n)
{
    struct heap_node *node;
    size_t room[CLASSES];
    lanes_pool_room(l, p, room);
    for (int c = 0; c < CLASSES; c++)
        while (room[c] && (node = heap_peek(&p->due[c])) && node->key <= until_ms) {
            struct lane_entry *e = container_of(node, struct lane_entry, at);
            lane_set_place(l, e, LANE_IDLE);
            lanes_remember_found(l, n++, e);
        }
    return n;
}

static size_t lanes_find_due(struct lanes *l, int64_t now_ms, int64_t until_ms)
{
    struct heap_node *node;
    size_t n = 0;
    while ((node = heap_peek(&l->closed)) && node->key <= now_ms)
        lane_open(l, container_of(node, struct lane_entry, at));
    list_each (&l->pools, link) {
        struct pool_entry *p = container_of(link, struct pool_entry, link);
        n = p->nobody ? n : lanes_find_due_in(l, p, until_ms, n);
    }
    return n;
}

/* Adds the lanes that were found, or closes them. */
static void lanes_round_add_found(struct lanes *l, struct lanes_round *r, size_t n, struct moment now)
{
    for (size_t i = 0; i < n; i++) {
        struct lane_entry *e = l->found[i];
        struct lane_hold hold;
        if (lanes_round_allows(l, r, e->line, now, &hold))
            lanes_round_add_lane(l, r, e);
        else
            lane_close(l, e, hold.gate, hold.until_ms);
    }
}

static void lanes_round_add_ready(struct lanes *l, struct lanes_round *r, struct moment now)
{
    l->ready_ms = INT64_MAX;
    list_each (&l->ready, link) {
        struct line_entry *line = container_of(link, struct line_entry, with_ready);
        struct lane_hold hold;
        if (!lanes_pool_has_room(l, line->pool))
            continue;
        if (!lanes_round_allows(l, r, line, now, &hold)) {
            l->ready_ms = min_of(l->ready_ms, hold.until_ms);
            continue;
        }
        struct fair_ask *ask = lanes_round_ask_of(l, r, line);
        lanes_round_add_head(ask, line->like, now.wall_ms);
        r->fair.caps[ask->caps[ASK_OWN]] += (int64_t)line->ready;
    }
}

/* While no claim can be made, lanes with something due keep their turn: the ready tasks of others do not pass them. In
 * a pool without room nobody gets anything, so nobody has a turn. */
static size_t lanes_find_waiting(struct lanes *l, int64_t now_ms)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct lane_entry *e = l->v[i];
        if (e->next_due_ms <= now_ms && (e->place == LANE_DUE || e->place == LANE_ASKED) &&
            lanes_pool_has_room(l, e->line->pool))
            lanes_remember_found(l, n++, e);
    }
    return n;
}

static void lanes_round_add_waiting(struct lanes *l, struct lanes_round *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        lanes_round_add_head(lanes_round_ask_of(l, r, l->found[i]->line), &l->found[i]->lane, l->found[i]->next_due_ms);
}

/* ---- due tasks ---- */

/* The lane of the line whose ready task is next. */
static struct lane_entry *lanes_next_ready(const struct line_entry *line)
{
    struct lane_entry *next = NULL;
    list_each (&line->lanes, link) {
        struct lane_entry *e = container_of(link, struct lane_entry, of_line);
        if (e->ready.n && (!next || heap_peek(&e->ready)->key < heap_peek(&next->ready)->key))
            next = e;
    }
    return next;
}

static void lanes_round_grant(struct lanes *l, struct lanes_round *r, const struct lanes_offer *offer)
{
    for (size_t i = 0; i < r->fair.n; i++) {
        struct fair_ask *ask = &r->fair.asks[i];
        struct line_entry *line = container_of(ask->line, struct line_entry, fair);
        size_t *room = &r->pool_room[ask->caps[ASK_POOL] / POOL_CAPS];
        for (size_t n = min_of(ask->quota, line->ready); n > 0; n--) {
            struct lane_entry *e = lanes_next_ready(line);
            struct heap_node *node = heap_peek(&e->ready);
            lanes_ready_remove(l, e, node);
            ask->taken++;
            *room -= *room > 0;
            offer->grant(offer->context, node);
        }
        if (!line->ready && !line->asked && offer->claims)
            ask->next_due_ms = INT64_MAX; /* nothing more of it waits */
    }
}

static void lanes_round_open_due(struct lanes_round *r)
{
    for (size_t i = 0; i < r->n; i++)
        r->entries[i]->line->pool->open_due++;
}

static bool lanes_ask_due(struct lanes *l, const struct lanes_offer *offer, struct lanes_round *r)
{
    int64_t now_ms = offer->now.wall_ms, until_ms = now_ms + l->window_ms;
    size_t n = offer->claims ? lanes_find_due(l, now_ms, until_ms) : l->ready_count ? lanes_find_waiting(l, now_ms) : 0;
    if (n == 0 && l->ready_count == 0)
        return false;
    lanes_round_make(r, n, n + l->ready_count);
    r->max = r->fair.room = min_of(min_of(offer->max, (size_t)FAIR_ROOM_MAX), lanes_room(l));
    r->fair.now_ms = now_ms;
    r->fair.until_ms = until_ms;
    if (offer->claims)
        lanes_round_add_found(l, r, n, offer->now);
    else
        lanes_round_add_waiting(l, r, n);
    lanes_round_add_ready(l, r, offer->now);
    if (r->fair.n)
        fair_share(l->fair, &r->fair);
    if (l->ready_count && r->fair.n) {
        lanes_round_grant(l, r, offer);
        fair_took(l->fair, &r->fair);
    }
    lanes_round_make_lines(l, r);
    bool asks = r->n > 0;
    if (asks)
        lanes_round_open_due(r);
    else
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
    lanes_round_make(r, l->suspects.n, 1);
    for (size_t i = 0; i < l->suspects.n; i++) {
        struct lane_entry *e = container_of(l->suspects.v[i], struct lane_entry, suspect);
        if (e->suspect_ms <= now_ms)
            r->entries[r->n++] = e;
    }
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct lane_entry *e = r->entries[i];
        if (!e->line->pool->nobody)
            lanes_want_shares(l, e->queue, now);
        struct lane_hold h = lanes_hold_of(l, e, now_ms);
        if (h.gate == LANE_NONE && lanes_facts(l, e).pool_waits) {
            lane_suspect_due(l, e, now_ms + SUSPECT_AGAIN_MS);
            continue;
        }
        if (h.gate != LANE_NONE) {
            lanes_wait_for_shares(l, e->queue, h.gate);
            lane_suspect_due(l, e, min_of(h.until_ms, now_ms + SUSPECT_AGAIN_MS));
            continue;
        }
        e->heard_suspect_ms = INT64_MAX;
        r->v[n].lane = e->lane;
        r->entries[n++] = e;
    }
    r->n = n;
    r->suspects = true;
    r->max = 1;
    if (n == 0)
        lanes_round_end(r);
    return n > 0;
}

static bool lanes_ask_either(struct lanes *l, const struct lanes_offer *offer, struct lanes_round *r)
{
    if (l->asked_suspects) /* the two kinds take turns */
        return lanes_ask_due(l, offer, r) || lanes_ask_suspects(l, offer->now, r);
    return lanes_ask_suspects(l, offer->now, r) || lanes_ask_due(l, offer, r);
}

/* Ready tasks do not wait for it. */
static bool lanes_ask_look(struct lanes *l, const struct lanes_offer *offer, struct lanes_round *r)
{
    struct lanes_offer grants = *offer;
    grants.claims = false;
    if (l->ready_count)
        (void)lanes_ask_due(l, &grants, r);
    l->round++;
    return lanes_ask_missing(l, l->now_ms, r);
}

static bool lanes_ask_wanted(struct lanes *l, const struct lanes_offer *offer, struct lanes_round *r)
{
    if (!offer->claims)
        return lanes_ask_due(l, offer, r);
    if (offer->wanted == LANES_SUSPECT)
        return lanes_ask_suspects(l, offer->now, r);
    if (lanes_is_to_look(l, l->now_ms) && lanes_ask_look(l, offer, r))
        return true;
    return offer->wanted == LANES_DUE ? lanes_ask_due(l, offer, r) : lanes_ask_either(l, offer, r);
}

bool lanes_ask(struct lanes *l, const struct lanes_offer *offer, struct lanes_round *ret)
{
    *ret = (struct lanes_round){ 0 };
    l->round++;
    l->now_ms = offer->now.wall_ms;
    bool asked = lanes_ask_wanted(l, offer, ret);
    ret->until_ms = asked ? l->now_ms + l->window_ms : 0;
    if (offer->claims)
        l->asked_suspects = l->suspects_open = asked && ret->suspects;
    l->open = l->open || asked;
    return asked;
}

/* A task that was left within the window although there was room cannot be claimed before it is due: it runs at most
 * once, or found no slot. Claims ahead try again after a while: the slot may be free then. */
static void lanes_lane_answered(struct lanes *l, struct lane_entry *e, const struct lane_quota *q, bool limited,
                                const struct op_claim *a)
{
    int64_t heard_ms = e->heard_ms;
    e->next_due_ms = q->ret_next_due_ms;
    e->own_ms = q->ret_next_own_ms;
    lane_set_place(l, e, LANE_IDLE);
    if (!limited && q->ret_next_own_ms <= a->until_ms)
        lane_defer_ahead(e, a->now_ms);
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

/* Whether each pool got as many tasks as it had room for. */
static bool lanes_round_was_full(const struct lanes_round *r)
{
    size_t *got = xcalloc(r->pool_count + 1, sizeof *got);
    bool full = r->pool_count && !r->suspects && !r->ahead;
    for (size_t i = 0; i < r->line_count; i++)
        got[r->asks[i]->caps[ASK_POOL] / POOL_CAPS] += r->asks[i]->taken;
    for (size_t i = 0; i < r->pool_count; i++)
        full = full && got[i] >= min_of(r->pool_room[i], r->max);
    free(got);
    return full;
}

bool lanes_answered(struct lanes *l, struct lanes_round *r, const struct op_claim *answer)
{
    l->suspects_open = false;
    for (size_t i = 0; i < r->n; i++) {
        struct lane_entry *e = r->entries[i];
        lane_suspect_due(l, e, min_of(answer->ret_next_suspect_ms, e->heard_suspect_ms));
        if (!r->missing)
            continue;
        lanes_lane_answered(l, e, &r->v[i], true, answer);
        lanes_missing_answered(l, e, answer->until_ms);
    }
    for (size_t i = 0, first = 0; i < r->line_count; first += r->lines[i++].lanes)
        lanes_line_answered(l, r, i, first, answer);
    if (!r->suspects && !r->ahead && !r->missing)
        fair_took(l->fair, &r->fair);
    bool full = lanes_round_was_full(r);
    lanes_round_end(r);
    lanes_round_is_over(l);
    return full;
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
    lanes_round_is_over(l);
}
