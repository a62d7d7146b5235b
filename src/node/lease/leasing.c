/* A queue is known here while an ask waits for it or a claim of it is in flight. Up to IN_FLIGHT asks are served at
 * once, so that they do not wait for each other's commits. */
#include "node/lease/leasing.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/map.h"
#include "node/lease/lease_expiry.h"
#include "node/pending_op.h"

enum {
    IN_FLIGHT = 4,
    POLL_MS = 1000,
    HELD_MS = 20,   /* between two checks of a limit that is shared with other nodes */
    RETRY_MS = 200, /* after a failure */
    ANSWER_ARENA = 64 << 20,
    ANSWER_BYTES = 16 << 20, /* payloads of one answer */
    COUNT_MAX = 10000,
    COUNT_ARENA = 256 << 20,
    KEY_MAX = sizeof(int32_t) + 2 * CATALOG_NAME_MAX,
};

struct lease_queue {
    struct lane_entry *lane; /* of the queue, of any class */
    struct list asks;        /* by their turns */
    size_t in_flight;
    int64_t due_ms;     /* wall: when a claim may find something */
    int64_t heard_ms;   /* wall: the earliest due time that was told while a claim was in flight */
    int64_t poll_at_ms; /* steady: when to claim although nothing was told */
    size_t key_size;
    char key[];
};

struct leasing {
    struct leasing_setup setup;
    struct uuid_gen ids;
    struct prng random;
    struct map queues;
    size_t in_flight;
    uint64_t turns;
    struct lease_expiry *expiry;
    struct op_leases_expired count; /* leases that were given before this node started, if only this node counts them */
    struct pending_op counting;
    bool counted;
    struct moment now;
    bool stopped;
};

static void leasing_on_expired(void *leasing, const struct task *t)
{
    leasing_on_settled(leasing, t->tenant, t->queue);
}

struct leasing *leasing_new(const struct leasing_setup *setup)
{
    struct leasing *l = xnew(*l);
    l->setup = *setup;
    l->counted = setup->shared;
    map_init(&l->queues, HASH_STABLE);
    uuid_gen_init(&l->ids, setup->reaper.seed);
    prng_init(&l->random, setup->reaper.seed + 2);
    struct lease_expiry_setup expiry = { .reaper = setup->reaper,
                                         .shared = setup->shared,
                                         .over = leasing_on_expired,
                                         .leasing = l,
                                         .expired = setup->expired };
    expiry.reaper.seed++;
    l->expiry = lease_expiry_new(&expiry);
    return l;
}

void leasing_free(struct leasing *l)
{
    if (!l)
        return;
    assert(l->queues.n == 0 && l->in_flight == 0);
    map_release(&l->queues);
    lease_expiry_free(l->expiry);
    free(l);
}

bool leasing_is_idle(const struct leasing *l)
{
    return l->in_flight == 0 && l->queues.n == 0 && !l->counting.in_flight && lease_expiry_is_idle(l->expiry);
}

/* ---- queues ---- */

static struct str leasing_queue_key(int32_t tenant, struct str queue, char out[KEY_MAX])
{
    assert(queue.n <= KEY_MAX - sizeof tenant);
    memcpy(out, &tenant, sizeof tenant);
    if (queue.n)
        memcpy(out + sizeof tenant, queue.p, queue.n);
    return (struct str){ out, sizeof tenant + queue.n };
}

static struct lease_queue *leasing_add_queue(struct leasing *l, int32_t tenant, struct str queue)
{
    char bytes[KEY_MAX];
    struct str key = leasing_queue_key(tenant, queue, bytes);
    struct lease_queue *q = map_get(&l->queues, key);
    if (q)
        return q;
    q = xcalloc(1, sizeof *q + key.n);
    memcpy(q->key, key.p, key.n);
    q->key_size = key.n;
    q->due_ms = l->now.wall_ms;
    q->poll_at_ms = INT64_MAX;
    q->heard_ms = INT64_MAX;
    q->lane =
        lanes_know(l->setup.lanes, (struct lane){ .tenant = tenant, .queue = queue, .priority = PRIORITY_DEFAULT });
    list_init(&q->asks);
    map_put(&l->queues, (struct str){ q->key, q->key_size }, q);
    return q;
}

static void leasing_drop_queue(struct leasing *l, struct lease_queue *q)
{
    if (q->in_flight || !list_empty(&q->asks))
        return;
    map_remove(&l->queues, (struct str){ q->key, q->key_size });
    free(q);
}

static void leasing_queue_due(struct lease_queue *q, int64_t due_ms)
{
    q->due_ms = min_of(q->due_ms, due_ms);
    q->heard_ms = min_of(q->heard_ms, due_ms);
}

void leasing_due(struct leasing *l, int32_t tenant, struct str queue, int64_t due_ms)
{
    char bytes[KEY_MAX];
    struct lease_queue *q =
        queue.n <= KEY_MAX - sizeof tenant ? map_get(&l->queues, leasing_queue_key(tenant, queue, bytes)) : NULL;
    if (q)
        leasing_queue_due(q, due_ms);
    lease_expiry_released(l->expiry);
}

void leasing_may_expire(struct leasing *l)
{
    lease_expiry_waits(l->expiry);
}

void leasing_all_due(struct leasing *l, int64_t due_ms)
{
    map_each (&l->queues, slot)
        leasing_queue_due(slot->value, due_ms);
    lease_expiry_released(l->expiry);
}

void leasing_on_settled(struct leasing *l, int32_t tenant, struct str queue)
{
    if (!l->setup.shared)
        lanes_lease_over(l->setup.lanes, tenant, queue);
    leasing_all_due(l, l->now.wall_ms); /* also of other queues: their tenant may run more now */
}

/* ---- leases from before this node started ---- */

static void leasing_on_counted(struct op *op)
{
    struct leasing *l = op->context;
    l->counted = op->rc == ERR_OK;
    if (op->rc)
        log_warn("leases_count_failed", kv_err(&op->error));
    for (size_t i = 0; l->counted && i < l->count.ret.n; i++)
        lanes_lease_found(l->setup.lanes, l->count.ret.v[i].tenant, l->count.ret.v[i].queue);
    pending_op_end(&l->counting, op);
    pending_op_wait(&l->counting, l->now, RETRY_MS);
    leasing_all_due(l, l->now.wall_ms);
}

/* Reads all leases, as if they had run out. Beyond COUNT_MAX they are not counted, and a limit may be exceeded until
 * they end. */
static void leasing_count(struct leasing *l)
{
    l->count =
        (struct op_leases_expired){ .op = { .kind = OP_LEASES_EXPIRED, .done = leasing_on_counted, .context = l },
                                    .now_ms = INT64_MAX,
                                    .max = COUNT_MAX };
    pending_op_send(&l->counting, l->setup.reaper.writer, &l->count.op, COUNT_ARENA);
}

/* ---- answers ---- */

static void leasing_answer(struct lease_ask *a)
{
    a->done(a);
}

static void leasing_answer_nothing(struct lease_ask *a)
{
    list_remove(&a->link);
    a->claim.op.rc = ERR_OK;
    a->claim.ret.n = 0;
    leasing_answer(a);
}

/* Such an ask may come again, in its place. */
static bool leasing_end_not_allowed(struct lease_ask *a)
{
    if (!a->allowed || a->allowed(a))
        return false;
    a->ret_not_allowed = true;
    leasing_answer_nothing(a);
    return true;
}

/* An ask is answered once. If a claim's answer was lost, its tasks stay leased until the lease ends. */
static bool leasing_may_wait(const struct leasing *l, const struct lease_ask *a)
{
    return (a->until_ms > l->now.steady_ms || !a->tried) && !l->stopped;
}

/* Before every ask that came later: it may not have been the first in the line. */
static void leasing_put_back(struct lease_queue *q, struct lease_ask *a)
{
    struct list *place = q->asks.next;
    while (place != &q->asks && container_of(place, struct lease_ask, link)->turn < a->turn)
        place = place->next;
    list_insert_before(place, &a->link);
}

static void leasing_on_claimed(struct op *op)
{
    struct lease_ask *a = container_of(op, struct lease_ask, claim.op);
    struct leasing *l = a->leasing;
    struct lease_queue *q = a->of;
    size_t given = op->rc ? 0 : a->claim.ret.n;
    l->in_flight--;
    q->in_flight--;
    lanes_lease_end(l->setup.lanes, q->lane, a->reserved, given, l->now.wall_ms, !l->setup.shared);
    if (!op->rc)
        l->setup.answered(l->setup.reaper.context, &a->claim);
    if (given || op->rc) /* or the answer was lost */
        lease_expiry_given(l->expiry);
    bool dead = op->rc == ERR_CONFLICT; /* the node was marked dead: it joins again under another id */
    if (op->rc && !dead)
        log_warn("lease_failed", kv_err(&op->error));
    int64_t left_ms = op->rc ? INT64_MAX : min_of(a->claim.ret_next_due_ms, a->claim.ret_next_suspect_ms);
    q->due_ms = min_of(left_ms, q->heard_ms);
    q->poll_at_ms = l->now.steady_ms + (op->rc ? RETRY_MS : POLL_MS);
    if (given || (op->rc && !dead) || !leasing_may_wait(l, a)) {
        if (dead)
            (void)error_set(&op->error, op->rc = ERR_UNAVAILABLE, "this node is just joining again");
        leasing_answer(a);
    } else {
        arena_release(&op->arena);
        leasing_put_back(q, a);
    }
    leasing_drop_queue(l, q);
}

/* ---- claims ---- */

static void leasing_add_class(struct lease_ask *a, enum priority_class class_, size_t room)
{
    struct claim_line *line = &a->lines[a->claim.line_count++];
    *line = (struct claim_line){ .max = room };
    for (int priority = PRIORITY_MAX; priority >= PRIORITY_MIN; priority--) {
        struct lane lane = { .tenant = a->tenant, .queue = a->queue, .priority = priority };
        if (priority_class_of(priority) != class_)
            continue;
        a->lanes[a->claim.lane_count++] = (struct lane_quota){ .lane = lane, .max = room };
        line->lanes++;
    }
}

/* Most asks want a few tasks, and a claim stops at the first line that has enough. So each class is first as often as
 * its share says. */
static void leasing_order_lines(struct leasing *l, struct lease_ask *a, size_t room)
{
    enum priority_class first = fair_draw(&l->random);
    leasing_add_class(a, first, room);
    for (int c = CLASS_HIGH; c >= CLASS_LOW; c--)
        if ((enum priority_class)c != first)
            leasing_add_class(a, (enum priority_class)c, room);
}

static void leasing_claim(struct leasing *l, struct lease_queue *q, struct lease_ask *a, size_t room)
{
    list_remove(&a->link);
    a->of = q;
    a->tried = true;
    a->reserved = room;
    a->terms = (struct lease_terms){ .until_ms = l->now.wall_ms + a->lease_ms, .worker = a->worker };
    a->claim = (struct op_claim){ .op = { .kind = OP_CLAIM, .done = leasing_on_claimed },
                                  .claim = uuid_next(&l->ids, l->now.wall_ms),
                                  .node = *l->setup.node,
                                  .lease = &a->terms,
                                  .lanes = a->lanes,
                                  .lines = a->lines,
                                  .now_ms = l->now.wall_ms,
                                  .until_ms = l->now.wall_ms,
                                  .max = room,
                                  .max_bytes = ANSWER_BYTES,
                                  .max_suspects = room };
    leasing_order_lines(l, a, room);
    arena_init(&a->claim.op.arena, ANSWER_ARENA);
    lanes_lease_begin(l->setup.lanes, q->lane, room);
    q->in_flight++;
    q->heard_ms = INT64_MAX;
    l->in_flight++;
    writer_submit(l->setup.reaper.writer, &a->claim.op);
}

static int64_t leasing_next_claim_ms(const struct leasing *l, const struct lease_queue *q)
{
    return min_of(q->due_ms, moment_wall_at(l->now, q->poll_at_ms));
}

static void leasing_serve_queue(struct leasing *l, struct lease_queue *q)
{
    while (l->counted && !list_empty(&q->asks) && q->in_flight < IN_FLIGHT &&
           leasing_next_claim_ms(l, q) <= l->now.wall_ms) {
        struct lease_ask *a = container_of(q->asks.next, struct lease_ask, link);
        struct lane_hold hold;
        int64_t room = lanes_lease_room(l->setup.lanes, q->lane, l->now, &hold);
        if (room <= 0) {
            bool soon = hold.gate == LANE_RATE || hold.gate == LANE_CONCURRENCY || hold.gate == LANE_TENANT_LIMIT;
            q->due_ms = max_of(hold.until_ms, l->now.wall_ms + 1);
            q->poll_at_ms = l->now.steady_ms + (soon ? HELD_MS : POLL_MS);
            list_each (&q->asks, link)
                container_of(link, struct lease_ask, link)->tried = true;
            return;
        }
        if (leasing_end_not_allowed(a))
            continue;
        leasing_claim(l, q, a, (size_t)min_of(room, (int64_t)a->max));
    }
}

static int64_t leasing_serve_all(struct leasing *l)
{
    int64_t wake = INT64_MAX;
    map_each (&l->queues, slot) {
        struct lease_queue *q = slot->value;
        leasing_serve_queue(l, q);
        if (l->counted && !list_empty(&q->asks) && q->in_flight < IN_FLIGHT)
            wake = min_of(wake, leasing_next_claim_ms(l, q));
        list_each (&q->asks, link)
            wake = min_of(wake, moment_wall_at(l->now, container_of(link, struct lease_ask, link)->until_ms));
    }
    return wake;
}

/* Answers asks whose time is over, and those that are not allowed. Empty queues are collected first: a map must not
 * change while it is walked. */
static void leasing_end_waits(struct leasing *l)
{
    struct lease_queue **empty = xcalloc(l->queues.n + 1, sizeof *empty);
    size_t n = 0;
    map_each (&l->queues, slot) {
        struct lease_queue *q = slot->value;
        list_each (&q->asks, link) {
            struct lease_ask *a = container_of(link, struct lease_ask, link);
            if (!leasing_may_wait(l, a))
                leasing_answer_nothing(a);
            else
                (void)leasing_end_not_allowed(a);
        }
        if (list_empty(&q->asks) && !q->in_flight)
            empty[n++] = q;
    }
    for (size_t i = 0; i < n; i++)
        leasing_drop_queue(l, empty[i]);
    free(empty);
}

void leasing_ask(struct leasing *l, struct lease_ask *a, struct moment now)
{
    assert(a->max > 0 && a->max <= LEASES_MAX);
    l->now = now;
    a->leasing = l;
    a->until_ms = now.steady_ms + a->wait_ms;
    a->turn = a->turn ? a->turn : ++l->turns;
    a->ret_not_allowed = false;
    if (l->stopped) {
        list_init(&a->link);
        leasing_answer_nothing(a);
        return;
    }
    struct lease_queue *q = leasing_add_queue(l, a->tenant, a->queue);
    bool first = list_empty(&q->asks) && !q->in_flight;
    leasing_put_back(q, a);
    if (first || !a->wait_ms) /* an ask that does not wait is answered now */
        q->due_ms = min_of(q->due_ms, now.wall_ms);
    leasing_serve_queue(l, q);
}

int64_t leasing_step(struct leasing *l, struct moment now, bool leads)
{
    l->now = now;
    int64_t wake = lease_expiry_step(l->expiry, now, leads);
    bool counts = leads && !l->counted && !l->stopped;
    if (counts && pending_op_may_send(&l->counting, now))
        leasing_count(l);
    if (counts)
        wake = min_of(wake, pending_op_wake(&l->counting, now));
    leasing_end_waits(l);
    return min_of(wake, leasing_serve_all(l));
}

void leasing_stop_waiting(struct leasing *l)
{
    l->stopped = true;
    leasing_end_waits(l);
}

void leasing_stop(struct leasing *l)
{
    leasing_stop_waiting(l);
    lease_expiry_stop(l->expiry);
}
