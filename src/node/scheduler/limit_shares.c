/* Invariants:
 *  - Every token that the store gave is in `tokens`, in `stale`, or used; or it was lost with an answer or a limit.
 *  - At most one operation is in flight. The places of a share never exceed what the store has for this node.
 *  - A share with something to do is in the heap by the time of that, unless it is in the operation in flight. */
#include "node/scheduler/limit_shares.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/pending_op.h"

enum { OP_ARENA = 4096, BOOST_MAX = 1024, PLACES_PART = 8, MS_PER_S = 1000 };
enum { LIMIT_SHARES_STALE_SLICE_MS = LIMIT_SHARES_STALE_MS / LIMIT_SHARES_STALE_SLICES };

struct limit_shares {
    struct limit_shares_setup setup;
    struct uuid node; /* the id under which all shares are held */
    struct heap acts;
    struct limit_share **v;
    size_t n, cap;
    struct op_limit_take op;
    struct limit_share *asked[LIMIT_SHARES_BATCH];
    struct pending_op pending;
    struct moment now;
    int64_t sent_ms;  /* steady: when the operation in flight was sent */
    bool is_failing;  /* the last operation failed, and that was logged */
    bool was_stopped; /* for a while since the operation was sent: its tokens are as old as that */
};

struct limit_shares *limit_shares_new(const struct limit_shares_setup *setup)
{
    struct limit_shares *s = xnew(*s);
    s->setup = *setup;
    s->node = *setup->node;
    return s;
}

void limit_shares_free(struct limit_shares *s)
{
    if (!s)
        return;
    assert(!s->pending.in_flight);
    heap_release(&s->acts);
    for (size_t i = 0; i < s->n; i++)
        free(s->v[i]);
    free(s->v);
    free(s);
}

struct limit_share *limit_shares_add(struct limit_shares *s, struct str key, void *owner, const size_t *armed,
                                     const size_t *held)
{
    assert(key.n <= SHARE_KEY_MAX);
    struct limit_share *e = xnew(*e);
    memcpy(e->key, key.p, key.n);
    e->key_size = key.n;
    e->owner = owner;
    e->armed = armed;
    e->held = held;
    e->boost = 1;
    e->shares = s;
    e->want_ms = e->full_ms = INT64_MIN / 2;
    if (s->n == s->cap) {
        s->cap = max_of(s->cap * 2, (size_t)16);
        s->v = xrealloc(s->v, s->cap * sizeof(struct limit_share *));
    }
    return s->v[s->n++] = e;
}

/* ---- time and tokens ---- */

/* A node with an operation in flight steps at least every LIMIT_SHARES_LOOK_MS. If it did not, it was stopped, and
 * nobody knows when the store gave the tokens that come with the answer. A slow store is no reason to drop them: the
 * node would never get any. */
void limit_shares_set_time(struct limit_shares *s, struct moment now)
{
    if (s->pending.in_flight && now.steady_ms - s->now.steady_ms >= LIMIT_SHARES_STALE_MS)
        s->was_stopped = true;
    s->now = now;
}

static int64_t limit_shares_slice(const struct limit_shares *s)
{
    return s->now.steady_ms / LIMIT_SHARES_STALE_SLICE_MS;
}

static bool limit_tokens_are_stale(const struct limit_tokens *t, int64_t slice)
{
    return slice - t->slice >= LIMIT_SHARES_STALE_SLICES;
}

int64_t limit_shares_tokens(const struct limit_share *e)
{
    int64_t n = 0, slice = limit_shares_slice(e->shares);
    for (size_t i = 0; i < array_count(e->tokens); i++)
        n += limit_tokens_are_stale(&e->tokens[i], slice) ? 0 : e->tokens[i].n;
    return n;
}

/* The store may have answered before that the next token is far off. Now it gets these back, and can give one. */
static void limit_shares_add_stale(struct limit_share *e, int64_t n, int64_t given_ms)
{
    if (n == 0)
        return;
    e->stale_ms = e->stale ? min_of(e->stale_ms, given_ms) : given_ms;
    e->stale += n;
    e->ask_tokens_ms = min_of(e->ask_tokens_ms, e->shares->now.steady_ms);
}

/* How many stale tokens the store gets back. While they were here, the bucket filled by rate * age, which might have
 * been too much for it with them in it. That many are lost; so of a slow rate none is. */
static int64_t limit_shares_stale_returned(const struct limit_share *e)
{
    double filled = e->rate * (double)(e->shares->now.steady_ms - e->stale_ms) / MS_PER_S;
    return filled < (double)e->stale ? e->stale - (int64_t)filled : 0;
}

static void limit_shares_set_stale_aside(struct limit_share *e)
{
    int64_t slice = limit_shares_slice(e->shares);
    for (size_t i = 0; i < array_count(e->tokens); i++)
        if (limit_tokens_are_stale(&e->tokens[i], slice)) {
            limit_shares_add_stale(e, e->tokens[i].n, e->tokens[i].slice * LIMIT_SHARES_STALE_SLICE_MS);
            e->tokens[i].n = 0;
        }
}

static void limit_shares_add_tokens(struct limit_share *e, int64_t n)
{
    int64_t slice = limit_shares_slice(e->shares);
    limit_shares_set_stale_aside(e);
    struct limit_tokens *t = &e->tokens[slice % LIMIT_SHARES_STALE_SLICES];
    t->slice = slice;
    t->n += n;
}

/* Takes the oldest tokens that are not stale. Returns how many there were. */
static int64_t limit_shares_remove_tokens(struct limit_share *e, int64_t n)
{
    int64_t slice = limit_shares_slice(e->shares), taken = 0;
    limit_shares_set_stale_aside(e);
    for (int64_t i = slice + 1; i <= slice + LIMIT_SHARES_STALE_SLICES && taken < n; i++) {
        struct limit_tokens *t = &e->tokens[i % LIMIT_SHARES_STALE_SLICES];
        int64_t some = min_of(t->n, n - taken);
        t->n -= some;
        taken += some;
    }
    return taken;
}

static void limit_shares_drop_tokens(struct limit_share *e)
{
    memset(e->tokens, 0, sizeof e->tokens);
    e->stale = e->owed = 0;
}

/* ---- what a share has, and what it wants ---- */

int64_t limit_shares_tokens_left(const struct limit_share *e)
{
    return limit_shares_tokens(e) - e->owed - (int64_t)*e->armed;
}

int64_t limit_shares_places_left(const struct limit_share *e)
{
    return min_of(e->places, e->concurrency) - (int64_t)*e->held;
}

static bool limit_shares_is_wanted(const struct limit_share *e, int64_t now_ms)
{
    return now_ms < e->want_ms + LIMIT_SHARES_KEEP_MS;
}

static int64_t limit_shares_token_slice(const struct limit_share *e)
{
    double slice = ceil(e->rate * LIMIT_SHARES_SLICE_MS / MS_PER_S) * (double)e->boost;
    return slice < (double)e->burst ? max_of((int64_t)slice, (int64_t)1) : e->burst;
}

static int64_t limit_shares_place_slice(const struct limit_share *e)
{
    return max_of(e->concurrency / PLACES_PART, (int64_t)1) * e->boost;
}

static bool limit_shares_wants_tokens(const struct limit_share *e, int64_t now_ms)
{
    if (e->rate <= 0)
        return false;
    return e->waits_tokens || e->owed ||
           (limit_shares_is_wanted(e, now_ms) && limit_shares_tokens_left(e) * 2 < limit_shares_token_slice(e));
}

/* A share that has every place cannot get more. Tasks that were claimed before there was a limit have no place yet. */
static bool limit_shares_wants_places(const struct limit_share *e, int64_t now_ms)
{
    if (!e->concurrency || e->places >= e->concurrency)
        return false;
    return e->waits_places || (int64_t)*e->held > e->places ||
           (limit_shares_is_wanted(e, now_ms) && limit_shares_places_left(e) * 2 < limit_shares_place_slice(e));
}

static bool limit_shares_has_too_much(const struct limit_share *e)
{
    return e->released || (e->rate > 0 && limit_shares_tokens_left(e) > 0) || e->places > (int64_t)*e->held;
}

static int64_t limit_shares_acts_at(const struct limit_share *e, int64_t now_ms)
{
    if (e->asking)
        return INT64_MAX;
    int64_t tokens_ms = e->stale || limit_shares_wants_tokens(e, now_ms) ? e->ask_tokens_ms : INT64_MAX;
    int64_t places_ms = e->unsure || e->spent || limit_shares_wants_places(e, now_ms) ? e->ask_places_ms : INT64_MAX;
    int64_t back_ms = limit_shares_has_too_much(e) && !e->unsure ? e->want_ms + LIMIT_SHARES_KEEP_MS : INT64_MAX;
    return min_of(back_ms, min_of(tokens_ms, places_ms));
}

static void limit_shares_plan(struct limit_shares *s, struct limit_share *e)
{
    limit_shares_set_stale_aside(e);
    int64_t at = limit_shares_acts_at(e, s->now.steady_ms);
    if (at == INT64_MAX && e->act.at)
        heap_remove(&s->acts, &e->act);
    else if (at != INT64_MAX && e->act.at)
        heap_rekey(&s->acts, &e->act, at);
    else if (at != INT64_MAX)
        heap_push(&s->acts, &e->act, at);
}

/* ---- changes by the lanes ---- */

void limit_shares_set_limits(struct limit_shares *s, struct limit_share *e, double rate, int64_t burst,
                             int64_t concurrency)
{
    if (rate == e->rate && burst == e->burst && concurrency == e->concurrency)
        return;
    if (rate != e->rate) /* the next token comes at another time than the store said */
        e->ask_tokens_ms = min_of(e->ask_tokens_ms, s->now.steady_ms);
    if (e->concurrency && !concurrency)
        e->released = e->concurrency;
    if (concurrency)
        e->released = 0;
    e->rate = rate;
    e->burst = rate > 0 ? max_of(burst, (int64_t)1) : 0;
    e->concurrency = concurrency;
    if (!e->burst)
        limit_shares_drop_tokens(e);
    else
        limit_shares_remove_tokens(e, max_of(limit_shares_tokens(e) - e->burst, (int64_t)0));
    e->waits_tokens = e->waits_tokens && rate > 0;
    e->waits_places = e->waits_places && concurrency;
    limit_shares_plan(s, e);
}

void limit_shares_want(struct limit_shares *s, struct limit_share *e, struct moment now)
{
    limit_shares_set_time(s, now);
    e->want_ms = now.steady_ms;
    e->waits_tokens = e->waits_places = false;
    limit_shares_plan(s, e);
}

void limit_shares_wait_for_tokens(struct limit_shares *s, struct limit_share *e)
{
    e->waits_tokens = true;
    limit_shares_plan(s, e);
}

void limit_shares_wait_for_places(struct limit_shares *s, struct limit_share *e)
{
    e->waits_places = true;
    limit_shares_plan(s, e);
}

bool limit_shares_take_token(struct limit_shares *s, struct limit_share *e)
{
    bool taken = limit_shares_remove_tokens(e, 1) > 0;
    if (taken)
        e->taken_ms = s->now.steady_ms;
    else
        limit_shares_wait_for_tokens(s, e);
    return taken;
}

void limit_shares_put_back_token(struct limit_shares *s, struct limit_share *e)
{
    if (e->rate > 0)
        limit_shares_add_stale(e, 1, e->taken_ms);
    limit_shares_plan(s, e);
}

void limit_shares_use_token(struct limit_shares *s, struct limit_share *e)
{
    bool fresh = limit_shares_remove_tokens(e, 1) > 0;
    if (!fresh && e->stale)
        e->stale--;
    else if (!fresh)
        e->owed++;
    limit_shares_plan(s, e);
}

void limit_shares_on_used_less(struct limit_shares *s, struct limit_share *e)
{
    limit_shares_plan(s, e);
}

void limit_shares_spend(struct limit_shares *s, struct limit_share *e, int64_t n)
{
    if (!e->concurrency || n == 0)
        return;
    e->places = max_of(e->places - n, (int64_t)0);
    e->spent += n;
    e->ask_places_ms = s->now.steady_ms;
    limit_shares_plan(s, e);
}

/* ---- the operation ---- */

/* This node was marked dead: its shares are gone, and it has another id now. */
static void limit_shares_forget_all(struct limit_shares *s)
{
    s->node = *s->setup.node;
    for (size_t i = 0; i < s->n; i++) {
        limit_shares_drop_tokens(s->v[i]);
        s->v[i]->places = s->v[i]->spent = 0;
        s->v[i]->unsure = false;
        limit_shares_plan(s, s->v[i]);
    }
}

static void limit_shares_receive_tokens(const struct limit_shares *s, struct limit_share *e, int64_t n)
{
    int64_t owed = min_of(e->owed, n);
    e->owed -= owed;
    if (s->was_stopped)
        limit_shares_add_stale(e, n - owed, s->sent_ms);
    else
        limit_shares_add_tokens(e, n - owed);
}

/* How long to wait after a request for places that was not granted in full. */
static int64_t limit_shares_next_places_wait(const struct limit_share *e, bool gained)
{
    return gained || !e->places_wait_ms ? LIMIT_SHARES_PLACES_MS
                                        : min_of(e->places_wait_ms * 2, (int64_t)LIMIT_SHARES_PLACES_MAX_MS);
}

/* If less was given than asked for, the share asks again later. */
static void limit_shares_apply_answer(struct limit_shares *s, struct limit_share *e)
{
    const struct share *a = &e->share;
    bool few_tokens = a->ret_tokens < a->want_tokens, few_places = a->ret_places < a->want_places;
    int64_t places = e->places;
    e->spent = max_of(e->spent - e->sent_spent, (int64_t)0);
    if (a->concurrency)
        e->places =
            max_of(a->ret_places - e->spent, (int64_t)0); /* the store gave places without knowing of the spent ones */
    if (a->concurrency && !e->concurrency && a->want_places == 0)
        e->released = 0;
    e->unsure = false;
    e->next_ms = a->ret_next_ms;
    e->ask_tokens_ms = s->now.steady_ms;
    if (few_tokens) /* INT64_MAX: the store does not know this node, or not yet */
        e->ask_tokens_ms = a->ret_next_ms == INT64_MAX ? s->now.steady_ms + LIMIT_SHARES_AGAIN_MS
                                                       : max_of(moment_steady_at(s->now, a->ret_next_ms),
                                                                s->now.steady_ms + LIMIT_SHARES_TOKENS_MS);
    limit_shares_receive_tokens(s, e, a->ret_tokens);
    e->places_wait_ms = few_places ? limit_shares_next_places_wait(e, e->places > places) : 0;
    e->ask_places_ms = s->now.steady_ms + e->places_wait_ms;
    e->waits_tokens =
        e->waits_tokens && limit_shares_tokens_left(e) <= 0; /* the owner is told, and waits again if need be */
    e->waits_places = e->waits_places && limit_shares_places_left(e) <= 0;
    if (few_tokens || few_places)
        e->boost = 1;
    else if (a->want_tokens || a->want_places > places)
        e->full_ms = s->now.steady_ms;
    if (a->ret_tokens || e->places > places)
        s->setup.changed(s->setup.context, e);
}

/* It is not known whether the operation was applied. */
static void limit_shares_note_lost_answer(struct limit_shares *s, struct limit_share *e)
{
    e->unsure = e->share.concurrency > 0;
    e->ask_tokens_ms = e->ask_places_ms = s->now.steady_ms + LIMIT_SHARES_AGAIN_MS;
}

static void limit_shares_on_taken(struct op *op)
{
    struct limit_shares *s = op->context;
    bool is_ours = uuid_eq(s->op.node, *s->setup.node);
    if (log_first_failure(&s->is_failing, op->rc))
        log_warn("limit_shares_failed", kv_err(&op->error));
    for (size_t i = 0; i < s->op.n; i++) {
        struct limit_share *e = s->asked[i];
        e->asking = false;
        e->share = s->op.v[i];
        if (op->rc == ERR_OK && is_ours)
            limit_shares_apply_answer(s, e);
        else
            limit_shares_note_lost_answer(s, e);
        limit_shares_plan(s, e);
    }
    free(s->op.v);
    pending_op_end(&s->pending, op);
}

/* A share that is used up at once gets more slices at a time. */
static void limit_shares_set_boost(struct limit_share *e, int64_t now_ms)
{
    e->boost = now_ms < e->full_ms + LIMIT_SHARES_SLICE_MS ? min_of(e->boost * 2, (int64_t)BOOST_MAX) : 1;
}

static int64_t limit_shares_total_places(const struct limit_share *e, int64_t now_ms, bool may_give_back)
{
    int64_t held = (int64_t)*e->held, want = held;
    if (!e->concurrency)
        return 0;
    if (e->spent) /* spent places first: asking for less than the node has would give back places that leases use */
        return max_of(held, e->places);
    if (limit_shares_wants_places(e, now_ms))
        want = max_of(min_of(held + limit_shares_place_slice(e), e->concurrency), held);
    return limit_shares_is_wanted(e, now_ms) || !may_give_back ? max_of(want, e->places) : want;
}

static struct share limit_shares_request(struct limit_share *e, int64_t now_ms, bool may_give_back)
{
    bool tokens = limit_shares_wants_tokens(e, now_ms),
         gives_back = e->rate > 0 && !limit_shares_is_wanted(e, now_ms) && may_give_back;
    if (tokens || limit_shares_wants_places(e, now_ms))
        limit_shares_set_boost(e, now_ms);
    int64_t unused = gives_back && !tokens ? max_of(limit_shares_tokens_left(e), (int64_t)0) : 0;
    struct share a = {
        .key = { e->key, e->key_size },
        .rate = e->rate,
        .burst = e->burst,
        .want_tokens = tokens ? max_of(limit_shares_token_slice(e) - limit_shares_tokens_left(e), (int64_t)1) : 0,
        .give_back_tokens = e->rate > 0 ? limit_shares_stale_returned(e) + limit_shares_remove_tokens(e, unused) : 0,
        .concurrency = e->concurrency ? e->concurrency : e->released,
        .want_places = limit_shares_total_places(e, now_ms, may_give_back),
    };
    return a;
}

static void limit_shares_send(struct limit_shares *s, struct limit_share *const *v, size_t n, bool may_give_back)
{
    s->op = (struct op_limit_take){
        .op = { .kind = OP_LIMIT_TAKE, .done = limit_shares_on_taken, .context = s },
        .node = s->node,
        .v = xcalloc(n, sizeof *s->op.v),
        .n = n,
        .now_ms = s->now.wall_ms,
    };
    for (size_t i = 0; i < n; i++) {
        struct limit_share *e = s->asked[i] = v[i];
        s->op.v[i] = limit_shares_request(e, s->now.steady_ms, may_give_back);
        e->asking = true;
        e->sent_spent = e->spent;
        e->stale = 0;
        e->places = min_of(e->places, s->op.v[i].want_places);
    }
    s->was_stopped = false;
    s->sent_ms = s->now.steady_ms;
    pending_op_send(&s->pending, s->setup.writer, &s->op.op, OP_ARENA);
}

static bool limit_shares_only_gives_back(const struct limit_share *e, int64_t now_ms)
{
    return !e->unsure && !e->spent && !e->stale && !limit_shares_wants_tokens(e, now_ms) &&
           !limit_shares_wants_places(e, now_ms);
}

int64_t limit_shares_step(struct limit_shares *s, struct moment now, bool may_give_back)
{
    struct limit_share *ask[LIMIT_SHARES_BATCH], *later[LIMIT_SHARES_BATCH];
    size_t n = 0, left = 0;
    struct heap_node *node;
    int64_t now_ms = now.steady_ms;
    limit_shares_set_time(s, now);
    if (!uuid_eq(s->node, *s->setup.node))
        limit_shares_forget_all(s);
    while (!s->pending.in_flight && n < LIMIT_SHARES_BATCH && left < LIMIT_SHARES_BATCH &&
           (node = heap_peek(&s->acts)) && node->key <= now_ms) {
        struct limit_share *e = container_of(node, struct limit_share, act);
        heap_remove(&s->acts, node);
        if (limit_shares_acts_at(e, now_ms) > now_ms)
            limit_shares_plan(s, e);
        else if (limit_shares_only_gives_back(e, now_ms) && !may_give_back)
            later[left++] = e; /* a step follows when the claim is answered */
        else
            ask[n++] = e;
    }
    if (n)
        limit_shares_send(s, ask, n, may_give_back);
    for (size_t i = 0; i < left; i++)
        limit_shares_plan(s, later[i]);
    node = heap_peek(&s->acts);
    if (s->pending.in_flight)
        return moment_wall_at(now, now_ms + LIMIT_SHARES_LOOK_MS);
    if (!node)
        return INT64_MAX;
    return moment_wall_at(now, left ? max_of(node->key, now_ms + LIMIT_SHARES_TOKENS_MS) : node->key);
}

bool limit_shares_is_idle(const struct limit_shares *s)
{
    return !s->pending.in_flight;
}
